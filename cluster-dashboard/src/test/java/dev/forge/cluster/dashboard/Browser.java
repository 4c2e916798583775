// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** A headless Chromium that is driven with the WebDriver protocol of W3C through an installed chromedriver. */
final class Browser implements AutoCloseable {

    /** Set in CI: a missing browser then fails the tests instead of skipping them. */
    static final String REQUIRED = "FORGE_BROWSER_REQUIRED";

    private static final JsonMapper JSON = JsonMapper.builder().build();
    private static final Pattern STARTED = Pattern.compile("started successfully on port (\\d+)");
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final HttpClient client = HttpClient.newHttpClient();
    private final Process driver;
    private final Path output;
    private final String session;

    private Browser(Path chromium, Path chromedriver) throws IOException {
        output = Files.createTempFile("chromedriver", ".log");
        driver = new ProcessBuilder(chromedriver.toString(), "--port=0")
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        Awaitility.await()
                .atMost(PATIENCE)
                .until(() -> STARTED.matcher(Files.readString(output)).find());
        Matcher port = STARTED.matcher(Files.readString(output));
        if (!port.find()) {
            throw new IllegalStateException("chromedriver did not start");
        }
        String server = "http://127.0.0.1:%s/session".formatted(port.group(1));
        JsonNode created = call(
                "POST",
                server,
                Map.of(
                        "capabilities",
                        Map.of(
                                "alwaysMatch",
                                Map.of(
                                        "browserName",
                                        "chrome",
                                        "goog:loggingPrefs",
                                        Map.of("browser", "ALL"),
                                        "goog:chromeOptions",
                                        Map.of(
                                                "binary",
                                                chromium.toString(),
                                                "args",
                                                List.of(
                                                        "--headless=new",
                                                        "--no-sandbox",
                                                        "--disable-dev-shm-usage",
                                                        "--disable-gpu",
                                                        "--window-size=1400,900"))))));
        session = server + "/" + created.path("sessionId").asString();
    }

    /** Starts a browser if one is installed. */
    static Optional<Browser> start() throws IOException {
        Optional<Path> chromium = onPath("chromium").or(() -> onPath("google-chrome"));
        Optional<Path> driver = onPath("chromedriver");
        return chromium.isPresent() && driver.isPresent()
                ? Optional.of(new Browser(chromium.get(), driver.get()))
                : Optional.empty();
    }

    private static Optional<Path> onPath(String program) {
        return Stream.of(String.valueOf(System.getenv("PATH")).split(java.io.File.pathSeparator, -1))
                .map(directory -> Path.of(directory, program))
                .filter(Files::isExecutable)
                .findFirst();
    }

    private JsonNode call(String method, String address, Map<String, ?> body) {
        var request = HttpRequest.newBuilder(URI.create(address))
                .timeout(Duration.ofMinutes(3))
                .header("Content-Type", "application/json")
                .method(
                        method,
                        method.equals("POST")
                                ? BodyPublishers.ofString(JSON.writeValueAsString(body))
                                : BodyPublishers.noBody());
        try {
            String response =
                    client.send(request.build(), BodyHandlers.ofString()).body();
            JsonNode value = JSON.readTree(response).path("value");
            if (value.hasNonNull("error")) {
                throw new AssertionError(
                        "%s: %s".formatted(address, value.path("message").asString()));
            }
            return value;
        } catch (IOException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
    }

    void open(String address) {
        call("POST", session + "/url", Map.of("url", address));
    }

    String address() {
        return call("GET", session + "/url", Map.of()).asString();
    }

    void back() {
        call("POST", session + "/back", Map.of());
    }

    void deleteCookies() {
        call("DELETE", session + "/cookie", Map.of());
    }

    /** Runs a script and returns its result. */
    JsonNode run(String script, Object... arguments) {
        return call("POST", session + "/execute/sync", Map.of("script", script, "args", List.of(arguments)));
    }

    /** Runs a script that calls its last argument with the result. */
    JsonNode runAsync(String script) {
        return call("POST", session + "/execute/async", Map.of("script", script, "args", List.of()));
    }

    /** Pretends that the system prefers a colour scheme. */
    void prefer(String scheme) {
        call(
                "POST",
                session + "/goog/cdp/execute",
                Map.of(
                        "cmd",
                        "Emulation.setEmulatedMedia",
                        "params",
                        Map.of("features", List.of(Map.of("name", "prefers-color-scheme", "value", scheme)))));
    }

    void resize(int width, int height) {
        call("POST", session + "/window/rect", Map.of("width", width, "height", height));
    }

    /** Returns what the console shows since the last call, violations of the content security policy included. */
    List<String> console() {
        JsonNode entries = call("POST", session + "/se/log", Map.of("type", "browser"));
        return entries.valueStream()
                .map(entry -> entry.path("level").asString() + " "
                        + entry.path("message").asString())
                .toList();
    }

    /** Returns a screenshot as PNG in Base64. */
    String screenshot() {
        return call("GET", session + "/screenshot", Map.of()).asString();
    }

    /** Waits until a script returns true. */
    void await(String condition, Object... arguments) {
        Awaitility.await()
                .atMost(PATIENCE)
                .pollInterval(Duration.ofMillis(50))
                .ignoreExceptions()
                .untilAsserted(() -> {
                    if (!run("return Boolean(" + condition + ")", arguments).asBoolean()) {
                        throw new AssertionError("Not true in %s: %s %s%nPage: %s"
                                .formatted(
                                        address(),
                                        condition,
                                        List.of(arguments),
                                        run("return document.body.innerText").asString()));
                    }
                });
    }

    void click(String selector) {
        await("document.querySelector(arguments[0])", selector);
        run("document.querySelector(arguments[0]).click()", selector);
    }

    /** Types into a field as a user does. */
    void type(String selector, String text) {
        await("document.querySelector(arguments[0])", selector);
        run("""
                const field = document.querySelector(arguments[0]);
                field.focus();
                field.value = arguments[1];
                field.dispatchEvent(new Event('input', { bubbles: true }));
                field.dispatchEvent(new Event('change', { bubbles: true }));
                """, selector, text);
    }

    @Override
    public void close() throws IOException {
        try {
            call("DELETE", session, Map.of());
        } finally {
            driver.destroy();
            Files.deleteIfExists(output);
        }
    }
}
