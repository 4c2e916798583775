// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package survival;

import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import sample.PatientAwaits;

/** A PgBouncer process in transaction mode in front of a test database. PgBouncer must be installed. */
final class PgBouncer implements AutoCloseable {

    private final Process process;
    private final Path directory;
    private final int port;

    private PgBouncer(Process process, Path directory, int port) {
        this.process = process;
        this.directory = directory;
        this.port = port;
    }

    static Optional<Path> binary() {
        return Stream.of("/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer")
                .map(Path::of)
                .filter(Files::isExecutable)
                .findFirst();
    }

    static PgBouncer before(TestDatabase database) throws IOException {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        int port;
        try (var free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        Path directory = Files.createTempDirectory("forge-pgbouncer");
        Path settings = directory.resolve("pgbouncer.ini");
        Files.writeString(settings, """
                [databases]
                * = host=127.0.0.1 port=%d user=%s password=%s
                [pgbouncer]
                listen_addr = 127.0.0.1
                listen_port = %d
                unix_socket_dir =
                auth_type = any
                pool_mode = transaction
                default_pool_size = 20
                ignore_startup_parameters = extra_float_digits,options
                """.formatted(server.getPort(), database.username(), database.password(), port));
        boolean root = "root".equals(System.getProperty("user.name"));
        if (root) {
            // PgBouncer refuses to run as root, so another user must be able to read its settings.
            new ProcessBuilder("chmod", "-R", "a+rX", directory.toString())
                    .start()
                    .onExit()
                    .join();
        }
        String binary = binary().orElseThrow().toString();
        Process process = new ProcessBuilder(
                        root
                                ? List.of(binary, "-u", "nobody", settings.toString())
                                : List.of(binary, settings.toString()))
                .redirectErrorStream(true)
                .redirectOutput(directory.resolve("log").toFile())
                .start();
        PatientAwaits.await().ignoreExceptions().until(() -> {
            new Socket(InetAddress.getLoopbackAddress(), port).close();
            return true;
        });
        return new PgBouncer(process, directory, port);
    }

    /** Returns the URL of the database through PgBouncer, without server-side prepared statements. */
    String url(TestDatabase database) {
        return "jdbc:postgresql://127.0.0.1:%d/%s?prepareThreshold=0".formatted(port, database.name());
    }

    @Override
    public void close() {
        process.destroyForcibly();
        process.onExit().join();
        try (Stream<Path> files = Files.list(directory)) {
            files.forEach(file -> file.toFile().delete());
        } catch (IOException e) {
            // The directory is temporary, so leftover files do no harm.
        }
        directory.toFile().delete();
    }
}
