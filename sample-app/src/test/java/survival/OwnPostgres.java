// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** A PostgreSQL server that runs the installed binaries and that a test can stop, restart and promote. */
final class OwnPostgres implements AutoCloseable {

    private final Path binaries;
    private final Path directory;
    private final int port;

    private OwnPostgres(Path binaries, Path directory, int port) {
        this.binaries = binaries;
        this.directory = directory;
        this.port = port;
    }

    /** Returns the directory of the newest installed binaries; empty if there are none. */
    static Optional<Path> binaries() {
        Path debian = Path.of("/usr/lib/postgresql");
        if (!Files.isDirectory(debian)) {
            return Optional.empty();
        }
        try (Stream<Path> versions = Files.list(debian)) {
            return versions.map(version -> version.resolve("bin"))
                    .filter(bin -> Files.isExecutable(bin.resolve("initdb")))
                    .max(Comparator.comparing(Path::toString));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static OwnPostgres start() throws IOException {
        OwnPostgres server = place();
        server.run("initdb", "-D", server.data(), "-A", "trust", "-U", "postgres", "--no-sync");
        Files.writeString(
                Path.of(server.data(), "postgresql.conf"),
                "listen_addresses = '*'\nport = %d\nunix_socket_directories = '%s'\nmax_connections = 200\n"
                        .formatted(server.port, server.directory),
                StandardOpenOption.APPEND);
        Files.writeString(
                Path.of(server.data(), "pg_hba.conf"), "host all all samenet trust\n", StandardOpenOption.APPEND);
        server.up();
        return server;
    }

    /** Creates a synchronous standby of this server. */
    OwnPostgres synchronousStandby() throws IOException {
        OwnPostgres standby = place();
        run(
                "pg_basebackup",
                "-h",
                "127.0.0.1",
                "-p",
                port + "",
                "-U",
                "postgres",
                "-D",
                standby.data(),
                "-R",
                "-c",
                "fast");
        Files.writeString(
                Path.of(standby.data(), "postgresql.conf"),
                "port = %d\nunix_socket_directories = '%s'\n".formatted(standby.port, standby.directory),
                StandardOpenOption.APPEND);
        standby.up();
        jdbc().sql("ALTER SYSTEM SET synchronous_standby_names = '*'").update();
        jdbc().sql("SELECT pg_reload_conf()").query().listOfRows();
        return standby;
    }

    private static OwnPostgres place() throws IOException {
        Path directory = Files.createTempDirectory("forge-postgres");
        if (isRoot()) {
            command(List.of("chown", "postgres", directory.toString()));
        }
        try (var free = new ServerSocket(0)) {
            return new OwnPostgres(binaries().orElseThrow(), directory, free.getLocalPort());
        }
    }

    void up() {
        run("pg_ctl", "-D", data(), "-l", directory.resolve("log").toString(), "-w", "start");
    }

    /**
     * Stops the server.
     *
     * @param mode fast or immediate
     */
    void down(String mode) {
        run("pg_ctl", "-D", data(), "-m", mode, "-w", "stop");
    }

    void promote() {
        run("pg_ctl", "-D", data(), "-w", "promote");
    }

    int port() {
        return port;
    }

    JdbcClient jdbc() {
        return JdbcClient.create(new DriverManagerDataSource(
                "jdbc:postgresql://127.0.0.1:%d/postgres".formatted(port), "postgres", "postgres"));
    }

    private String data() {
        return directory.resolve("data").toString();
    }

    private void run(String program, String... arguments) {
        var command = new ArrayList<String>();
        if (isRoot()) {
            command.addAll(List.of("runuser", "-u", "postgres", "--"));
        }
        command.add(binaries.resolve(program).toString());
        command.addAll(List.of(arguments));
        command(command);
    }

    static void command(List<String> command) {
        try {
            Path output = Files.createTempFile("forge-command", ".log");
            Process process = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(output.toFile())
                    .start();
            int exit = process.onExit().join().exitValue();
            String text = Files.readString(output);
            Files.delete(output);
            if (exit != 0) {
                throw new IllegalStateException("%s: exit code %d%n%s".formatted(command, exit, text));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static boolean isRoot() {
        return "root".equals(System.getProperty("user.name"));
    }

    @Override
    public void close() {
        try {
            down("immediate");
        } catch (IllegalStateException e) {
            // The server is already down.
        }
        command(List.of("rm", "-rf", directory.toString()));
    }
}
