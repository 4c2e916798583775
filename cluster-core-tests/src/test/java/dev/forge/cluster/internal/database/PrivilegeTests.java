// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.DedicatedConnection;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** Verifies that database roles with few rights cannot make the owner of the tables execute their code. */
@ClusterPostgres
class PrivilegeTests {

    private final TestDatabase database;
    private final String intruder;

    PrivilegeTests(TestDatabase database) {
        this.database = database;
        this.intruder = "intruder_" + database.name();
    }

    @BeforeEach
    void createIntruder() {
        execute("CREATE ROLE %s LOGIN PASSWORD 'secret'".formatted(intruder));
        execute("GRANT CONNECT, TEMPORARY ON DATABASE %s TO %s".formatted(database.name(), intruder));
        execute("GRANT USAGE ON SCHEMA public TO " + intruder);
    }

    @AfterEach
    void dropIntruder() {
        execute("DROP OWNED BY %s CASCADE".formatted(intruder));
        execute("DROP ROLE " + intruder);
    }

    private void execute(String sql) {
        database.jdbc().sql(sql).update();
    }

    private Connection asIntruder() throws SQLException {
        return new DriverManagerDataSource(database.url(), intruder, "secret").getConnection();
    }

    private static JdbcClient on(Connection connection) {
        return JdbcClient.create(new SingleConnectionDataSource(connection, true));
    }

    @ParameterizedTest
    @CsvSource({
        "forge_workflow_resolved, forge_jobs",
        "forge_workflow_job_ended, forge_workflow_runs",
        "forge_retag_job, forge_job_tags"
    })
    void trigger_function_with_owner_rights_cannot_be_attached_to_a_temporary_table(String function, String table)
            throws SQLException {
        assertThat(usersThatRan(function, table))
                .as("users whose rights the intruder's trigger ran with")
                .isEmpty();
    }

    @ParameterizedTest
    @CsvSource({
        "forge_workflow_resolved, forge_jobs",
        "forge_workflow_job_ended, forge_workflow_runs",
        "forge_retag_job, forge_job_tags"
    })
    void trigger_function_with_owner_rights_refuses_foreign_tables_even_if_execute_was_granted(
            String function, String table) throws SQLException {
        execute("GRANT EXECUTE ON FUNCTION %s() TO %s".formatted(function, intruder));
        assertThat(usersThatRan(function, table))
                .as("users whose rights the intruder's trigger ran with")
                .isEmpty();
    }

    @Test
    void role_that_resolves_runs_cannot_end_other_jobs() throws SQLException {
        UUID run = UUID.randomUUID();
        UUID other = database.jdbc()
                .sql("SELECT forge_enqueue('payroll')")
                .query(UUID.class)
                .single();
        database.jdbc()
                .sql(
                        "INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version) VALUES (?, ?, 'checkout', '1')")
                .params(run, run)
                .update();
        execute("GRANT SELECT, UPDATE ON forge_workflow_runs TO " + intruder);
        try (Connection connection = asIntruder()) {
            on(connection)
                    .sql("UPDATE forge_workflow_runs SET job_id = ? WHERE id = ?")
                    .params(other, run)
                    .update();
            on(connection)
                    .sql("UPDATE forge_workflow_runs SET status = 'cancelled_by_operator' WHERE id = ?")
                    .param(run)
                    .update();
        }
        assertThat(database.jdbc()
                        .sql("SELECT status FROM forge_jobs WHERE id = ?")
                        .param(other)
                        .query(String.class)
                        .single())
                .isEqualTo("pending");
    }

    @Test
    void role_that_enqueues_replaces_no_job_of_others() throws SQLException {
        execute("GRANT EXECUTE ON FUNCTION forge_enqueue TO " + intruder);
        UUID own = database.jdbc()
                .sql(
                        "SELECT forge_enqueue('payroll', '1', unique_key => 'ours', debounce => '1 h', debounce_max => '1 h')")
                .query(UUID.class)
                .single();
        UUID plain = database.jdbc()
                .sql("SELECT forge_enqueue('payroll', '1', unique_key => 'plain')")
                .query(UUID.class)
                .single();
        try (Connection connection = asIntruder()) {
            JdbcClient jdbc = on(connection);
            String replacing =
                    "SELECT forge_enqueue('payroll', ?::jsonb, unique_key => ?, debounce => '1 h', debounce_max => '1 h')";
            assertThat(jdbc.sql(replacing)
                            .params("666", "ours")
                            .query(UUID.class)
                            .single())
                    .isEqualTo(own);
            assertThat(jdbc.sql(replacing)
                            .params("666", "plain")
                            .query(UUID.class)
                            .single())
                    .isEqualTo(plain);
            UUID theirs =
                    jdbc.sql(replacing).params("2", "theirs").query(UUID.class).single();
            assertThat(jdbc.sql(replacing)
                            .params("3", "theirs")
                            .query(UUID.class)
                            .single())
                    .isEqualTo(theirs);
        }
        assertThat(database.jdbc()
                        .sql("SELECT unique_key || ' ' || payload FROM forge_jobs WHERE name = 'payroll' ORDER BY 1")
                        .query(String.class)
                        .list())
                .contains("ours 1", "plain 1", "theirs 3");
    }

