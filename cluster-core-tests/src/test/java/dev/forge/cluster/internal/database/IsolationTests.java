// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static dev.forge.cluster.internal.PatientAwaits.awaitOften;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.UniqueJobStore;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings.SignalLimits;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore.NewSignal;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore.SendResult;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Statements on a database whose default isolation level is REPEATABLE READ. */
@ClusterPostgres
class IsolationTests {

    private final TestDatabase database;
    private final Schema schema;

    IsolationTests(TestDatabase database) {
        this.database = database;
        this.schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
    }

    private void execute(String sql) {
        database.jdbc().sql(sql).update();
    }

    @BeforeEach
    void makeSnapshotsTheDefault() {
        execute("ALTER DATABASE %s SET default_transaction_isolation = 'repeatable read'".formatted(database.name()));
        database.endIdleSessions();
    }

    @AfterEach
    void reset() {
        execute("ALTER DATABASE %s RESET default_transaction_isolation".formatted(database.name()));
        database.endIdleSessions();
    }

    /** Runs a call that waits for a row which another transaction changes and commits meanwhile. */
    private <T> T whileChanged(String change, Callable<T> call) throws Exception {
        var threads = Executors.newSingleThreadExecutor();
        try (Connection other = database.dataSource().getConnection()) {
            other.setAutoCommit(false);
            other.createStatement().execute(change);
            Future<T> waiting = threads.submit(call);
            // A control connection waits for one second at most.
            awaitOften()
                    .until(() -> database.jdbc().sql("""
                    SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)
                                   WHERE NOT granted AND datname = current_database())
                    """).query(Boolean.class).single());
            other.commit();
            return waiting.get(1, TimeUnit.MINUTES);
        } finally {
            threads.shutdownNow();
        }
    }

    @ParameterizedTest
    @EnumSource
    void lock_that_is_taken_meanwhile_causes_no_error(Pooler pooler) throws Exception {
        try (var control = new ControlConnections(database.newSessions(), pooler, 1, Duration.ofSeconds(2))) {
            var locks = new LockStore(schema, control);
            locks.take("import", UUID.randomUUID(), Duration.ofMinutes(1));
            execute("UPDATE forge_locks SET expires_at = clock_timestamp() - interval '1 minute'");
            String change = "UPDATE forge_locks SET expires_at = clock_timestamp() + interval '1 minute'";
            assertThat(whileChanged(change, () -> locks.take("import", UUID.randomUUID(), Duration.ofMinutes(1))))
                    .isEmpty();
        }
    }

    @ParameterizedTest
    @EnumSource
    void control_connection_is_read_committed(Pooler pooler) throws SQLException {
        try (var control = new ControlConnections(database.newSessions(), pooler, 1, Duration.ofSeconds(2))) {
            assertThat(JdbcClient.create(control)
                            .sql("SHOW transaction_isolation")
                            .query(String.class)
                            .single())
                    .isEqualTo("read committed");
        }
    }

    @Test
    void session_connection_is_read_committed() {
        try (var session = SessionConnection.open(database.dataSource(), schema, UUID.randomUUID())) {
            assertThat(JdbcClient.create(session.source())
                            .sql("SHOW transaction_isolation")
                            .query(String.class)
                            .single())
                    .isEqualTo("read committed");
        }
    }

    @Test
    void signal_to_a_run_that_changes_meanwhile_causes_no_error() throws Exception {
        UUID run = UUID.randomUUID();
        database.jdbc()
                .sql(
                        "INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version) VALUES (?, ?, 'a', '1')")
                .params(run, run)
                .update();
        var store = new WorkflowSignalStore(schema, database.dataSource());
        assertThat(whileChanged(
                        "UPDATE forge_workflow_runs SET updated_at = clock_timestamp()",
                        () -> store.send(run, new NewSignal(UUID.randomUUID(), "go", null), new SignalLimits(1, 0))))
                .isEqualTo(new SendResult.Sent(false));
    }

    @Test
    void key_that_is_taken_meanwhile_causes_no_error() {
        var jobs = new UniqueJobStore(schema, database.dataSource());
        NewJob other = job();
        new CallerTransaction(database.dataSource()).inOne(() -> {
            jobs.insertUnique(job(), "first", UniquePolicy.KEEP);
            // Another data source, because that of the transaction would return its connection.
            JdbcClient.create(new DriverManagerDataSource(database.url(), database.username(), database.password()))
                    .sql("INSERT INTO forge_jobs (id, name, unique_key) VALUES (?, 'order', 'second')")
                    .param(other.id())
                    .update();
            assertThat(jobs.insertUnique(job(), "second", UniquePolicy.KEEP)).isEqualTo(other.id());
        });
    }

    private static NewJob job() {
        return new NewJob(UUID.randomUUID(), "order", "{}", 50, null, 0, null, null, "{}", null, List.of());
    }
}
