// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.postgresql.PGConnection;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.core.io.ClassPathResource;
import org.springframework.core.io.support.EncodedResource;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.datasource.init.ScriptUtils;

@ClusterPostgres
class SchemaTests {

    @TempDir
    private Path directory;

    private static void onEmptyDatabase(ThrowingConsumer test) throws Exception {
        try (TestDatabase database = PostgresServer.shared().createEmptyDatabase("schema")) {
            test.accept(database);
        }
    }

    private interface ThrowingConsumer {
        void accept(TestDatabase database) throws Exception;
    }

    private static List<String> tables(TestDatabase database, String schema) {
        return database.jdbc()
                .sql("SELECT table_name::text FROM information_schema.tables WHERE table_schema = ? ORDER BY 1")
                .param(schema)
                .query((row, n) -> row.getString(1))
                .list();
    }

    @Test
    void empty_database_is_migrated_and_a_current_one_is_not_changed() throws Exception {
        onEmptyDatabase(database -> {
            Schema first = Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
            assertThat(first.name()).isEqualTo("public");
            assertThat(first.version()).isEqualTo(Schema.VERSION);
            assertThat(first.server()).startsWith("PostgreSQL ");
            var before = database.jdbc()
                    .sql("SELECT installed_on FROM forge_schema_history")
                    .query()
                    .listOfRows();
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
            assertThat(database.jdbc()
                            .sql("SELECT installed_on FROM forge_schema_history")
                            .query()
                            .listOfRows())
                    .isEqualTo(before);
        });
    }

    @Test
    void eight_nodes_that_start_at_once_on_an_empty_database_all_come_up() throws Exception {
        for (int round = 0; round < 4; round++) {
            onEmptyDatabase(database -> {
                var threads = Executors.newFixedThreadPool(8);
                try {
                    Callable<Schema> open = () -> Schema.open(database.dataSource(), SchemaMode.MIGRATE, "forge");
                    for (Future<Schema> opened : threads.invokeAll(
                            Stream.generate(() -> open).limit(8).toList())) {
                        assertThat(opened.get().version()).isEqualTo(Schema.VERSION);
                    }
                } finally {
                    threads.shutdown();
                }
            });
        }
    }