    @Test
    void role_that_enqueues_needs_no_right_on_the_table_and_cannot_forge_sizes() throws SQLException {
        execute("GRANT EXECUTE ON FUNCTION forge_enqueue TO " + intruder);
        try (Connection connection = asIntruder()) {
            JdbcClient jdbc = on(connection);
            UUID id = jdbc.sql("SELECT forge_enqueue('payroll', '{\"text\": \"0123456789\"}', unique_key => 'k')")
                    .query(UUID.class)
                    .single();
            assertThat(jdbc.sql("SELECT forge_enqueue('payroll', unique_key => 'k')")
                            .query(UUID.class)
                            .single())
                    .isEqualTo(id);
            assertThat(database.jdbc()
                            .sql("SELECT body_bytes FROM forge_jobs WHERE id = ?")
                            .param(id)
                            .query(Integer.class)
                            .single())
                    .isEqualTo(24);
            for (String lie : List.of(
                    "INSERT INTO forge_jobs (id, name, body_bytes) VALUES (gen_random_uuid(), 'payroll', 0)",
                    "UPDATE forge_jobs SET body_bytes = 0",
                    "SELECT count(*) FROM forge_jobs")) {
                assertThatExceptionOfType(DataAccessException.class)
                        .isThrownBy(() -> jdbc.sql(lie).query().listOfRows())
                        .withStackTraceContaining("permission denied for table forge_jobs");
            }
        }
    }

    /**
     * Attaches our function to a temporary table, beside a temporary table with the name of the table that it updates. Returns
     * the users whose rights the intruder's trigger on that table ran with.
     */
    private List<String> usersThatRan(String function, String table) throws SQLException {
        try (Connection connection = asIntruder()) {
            JdbcClient jdbc = on(connection);
            jdbc.sql("CREATE TEMP TABLE seen (username text)").update();
            jdbc.sql("GRANT INSERT ON seen TO PUBLIC").update();
            jdbc.sql("CREATE TEMP TABLE %s AS SELECT * FROM (VALUES ('%s'::uuid)) AS v (id)"
                            .formatted(table, UUID.randomUUID()))
                    .update();
            jdbc.sql("""
                    ALTER TABLE pg_temp.%s ADD status text DEFAULT 'pending', ADD finished_at timestamptz,
                        ADD lease_expires_at timestamptz, ADD waits_for uuid, ADD updated_at timestamptz, ADD awaits text,
                        ADD last_error text
                    """.formatted(table)).update();
            jdbc.sql("""
                    CREATE FUNCTION pg_temp.note() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN INSERT INTO pg_temp.seen VALUES (current_user); RETURN NEW; END $$
                    """).update();
            jdbc.sql("CREATE TRIGGER note BEFORE UPDATE ON pg_temp.%s FOR EACH ROW EXECUTE FUNCTION pg_temp.note()"
                            .formatted(table))
                    .update();
            jdbc.sql("CREATE TEMP TABLE bait AS SELECT id, id AS job_id, status, last_error FROM pg_temp." + table)
                    .update();
            try {
                jdbc.sql("CREATE TRIGGER bait AFTER UPDATE ON bait FOR EACH ROW EXECUTE FUNCTION public.%s()"
                                .formatted(function))
                        .update();
                jdbc.sql("UPDATE bait SET status = 'failed'").update();
            } catch (RuntimeException e) {
                assertThat(e).hasStackTraceContaining(function);
            }
            return jdbc.sql("SELECT username FROM seen").query(String.class).list();
        }
    }

