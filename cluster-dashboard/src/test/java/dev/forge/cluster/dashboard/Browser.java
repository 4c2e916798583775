// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.logging.Level;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.openqa.selenium.By;
import org.openqa.selenium.Dimension;
import org.openqa.selenium.Keys;
import org.openqa.selenium.OutputType;
import org.openqa.selenium.WebElement;
import org.openqa.selenium.chrome.ChromeDriver;
import org.openqa.selenium.chrome.ChromeDriverService;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.logging.LogType;
import org.openqa.selenium.logging.LoggingPreferences;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** A headless Chromium, as installed on the machine. */
final class Browser implements AutoCloseable {

    /** Set in CI: a missing browser then fails the tests instead of skipping them. */
    static final String REQUIRED = "FORGE_BROWSER_REQUIRED";

    private static final JsonMapper JSON = JsonMapper.builder().build();
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final ChromeDriver driver;

    private Browser(Path chromium, Path chromedriver) {
        var logs = new LoggingPreferences();
        logs.enable(LogType.BROWSER, Level.ALL);
        var options = new ChromeOptions();
        options.setBinary(chromium.toFile());
        options.addArguments(
                "--headless=new",
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--window-size=1400,900",
                // No connections but those of the tests.
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-quic");
        options.setCapability("goog:loggingPrefs", logs);
        var service = new ChromeDriverService.Builder()
                .usingDriverExecutable(chromedriver.toFile())
                .usingAnyFreePort()
                .build();
        driver = new ChromeDriver(service, options);
        driver.manage().timeouts().scriptTimeout(PATIENCE).pageLoadTimeout(PATIENCE);
    }

    /** Starts a browser if one is installed. */
    static Optional<Browser> start() {
        Optional<Path> chromium = onPath("chromium").or(() -> onPath("google-chrome"));
        Optional<Path> driver = onPath("chromedriver");
        return chromium.isPresent() && driver.isPresent()
                ? Optional.of(new Browser(chromium.get(), driver.get()))
                : Optional.empty();
    }

    private static Optional<Path> onPath(String program) {
        return Stream.of(String.valueOf(System.getenv("PATH")).split(File.pathSeparator, -1))
                .map(directory -> Path.of(directory, program))
                .filter(Files::isExecutable)
                .findFirst();
    }

    void open(String address) {
        driver.get(address);
    }

    String address() {
        return String.valueOf(driver.getCurrentUrl());
    }

    void back() {
        driver.navigate().back();
    }

    void deleteCookies() {
        driver.manage().deleteAllCookies();
    }

    /** Runs a script and returns its result. */
    JsonNode run(String script, Object... arguments) {
        return JSON.valueToTree(driver.executeScript(script, arguments));
    }

    /** Runs a script that calls its last argument with the result. */
    JsonNode runAsync(String script) {
        return JSON.valueToTree(driver.executeAsyncScript(script));
    }

    /** Pretends that the system prefers a colour scheme. */
    void prefer(String scheme) {
        driver.executeCdpCommand(
                "Emulation.setEmulatedMedia",
                Map.of("features", List.of(Map.of("name", "prefers-color-scheme", "value", scheme))));
    }

    void resize(int width, int height) {
        driver.manage().window().setSize(new Dimension(width, height));
    }

    /** Returns what the console shows since the last call, violations of the content security policy included. */
    List<String> console() {
        return driver.manage().logs().get(LogType.BROWSER).getAll().stream()
                .map(entry -> entry.getLevel() + " " + entry.getMessage())
                .toList();
    }

    /** Returns a screenshot as PNG. */
    byte[] screenshot() {
        return driver.getScreenshotAs(OutputType.BYTES);
    }

    /** Waits until a script returns true. */
    void await(String condition, Object... arguments) {
        // The page looks itself: a request of the driver per look would take more processor time than the page.
        String script = """
                const given = [...arguments], done = given.pop(), end = performance.now() + 1000;
                function holds() { return Boolean(%s); }
                (function look() {
                  let result = false;
                  try { result = holds.apply(null, given); } catch { /* Not there yet. */ }
                  if (result || performance.now() > end) done(result); else setTimeout(look, 20);
                })();
                """.formatted(condition);
        Awaitility.await()
                .atMost(PATIENCE)
                .pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(50))
                .ignoreExceptions()
                .untilAsserted(() -> {
                    if (!JSON.<JsonNode>valueToTree(driver.executeAsyncScript(script, arguments))
                            .asBoolean()) {
                        throw new AssertionError("Not true in %s: %s %s%nPage: %s"
                                .formatted(
                                        address(),
                                        condition,
                                        List.of(arguments),
                                        run("return document.body.innerText").asString()));
                    }
                });
    }

    /** Clicks as a user does; repeated while the page replaces the element. */
    void click(String selector) {
        Awaitility.await()
                .atMost(PATIENCE)
                .ignoreExceptions()
                .untilAsserted(() -> element(selector).click());
    }

    /** Replaces the text of a field, as a user does who then leaves the field. */
    void type(String selector, String text) {
        await("document.querySelector(arguments[0])", selector);
        WebElement field = element(selector);
        field.sendKeys(Keys.chord(Keys.CONTROL, "a"), Keys.DELETE);
        field.sendKeys(text);
        field.sendKeys(Keys.TAB);
    }

    /** Replaces the value of a field of a dialog at once: fields for times take keys in the order of the system's language. */
    void fill(String selector, String value) {
        await("document.querySelector(arguments[0])", selector);
        run("""
                const field = document.querySelector(arguments[0]);
                Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, arguments[1]);
                field.dispatchEvent(new Event('input', { bubbles: true }));
                """, selector, value);
    }

    private WebElement element(String selector) {
        return driver.findElement(By.cssSelector(selector));
    }

    @Override
    public void close() {
        driver.quit();
    }
}
