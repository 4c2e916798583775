// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.UncategorizedSQLException;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The tables, views and functions that operators and foreign SQL rely on. */
@ClusterPostgres
class ContractTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;

    ContractTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    @BeforeEach
    void empty() {
        database.clear();
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            forge_nodes            | id node_key name hostname roles worker_capabilities handlers status version started_at last_heartbeat beats stale_at dead_at current_connections current_jobs cpu_usage memory_usage info
            forge_leaders          | role node_id current_term acquired_at
            forge_leader_leases    | role node_id lease_until backend_pid backend_start
            forge_jobs             | id name payload status priority worker_capability scheduled_at attempts max_attempts recoveries worker_id claim_epoch claimed_at started_at last_heartbeat lease_expires_at finished_at progress checkpoint result last_error unique_key metadata created_at
            forge_job_names        | name
            forge_crons            | name next_fire_at
            forge_cron_runs        | cron slot outcome reason job_id job_status attempts last_error started_at finished_at
            forge_daemons          | name status node_id term started_at restarts last_error
            forge_locks            | lock_name owner_node token locked_at expires_at
            forge_startup_actions  | name version node_id node_name token started_at completed_at
            forge_rate_limits      | bucket
            forge_state            | state_key expires_at
            forge_workflow_runs    | workflow_name workflow_version status resolution_reason wake_seq
            forge_workflow_steps   | run_id position name
            forge_workflow_signals | run_id name
            scheduler_node         | node_id heartbeat_ts started_at node_info
            scheduler_lock         | lock_name owner_node locked_at expires_at
            scheduler_job          | picked_by status
            """)
    void tables_and_views_have_their_columns(String table, String columns) {
        List<String> found = jdbc.sql("SELECT column_name::text FROM information_schema.columns WHERE table_name = ?")
                .param(table)
                .query((row, n) -> row.getString(1))
                .list();
        assertThat(found).contains(columns.split(" ", -1));
    }

    @Test
    void rate_limits_are_the_only_unlogged_table() {
        assertThat(jdbc.sql("SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u'")
                        .query(String.class)
                        .list())
                .containsExactly("forge_rate_limits");
    }

    @ParameterizedTest
    @CsvSource({
        "forge_nodes, status, joining active stale draining dead",
        "forge_jobs, status, pending claimed running completed failed cancelled abandoned",
        "forge_cron_runs, outcome, ran skipped missed",
        "forge_daemons, status, pending acquiring running stopping stopped failed restarting",
        "forge_workflow_runs, status, running waiting compensating completed compensated failed blocked_missing_version"
                + " blocked_signature_mismatch retired_unresumable cancelled_by_operator",
    })
    void status_is_one_of_the_known_ones(String table, String column, String values) {
        String check = jdbc.sql("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = ?")
                .param(table + "_" + column)
                .query(String.class)
                .single();
        assertThat(check.replaceAll("[^a-z_']+", " ").replaceAll("[^']*'([^']*)'[^']*", "$1 "))
                .isEqualTo(values + " ");
    }

    private void node(String name, String lastHeartbeat, String staleAt) {
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, started_at,
                                         last_heartbeat, stale_at, dead_at)
                VALUES (gen_random_uuid(), :name, :name, 'host', '{worker}', 'active', '1', now() - interval '1 hour',
                        now() + :heartbeat::interval, now() + :stale::interval, now() + interval '1 minute')
                """)
                .param("name", name)
                .param("heartbeat", lastHeartbeat)
                .param("stale", staleAt)
                .update();
    }

    @Test
    void operators_see_active_and_stale_nodes() {
        node("beating", "-2 seconds", "8 seconds");
        node("beating-every-minute", "-55 seconds", "65 seconds");
        node("silent", "-90 seconds", "-80 seconds");
        assertThat(jdbc.sql("""
                        SELECT node_info ->> 'name' FROM scheduler_node
                        WHERE heartbeat_ts > now() - interval '30 seconds' ORDER BY 1
                        """).query(String.class).list()).containsExactly("beating", "beating-every-minute");
        assertThat(jdbc.sql("""
                        SELECT node_info ->> 'name' FROM scheduler_node
                        WHERE heartbeat_ts < now() - interval '60 seconds'
                        """).query(String.class).list()).containsExactly("silent");
    }

    @Test
    void operators_count_running_jobs_per_node() {
        UUID busy = UUID.randomUUID();
        for (String status : List.of("running", "running", "claimed", "completed")) {
            jdbc.sql("INSERT INTO forge_jobs (id, name, status, worker_id) VALUES (gen_random_uuid(), 'a', ?, ?)")
                    .params(status, busy)
                    .update();
        }
        jdbc.sql("SELECT forge_enqueue('a')").query().listOfRows();
        assertThat(jdbc.sql("""
                        SELECT picked_by, count(*) AS jobs FROM scheduler_job
                        WHERE status = 'RUNNING' GROUP BY picked_by
                        """).query().listOfRows())
                .singleElement()
                .satisfies(row -> assertThat(row)
                        .containsEntry("picked_by", busy.toString())
                        .containsEntry("jobs", 2L));
    }

    @Test
    void operators_see_current_locks_and_leaderships() {
        jdbc.sql("""
                INSERT INTO forge_locks (lock_name, owner_node, token, expires_at)
                VALUES ('import', gen_random_uuid(), 1, now() + interval '1 minute'),
                       ('expired', gen_random_uuid(), 2, now() - interval '1 minute')
                """).update();
        jdbc.sql("""
                WITH leader AS (INSERT INTO forge_leaders (role, node_id, current_term, acquired_at)
                    VALUES ('scheduler', gen_random_uuid(), 7, now()) RETURNING role, node_id)
                INSERT INTO forge_leader_leases (role, node_id, lease_until)
                SELECT role, node_id, now() + interval '1 minute' FROM leader
                """).update();
        assertThat(jdbc.sql("SELECT lock_name FROM scheduler_lock WHERE expires_at > now() ORDER BY 1")
                        .query(String.class)
                        .list())
                .containsExactly("import", "leader:scheduler");
    }

    @Test
    void enqueue_from_sql_uses_its_defaults_and_a_time_ordered_id() {
        UUID id = jdbc.sql("SELECT forge_enqueue('process-order')")
                .query(UUID.class)
                .single();
        assertThat(id.version()).isEqualTo(7);
        assertThat(id.variant()).isEqualTo(2);
        assertThat(jdbc.sql("SELECT * FROM forge_jobs").query().singleRow())
                .containsEntry("id", id)
                .containsEntry("status", "pending")
                .containsEntry("priority", 50)
                .containsEntry("attempts", 0)
                .containsEntry("worker_capability", null)
                .containsEntry("max_attempts", null);
    }

    @Test
    void enqueue_from_sql_takes_every_argument_by_name() {
        jdbc.sql("""
                SELECT forge_enqueue(name => 'train', payload => '{"a": 1}', priority => 75, capability => 'gpu',
                    scheduled_at => '2040-01-01T00:00:00Z', unique_key => 'k', max_attempts => 3)
                """).query().listOfRows();
        assertThat(jdbc.sql("""
                        SELECT payload ->> 'a' || ' ' || priority || ' ' || worker_capability || ' '
                            || extract(year FROM scheduled_at AT TIME ZONE 'UTC') || ' ' || unique_key || ' ' || max_attempts
                        FROM forge_jobs
                        """).query(String.class).single()).isEqualTo("1 75 gpu 2040 k 3");
    }

    @Test
    void unique_key_identifies_one_active_job_of_its_name() {
        String enqueue = "SELECT forge_enqueue(?, unique_key => 'order-1')";
        UUID first = jdbc.sql(enqueue).param("ship").query(UUID.class).single();
        assertThat(jdbc.sql(enqueue).param("ship").query(UUID.class).single()).isEqualTo(first);
        assertThat(jdbc.sql(enqueue).param("bill").query(UUID.class).single()).isNotEqualTo(first);
        jdbc.sql("UPDATE forge_jobs SET status = 'completed' WHERE id = ?")
                .param(first)
                .update();
        assertThat(jdbc.sql(enqueue).param("ship").query(UUID.class).single()).isNotEqualTo(first);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '~', textBlock = """
            ''                                                                   | name
            NULL                                                                 | name
            repeat('n', 501)                                                     | name
            E'a\\nb'                                                              | name
            'workflow:order@1'                                                   | Workflows.start
            'a', max_attempts => 0                                               | max_attempts
            'a', scheduled_at => 'infinity'                                      | scheduled_at
            'a', scheduled_at => '1969-12-31'                                    | scheduled_at
            'a', priority => 101                                                 | priority
            'a', priority => -1                                                  | priority
            'a', priority => NULL                                                | priority
            'a', capability => '@leader'                                         | capability
            'a', capability => ''                                                | capability
            'a', unique_key => ' '                                               | unique_key
            'a', unique_key => repeat('k', 501)                                  | unique_key
            'a', unique_key => E'k\\u0085'                                        | unique_key
            'daemon:feed'                                                        | names that begin with daemon:
            'a', unique_key => '@http/x/1'                                       | keys that begin with @http/
            'a', unique_key => 'workflow:0190:3'                                 | keys that begin with workflow:
            'a', NULL                                                            | payload
            'a', unique_for => '1 hour'                                          | unique_for needs a unique_key
            'a', unique_key => 'k', unique_for => '0 hours'                      | unique_for 00:00:00 must lie between
            'a', unique_key => 'k', unique_for => '367 days'                     | unique_for 367 days must lie between
            'a', debounce => '1 s', debounce_max => '1 s'                        | debounce needs a unique_key
            'a', unique_key => 'k', debounce => '1 s'                            | debounce and debounce_max need each other
            'a', unique_key => 'k', debounce_max => '1 s'                        | debounce and debounce_max need each other
            'a', unique_key => 'k', debounce => '2 s', debounce_max => '1 s'     | debounce 00:00:02 must lie between
            'a', unique_key => 'k', debounce => '1 s', debounce_max => '367 days' | must not exceed 366 days
            'a', unique_key => 'k', debounce => '-1 s', debounce_max => '1 s'    | debounce -00:00:01 must lie between
            'a', unique_key => 'k', debounce => '1 s', debounce_max => '1 s', unique_for => '1 s' | exclude each other
            'a', unique_key => 'k', debounce => '1 s', debounce_max => '1 s', scheduled_at => '2900-01-01' | exclude each other
            'a', '{"n": 1e131000}'                                               | 1000 digits
            'a', '{"n": [-1e131000]}'                                            | 1000 digits
            'a', '{"n": 1e-16000}'                                               | 1000 digits
            'a', (SELECT jsonb_agg('1e131000'::jsonb) FROM generate_series(1, 20000)) | 1000 digits
            'a', (SELECT jsonb_agg('1e308'::jsonb) FROM generate_series(1, 20000)) | max-payload-size
            'a', to_jsonb(repeat('x', 2000000))                                  | max-payload-size
            """)
    void enqueue_from_sql_has_the_limits_of_jobs(String arguments, String named) {
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .isThrownBy(() -> jdbc.sql("SELECT forge_enqueue(%s)".formatted(arguments))
                        .query()
                        .listOfRows())
                .withMessageContaining(named);
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs")
                        .query(Integer.class)
                        .single())
                .isZero();
    }

    @Test
    void window_of_sql_outlasts_the_job() {
        String enqueue = "SELECT forge_enqueue('ship', unique_key => 'order-1', unique_for => '1 day')";
        UUID first = jdbc.sql(enqueue).query(UUID.class).single();
        assertThat(jdbc.sql(enqueue).query(UUID.class).single()).isEqualTo(first);
        jdbc.sql("UPDATE forge_jobs SET status = 'completed'").update();
        assertThat(jdbc.sql(enqueue).query(UUID.class).single()).isEqualTo(first);
        assertThat(jdbc.sql("SELECT ends_at - opened_at BETWEEN '23:59:59' AND '24:00:01' FROM forge_job_windows")
                        .query(Boolean.class)
                        .single())
                .isTrue();
        jdbc.sql("UPDATE forge_job_windows SET ends_at = now()").update();
        assertThat(jdbc.sql(enqueue).query(UUID.class).single()).isNotEqualTo(first);
    }

    @Test
    void debounce_of_sql_moves_the_job_and_takes_the_last_payload() {
        String enqueue = """
                SELECT forge_enqueue('ship', ?::jsonb, priority => ?, unique_key => 'order-1', debounce => '1 hour',
                                     debounce_max => '2 hours', max_attempts => 3, job_group => 'g')
                """;
        UUID first = jdbc.sql(enqueue).params("1", 50).query(UUID.class).single();
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
        assertThat(jdbc.sql(enqueue).params("22", 75).query(UUID.class).single())
                .isEqualTo(first);
        assertThat(jdbc.sql("""
                        SELECT concat_ws(' ', payload, priority, max_attempts, job_group,
                                         body_bytes = octet_length(payload::text) + octet_length(metadata::text),
                                         scheduled_at BETWEEN now() + interval '59 minutes' AND now() + interval '1 hour')
                        FROM forge_jobs
                        """).query(String.class).single()).isEqualTo("22 75 3 g t t");
    }

    @Test
    void enqueue_from_sql_takes_larger_payloads_where_the_settings_say_so() {
        jdbc.sql("UPDATE forge_settings SET max_payload_bytes = pg_size_bytes('2MB')")
                .update();
        jdbc.sql("SELECT forge_enqueue('a', to_jsonb(repeat('x', 2000000)))")
                .query()
                .listOfRows();
        jdbc.sql("UPDATE forge_settings SET max_payload_bytes = DEFAULT").update();
        assertThat(jdbc.sql("SELECT body_bytes FROM forge_jobs")
                        .query(Integer.class)
                        .single())
                .isEqualTo(2_000_004);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '~', textBlock = """
            to_jsonb(repeat('x', 20000000))                                        | payload has more than 1048576 bytes
            (SELECT jsonb_agg('1e131000'::jsonb) FROM generate_series(1, 20000))   | 1000 digits
            """)
    void compressed_payload_is_rejected_before_it_is_printed(String payload, String named) {
        // The printed numbers have 2.6 GB, which exceeds the limit of a text.
        assertThatExceptionOfType(DataAccessException.class)
                .isThrownBy(() -> fromTable(payload, "SET LOCAL statement_timeout = '30s'"))
                .withMessageContaining(named);
    }

    @Test
    void compressed_payload_of_a_legitimate_size_is_enqueued_with_its_printed_size() {
        fromTable("jsonb_build_object('text', repeat('x', 900000))", "SET LOCAL statement_timeout = '30s'");
        assertThat(jdbc.sql("SELECT body_bytes FROM forge_jobs")
                        .query(Integer.class)
                        .single())
                .isEqualTo(900_014);
    }

    /** Enqueues a payload that was read from a table, where PostgreSQL compresses it. */
    private void fromTable(String payload, String setting) {
        try (Connection connection = database.dataSource().getConnection();
                Statement statement = connection.createStatement()) {
            connection.setAutoCommit(false);
            try {
                statement.execute("CREATE TEMP TABLE outbox (payload jsonb) ON COMMIT DROP");
                statement.execute("INSERT INTO outbox SELECT " + payload);
                try (ResultSet compressed =
                        statement.executeQuery("SELECT FROM outbox WHERE pg_column_compression(payload) IS NOT NULL")) {
                    assertThat(compressed.next()).isTrue();
                }
                statement.execute(setting);
                statement.execute("SELECT forge_enqueue('a', payload) FROM outbox");
                connection.commit();
            } catch (SQLException e) {
                connection.rollback();
                throw new UncategorizedSQLException("enqueue from a table", null, e);
            }
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '~', textBlock = """
            INSERT INTO forge_jobs (id, name) VALUES (gen_random_uuid(), '')                             | forge_jobs_name
            INSERT INTO forge_jobs (id, name) VALUES (gen_random_uuid(), repeat('n', 1001))              | forge_jobs_name
            INSERT INTO forge_jobs (id, name) VALUES (gen_random_uuid(), E'a\\nb')                        | forge_jobs_name
            INSERT INTO forge_jobs (id, name, unique_key) VALUES (gen_random_uuid(), 'a', E'\\x1b[0m')    | forge_jobs_key
            INSERT INTO forge_jobs (id, name, status) VALUES (gen_random_uuid(), 'a', 'done')            | forge_jobs_status
            INSERT INTO forge_jobs (id, name, scheduled_at) VALUES (gen_random_uuid(), 'a', '1969-12-31') | forge_jobs_time
            INSERT INTO forge_jobs (id, name, priority) VALUES (gen_random_uuid(), 'a', 1000)            | forge_jobs_priority
            INSERT INTO forge_jobs (id, name, unique_key) VALUES (gen_random_uuid(), 'a', repeat('k', 501)) | forge_jobs_key
            INSERT INTO forge_jobs (id, name, worker_capability) VALUES (gen_random_uuid(), 'a', repeat('c', 501)) | forge_jobs_capability
            INSERT INTO forge_jobs (id, name, retention) VALUES (gen_random_uuid(), 'a', '1001 years')   | forge_jobs_retention
            INSERT INTO forge_leaders (role, current_term) VALUES ('a', 9223372036854775807)             | forge_counter
            INSERT INTO forge_leaders (role, current_term) VALUES ('a', -1)                              | forge_counter
            INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, wake_seq) VALUES (gen_random_uuid(), 'a', '1', 9223372036854775807) | forge_counter
            INSERT INTO forge_nodes (id, node_key, name, hostname, roles, version, stale_at, dead_at, beats) VALUES (gen_random_uuid(), 'a', 'a', 'a', '{}', '1', now(), now(), 9223372036854775807) | forge_counter
            INSERT INTO forge_workflow_signals (id, run_id, name) VALUES (gen_random_uuid(), gen_random_uuid(), E'\\n') | forge_workflow_signals_name
            """)
    void rows_with_unusable_values_are_rejected(String insert, String constraint) {
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .isThrownBy(() -> jdbc.sql(insert).update())
                .withMessageContaining(constraint);
    }

    @Test
    void node_key_belongs_to_one_live_node() {
        node("same", "0 seconds", "10 seconds");
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .isThrownBy(() -> node("same", "0 seconds", "10 seconds"));
        jdbc.sql("UPDATE forge_nodes SET status = 'dead'").update();
        node("same", "0 seconds", "10 seconds");
    }
}