    @Test
    void cluster_has_a_schema_of_its_own_beside_another_cluster() throws Exception {
        onEmptyDatabase(database -> {
            database.jdbc().sql("CREATE TABLE app_table (id int)").update();
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "One \"odd\" name");
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "two");
            assertThat(tables(database, "public")).containsExactly("app_table");
            assertThat(tables(database, "One \"odd\" name")).contains("forge_nodes", "forge_schema_history");
            assertThat(tables(database, "two")).contains("forge_nodes", "forge_schema_history");
            database.jdbc().sql("SELECT two.forge_enqueue('a')").query().listOfRows();
            assertThat(count(database, "two.forge_jobs")).isOne();
            assertThat(count(database, "\"One \"\"odd\"\" name\".forge_jobs")).isZero();
        });
    }

    @Test
    void cluster_shares_a_schema_with_tables_of_the_application() throws Exception {
        onEmptyDatabase(database -> {
            database.jdbc().sql("CREATE TABLE app_table (id int)").update();
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
            assertThat(tables(database, "public")).contains("app_table", "forge_jobs");
        });
    }

    @Test
    void role_that_owns_only_its_schema_suffices() throws Exception {
        onEmptyDatabase(database -> {
            DataSource limited = role(database, "CREATE SCHEMA own AUTHORIZATION %s");
            assertThat(Schema.open(limited, SchemaMode.MIGRATE, "own").version())
                    .isEqualTo(Schema.VERSION);
            dropRole(database);
        });
    }

    @Test
    void error_of_a_role_that_may_not_create_says_what_to_grant() throws Exception {
        onEmptyDatabase(database -> {
            DataSource limited = role(database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC, %s");
            assertThatExceptionOfType(ClusterStartupException.class)
                    .isThrownBy(() -> Schema.open(limited, SchemaMode.MIGRATE, "own"))
                    .withMessageContaining("'own'")
                    .withMessageContaining("permission denied")
                    .satisfies(e -> assertThat(e.action()).contains("GRANT USAGE, CREATE ON SCHEMA \"own\" TO"));
            assertThatExceptionOfType(ClusterStartupException.class)
                    .isThrownBy(() -> Schema.open(limited, SchemaMode.MIGRATE, "public"))
                    .withMessageContaining("'public'")
                    .satisfies(e -> assertThat(e.action()).contains("GRANT USAGE, CREATE ON SCHEMA \"public\" TO"));
            dropRole(database);
        });
    }

    @Test
    void missing_schema_is_rejected_by_validate_with_the_names_of_the_scripts() throws Exception {
        onEmptyDatabase(database -> {
            assertThatExceptionOfType(ClusterStartupException.class)
                    .isThrownBy(() -> Schema.open(database.dataSource(), SchemaMode.VALIDATE, "forge"))
                    .withMessageContaining("'forge'")
                    .satisfies(e -> assertThat(e.action()).contains("dev/forge/cluster/db"));
            assertThat(tables(database, "forge")).isEmpty();
        });
    }

    @Test
    void schema_installed_with_psql_is_used_as_it_is() throws Exception {
        onEmptyDatabase(database -> {
            installWithPsql(database);
            for (SchemaMode mode : List.of(SchemaMode.VALIDATE, SchemaMode.MIGRATE)) {
                assertThat(Schema.open(database.dataSource(), mode, "by_hand").version())
                        .isEqualTo(Schema.VERSION);
            }
            assertThat(tables(database, "by_hand")).contains("forge_jobs").doesNotContain("forge_schema_history");
        });
    }

    @Test
    void older_schema_is_refused_with_the_missing_scripts() throws Exception {
        onEmptyDatabase(database -> {
            installWithPsql(database);
            database.jdbc()
                    .sql("DELETE FROM by_hand.forge_schema_versions WHERE version = ?")
                    .param(Schema.VERSION)
                    .update();
            assertThatExceptionOfType(ClusterStartupException.class)
                    .isThrownBy(() -> Schema.open(database.dataSource(), SchemaMode.VALIDATE, "by_hand"))
                    .withMessageContaining("version %d, this library needs %d", Schema.VERSION - 1, Schema.VERSION)
                    .satisfies(e -> assertThat(e.action()).contains("the script V" + Schema.VERSION));
        });
    }

    @Test
    void next_script_migrates_a_schema_that_was_installed_with_psql_or_with_flyway() throws Exception {
        onEmptyDatabase(database -> {
            installWithPsql(database);
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "by_flyway");
            for (String schema : List.of("by_hand", "by_flyway")) {
                Migrator.migrate(database.dataSource(), schema, Duration.ofSeconds(30), nextScripts());
                assertThat(Schema.open(database.dataSource(), SchemaMode.VALIDATE, schema)
                                .version())
                        .isEqualTo(Schema.VERSION + 1);
            }
        });
    }

    /** Returns the scripts of a next release, which has one more script that alters a table in use. */
    private Migrator.Scripts nextScripts() throws IOException {
        int next = Schema.VERSION + 1;
        Files.writeString(directory.resolve("V%d__next.sql".formatted(next)), """
                ALTER TABLE forge_jobs ADD COLUMN next int;
                INSERT INTO forge_schema_versions (version, needs_library) VALUES (%d, %d);
                """.formatted(next, Schema.VERSION));
        return new Migrator.Scripts(next, List.of("classpath:" + Schema.SCRIPTS, "filesystem:" + directory));
    }

    private static void installWithPsql(TestDatabase database) throws SQLException {
        database.jdbc().sql("CREATE SCHEMA by_hand").update();
        run(database, "V1__forge_cluster.sql");
    }

    /** Runs a script in one transaction, as psql -1 -f does. */
    private static void run(TestDatabase database, String script) throws SQLException {
        try (var connection = database.dataSource().getConnection()) {
            connection.setSchema("by_hand");
            ScriptUtils.executeSqlScript(
                    connection,
                    new EncodedResource(new ClassPathResource("dev/forge/cluster/db/" + script)),
                    false,
                    false,
                    "--",
                    ScriptUtils.EOF_STATEMENT_SEPARATOR,
                    "/*",
                    "*/");
        }
    }

    @Test
    void migration_history_that_disagrees_with_the_installed_version_is_replaced() throws Exception {
        onEmptyDatabase(database -> {
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
            database.jdbc().sql("DROP SCHEMA public CASCADE").update();
            database.jdbc().sql("CREATE SCHEMA public").update();
            database.jdbc()
                    .sql("CREATE TABLE forge_schema_history (version text, success boolean)")
                    .update();
            database.jdbc()
                    .sql("INSERT INTO forge_schema_history VALUES ('1', true)")
                    .update();
            assertThat(Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public")
                            .version())
                    .isEqualTo(Schema.VERSION);
            assertThat(tables(database, "public")).contains("forge_jobs");
        });
    }

    @Test
    void statement_timeout_of_the_database_does_not_end_the_wait_for_another_nodes_migration() throws Exception {
        onEmptyDatabase(database -> {
            database.jdbc()
                    .sql("ALTER DATABASE %s SET statement_timeout = '5s'".formatted(database.name()))
                    .update();
            database.endIdleSessions();
            try (var locking = database.dataSource().getConnection()) {
                locking.setAutoCommit(false);
                locking.createStatement()
                        .execute("SELECT pg_advisory_xact_lock(%d, hashtext('migrate public'))"
                                .formatted(AdvisoryKeys.CLASS_ID));
                var threads = Executors.newSingleThreadExecutor();
                try {
                    Future<Schema> waiting =
                            threads.submit(() -> Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public"));
                    await().during(Duration.ofMillis(5_500)).until(() -> !waiting.isDone());
                    locking.rollback();
                    assertThat(waiting.get().version()).isEqualTo(Schema.VERSION);
                } finally {
                    threads.shutdown();
                }
            }
        });
    }

    @Test
    void transaction_timeout_of_the_database_does_not_end_a_migration() throws Exception {
        onEmptyDatabase(database -> {
            assumeTrue(
                    database.jdbc()
                            .sql("SELECT EXISTS (SELECT FROM pg_settings WHERE name = 'transaction_timeout')")
                            .query(Boolean.class)
                            .single(),
                    "PostgreSQL 17 or later");
            try (var locking = database.dataSource().getConnection()) {
                locking.setAutoCommit(false);
                locking.createStatement()
                        .execute("SELECT pg_advisory_xact_lock(%d, hashtext('migrate public'))"
                                .formatted(AdvisoryKeys.CLASS_ID));
                // Sessions that are open already keep the former setting. Each statement alone is far below it.
                database.jdbc()
                        .sql("ALTER DATABASE %s SET transaction_timeout = '5s'".formatted(database.name()))
                        .update();
                database.endIdleSessions();
                var threads = Executors.newSingleThreadExecutor();
                try {
                    Future<Schema> waiting =
                            threads.submit(() -> Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public"));
                    await().during(Duration.ofMillis(5_500)).until(() -> !waiting.isDone());
                    locking.rollback();
                    assertThat(waiting.get().version()).isEqualTo(Schema.VERSION);
                } finally {
                    threads.shutdown();
                }
            }
        });
    }

    @ParameterizedTest
    @EnumSource
    void timeouts_of_the_role_do_not_end_a_migration(Pooler pooler) throws Exception {
        onEmptyDatabase(database -> {
            DataSource hasty = role(database, "CREATE SCHEMA own AUTHORIZATION %s");
            // Flyway's connection is idle in a transaction for longer than that while a script runs.
            set(database, "idle_in_transaction_session_timeout", "100ms");
            set(database, "statement_timeout", "1s");
            Migrator.migrate(hasty, pooler, "own", Duration.ofMinutes(1), slowScript());
            assertThat(tables(database, "own")).contains("slow");
            dropRole(database);
        });
    }

    @Test
    void first_start_with_a_role_of_short_timeouts_succeeds() throws Exception {
        onEmptyDatabase(database -> {
            DataSource hasty = role(database, "CREATE SCHEMA own AUTHORIZATION %s");
            set(database, "idle_in_transaction_session_timeout", "50ms");
            set(database, "idle_session_timeout", "500ms");
            set(database, "default_transaction_isolation", "serializable");
            assertThat(Schema.open(hasty, SchemaMode.MIGRATE, "own").version()).isEqualTo(Schema.VERSION);
            dropRole(database);
        });
    }

    @Test
    void error_of_a_migration_that_may_not_write_names_the_setting() throws Exception {
        onEmptyDatabase(database -> {
            DataSource reader = role(database, "CREATE SCHEMA own AUTHORIZATION %s");
            set(database, "default_transaction_read_only", "on");
            assertThatExceptionOfType(ClusterStartupException.class)
                    .isThrownBy(() -> Schema.open(reader, SchemaMode.MIGRATE, "own"))
                    .satisfies(e -> assertThat(e.action()).contains("default_transaction_read_only"));
            dropRole(database);
        });
    }

    /** Changes a setting of the role {@link #role}. */
    private static void set(TestDatabase database, String setting, String value) {
        database.jdbc()
                .sql("ALTER ROLE %s SET %s = '%s'".formatted(roleName(database), setting, value))
                .update();
    }

    /** Returns a script that takes longer than any timeout of these tests. */
    private Migrator.Scripts slowScript() throws IOException {
        Files.writeString(
                directory.resolve("V1__slow.sql"), "CREATE TABLE slow (id int); SELECT pg_catalog.pg_sleep(1.2);");
        return new Migrator.Scripts(1, List.of("filesystem:" + directory));
    }

    @Test
    void wait_for_a_squatted_migration_lock_ends_with_an_error_that_names_the_session() throws Exception {
        onEmptyDatabase(database -> {
            try (var squatter = database.dataSource().getConnection()) {
                squatter.createStatement()
                        .execute("SELECT pg_advisory_lock(%d, hashtext('migrate public'))"
                                .formatted(AdvisoryKeys.CLASS_ID));
                int pid = squatter.unwrap(PGConnection.class).getBackendPID();
                assertThatExceptionOfType(ClusterStartupException.class)
                        .isThrownBy(() -> Migrator.migrate(
                                database.dataSource(), "public", Duration.ofMillis(100), Migrator.Scripts.OWN))
                        .withMessageContaining("'public'")
                        .withMessageContaining("session %d of role %s".formatted(pid, database.username()))
                        .satisfies(e -> assertThat(e.action()).contains("pg_terminate_backend"));
            }
        });
    }

    /** Opens a transaction that has read a table. */
    private static Connection reader(TestDatabase database) throws SQLException {
        Connection reader = database.dataSource().getConnection();
        reader.setAutoCommit(false);
        reader.createStatement().execute("SELECT count(*) FROM by_hand.forge_jobs");
        return reader;
    }

    @Test
    void open_transaction_delays_a_migration_but_no_other_session() throws Exception {
        onEmptyDatabase(database -> {
            installWithPsql(database);
            Migrator.Scripts next = nextScripts();
            var threads = Executors.newSingleThreadExecutor();
            try (Connection open = reader(database);
                    Connection other = database.dataSource().getConnection()) {
                Future<?> migrating = threads.submit(
                        () -> Migrator.migrate(database.dataSource(), "by_hand", Duration.ofMinutes(1), next));
                await().until(() -> database.jdbc()
                        .sql(
                                "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'by_hand.forge_jobs'::regclass AND NOT granted)")
                        .query(Boolean.class)
                        .single());
                // Waits behind the migration, which gives up after a second.
                other.createStatement().execute("SET lock_timeout = '30s'");
                other.createStatement().execute("SELECT count(*) FROM by_hand.forge_jobs");
                open.rollback();
                migrating.get(1, TimeUnit.MINUTES);
            } finally {
                threads.shutdown();
            }
            assertThat(Schema.open(database.dataSource(), SchemaMode.VALIDATE, "by_hand")
                            .version())
                    .isEqualTo(Schema.VERSION + 1);
            assertThat(database.jdbc()
                            .sql("SELECT count(*) FROM by_hand.forge_schema_history WHERE NOT success")
                            .query(Long.class)
                            .single())
                    .isZero();
        });
    }

    @Test
    void migration_that_stays_blocked_ends_with_an_error_that_names_the_session() throws Exception {
        onEmptyDatabase(database -> {
            installWithPsql(database);
            Migrator.Scripts next = nextScripts();
            var threads = Executors.newSingleThreadExecutor();
            try (Connection open = reader(database)) {
                int pid = open.unwrap(PGConnection.class).getBackendPID();
                // Repeated: on a busy machine the wait may end before the migration has seen which session blocks it.
                await().untilAsserted(() -> {
                    Future<?> migrating = threads.submit(
                            () -> Migrator.migrate(database.dataSource(), "by_hand", Duration.ofMillis(500), next));
                    assertThatExceptionOfType(ExecutionException.class)
                            .isThrownBy(() -> migrating.get(1, TimeUnit.MINUTES))
                            .havingCause()
                            .isInstanceOf(ClusterStartupException.class)
                            .withMessageContaining("'by_hand'")
                            .withMessageContaining("session %d of role %s".formatted(pid, database.username()))
                            .satisfies(e -> assertThat(((ClusterStartupException) e).action())
                                    .contains("pg_terminate_backend"));
                });
            } finally {
                threads.shutdown();
            }
            Migrator.migrate(database.dataSource(), "by_hand", Duration.ofSeconds(30), next);
            assertThat(Schema.open(database.dataSource(), SchemaMode.VALIDATE, "by_hand")
                            .version())
                    .isEqualTo(Schema.VERSION + 1);
        });
    }

    @Test
    void error_of_a_role_that_may_not_read_the_schema_says_what_to_grant() throws Exception {
        onEmptyDatabase(database -> {
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "closed");
            DataSource limited = role(database, "GRANT USAGE ON SCHEMA public TO %s");
            for (SchemaMode mode : List.of(SchemaMode.MIGRATE, SchemaMode.VALIDATE)) {
                assertThatExceptionOfType(ClusterStartupException.class)
                        .isThrownBy(() -> Schema.open(limited, mode, "closed"))
                        .withMessageContaining("permission denied for schema closed")
                        .satisfies(e -> assertThat(e.action()).contains("GRANT USAGE ON SCHEMA \"closed\""));
            }
            dropRole(database);
        });
    }

    @Test
    void schema_without_a_channel_is_rejected_until_it_has_one() throws Exception {
        onEmptyDatabase(database -> {
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
            database.jdbc().sql("TRUNCATE forge_settings").update();
            assertThatExceptionOfType(ClusterStartupException.class)
                    .isThrownBy(() -> Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"))
                    .withMessageContaining("forge_settings")
                    .satisfies(e -> database.jdbc()
                            .sql(e.action().substring(e.action().indexOf("INSERT")))
                            .update());
            Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        });
    }

    @Test
    void schema_is_not_checked_in_mode_none() throws Exception {
        onEmptyDatabase(database -> {
            Schema.open(database.dataSource(), SchemaMode.NONE, "public");
            assertThat(tables(database, "public")).isEmpty();
        });
    }

    @Test
    void next_version_of_the_schema_is_used_unless_it_needs_a_newer_library() throws Exception {
        onEmptyDatabase(database -> {
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
            String additive = "INSERT INTO forge_schema_versions (version, needs_library) VALUES (%d, %d)";
            database.jdbc()
                    .sql(additive.formatted(Schema.VERSION + 1, Schema.VERSION))
                    .update();
            assertThat(Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public")
                            .version())
                    .isEqualTo(Schema.VERSION + 1);
            database.jdbc()
                    .sql(additive.formatted(Schema.VERSION + 2, Schema.VERSION + 2))
                    .update();
            for (SchemaMode mode : List.of(SchemaMode.MIGRATE, SchemaMode.VALIDATE)) {
                assertThatExceptionOfType(ClusterStartupException.class)
                        .isThrownBy(() -> Schema.open(database.dataSource(), mode, "public"))
                        .withMessageContaining("version " + (Schema.VERSION + 2))
                        .satisfies(e -> assertThat(e.action()).contains("forge.cluster.schema.name"));
            }
        });
    }

    @Test
    void connection_without_a_current_schema_is_rejected() throws Exception {
        onEmptyDatabase(database -> {
            var lost = new DriverManagerDataSource(
                    database.url() + (database.url().contains("?") ? "&" : "?") + "currentSchema=nowhere",
                    database.username(),
                    database.password());
            assertThatExceptionOfType(ClusterStartupException.class)
                    .isThrownBy(() -> Schema.currentSchemaOf(lost))
                    .satisfies(e -> assertThat(e.action()).contains("forge.cluster.schema.name"));
        });
    }

    private static long count(TestDatabase database, String table) {
        return database.jdbc()
                .sql("SELECT count(*) FROM " + table)
                .query(Long.class)
                .single();
    }

    private static String roleName(TestDatabase database) {
        return "limited_" + database.name();
    }

    private static DataSource role(TestDatabase database, String statement) {
        String role = roleName(database);
        database.jdbc()
                .sql("CREATE ROLE %s LOGIN PASSWORD 'secret'".formatted(role))
                .update();
        database.jdbc().sql(statement.formatted(role)).update();
        return new DriverManagerDataSource(database.url(), role, "secret");
    }

    private static void dropRole(TestDatabase database) {
        database.jdbc().sql("DROP OWNED BY " + roleName(database)).update();
        database.jdbc().sql("DROP ROLE " + roleName(database)).update();
    }

    @Test
    void error_about_missing_flyway_names_the_alternative() throws Exception {
        URL[] classPath = Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(entry -> !entry.contains("flyway"))
                .map(SchemaTests::url)
                .toArray(URL[]::new);
        onEmptyDatabase(database -> {
            try (var loader = new URLClassLoader(classPath, ClassLoader.getPlatformClassLoader())) {
                var source = (DataSource) loader.loadClass(PGSimpleDataSource.class.getName())
                        .getConstructor()
                        .newInstance();
                source.getClass().getMethod("setUrl", String.class).invoke(source, database.url());
                source.getClass().getMethod("setUser", String.class).invoke(source, database.username());
                source.getClass().getMethod("setPassword", String.class).invoke(source, database.password());
                Class<?> modes = loader.loadClass(SchemaMode.class.getName());
                Method open = loader.loadClass(Schema.class.getName())
                        .getMethod("open", DataSource.class, modes, String.class);
                Object migrate = modes.getField("MIGRATE").get(null);
                assertThatThrownBy(() -> open.invoke(null, source, migrate, "public"))
                        .cause()
                        .hasMessageContaining("Flyway is not on the class path")
                        .satisfies(e -> assertThat((String)
                                        e.getClass().getMethod("action").invoke(e))
                                .contains("forge.cluster.schema.mode=validate"));
            }
        });
    }

    private static URL url(String entry) {
        try {
            return Path.of(entry).toUri().toURL();
        } catch (MalformedURLException e) {
            throw new IllegalArgumentException(e);
        }
    }
}