    @Test
    void functions_with_owner_rights_are_closed_to_public_and_every_function_has_a_fixed_search_path() {
        record Function(String name, boolean ownerRights, boolean open, String settings) {}
        List<Function> functions = database.jdbc()
                .sql("""
                        SELECT p.proname, p.prosecdef, has_function_privilege('%s', p.oid, 'EXECUTE'),
                               coalesce(p.proconfig::text, '')
                        FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'forge%%'
                        """.formatted(intruder))
                .query((row, n) ->
                        new Function(row.getString(1), row.getBoolean(2), row.getBoolean(3), row.getString(4)))
                .list();
        assertThat(functions).extracting(Function::name).contains("forge_enqueue", "forge_workflow_resolved");
        assertThat(functions)
                .allSatisfy(function -> assertThat(function.settings()).contains("search_path=pg_catalog, pg_temp"));
        assertThat(functions).filteredOn(Function::ownerRights).hasSize(5).noneMatch(Function::open);
    }

    @Test
    void function_of_the_same_name_in_the_search_path_is_not_called_when_a_job_ends() throws SQLException {
        shadow("format(template text, value name)", "text", "'DO $x$ BEGIN END $x$'");
        shadow("left(value text, length int)", "text", "value");
        UUID job = database.jdbc()
                .sql("SELECT forge_enqueue('shadowed', unique_key => 'key')")
                .query(UUID.class)
                .single();
        database.jdbc()
                .sql("UPDATE forge_jobs SET status = 'cancelled', finished_at = now() WHERE id = ?")
                .param(job)
                .update();
        database.jdbc().sql("DELETE FROM forge_jobs WHERE id = ?").param(job).update();
        assertThat(shadowsCalled()).isEmpty();
    }

    @Test
    void operator_of_the_same_name_in_the_search_path_is_not_called_by_forge_enqueue() throws SQLException {
        shadow("times(a numeric, b int)", "numeric", "a");
        try (Connection connection = asIntruder()) {
            on(connection)
                    .sql("CREATE OPERATOR public.* (FUNCTION = public.times, LEFTARG = numeric, RIGHTARG = int)")
                    .update();
        }
        database.jdbc()
                .sql("SELECT forge_enqueue('shadowed')")
                .query(UUID.class)
                .single();
        assertThat(shadowsCalled()).isEmpty();
    }

    @Test
    void operator_of_the_same_name_in_the_search_path_is_not_called_by_a_control_connection() throws SQLException {
        shadow("same(a text, b varchar)", "boolean", "true");
        try (Connection connection = asIntruder()) {
            on(connection)
                    .sql("CREATE OPERATOR public.= (FUNCTION = public.same, LEFTARG = text, RIGHTARG = varchar)")
                    .update();
        }
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        try (var control = new ControlConnections(database.newSessions(), Pooler.NONE, 1, Duration.ofSeconds(2))) {
            var locks = new LockStore(schema, control);
            long token = locks.take("shadowed", UUID.randomUUID(), Duration.ofMinutes(1))
                    .orElseThrow();
            assertThat(locks.release("shadowed", token)).isTrue();
        }
        assertThat(shadowsCalled()).isEmpty();
    }

    @Test
    void schema_of_another_role_that_has_the_name_of_the_node_s_role_is_not_searched() throws SQLException {
        String runtime = "runtime_" + database.name();
        execute("CREATE ROLE %s LOGIN PASSWORD 'secret'".formatted(runtime));
        execute("GRANT CREATE ON DATABASE %s TO %s".formatted(database.name(), intruder));
        try {
            try (Connection connection = asIntruder()) {
                // The search path would contain this schema through "$user".
                on(connection).sql("CREATE SCHEMA " + runtime).update();
                on(connection)
                        .sql("GRANT USAGE ON SCHEMA %s TO PUBLIC".formatted(runtime))
                        .update();
            }
            var asRuntime = new DriverManagerDataSource(database.url(), runtime, "secret");
            assertThat(searched(asRuntime)).isEqualTo("public");
            // A superuser, which is a member of every role.
            var asSuperuser = new DriverManagerDataSource(database.url(), database.username(), database.password());
            var path = new Properties();
            path.setProperty("options", "-c search_path=%s,public".formatted(runtime));
            asSuperuser.setConnectionProperties(path);
            assertThat(searched(asSuperuser)).isEqualTo("public");
        } finally {
            execute("DROP OWNED BY %s CASCADE".formatted(intruder));
            execute("DROP ROLE " + runtime);
        }
    }

    /** Returns the search path of a control connection. */
    private static String searched(DataSource source) throws SQLException {
        try (Connection connection = DedicatedConnection.open(source, Pooler.NONE, Duration.ofSeconds(5))) {
            return on(connection)
                    .sql("SELECT array_to_string(current_schemas(false), ',')")
                    .query(String.class)
                    .single();
        }
    }

