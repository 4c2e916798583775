// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.process;

import dev.forge.cluster.test.postgres.TestDatabase;
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
import org.springframework.util.FileSystemUtils;

/**
 * A Spring Boot application that runs in a process of its own with the class path of this JVM. A test can kill, freeze and
 * terminate it as happens in production. Signals need a POSIX system.
 *
 * <p>The process is killed when it is closed and when this JVM ends. Its temporary files are deleted then: a killed process cannot do
 * that itself.
 */
public final class AppProcess implements AutoCloseable {

    private static final Pattern PORT = Pattern.compile("started on port (\\d+)");
    private static final String LOG = "output.log";
    private static final Duration REQUEST_TIMEOUT = Duration.ofSeconds(10);
    private static final HttpClient HTTP =
            HttpClient.newBuilder().connectTimeout(REQUEST_TIMEOUT).build();

    private final Process process;
    private final Path directory;
    private final Thread killer;

    private AppProcess(Process process, Path directory) {
        this.process = process;
        this.directory = directory;
        this.killer = new Thread(this::killWithJvm, "forge-test-kill-" + process.pid());
        Runtime.getRuntime().addShutdownHook(killer);
    }

    /**
     * Returns a builder for a process that runs {@code mainClass}. Its web server listens at a free port of 127.0.0.1 unless {@code
     * server.port} and {@code server.address} are set.
     */
    public static Builder of(Class<?> mainClass) {
        return new Builder(mainClass);
    }

    /** Builds the command line and the environment of a process. */
    public static final class Builder {

        private final Class<?> mainClass;
        private final Map<String, String> properties = new LinkedHashMap<>();
        private final Map<String, String> environment = new LinkedHashMap<>();
        private final List<String> prefix = new ArrayList<>();
        private final List<String> classes = new ArrayList<>();
        // A process of a test lives for seconds: optimisation would not pay off.
        private final List<String> jvmOptions = new ArrayList<>(
                List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dspring.main.banner-mode=off"));

        private Builder(Class<?> mainClass) {
            this.mainClass = mainClass;
            property("server.port", "0");
            // Only this machine may reach an application that is being tested.
            property("server.address", "127.0.0.1");
            // The port is read from the log of the web server, also where the configuration of tests is quiet.
            List.of("tomcat", "jetty", "reactor.netty")
                    .forEach(server -> property("logging.level.org.springframework.boot." + server, "info"));
        }

        /** Sets an application property on the command line. */
        public Builder property(String key, Object value) {
            properties.put(key, value.toString());
            return this;
        }

        /**
         * Points {@code spring.datasource.*} at that database. The values are passed as environment variables: every user of the machine
         * can read command lines. Properties that are set later have precedence.
         */
        public Builder database(TestDatabase database) {
            List.of("url", "username", "password").forEach(key -> properties.remove("spring.datasource." + key));
            return environment("SPRING_DATASOURCE_URL", database.url())
                    .environment("SPRING_DATASOURCE_USERNAME", database.username())
                    .environment("SPRING_DATASOURCE_PASSWORD", database.password());
        }

        /** Adds a directory of classes and resources in front of the class path of this JVM. */
        public Builder classes(Path directory) {
            classes.add(directory.toString());
            return this;
        }

        /** Sets an environment variable. */
        public Builder environment(String name, String value) {
            environment.put(name, value);
            return this;
        }

        /** Adds an option of the JVM, such as {@code -Xmx1g}. */
        public Builder jvmOption(String option) {
            jvmOptions.add(option);
            return this;
        }

        /** Runs the process under another program, such as {@code ip netns exec}, which must replace itself with the process. */
        public Builder under(String... program) {
            prefix.addAll(List.of(program));
            return this;
        }

        /** Starts the process and returns at once. */
        public AppProcess start() {
            Path directory = newDirectory();
            var command = new ArrayList<>(prefix);
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.add("-Djava.io.tmpdir=" + directory);
            command.addAll(jvmOptions);
            command.add("-cp");
            command.add(Stream.concat(classes.stream(), Stream.of(System.getProperty("java.class.path")))
                    .collect(Collectors.joining(File.pathSeparator)));
            command.add(mainClass.getName());
            properties.forEach((key, value) -> command.add("--" + key + "=" + value));
            try {
                var builder = new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .redirectOutput(directory.resolve(LOG).toFile());
                // The developer's shell may configure other runs.
                builder.environment().keySet().removeIf(name -> name.matches("(SPRING|SERVER|MANAGEMENT|FORGE)_.*"));
                builder.environment().putAll(environment);
                return new AppProcess(builder.start(), directory);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private static Path newDirectory() {
            try {
                return Files.createTempDirectory("forge-app-");
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** Returns the process id of the operating system. */
    public long pid() {
        return process.pid();
    }

    /** Returns whether the process exists, running or frozen. */
    public boolean isAlive() {
        return process.isAlive();
    }

    /** Returns all output of the process so far. */
    public String log() {
        try {
            // Not readString: a character may be half written.
            return new String(Files.readAllBytes(directory.resolve(LOG)), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Waits until the output contains that text. */
    public AppProcess awaitLog(String text, Duration patience) {
        await("\"" + text + "\" in its output", patience, () -> log().contains(text));
        return this;
    }

    /** Waits until {@code /actuator/health/readiness} returns 200. */
    public AppProcess awaitReady(Duration patience) {
        await(
                "readiness (a line 'started on port' in its log, and status 200 of /actuator/health/readiness)",
                patience,
                () -> PORT.matcher(log()).find() && readinessStatus() == 200);
        return this;
    }

    /**
     * Returns the port of the web server.
     *
     * @throws IllegalStateException if the web server has not started yet
     */
    public int port() {
        Matcher matcher = PORT.matcher(log());
        if (!matcher.find()) {
            throw new IllegalStateException("Web server has not started yet; output so far:\n" + log());
        }
        return Integer.parseInt(matcher.group(1));
    }

    /** Sends a GET request. */
    public HttpResponse<String> get(String path) {
        return send(request(path).GET());
    }

    /** Sends a POST request with a JSON body. */
    public HttpResponse<String> post(String path, String json) {
        return send(request(path).header("Content-Type", "application/json").POST(BodyPublishers.ofString(json)));
    }

    /** Kills the process (SIGKILL) and waits for its end. */
    public void kill() {
        process.destroyForcibly();
        awaitExit(Duration.ofSeconds(10));
    }

    /** Requests an orderly end (SIGTERM) and returns at once. */
    public void terminate() {
        process.destroy();
    }

    /** Suspends the process (SIGSTOP). It keeps its memory and connections, as in a long pause of its machine. */
    public void freeze() {
        signal("STOP");
    }

    /** Resumes the process after {@link #freeze()} (SIGCONT). */
    public void thaw() {
        signal("CONT");
    }

    /** Waits for the end of the process; returns its exit code. */
    public int awaitExit(Duration patience) {
        await("its end", patience, () -> !process.isAlive());
        return process.exitValue();
    }

    @Override
    public void close() {
        kill();
        Runtime.getRuntime().removeShutdownHook(killer);
        deleteFiles();
    }

    private void killWithJvm() {
        process.destroyForcibly();
        deleteFiles();
    }

    private void deleteFiles() {
        try {
            FileSystemUtils.deleteRecursively(directory);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
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
