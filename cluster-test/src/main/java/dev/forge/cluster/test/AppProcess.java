// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A Spring Boot application as a process of its own, on the class path of this JVM, so that a test can do to it what
 * production does: kill it, freeze it, ask it to stop. Needs a POSIX system for the signals.
 *
 * <p>Closing kills the process; so does the end of this JVM.
 */
public final class AppProcess implements AutoCloseable {

    private static final Pattern PORT = Pattern.compile("started on port (\\d+)");
    private static final Duration REQUEST_TIMEOUT = Duration.ofSeconds(10);
    private static final HttpClient HTTP =
            HttpClient.newBuilder().connectTimeout(REQUEST_TIMEOUT).build();

    private final Process process;
    /** Such a process lives for seconds: what a JVM invests in the hours to come is wasted. Later options win. */
    private static final List<String> QUICK_TO_START = List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC");

    private final Path log;
    private final Thread killer;

    private AppProcess(Process process, Path log) {
        this.process = process;
        this.log = log;
        this.killer = new Thread(process::destroyForcibly, "forge-test-kill-" + process.pid());
        Runtime.getRuntime().addShutdownHook(killer);
    }

    /** Describes a process that runs {@code mainClass}; nothing starts yet. */
    public static Builder of(Class<?> mainClass) {
        return new Builder(mainClass);
    }

    /** What to start. */
    public static final class Builder {

        private final Class<?> mainClass;
        private final Map<String, String> properties = new LinkedHashMap<>();
        private final Map<String, String> environment = new LinkedHashMap<>();
        private final List<String> prefix = new ArrayList<>();
        private final List<String> classes = new ArrayList<>();
        private final List<String> jvmOptions = new ArrayList<>(
                List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dspring.main.banner-mode=off"));

        private Builder(Class<?> mainClass) {
            this.mainClass = mainClass;
            property("server.port", "0");
        }

        /** An application property, given on the command line. */
        public Builder property(String key, Object value) {
            properties.put(key, value.toString());
            return this;
        }

        /** Points {@code spring.datasource.*} at that database. */
        public Builder database(TestDatabase database) {
            return property("spring.datasource.url", database.url())
                    .property("spring.datasource.username", database.username())
                    .property("spring.datasource.password", database.password());
        }

        /** A directory of classes and resources that precedes the class path of this JVM. */
        public Builder classes(Path directory) {
            classes.add(directory.toString());
            return this;
        }

        /** An environment variable. */
        public Builder environment(String name, String value) {
            environment.put(name, value);
            return this;
        }

        /** An option of the JVM, such as {@code -Xmx1g}. */
        public Builder jvmOption(String option) {
            jvmOptions.add(option);
            return this;
        }

        /** Another program that runs it, such as {@code ip netns exec}; it must replace itself with the process. */
        public Builder under(String... program) {
            prefix.addAll(List.of(program));
            return this;
        }

        /** Starts it, and does not wait for anything. */
        public AppProcess start() {
            var command = new ArrayList<>(prefix);
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.addAll(QUICK_TO_START);
            command.addAll(jvmOptions);
            command.add("-cp");
            command.add(Stream.concat(classes.stream(), Stream.of(System.getProperty("java.class.path")))
                    .collect(Collectors.joining(File.pathSeparator)));
            command.add(mainClass.getName());
            properties.forEach((key, value) -> command.add("--" + key + "=" + value));
            try {
                File log = File.createTempFile("forge-app-", ".log");
                log.deleteOnExit();
                var builder =
                        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log);
                // What the developer's shell configures for other runs is not meant for this one.
                builder.environment().keySet().removeIf(name -> name.matches("(SPRING|SERVER|MANAGEMENT|FORGE)_.*"));
                builder.environment().putAll(environment);
                return new AppProcess(builder.start(), log.toPath());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** The operating system's process id. */
    public long pid() {
        return process.pid();
    }

    /** Whether the process runs; a frozen one does. */
    public boolean isAlive() {
        return process.isAlive();
    }

    /** All that the process has printed so far. */
    public String log() {
        try {
            // Not readString: a character may be half written.
            return new String(Files.readAllBytes(log), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Waits until the log has that text. */
    public AppProcess awaitLog(String text, Duration patience) {
        await("\"" + text + "\" in its log", patience, () -> log().contains(text));
        return this;
    }

    /** Waits until {@code /actuator/health/readiness} answers 200. */
    public AppProcess awaitReady(Duration patience) {
        await("readiness", patience, () -> PORT.matcher(log()).find() && readinessStatus() == 200);
        return this;
    }

    /** The port of its web server, once that has started. */
    public int port() {
        Matcher matcher = PORT.matcher(log());
        if (!matcher.find()) {
            throw new IllegalStateException("no web server yet; the log so far:\n" + log());
        }
        return Integer.parseInt(matcher.group(1));
    }

    /** GET on that path. */
    public HttpResponse<String> get(String path) {
        return send(request(path).GET());
    }

    /** POST of a JSON body. */
    public HttpResponse<String> post(String path, String json) {
        return send(request(path).header("Content-Type", "application/json").POST(BodyPublishers.ofString(json)));
    }

    /** SIGKILL. Returns when the process is gone. */
    public void kill() {
        process.destroyForcibly();
        awaitExit(Duration.ofSeconds(10));
    }

    /** SIGTERM: asks it to stop, and does not wait. */
    public void terminate() {
        process.destroy();
    }

    /** SIGSTOP: it keeps its memory and its connections but does nothing, as in a long pause of its machine. */
    public void freeze() {
        signal("STOP");
    }

    /** SIGCONT: goes on after {@link #freeze()}, unaware of the time between. */
    public void thaw() {
        signal("CONT");
    }

    /** Waits for the end of the process; answers its exit code. */
    public int awaitExit(Duration patience) {
        await("its end", patience, () -> !process.isAlive());
        return process.exitValue();
    }

    @Override
    public void close() {
        kill();
        Runtime.getRuntime().removeShutdownHook(killer);
        log.toFile().delete();
    }

    private int readinessStatus() {
        try {
            return get("/actuator/health/readiness").statusCode();
        } catch (UncheckedIOException e) {
            return -1;
        }
    }

    private HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create("http://localhost:" + port() + path))
                .timeout(REQUEST_TIMEOUT);
    }

    private static HttpResponse<String> send(HttpRequest.Builder request) {
        try {
            return HTTP.send(request.build(), BodyHandlers.ofString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    private void signal(String name) {
        try {
            int exit = new ProcessBuilder("kill", "-" + name, Long.toString(pid()))
                    .inheritIO()
                    .start()
                    .waitFor();
            if (exit != 0) {
                throw new IllegalStateException("kill -%s %d: exit code %d".formatted(name, pid(), exit));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    private void await(String what, Duration patience, BooleanSupplier condition) {
        long deadline = System.nanoTime() + patience.toNanos();
        try {
            while (!condition.getAsBoolean()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(new TimeoutException(
                            "process %d: waited %s for %s; its log:%n%s".formatted(pid(), patience, what, log())));
                }
                if (!process.isAlive() && !condition.getAsBoolean()) {
                    throw new IllegalStateException("process %d ended with %d before %s; its log:%n%s"
                            .formatted(pid(), process.exitValue(), what, log()));
                }
                TimeUnit.MILLISECONDS.sleep(20);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }
}
