// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * A PostgreSQL with a synchronous standby, behind one address. A promotion ends the primary as a failure of its host does, and the
 * address leads to the former standby from then on.
 */
final class ReplicatedPostgres {

    private static final Duration PATIENCE = Duration.ofMinutes(1);

    /** Files of a data directory that belong to the running server, not to its data. */
    private static final Set<String> OF_THE_SERVER = Set.of("postmaster.pid", "postmaster.opts", "epg-lock");

    /** Directories whose files are of no use to a standby: it fetches the log from the primary. */
    private static final Set<String> COPIED_EMPTY = Set.of("pg_wal", "pg_replslot", "pg_stat_tmp", "pg_notify");

    private final TcpProxy address;
    private Server primary;
    private @Nullable Server standby;

    private record Server(EmbeddedPostgres postgres, Path data) {

        static Server start(Path data, boolean create) throws IOException {
            EmbeddedPostgres postgres = EmbeddedPostgres.builder()
                    .setDataDirectory(data)
                    .setCleanDataDirectory(create)
                    // The hook would wait for sessions and report servers that a test has ended.
                    .setRegisterShutdownHook(false)
                    .setServerConfig("max_connections", PostgresServer.MAX_CONNECTIONS)
                    // Otherwise a commit does not wait for the standby.
                    .setServerConfig("synchronous_commit", "on")
                    .setServerConfig("wal_keep_size", "1GB")
                    .setPGStartupWait(PATIENCE)
                    .start();
            return new Server(postgres, data);
        }

        PGSimpleDataSource dataSource() {
            return (PGSimpleDataSource) postgres.getPostgresDatabase();
        }

        JdbcClient jdbc() {
            return JdbcClient.create(dataSource());
        }

        /** Ends the server without a checkpoint, as a crash does, and removes its files. */
        void crash() {
            try {
                Path file = data.resolve("postmaster.pid");
                if (Files.exists(file)) {
                    end(Long.parseLong(Files.readAllLines(file).get(0).strip()));
                }
                delete(data);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        private static void end(long pid) throws IOException {
            ProcessHandle process = ProcessHandle.of(pid).orElse(null);
            if (process == null) {
                return;
            }
            // SIGKILL of the first process alone would leave its shared memory, and sessions that end a little later.
            new ProcessBuilder("kill", "-QUIT", Long.toString(pid))
                    .inheritIO()
                    .start()
                    .onExit()
                    .join();
            process.onExit().orTimeout(PATIENCE.toSeconds(), TimeUnit.SECONDS).join();
        }
    }

    ReplicatedPostgres() {
        try {
            primary = Server.start(newDirectory(), true);
            address = TcpProxy.to("localhost", primary.postgres.getPort());
        } catch (IOException e) {
            throw new UncheckedIOException("cannot start an embedded PostgreSQL with a standby", e);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(this::end, "forge-test-replicated-postgres"));
    }

    private static Path newDirectory() throws IOException {
        // Only its owner may read the directory of a server, which otherwise does not start.
        return Files.createTempDirectory("forge-postgres").resolve("data");
    }

    /** Returns the URL of the server that is the primary at present; it never changes. */
    String url() {
        return "jdbc:postgresql://localhost:%d/postgres?user=postgres".formatted(address.port());
    }

    /** Starts a standby if there is none, and has all commits wait for it from then on. */
    synchronized void requireStandby() {
        if (standby != null) {
            return;
        }
        try {
            standby = Server.start(copyOfPrimary(), false);
        } catch (IOException | SQLException e) {
            throw new IllegalStateException("cannot start a standby", e);
        }
        Patience.eventually(PATIENCE, () -> {
            if (!replicates()) {
                throw new AssertionError("The standby does not replicate yet");
            }
        });
        primary.jdbc().sql("ALTER SYSTEM SET synchronous_standby_names = '*'").update();
        primary.jdbc().sql("SELECT pg_reload_conf()").query(Boolean.class).single();
        Patience.eventually(PATIENCE, () -> {
            if (!isSynchronous()) {
                throw new AssertionError("The standby is not synchronous yet");
            }
        });
    }

    private boolean replicates() {
        return primary.jdbc()
                .sql("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')")
                .query(Boolean.class)
                .single();
    }

    private boolean isSynchronous() {
        return primary.jdbc()
                .sql(
                        "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync')")
                .query(Boolean.class)
                .single();
    }

    /** Ends the primary and its connections, and promotes the standby. */
    synchronized void promoteStandby() {
        Server promoted = standby;
        if (promoted == null) {
            throw new IllegalStateException("There is no standby to promote: it has been promoted in this test");
        }
        address.refuse(true);
        address.reset();
        primary.crash();
        promoted.jdbc()
                .sql("SELECT pg_promote(true, %d)".formatted(PATIENCE.toSeconds()))
                .query(Boolean.class)
                .single();
        primary = promoted;
        standby = null;
        address.target("localhost", promoted.postgres.getPort());
        address.refuse(false);
    }

    // Copying -----------------------------------------------------------------------------------------------

    /** Copies the files of the running primary, as pg_basebackup does, which the embedded binaries lack. */
    private Path copyOfPrimary() throws IOException, SQLException {
        Path copy = newDirectory();
        // The backup belongs to the session.
        try (Connection session = primary.dataSource().getConnection();
                Statement statement = session.createStatement()) {
            boolean renamed = session.getMetaData().getDatabaseMajorVersion() >= 15;
            statement.execute("SELECT %s('forge', true)".formatted(renamed ? "pg_backup_start" : "pg_start_backup"));
            copy(primary.data, copy);
            try (ResultSet label = statement.executeQuery(
                    renamed
                            ? "SELECT labelfile FROM pg_backup_stop(false)"
                            : "SELECT labelfile FROM pg_stop_backup(false, false)")) {
                label.next();
                Files.writeString(copy.resolve("backup_label"), label.getString(1));
            }
        }
        Files.writeString(
                copy.resolve("postgresql.auto.conf"),
                "primary_conninfo = 'host=localhost port=%d user=postgres'%n".formatted(primary.postgres.getPort()),
                StandardOpenOption.APPEND);
        Files.createFile(copy.resolve("standby.signal"));
        return copy;
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.walkFileTree(from, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path directory, BasicFileAttributes attributes)
                    throws IOException {
                Files.createDirectory(
                        to.resolve(from.relativize(directory)),
                        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                Path relative = from.relativize(file);
                if (!OF_THE_SERVER.contains(relative.toString())
                        && !COPIED_EMPTY.contains(relative.getName(0).toString())) {
                    try {
                        Files.copy(file, to.resolve(relative));
                    } catch (NoSuchFileException e) {
                        // Dropped meanwhile: the log tells the standby.
                    }
                }
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path file, IOException e) throws IOException {
                if (e instanceof NoSuchFileException) {
                    return FileVisitResult.CONTINUE;
                }
                throw e;
            }
        });
    }

    private static void delete(Path data) throws IOException {
        try (Stream<Path> files = Files.walk(data.getParent())) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        }
    }

    private synchronized void end() {
        address.close();
        List<Server> servers = standby == null ? List.of(primary) : List.of(primary, standby);
        servers.forEach(Server::crash);
    }
}