    @Test
    void operator_of_the_same_name_in_the_search_path_is_not_called_by_a_migration() throws SQLException {
        shadow("same_name(a name, b varchar)", "boolean", "true");
        shadow("same_text(a text, b varchar)", "boolean", "true");
        try (Connection connection = asIntruder()) {
            on(connection)
                    .sql("CREATE OPERATOR public.= (FUNCTION = public.same_name, LEFTARG = name, RIGHTARG = varchar)")
                    .update();
            on(connection)
                    .sql("CREATE OPERATOR public.= (FUNCTION = public.same_text, LEFTARG = text, RIGHTARG = varchar)")
                    .update();
        }
        Schema.open(database.dataSource(), SchemaMode.MIGRATE, "migrated");
        execute("DROP SCHEMA migrated CASCADE");
        assertThat(shadowsCalled()).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"forge_jobs", "forge_job_status[]", "scheduler_job", "forge_workflow_runs"})
    void role_without_rights_on_a_table_cannot_keep_it_from_being_altered(String type) throws SQLException {
        try (Connection connection = asIntruder()) {
            assertThatExceptionOfType(DataAccessException.class)
                    .isThrownBy(() -> on(connection)
                            .sql("CREATE TEMP TABLE obstacle (value public.%s)".formatted(type))
                            .update())
                    .withStackTraceContaining("permission denied for type");
            // The lock that a migration takes.
            execute("ALTER TABLE forge_jobs ADD COLUMN added forge_job_retention");
            execute("ALTER TABLE forge_jobs DROP COLUMN added");
        }
    }

    @Test
    void types_of_the_schema_are_closed_to_public() {
        assertThat(database.jdbc()
                        .sql("""
                                SELECT t.typname::text FROM pg_type t
                                WHERE t.typnamespace = 'public'::regnamespace AND has_type_privilege('%s', t.oid, 'USAGE')
                                """.formatted(intruder))
                        .query(String.class)
                        .list())
                .isEmpty();
    }

    @Test
    void report_may_be_stored_in_a_table_of_its_own() throws SQLException {
        execute("GRANT SELECT ON scheduler_node, scheduler_lock, scheduler_job TO " + intruder);
        try (Connection connection = asIntruder()) {
            for (String view : List.of("scheduler_node", "scheduler_lock", "scheduler_job")) {
                on(connection)
                        .sql("CREATE TEMP TABLE report_%1$s AS SELECT * FROM public.%1$s".formatted(view))
                        .update();
            }
        }
    }

    @Test
    void full_lock_table_counts_as_a_failure_of_the_server_and_not_of_a_job() throws SQLException {
        assumeTrue(
                System.getenv(PostgresServer.URL_VARIABLE) == null,
                "Skipped: all databases of the server share the lock table, and others may use this server");
        try (Connection connection = asIntruder()) {
            JdbcClient jdbc = on(connection);
            try {
                // Locks of the session outlive the statement that fails.
                assertThatExceptionOfType(DataAccessException.class)
                        .isThrownBy(() -> jdbc.sql(
                                        "SELECT count(pg_advisory_lock(7, n)) FROM generate_series(1, 10000000) n")
                                .query(Long.class)
                                .single())
                        .withStackTraceContaining("out of shared memory");
                assertThatExceptionOfType(DataAccessException.class)
                        .isThrownBy(() -> execute("UPDATE forge_jobs SET priority = 1"))
                        .satisfies(e ->
                                assertThat(DatabaseFailure.kind(e).isOfServer()).isTrue())
                        .satisfies(e -> assertThat(DatabaseFailure.kind(e).isTransient())
                                .isTrue());
            } finally {
                // Unlocked explicitly, because the end of the session takes a moment.
                jdbc.sql("SELECT pg_advisory_unlock_all()::text")
                        .query(String.class)
                        .list();
            }
        }
    }

    @Test
    void role_that_may_only_connect_can_neither_learn_the_channel_nor_reach_the_nodes() throws SQLException {
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        try (SessionConnection session = SessionConnection.open(database.dataSource(), schema, UUID.randomUUID());
                Connection connection = asIntruder()) {
            JdbcClient jdbc = on(connection);
            String guessed = "forge_cluster_"
                    + jdbc.sql("SELECT 'public'::regnamespace::oid::bigint")
                            .query(Long.class)
                            .single();
            jdbc.sql("SELECT pg_notify(?, 'flood') FROM generate_series(1, 100)")
                    .param(guessed)
                    .query((row, n) -> true)
                    .list();
            session.notifyOthers("from a node");
            var heard = new ArrayList<String>();
            await().until(() -> {
                heard.addAll(session.notifications(Duration.ofMillis(50)));
                return heard.contains("from a node");
            });
            assertThat(heard).containsExactly("from a node");
            assertThatExceptionOfType(DataAccessException.class)
                    .isThrownBy(() -> jdbc.sql("SELECT channel FROM forge_settings")
                            .query(String.class)
                            .single())
                    .havingRootCause()
                    .withMessageContaining("permission denied for table forge_settings");
            assertThat(jdbc.sql("SELECT s::text FROM pg_stat_activity s WHERE datname = current_database()")
                            .query(String.class)
                            .list())
                    .isNotEmpty()
                    .noneMatch(row -> row.contains(schema.channel()));
        }
    }

    @Test
    void default_privileges_that_let_roles_read_new_tables_do_not_expose_the_channel() {
        String runtime = "runtime_" + database.name();
        execute("CREATE ROLE " + runtime);
        execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO %s, PUBLIC".formatted(intruder));
        execute("ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO " + runtime);
        try {
            Schema.open(database.dataSource(), SchemaMode.MIGRATE, "reported");
            assertThat(mayRead(intruder, "forge_jobs")).isTrue();
            assertThat(mayRead(intruder, "forge_settings")).isFalse();
            assertThat(mayRead(runtime, "forge_settings")).as("nodes").isTrue();
        } finally {
            execute("DROP SCHEMA IF EXISTS reported CASCADE");
            execute("ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM %s, %s, PUBLIC".formatted(intruder, runtime));
            execute("DROP ROLE " + runtime);
        }
    }

    private boolean mayRead(String role, String table) {
        return database.jdbc()
                .sql("SELECT has_table_privilege(?, 'reported.' || ?, 'SELECT')")
                .params(role, table)
                .query(Boolean.class)
                .single();
    }

    @Test
    void channel_has_122_random_bits_and_fits_into_a_name() {
        List<String> names = Stream.of("first", "second")
                .map(name -> {
                    Schema.open(database.dataSource(), SchemaMode.MIGRATE, name);
                    String channel = Schema.open(database.dataSource(), SchemaMode.NONE, name)
                            .channel();
                    execute("DROP SCHEMA %s CASCADE".formatted(name));
                    return channel;
                })
                .toList();
        assertThat(names).doesNotHaveDuplicates().allMatch(name -> name.matches("forge_cluster_[0-9a-f]{32}"));
    }

    /** Lets the intruder create a function in public that records its calls, as every role can before PostgreSQL 15. */
    private void shadow(String signature, String type, String value) throws SQLException {
        execute("GRANT CREATE ON SCHEMA public TO " + intruder);
        try (Connection connection = asIntruder()) {
            JdbcClient jdbc = on(connection);
            jdbc.sql("CREATE TABLE IF NOT EXISTS public.shadows_called (username text)")
                    .update();
            jdbc.sql("GRANT ALL ON public.shadows_called TO PUBLIC").update();
            jdbc.sql("""
                    CREATE FUNCTION public.%s RETURNS %s LANGUAGE plpgsql AS $$
                    BEGIN INSERT INTO public.shadows_called VALUES (current_user); RETURN %s; END $$
                    """.formatted(signature, type, value)).update();
        }
    }

    private List<String> shadowsCalled() {
        return database.jdbc()
                .sql("SELECT username FROM public.shadows_called")
                .query(String.class)
                .list();
    }

    @Test
    void renamed_schema_is_rejected_until_its_functions_have_the_new_name() {
        Schema.open(database.dataSource(), SchemaMode.MIGRATE, "before");
        execute("ALTER SCHEMA before RENAME TO afterwards");
        assertThatExceptionOfType(ClusterStartupException.class)
                .isThrownBy(() -> Schema.open(database.dataSource(), SchemaMode.VALIDATE, "afterwards"))
                .withMessageContaining("forge_free_successor")
                .withMessageContaining("'afterwards'")
                .satisfies(e -> execute(e.action().substring(e.action().indexOf("DO $$"))));
        Schema.open(database.dataSource(), SchemaMode.VALIDATE, "afterwards");
        UUID job = database.jdbc()
                .sql("SELECT afterwards.forge_enqueue('renamed', unique_key => 'key')")
                .query(UUID.class)
                .single();
        assertThat(database.jdbc()
                        .sql("UPDATE afterwards.forge_jobs SET status = 'cancelled' WHERE id = ?")
                        .param(job)
                        .update())
                .isOne();
        execute("DROP SCHEMA afterwards CASCADE");
    }
}
