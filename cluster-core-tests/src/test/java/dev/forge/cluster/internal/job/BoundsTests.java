// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronRejectedException;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.state.DefaultClusterStateStore;
import dev.forge.cluster.internal.state.StateStore;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UnknownJobException;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** Values that expand when printed, rows that cannot be read, and more data than a node can hold. */
@ClusterPostgres
class BoundsTests {

    private static final BigDecimal EXPANDING = new BigDecimal("1e131000");

    record Order(String item, int quantity) {}

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestJobs work;
    private final TestWorkflows flows;

    BoundsTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = new TestJobs(database.dataSource());
        this.flows = new TestWorkflows(cluster);
    }

    @AfterEach
    void close() {
        cluster.close();
        jdbc.sql("DROP CAST IF EXISTS (jsonb AS text)").update();
    }

    // Numbers that expand

    @Test
    void numbers_that_expand_are_rejected_as_payload() {
        work.on(job("order").taking(Map.class), (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(() -> member.jobs().enqueueNamed("order", Map.of("n", EXPANDING)))
                .withMessageContainingAll("order", "131001 digits", "1000");
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(() -> member.jobs().enqueueNamed("order", Map.of("n", new BigDecimal("1e-16000"))))
                .withMessageContaining("digits");
        // 140 kB of JSON, 6 MB as PostgreSQL prints it.
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(() -> member.jobs().enqueueNamed("order", Map.of("n", Collections.nCopies(20_000, 1e308))))
                .withMessageContaining("forge.cluster.job.max-payload-size");
        UUID ordinary = member.jobs()
                .enqueueNamed("order", Map.of("n", List.of(Double.MAX_VALUE, Double.MIN_VALUE), "text", "1e131000"))
                .id();
        assertThat(member.ended(ordinary).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void result_that_expands_fails_its_job_and_no_other() {
        work.on(
                job("order").taking(Order.class).attempts(1),
                (payload, context) -> ((Order) payload).quantity() == 5 ? EXPANDING : payload);
        work.on(job("checkpoint").attempts(1), (payload, context) -> {
            context.checkpoint(EXPANDING);
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        List<UUID> ids =
                member
                        .jobs()
                        .enqueueAll(IntStream.range(0, 10)
                                .mapToObj(i -> new Order("a", i))
                                .toList())
                        .stream()
                        .map(EnqueuedJob::id)
                        .toList();
        UUID checkpoint = member.jobs().enqueueNamed("checkpoint", null).id();
        for (int i = 0; i < ids.size(); i++) {
            JobInfo job = member.ended(ids.get(i));
            assertThat(job.status()).as("%d", i).isEqualTo(i == 5 ? JobStatus.FAILED : JobStatus.COMPLETED);
        }
        assertThat(member.jobs().find(ids.get(5)).orElseThrow().lastError()).contains("131001 digits");
        assertThat(member.ended(checkpoint).lastError()).contains("131001 digits");
    }

    @Test
    void numbers_that_expand_are_rejected_as_state_and_cron_payload() {
        work.on("report", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        var states = new DefaultClusterStateStore(
                member.node(),
                new StateStore(cluster.schema, database.dataSource(), member.control()),
                new TestJobs.Json(),
                1 << 20);
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(() -> states.putOnce("key", EXPANDING, Duration.ofMinutes(1)))
                .withMessageContaining("digits");
        assertThatExceptionOfType(CronRejectedException.class)
                .isThrownBy(() -> member.crons()
                        .create(CronDefinition.cron("nightly", "0 3 * * *")
                                .withHandler("report")
                                .withPayload(Map.of("n", EXPANDING))))
                .withMessageContaining("digits");
    }

    @Test
    void numbers_that_expand_are_rejected_by_workflows() {
        flows.on("order", Object.class, (wf, input) -> wf.awaitSignal("go", Object.class));
        flows.on("step", wf -> wf.step("large", BigDecimal.class, () -> EXPANDING));
        TestWorkflows.Member one = flows.start("one");
        assertThatExceptionOfType(WorkflowRejectedException.class)
                .isThrownBy(() -> one.workflows().start("order", EXPANDING))
                .withMessageContaining("digits");
        UUID run = one.workflows().start("order", 1);
        assertThatExceptionOfType(WorkflowRejectedException.class)
                .isThrownBy(() -> one.workflows().signal(run, "go", EXPANDING))
                .withMessageContaining("digits");
        WorkflowInfo failed = one.ended(one.workflows().start("step", null));
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).contains("digits");
    }

    // Rows that cannot be read

    /** Makes claims fail that read a payload with the member {@code poison}, as if its page were damaged. */
    private void poison() {
        poison("XX001", "true");
    }

    private void poison(String state, String condition) {
        jdbc.sql("""
                CREATE OR REPLACE FUNCTION poisoned(value jsonb) RETURNS text LANGUAGE plpgsql AS $$
                BEGIN
                    IF jsonb_exists(value, 'poison') AND %s THEN
                        RAISE EXCEPTION 'missing chunk number 0 for toast value' USING ERRCODE = '%s';
                    END IF;
                    RETURN textin(jsonb_out(value));
                END $$
                """.formatted(condition, state)).update();
        jdbc.sql("CREATE CAST (jsonb AS text) WITH FUNCTION poisoned(jsonb)").update();
    }

    /** Removes the pauses between recoveries. */
    private void hurry() {
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE status = 'pending' AND scheduled_at > now()")
                .update();
    }

    @Test
    void row_that_cannot_be_read_is_abandoned_with_a_reason_and_other_jobs_run() {
        work.poll = Duration.ofMillis(100);
        var done = new AtomicInteger();
        work.on("order", context -> done.incrementAndGet());
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().pause("order");
        var good = new ArrayList<UUID>();
        UUID bad = null;
        for (int i = 0; i < 20; i++) {
            if (i == 7) {
                bad = member.jobs()
                        .enqueueNamed("order", Map.of("poison", true))
                        .id();
            }
            good.add(member.jobs().enqueueNamed("order", null).id());
        }
        poison();
        member.jobs().resume("order");
        await().untilAsserted(() -> assertThat(done).hasValue(20));
        UUID unreadable = bad;
        await().untilAsserted(() -> {
            hurry();
            assertThat(jdbc.sql("SELECT status FROM forge_jobs WHERE id = ?")
                            .param(unreadable)
                            .query(String.class)
                            .single())
                    .isEqualTo("abandoned");
        });
        assertThat(jdbc.sql("SELECT last_error FROM forge_jobs WHERE id = ?")
                        .param(unreadable)
                        .query(String.class)
                        .single())
                .contains("cannot be read", "missing chunk number");
        assertThat(jdbc.sql("SELECT attempts FROM forge_jobs WHERE id = ?")
                        .param(unreadable)
                        .query(Integer.class)
                        .single())
                .as("attempts spent")
                .isZero();
        good.forEach(id -> assertThat(member.ended(id).recoveries()).isZero());
    }

    @Test
    void row_that_is_too_large_for_a_node_is_abandoned_with_a_reason_and_other_jobs_run() {
        work.poll = Duration.ofMillis(100);
        work.on("order", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID large = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, payload, priority)
                VALUES (?, 'order', jsonb_build_object('text', repeat('x', 20000000)), 100)
                """).param(large).update();
        UUID good = member.jobs().enqueueNamed("order", null).id();
        assertThat(member.ended(good).status()).isEqualTo(JobStatus.COMPLETED);
        await().untilAsserted(() -> {
            hurry();
            assertThat(member.jobs().find(large).orElseThrow().status()).isEqualTo(JobStatus.ABANDONED);
        });
        assertThat(member.jobs().find(large).orElseThrow().lastError()).contains("20000014 bytes");
    }

    @Test
    void transient_database_failure_counts_against_no_job() {
        work.poll = Duration.ofMillis(100);
        work.heartbeat = Duration.ofMillis(100);
        work.on("order", context -> {});
        jdbc.sql("CREATE SEQUENCE reads").update();
        // The error of a statement timeout or of a server that shuts down.
        poison("57014", "nextval('reads') > 0");
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = UUID.randomUUID();
        // The size of the payload is unknown, so that it is read separately from its claim.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, payload)
                VALUES (?, 'order', jsonb_build_object('poison', repeat('x', 2000)))
                """).param(id).update();
        await().until(() ->
                jdbc.sql("SELECT is_called FROM reads").query(Boolean.class).single());
        jdbc.sql("DROP CAST (jsonb AS text)").update();
        // This node does not know of its claim, and releases it later.
        await().untilAsserted(() -> {
            jdbc.sql("UPDATE forge_jobs SET claimed_at = claimed_at - interval '1 minute' WHERE id = ?")
                    .param(id)
                    .update();
            assertThat(member.jobs().find(id).orElseThrow().status()).isEqualTo(JobStatus.COMPLETED);
        });
        JobInfo job = member.jobs().find(id).orElseThrow();
        assertThat(job.recoveries()).isZero();
        assertThat(job.attempts()).isOne();
        assertThat(job.lastError()).isNull();
        assertThat(member.engine().unreadableJobs()).isZero();
        jdbc.sql("DROP SEQUENCE reads").update();
    }

    @Test
    void row_that_cannot_be_written_blocks_neither_the_death_of_its_node_nor_other_jobs() {
        work.sweep = Duration.ofMillis(200);
        work.on("order", context -> {});
        UUID dead = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                VALUES (?, 'dead', 'dead', 'host', '{worker}', 'active', '1', now() + interval '100 milliseconds',
                        now() + interval '200 milliseconds')
                """).param(dead).update();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, worker_id, claim_epoch, attempts, lease_expires_at)
                SELECT gen_random_uuid(), CASE n WHEN 5 THEN 'broken' ELSE 'order' END, 'running', ?, 1, 1, 'infinity'
                FROM generate_series(1, 20) AS n
                """).param(dead).update();
        jdbc.sql("""
                CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'index is corrupted' USING ERRCODE = 'index_corrupted'; END $$
                """).update();
        jdbc.sql("""
                CREATE TRIGGER refuse BEFORE UPDATE ON forge_jobs FOR EACH ROW WHEN (OLD.name = 'broken')
                EXECUTE FUNCTION refuse()
                """).update();
        try {
            cluster.start("one", work, UnaryOperator.identity());
            await().until(() -> cluster.status("dead").equals("dead"));
            await().until(() ->
                    jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'order' AND status = 'completed'")
                                    .query(Long.class)
                                    .single()
                            == 19);
            assertThat(jdbc.sql("SELECT status FROM forge_jobs WHERE name = 'broken'")
                            .query(String.class)
                            .single())
                    .isEqualTo("running");
        } finally {
            jdbc.sql("DROP TRIGGER refuse ON forge_jobs").update();
            jdbc.sql("DROP FUNCTION refuse").update();
        }
    }

    @Test
    void queue_whose_claims_fail_blocks_no_other_queue() {
        work.poll = Duration.ofMillis(100);
        work.on("broken", context -> {});
        work.on("order", context -> {});
        work.on("slow-order", context -> {});
        refuseClaims("broken");
        try {
            Member member = cluster.start("one", work, UnaryOperator.identity());
            UUID broken = member.jobs()
                    .enqueueNamed("broken", null, JobOptions.defaults().withPriority(JobPriority.CRITICAL))
                    .id();
            await().untilAsserted(
                            () -> assertThat(member.engine().claimProblem()).contains("index is corrupted"));
            List<UUID> others = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                others.add(member.jobs()
                        .enqueueNamed(i % 2 == 0 ? "order" : "slow-order", null)
                        .id());
            }
            others.forEach(id -> assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED));
            assertThat(member.jobs().find(broken).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            // No problem is reported while the node has no contact with the database.
            await().untilAsserted(
                            () -> assertThat(member.engine().claimProblem()).contains("'broken'"));
            jdbc.sql("DROP TRIGGER refuse ON forge_jobs").update();
            assertThat(member.ended(broken).status()).isEqualTo(JobStatus.COMPLETED);
            await().untilAsserted(
                            () -> assertThat(member.engine().claimProblem()).isNull());
        } finally {
            jdbc.sql("DROP TRIGGER IF EXISTS refuse ON forge_jobs").update();
            jdbc.sql("DROP FUNCTION refuse").update();
        }
    }

    /** Returns a data source on which complete searches fail with a timeout. */
    private DataSource withoutWholeLooks() {
        return new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                return (Connection) Proxy.newProxyInstance(
                        BoundsTests.class.getClassLoader(),
                        new Class<?>[] {Connection.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("prepareStatement")
                                    && arguments[0].toString().contains("RECURSIVE gap")) {
                                throw new SQLException("canceling statement due to user request", "57014");
                            }
                            try {
                                return method.invoke(connection, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getTargetException();
                            }
                        });
            }
        };
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void failure_of_a_queue_without_jobs_is_cleared(boolean completeSearches) {
        work.poll = Duration.ofMillis(100);
        work.on("broken", context -> {});
        refuseClaims("broken");
        try {
            Member member = cluster.start(
                    "one",
                    completeSearches ? database.dataSource() : withoutWholeLooks(),
                    work,
                    UnaryOperator.identity());
            UUID broken = member.jobs().enqueueNamed("broken", null).id();
            await().untilAsserted(
                            () -> assertThat(member.engine().claimProblem()).contains("'broken'"));
            assertThat(member.jobs().cancel(broken)).isTrue();
            await().untilAsserted(
                            () -> assertThat(member.engine().claimProblem()).isNull());
        } finally {
            jdbc.sql("DROP FUNCTION refuse CASCADE").update();
        }
    }

    private void refuseClaims(String name) {
        jdbc.sql("""
                CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'index is corrupted' USING ERRCODE = 'index_corrupted'; END $$
                """).update();
        jdbc.sql("""
                CREATE TRIGGER refuse BEFORE UPDATE OF worker_id ON forge_jobs FOR EACH ROW
                WHEN (OLD.name = '%s' AND NEW.worker_id IS NOT NULL) EXECUTE FUNCTION refuse()
                """.formatted(name)).update();
    }

    // Rows that take long to delete

    @Test
    void rows_that_cannot_be_deleted_together_in_time_are_deleted_in_smaller_batches() {
        jdbc.sql("""
                CREATE FUNCTION take_too_long() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF (SELECT count(*) > 100 FROM deleted) THEN
                        RAISE query_canceled USING MESSAGE = 'canceling statement due to statement timeout';
                    END IF;
                    RETURN NULL;
                END $$
                """).update();
        List<String> tables = List.of("forge_jobs", "forge_cron_runs", "forge_workflow_runs");
        try {
            TestWorkflows.Member one = flows.start("one");
            await().until(() -> one.member().leadership().isLeader(Leadership.LOG_COMPACTOR));
            tables.forEach(table -> jdbc.sql("""
                    CREATE TRIGGER take_too_long AFTER DELETE ON %s REFERENCING OLD TABLE AS deleted
                    FOR EACH STATEMENT EXECUTE FUNCTION take_too_long()
                    """.formatted(table)).update());
            jdbc.sql("""
                    INSERT INTO forge_jobs (id, name, status, finished_at)
                    SELECT gen_random_uuid(), 'old', 'completed', now() - interval '100 days' FROM generate_series(1, 700)
                    """).update();
            jdbc.sql("""
                    INSERT INTO forge_cron_runs (cron, slot, outcome, fired_at)
                    SELECT 'old', now() - n * interval '100 days', 'ran', now() - interval '100 days'
                    FROM generate_series(1, 700) AS n
                    """).update();
            jdbc.sql("""
                    INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, status, finished_at)
                    SELECT gen_random_uuid(), 'old', '1', 'completed', now() - interval '100 days'
                    FROM generate_series(1, 700)
                    """).update();
            one.member().engine().cleanUp();
            one.member().cronEngine().cleanUp();
            one.engine().cleanUp();
            tables.forEach(table -> assertThat(jdbc.sql("SELECT count(*) FROM " + table)
                            .query(Long.class)
                            .single())
                    .as(table)
                    .isZero());
        } finally {
            jdbc.sql("DROP FUNCTION take_too_long CASCADE").update();
        }
    }

    // Many names

    @Test
    void unknown_name_is_rejected_with_a_short_list_of_registered_ones() {
        work.on("zebra", context -> {});
        jdbc.sql(
                        "INSERT INTO forge_jobs (id, name) SELECT gen_random_uuid(), 'junk-' || n FROM generate_series(1, 3000) n")
                .update();
        jdbc.sql("INSERT INTO forge_job_names (name) SELECT 'former-' || n FROM generate_series(1, 3000) n")
                .update();
        Member member = cluster.start("one", work, UnaryOperator.identity());
        assertThatExceptionOfType(UnknownJobException.class)
                .isThrownBy(() -> member.jobs().enqueueNamed("missing", null))
                .satisfies(e -> assertThat(e.getMessage())
                        .contains("'missing'", "zebra", "more")
                        .hasSizeLessThan(2_000));
        assertThatExceptionOfType(UnknownJobException.class)
                .as("a name that only jobs enqueued with SQL have")
                .isThrownBy(() -> member.jobs().enqueueNamed("junk-2999", null));
        assertThat(member.jobs().enqueueNamed("former-2999", null)).isNotNull();
    }

    // Signals and histories

    @Test
    void unconsumed_signals_are_limited_in_number_and_size() {
        flows.limits = new WorkflowSettings.Limits(new WorkflowSettings.SignalLimits(100, 3_500_000), 32 << 20);
        flows.on("order", wf -> wf.awaitSignal("go", String.class));
        TestWorkflows.Member one = flows.start("one");
        UUID run = one.workflows().start("order", null);
        one.await(run, WorkflowStatus.WAITING);
        for (int i = 0; i < 100; i++) {
            assertThat(one.workflows().signal(run, "noise", null)).isTrue();
        }
        assertThatExceptionOfType(WorkflowRejectedException.class)
                .isThrownBy(() -> one.workflows().signal(run, "noise", null))
                .withMessageContainingAll(run.toString(), "forge.cluster.workflow.max-pending-signals (100)");
        assertThat(one.workflows().signal(run, "go", "awaited")).isTrue();
        assertThat(one.ended(run).result()).isEqualTo("\"awaited\"");
        UUID other = one.workflows().start("order", null);
        one.await(other, WorkflowStatus.WAITING);
        String large = "x".repeat(1_000_000);
        for (int i = 0; i < 3; i++) {
            assertThat(one.workflows().signal(other, "noise", large)).isTrue();
        }
        assertThatExceptionOfType(WorkflowRejectedException.class)
                .isThrownBy(() -> one.workflows().signal(other, "noise", large))
                .withMessageContainingAll(other.toString(), "forge.cluster.workflow.max-pending-signals-size");
        assertThat(one.workflows().signal(other, "go", "small")).isTrue();
        assertThat(one.ended(other).status()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void large_signal_is_read_when_it_is_consumed() {
        String large = "x".repeat(500_000);
        flows.on("order", wf -> wf.awaitSignal("go", String.class).length());
        TestWorkflows.Member one = flows.start("one");
        UUID run = one.workflows().start("order", null);
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().signal(run, "go", large);
        one.ended(run);
        assertThat(one.workflows().result(run, int.class)).contains(500_000);
    }

    @Test
    void run_whose_recorded_results_outgrow_the_limit_fails_with_a_reason() {
        String large = "x".repeat(1_000_000);
        flows.limits = new WorkflowSettings.Limits(WorkflowSettings.Limits.DEFAULTS.signals(), 4_500_000);
        flows.on("order", wf -> {
            for (int i = 0; i < 6; i++) {
                wf.step("step " + i, String.class, () -> large);
            }
            return null;
        });
        TestWorkflows.Member one = flows.start("one");
        WorkflowInfo failed = one.ended(one.workflows().start("order", null));
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).contains("forge.cluster.workflow.max-history-size");
        assertThat(failed.steps()).hasSizeBetween(4, 5);
    }
}
