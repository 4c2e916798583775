// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;
import static org.assertj.core.api.Assertions.tuple;

import dev.forge.cluster.Page;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.TableReads;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.JobQueueStore;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RunClaim;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.WriteResult;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.End;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.Wait;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings.SignalLimits;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore.NewSignal;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore.SendResult;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.IntStream;
import javax.sql.DataSource;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Rows of workflows that several transactions write at once, and the cost of reading many of them. */
@ClusterPostgres
class WorkflowStoreTests {

    /** Starts a thread per task: the common pool has a single thread on two cores, and the tasks wait for each other. */
    private static final Executor NEW_THREAD = task -> new Thread(task).start();

    private static final UUID NODE = UUID.randomUUID();

    private final TestDatabase database;
    private final Schema schema;
    private final JdbcClient jdbc;

    private final WorkflowRunStore runStore;
    private final WorkflowHistoryStore history;
    private final WorkflowSignalStore signals;
    private final WorkflowCommandStore commands;
    private final WorkflowBatches batches;
    private final WorkflowKeeping keeping;

    WorkflowStoreTests(TestDatabase database) {
        this.database = database;
        this.schema = Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
        this.jdbc = database.jdbc();
        DataSource source = database.dataSource();
        this.runStore = new WorkflowRunStore(schema, source);
        this.history = new WorkflowHistoryStore(schema, source);
        this.signals = new WorkflowSignalStore(schema, source);
        this.commands = new WorkflowCommandStore(schema, source);
        this.batches = new WorkflowBatches(schema, source);
        this.keeping = new WorkflowKeeping(schema, source);
        database.clear();
    }

    private List<UUID> running(int count) {
        jdbc.sql("""
                WITH run AS (
                    INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version)
                    SELECT id, id, 'race', '1' FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, ?)) AS ids
                    RETURNING id)
                INSERT INTO forge_jobs (id, name, status, worker_id, claim_epoch, attempts, lease_expires_at)
                SELECT id, 'workflow:race@1', 'running', ?, 1, 1, now() + interval '1 hour' FROM run
                """).params(count, NODE).update();
        return jdbc.sql("SELECT id FROM forge_workflow_runs ORDER BY id")
                .query(UUID.class)
                .list();
    }

    private static RunClaim claim(UUID run) {
        return new RunClaim(new ClaimKey(run, 1), NODE);
    }

    private static Wait forSignal(long seen) {
        StepRow row = StepRow.of(0, "go", "signal", "waiting");
        return new Wait(List.of(row), null, "go", null, null, null, seen, false);
    }

    @Test
    void large_payload_of_a_signal_is_not_read_with_its_run() {
        var limits = new SignalLimits(10, 10_000_000);
        UUID run = running(1).get(0);
        signals.send(run, new NewSignal(UUID.randomUUID(), "large", "\"%s\"".formatted("x".repeat(1_000_000))), limits);
        signals.send(run, new NewSignal(UUID.randomUUID(), "small", "1"), limits);
        signals.send(run, new NewSignal(UUID.randomUUID(), "none", null), limits);
        List<RecordedRun.Signal> read = history.load(claim(run)).orElseThrow().signals();
        assertThat(read)
                .extracting(RecordedRun.Signal::name, RecordedRun.Signal::payload, RecordedRun.Signal::isPayloadRead)
                .containsExactly(tuple("large", null, false), tuple("small", "1", true), tuple("none", null, true));
        assertThat(signals.payload(read.get(0).id())).hasSize(1_000_002);
        assertThat(signals.send(run, new NewSignal(UUID.randomUUID(), "more", null), new SignalLimits(3, 0)))
                .isEqualTo(new SendResult.LimitReached(3, 1_000_003));
    }

    @Test
    void run_with_too_many_descendants_is_not_cancelled_in_part() {
        UUID parent = running(1).get(0);
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version, parent_id)
                SELECT gen_random_uuid(), gen_random_uuid(), 'race', '1', ? FROM generate_series(1, 100001)
                """).param(parent).update();
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
            try {
                commands.cancel(parent, "enough");
                fail("cancelled");
            } catch (WorkflowRejectedException e) {
                assertThat(e).hasMessageContaining("more than 100000 descendants");
            }
        });
        assertThat(jdbc.sql("SELECT count(*) FROM forge_workflow_runs WHERE unwinding")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    private static NewSignal signal(String name, String payload) {
        return new NewSignal(UUID.randomUUID(), name, payload);
    }

    private long wakeSeq(UUID run) {
        return jdbc.sql("SELECT wake_seq FROM forge_workflow_runs WHERE id = ?")
                .param(run)
                .query(Long.class)
                .single();
    }

    @Test
    void awaited_signal_is_accepted_however_many_others_wait() {
        for (var limits : List.of(new SignalLimits(2, 1_000), new SignalLimits(1_000, 2))) {
            database.clear();
            UUID run = running(1).get(0);
            signals.send(run, signal("noise", "1"), limits);
            signals.send(run, signal("noise", "2"), limits);
            assertThat(signals.send(run, signal("go", "3"), limits)).isEqualTo(new SendResult.LimitReached(2, 2));
            assertThat(wakeSeq(run)).as("accepted signals").isEqualTo(2);
            assertThat(runStore.suspend(claim(run), forSignal(2), () -> {})).isTrue();
            assertThat(signals.send(run, signal("noise", "3"), limits)).isEqualTo(new SendResult.LimitReached(2, 2));
            assertThat(signals.send(run, signal("go", "3"), limits)).isEqualTo(new SendResult.Sent(true));
            assertThat(signals.send(run, signal("go", "4"), limits))
                    .as("second signal of the awaited name")
                    .isEqualTo(new SendResult.LimitReached(3, 3));
            assertThat(wakeSeq(run)).isEqualTo(3);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {9223372036854775807L, 1000000000000000000L, 999999999999999999L})
    void signal_wakes_a_run_at_any_value_of_its_counter(long counter) {
        var limits = new SignalLimits(10, 1_000);
        UUID run = running(1).get(0);
        try {
            jdbc.sql("UPDATE forge_workflow_runs SET wake_seq = ?")
                    .param(counter)
                    .update();
        } catch (DataIntegrityViolationException e) {
            assertThat(counter).as("a counter that cannot be written").isGreaterThan(1000000000000000000L);
            return;
        }
        assertThat(signals.send(run, signal("go", null), limits)).isInstanceOf(SendResult.Sent.class);
        assertThat(wakeSeq(run)).isNotEqualTo(counter).isNotNegative();
        // The execution has not seen the signal, so the run is not suspended.
        assertThat(runStore.suspend(claim(run), forSignal(counter), () -> {})).isTrue();
        assertThat(jdbc.sql("SELECT scheduled_at = 'infinity' FROM forge_jobs")
                        .query(Boolean.class)
                        .single())
                .as("suspended")
                .isFalse();
        assertThat(commands.cancel(run, "no longer wanted").runs()).containsExactly(run);
    }

    @Test
    void rejected_signal_does_not_wake_a_run_that_is_being_suspended() {
        var limits = new SignalLimits(1, 1_000);
        UUID run = running(1).get(0);
        signals.send(run, signal("noise", null), limits);
        assertThat(signals.send(run, signal("noise", null), limits)).isInstanceOf(SendResult.LimitReached.class);
        runStore.suspend(claim(run), forSignal(1), () -> {});
        assertThat(jdbc.sql("SELECT scheduled_at = 'infinity' FROM forge_jobs")
                        .query(Boolean.class)
                        .single())
                .as("suspended")
                .isTrue();
    }

    @Test
    void large_run_is_read_with_a_statement_of_its_own() {
        List<UUID> runs = running(5);
        String large = "\"%s\"".formatted("x".repeat(60_000));
        for (int i = 0; i < 2; i++) {
            // Like an execution that is drained before its run waits.
            history.record(
                    claim(runs.get(0)),
                    List.of(StepRow.of(i, "large", "step", "completed").withResult("completed", large)),
                    null);
        }
        var limits = new SignalLimits(1_000, 1_000_000);
        String small = "\"%s\"".formatted("x".repeat(900));
        for (int i = 0; i < 150; i++) {
            signals.send(runs.get(1), signal("noise", small), limits);
        }
        jdbc.sql("""
                INSERT INTO forge_workflow_steps (run_id, position, name, status, result)
                VALUES (?, 0, 'by hand', 'completed', '1')
                """).param(runs.get(2)).update();
        jdbc.sql("UPDATE forge_workflow_runs SET input = '1' WHERE id = ?")
                .param(runs.get(3))
                .update();
        history.record(
                claim(runs.get(4)),
                List.of(StepRow.of(0, "small", "step", "completed").withResult("completed", "1")),
                null);
        assertThat(batches.load(runs.stream().map(WorkflowStoreTests::claim).toList()))
                .containsOnlyKeys(claim(runs.get(4)));
    }

    private String stepStatus(UUID run) {
        return jdbc.sql(
                        "SELECT concat_ws(' ', status, attempts, compensation_attempts) FROM forge_workflow_steps WHERE run_id = ?")
                .param(run)
                .query(String.class)
                .single();
    }

    @Test
    void late_failure_does_not_replace_the_recorded_outcome_of_a_step() {
        List<UUID> runs = running(2);
        StepRow begun = StepRow.of(0, "pay", "step", "retrying");
        StepRow done = begun.withError("completed", 1, null).withResult("completed", "1");
        StepRow undone = done.withCompensation("compensated", 1, null, null);
        for (UUID run : runs) {
            boolean alone = run.equals(runs.get(0));
            Function<StepRow, WriteResult> write = row -> alone
                    ? history.record(claim(run), List.of(row), null)
                    : batches.record(Map.of(claim(run), List.of(row))).get(claim(run));
            assertThat(write.apply(begun.withError("retrying", 1, "first"))).isEqualTo(WriteResult.WRITTEN);
            assertThat(write.apply(done.withError("completed", 2, null))).isEqualTo(WriteResult.WRITTEN);
            assertThat(write.apply(begun.withError("failed", 2, "late"))).isEqualTo(WriteResult.SUPERSEDED);
            assertThat(stepStatus(run)).isEqualTo("completed 2 0");
            assertThat(write.apply(done.withCompensation("completed", 1, "cannot be undone yet", null)))
                    .isEqualTo(WriteResult.WRITTEN);
            assertThat(write.apply(undone))
                    .as("by an attempt that was counted before")
                    .isEqualTo(WriteResult.SUPERSEDED);
            assertThat(write.apply(done.withCompensation("compensated", 2, null, null)))
                    .isEqualTo(WriteResult.WRITTEN);
            assertThat(write.apply(done.withCompensation("completed", 3, "late", null)))
                    .isEqualTo(WriteResult.SUPERSEDED);
            assertThat(stepStatus(run)).endsWith("2").startsWith("compensated");
        }
    }

    @Test
    void result_of_an_attempt_that_was_counted_as_failed_is_not_written() {
        UUID run = running(1).get(0);
        StepRow begun = StepRow.of(0, "pay", "step", "retrying");
        StepRow time = StepRow.of(1, "now", "now", "completed");
        assertThat(history.record(claim(run), List.of(time, begun.withError("failed", 1, "timeout")), null))
                .isEqualTo(WriteResult.WRITTEN);
        assertThat(history.record(claim(run), List.of(time, begun.withError("completed", 1, null)), null))
                .isEqualTo(WriteResult.SUPERSEDED);
        assertThat(history.record(claim(run), List.of(time), null))
                .as("repeated record of a completed step")
                .isEqualTo(WriteResult.WRITTEN);
        assertThat(jdbc.sql("SELECT status FROM forge_workflow_steps WHERE kind = 'step'")
                        .query(String.class)
                        .single())
                .isEqualTo("failed");
    }

    @Test
    void cancel_terminates_with_circular_parents() throws SQLException {
        List<UUID> runs = running(2);
        for (int i = 0; i < 2; i++) {
            jdbc.sql("UPDATE forge_workflow_runs SET parent_id = ? WHERE id = ?")
                    .params(runs.get(1 - i), runs.get(i))
                    .update();
        }
        try (Connection connection = database.dataSource().getConnection()) {
            connection.createStatement().execute("SET statement_timeout = '1min'");
            var store = new WorkflowCommandStore(schema, new SingleConnectionDataSource(connection, true));
            assertThat(store.cancel(runs.get(0), "no longer wanted").runs()).containsExactlyInAnyOrderElementsOf(runs);
        }
    }

    @Test
    void cancel_reaches_a_child_that_is_being_started() throws Exception {
        UUID run = running(1).get(0);
        UUID child = UUID.randomUUID();
        var inserted = new CountDownLatch(1);
        var wait = new Wait(
                List.of(StepRow.of(0, "child", "child", "waiting").withRef(child)),
                null,
                null,
                child,
                null,
                null,
                0,
                false);
        CompletableFuture<Boolean> suspended = CompletableFuture.supplyAsync(
                () -> runStore.suspend(claim(run), wait, () -> {
                    runStore.insert(new WorkflowRunStore.NewRun(
                            child, new WorkflowVersion("child", "1"), null, null, run, "workflow:child", 50, "{}"));
                    inserted.countDown();
                    await().until(this::isBlocked);
                }),
                NEW_THREAD);
        inserted.await();
        assertThat(commands.cancel(run, "no longer wanted").runs()).containsExactlyInAnyOrder(run, child);
        assertThat(suspended.get(1, TimeUnit.MINUTES)).isTrue();
        assertThat(jdbc.sql("SELECT status FROM forge_workflow_runs WHERE id = ?")
                        .param(child)
                        .query(String.class)
                        .single())
                .isEqualTo("compensating");
    }

    @Test
    void run_that_is_suspended_while_its_job_is_abandoned_fails_without_a_deadlock() throws Exception {
        UUID run = running(1).get(0);
        var abandoned = new CompletableFuture<Integer>();
        CompletableFuture<Boolean> suspended = CompletableFuture.supplyAsync(
                () -> runStore.suspend(claim(run), forSignal(0), () -> {
                    CompletableFuture<Void> ending = CompletableFuture.runAsync(
                            () -> {
                                try {
                                    abandoned.complete(
                                            jdbc.sql("UPDATE forge_jobs SET status = 'abandoned' WHERE id = ?")
                                                    .param(run)
                                                    .update());
                                } catch (RuntimeException e) {
                                    abandoned.completeExceptionally(e);
                                }
                            },
                            NEW_THREAD);
                    await().until(() -> ending.isDone() || isBlocked());
                }),
                NEW_THREAD);
        assertThat(abandoned.get(1, TimeUnit.MINUTES)).as("abandoned jobs").isEqualTo(1);
        assertThat(suspended.get(1, TimeUnit.MINUTES)).as("suspended").isFalse();
        assertThat(jdbc.sql("SELECT concat_ws(': ', status, last_error) FROM forge_workflow_runs")
                        .query(String.class)
                        .single())
                .isEqualTo("failed: its job was abandoned");
    }

    private boolean isBlocked() {
        return jdbc.sql("""
                        SELECT count(*) > 0 FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock'
                        """).query(Boolean.class).single();
    }

    @Test
    void run_whose_job_ended_while_the_run_was_locked_is_repaired() throws SQLException {
        UUID run = running(1).get(0);
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            connection.createStatement().execute("SELECT FROM forge_workflow_runs FOR UPDATE");
            new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).executeWithoutResult(status -> {
                jdbc.sql("SET LOCAL lock_timeout = '5s'").update();
                jdbc.sql("UPDATE forge_jobs SET status = 'failed', last_error = 'by hand'")
                        .update();
            });
            connection.rollback();
        }
        assertThat(keeping.repairNext(null, 100).repaired()).isEqualTo(1);
        assertThat(jdbc.sql("SELECT concat_ws(': ', status, last_error) FROM forge_workflow_runs WHERE id = ?")
                        .param(run)
                        .query(String.class)
                        .single())
                .isEqualTo("failed: its job was failed: by hand");
    }

    @Test
    void signal_is_never_missed_by_a_run_that_is_being_suspended() {
        race(300);
    }

    @Test
    @Tag("soak")
    void signal_is_never_missed_by_a_run_that_is_being_suspended_in_ten_thousand_races() {
        race(10_000);
    }

    private void race(int races) {
        List<UUID> runs = running(races);
        int pairs = 8;
        var threads = Executors.newFixedThreadPool(2 * pairs);
        try {
            CompletableFuture.allOf(IntStream.range(0, pairs)
                            .mapToObj(pair -> race(
                                    runs.subList(pair * runs.size() / pairs, (pair + 1) * runs.size() / pairs),
                                    threads))
                            .toArray(CompletableFuture[]::new))
                    .join();
        } finally {
            threads.shutdownNow();
        }
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'pending' AND scheduled_at <= now()")
                        .query(Integer.class)
                        .single())
                .as("due runs, which receive their signal")
                .isEqualTo(runs.size());
    }

    private CompletableFuture<Void> race(List<UUID> runs, Executor threads) {
        var together = new CyclicBarrier(2);
        return CompletableFuture.allOf(
                CompletableFuture.runAsync(() -> eachOf(runs, together, this::suspending), threads),
                CompletableFuture.runAsync(() -> eachOf(runs, together, this::signalling), threads));
    }

    private Consumer<UUID> suspending(DataSource source) {
        var store = new WorkflowRunStore(schema, source);
        return run -> assertThat(suspend(store, run)).isTrue();
    }

    /** Repeats a suspension that could not lock the run in time, as the engine does: a busy machine may take longer. */
    private static boolean suspend(WorkflowRunStore store, UUID run) {
        while (true) {
            try {
                return store.suspend(claim(run), forSignal(0), () -> {});
            } catch (DataAccessException e) {
                if (DatabaseFailure.kind(e) != DatabaseFailure.Kind.LOCK_TIMEOUT) {
                    throw e;
                }
            }
        }
    }

    private Consumer<UUID> signalling(DataSource source) {
        var store = new WorkflowSignalStore(schema, source);
        return run -> assertThat(store.send(run, signal("go", null), new SignalLimits(1, 0)))
                .isInstanceOf(SendResult.Sent.class);
    }

    private void eachOf(List<UUID> runs, CyclicBarrier together, Function<DataSource, Consumer<UUID>> writer) {
        try (Connection connection = database.dataSource().getConnection()) {
            // Durability does not matter here.
            connection.createStatement().execute("SET synchronous_commit = off");
            Consumer<UUID> write = writer.apply(new SingleConnectionDataSource(connection, true));
            for (UUID run : runs) {
                together.await(1, TimeUnit.MINUTES);
                // The two writes follow each other within some hundred microseconds, in either order.
                long until = System.nanoTime() + ThreadLocalRandom.current().nextInt(200_000);
                while (System.nanoTime() < until) {
                    Thread.onSpinWait();
                }
                write.accept(run);
            }
        } catch (Exception e) {
            together.reset();
            throw new IllegalStateException(e);
        }
    }

    @Test
    void node_that_has_lost_the_claim_writes_nothing() {
        UUID run = running(1).get(0);
        var stale = new RunClaim(new ClaimKey(run, 0), NODE);
        var another = new RunClaim(new ClaimKey(run, 1), UUID.randomUUID());
        StepRow row = StepRow.of(0, "a", "step", "completed");
        for (RunClaim lost : List.of(stale, another)) {
            assertThat(history.record(lost, List.of(row), null)).isEqualTo(WriteResult.CLAIM_LOST);
            assertThat(runStore.suspend(lost, forSignal(0), () -> {})).isFalse();
            assertThat(runStore.beginCompensation(lost, "failed", List.of(row))).isEqualTo(WriteResult.CLAIM_LOST);
            assertThat(runStore.end(lost, new End(WorkflowStatus.COMPLETED, null, null, List.of(row), null, false)))
                    .isEqualTo(WriteResult.CLAIM_LOST);
        }
        assertThat(jdbc.sql("SELECT count(*) FROM forge_workflow_steps")
                        .query(Integer.class)
                        .single())
                .isZero();
        assertThat(jdbc.sql("SELECT status FROM forge_workflow_runs")
                        .query(String.class)
                        .single())
                .isEqualTo("running");
        assertThat(history.record(claim(run), List.of(row), null)).isEqualTo(WriteResult.WRITTEN);
        assertThat(runStore.end(claim(run), new End(WorkflowStatus.COMPLETED, null, null, List.of(), null, false)))
                .isEqualTo(WriteResult.WRITTEN);
    }

    @Test
    void batch_writes_what_each_run_would_write_alone() {
        List<UUID> runs = running(4);
        List<RunClaim> claims = runs.stream().map(WorkflowStoreTests::claim).toList();
        jdbc.sql("UPDATE forge_workflow_runs SET unwinding = true WHERE id = ?")
                .param(runs.get(1))
                .update();
        jdbc.sql("UPDATE forge_jobs SET claim_epoch = 2 WHERE id = ?")
                .param(runs.get(2))
                .update();
        Map<RunClaim, List<StepRow>> memories = new HashMap<>();
        claims.forEach(claim -> memories.put(
                claim, List.of(StepRow.of(0, "a", "step", "completed"), StepRow.of(1, "b", "step", "completed"))));
        assertThat(batches.record(memories))
                .containsOnly(
                        Map.entry(claims.get(0), WriteResult.WRITTEN),
                        Map.entry(claims.get(1), WriteResult.CANCELLED),
                        Map.entry(claims.get(3), WriteResult.WRITTEN));
        Map<RunClaim, RecordedRun> loaded = batches.load(claims);
        assertThat(loaded).containsOnlyKeys(claims);
        for (RunClaim claim : claims) {
            RecordedRun alone = history.load(claim).orElseThrow();
            assertThat(loaded.get(claim))
                    .usingRecursiveComparison()
                    .ignoringFields("readAt")
                    .isEqualTo(alone);
        }
        assertThat(loaded.get(claims.get(0)).steps()).containsOnlyKeys(0, 1);
        assertThat(loaded.get(claims.get(2)).steps()).isEmpty();
        Map<RunClaim, End> ends = new HashMap<>();
        StepRow last = StepRow.of(2, "c", "step", "completed");
        claims.forEach(claim ->
                ends.put(claim, new End(WorkflowStatus.COMPLETED, "{\"a\": 1}", null, List.of(last), null, false)));
        assertThat(batches.end(ends))
                .as("all runs except the one to compensate and the one whose claim is lost")
                .containsOnly(
                        Map.entry(claims.get(0), WriteResult.WRITTEN), Map.entry(claims.get(3), WriteResult.WRITTEN));
        assertThat(jdbc.sql("""
                                SELECT r.status || ' ' || coalesce(r.result ->> 'a', '-') || ' ' || j.status || ' ' ||
                                       (SELECT count(*) FROM forge_workflow_steps s WHERE s.run_id = r.id)
                                FROM forge_workflow_runs r JOIN forge_jobs j USING (id)
                                """).query(String.class).list())
                .containsExactlyInAnyOrder(
                        "completed 1 completed 3",
                        "running - running 2",
                        "running - running 0",
                        "completed 1 completed 3");
    }

    @Test
    void batch_leaves_out_locked_rows() throws SQLException {
        List<UUID> runs = running(3);
        List<RunClaim> claims = runs.stream().map(WorkflowStoreTests::claim).toList();
        StepRow row = StepRow.of(0, "a", "step", "completed");
        var end = new End(WorkflowStatus.COMPLETED, null, null, List.of(), null, false);
        try (Connection holder = database.dataSource().getConnection()) {
            holder.setAutoCommit(false);
            var locking = JdbcClient.create(new SingleConnectionDataSource(holder, true));
            locking.sql("SELECT FROM forge_jobs WHERE id = ? FOR UPDATE")
                    .param(runs.get(0))
                    .query()
                    .listOfRows();
            locking.sql("SELECT FROM forge_workflow_runs WHERE id = ? FOR UPDATE")
                    .param(runs.get(1))
                    .query()
                    .listOfRows();
            Map<RunClaim, List<StepRow>> memories = new HashMap<>();
            Map<RunClaim, End> ends = new HashMap<>();
            claims.forEach(claim -> {
                memories.put(claim, List.of(row));
                ends.put(claim, end);
            });
            assertThat(batches.record(memories)).containsOnlyKeys(claims.get(1), claims.get(2));
            assertThat(batches.end(ends)).containsOnlyKeys(claims.get(2));
            holder.rollback();
        }
    }

    @Test
    void check_reads_a_few_pages_of_many_sleeping_runs() {
        jdbc.sql("""
                WITH run AS (
                    INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version, status)
                    SELECT id, id, 'sleeper', (n % 3)::text, 'waiting'
                    FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 36000) AS n) AS ids
                    RETURNING id, workflow_version)
                INSERT INTO forge_jobs (id, name, scheduled_at)
                SELECT id, 'workflow:sleeper@' || workflow_version, now() + interval '1 day' FROM run
                """).update();
        jdbc.sql("ANALYZE forge_workflow_runs, forge_jobs").update();
        var jobs = new JobQueueStore(schema, database.dataSource());
        var names = List.of("workflow:sleeper@0", "workflow:sleeper@1", "workflow:sleeper@2");
        assertThat(pages(() -> assertThat(keeping.versionsInFlight()).hasSize(3)))
                .as("pages read by the search for versions")
                .isLessThan(100);
        assertThat(pages(() -> assertThat(jobs.queues(names, List.of("")).due()).isEmpty()))
                .as("pages read by the search for due jobs")
                .isLessThan(100);
        var reports = new WorkflowReports(schema, database.dataSource());
        assertThat(pages(() -> assertThat(reports.unfinished())
                        .hasSize(3)
                        .extracting(WorkflowReports.Count::runs)
                        .containsOnly(10_000L)))
                .as("pages read to count ten thousand runs of each version")
                .isLessThan(45_000);
    }

    /** Inserts an old run that is blocked, behind many newer ones. */
    private UUID blockedBehind(int newer, String status) {
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version, status)
                SELECT id, id, 'flow', CASE n WHEN 1 THEN '1' ELSE '2' END,
                       CASE n WHEN 1 THEN 'blocked_signature_mismatch' ELSE ? END
                FROM (SELECT n, lpad(to_hex(n), 32, '0')::uuid AS id FROM generate_series(1, ?) AS n) AS ids
                """).params(status, newer + 1).update();
        return new UUID(0, 1);
    }

    @ParameterizedTest
    @ValueSource(strings = {"completed", "waiting"})
    void run_in_flight_is_found_by_its_status_however_many_runs_are_newer(String newer) {
        UUID blocked = blockedBehind(11_000, newer);
        var reports = new WorkflowReports(schema, database.dataSource());
        WorkflowFilter mismatch = WorkflowFilter.all().withStatus(WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH);
        for (WorkflowFilter filter : List.of(
                mismatch,
                mismatch.withName("flow"),
                mismatch.withVersion("1"),
                mismatch.withName("flow").withVersion("1"))) {
            Page<WorkflowInfo> page = reports.search("test", filter, 50, null);
            assertThat(page.items()).extracting(WorkflowInfo::id).containsExactly(blocked);
            assertThat(page.next()).isNull();
        }
        assertThat(reports.search("test", mismatch.withVersion("2"), 50, null).items())
                .isEmpty();
    }

    @Test
    void search_of_runs_ends_at_its_bound_and_continues_there() {
        UUID oldest = blockedBehind(11_000, "completed");
        var reports = new WorkflowReports(schema, database.dataSource());
        WorkflowFilter filter = WorkflowFilter.all().withVersion("1");
        Page<WorkflowInfo> first = reports.search("test", filter, 50, null);
        assertThat(first.items()).isEmpty();
        assertThat(first.next()).isNotNull();
        Page<WorkflowInfo> second = reports.search("test", filter, 50, first.next());
        assertThat(second.items()).extracting(WorkflowInfo::id).containsExactly(oldest);
        assertThat(second.next()).isNull();
    }

    @Test
    void pages_of_runs_in_flight_have_every_run_once_in_order() {
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version, status)
                SELECT id, id, 'flow', (n % 3)::text, CASE WHEN n % 200 = 0 THEN 'running' ELSE 'waiting' END
                FROM (SELECT n, lpad(to_hex(n), 32, '0')::uuid AS id FROM generate_series(1, 3000) AS n) AS ids
                """).update();
        var reports = new WorkflowReports(schema, database.dataSource());
        var seen = new ArrayList<UUID>();
        WorkflowFilter filter = WorkflowFilter.all().withName("flow").withStatus(WorkflowStatus.RUNNING);
        String after = null;
        do {
            Page<WorkflowInfo> page = reports.search("test", filter, 4, after);
            page.items().forEach(run -> seen.add(run.id()));
            after = page.next();
        } while (after != null);
        assertThat(seen)
                .isEqualTo(IntStream.rangeClosed(1, 15)
                        .mapToObj(n -> new UUID(0, 200L * (16 - n)))
                        .toList());
    }

    @Test
    void runs_in_flight_are_counted_by_version_and_status() {
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version, status)
                SELECT gen_random_uuid(), gen_random_uuid(), name, version, status
                FROM (VALUES ('a', '1', 'waiting', 3), ('a', '1', 'blocked_signature_mismatch', 1), ('a', '2', 'running', 2),
                             ('a', '2', 'completed', 5), ('b', '1', 'compensating', 1), ('c', '1', 'failed', 4))
                     AS v (name, version, status, number), generate_series(1, number)
                """).update();
        assertThat(new WorkflowReports(schema, database.dataSource()).unfinished())
                .extracting(count -> count.version().jobName() + " " + count.status() + " " + count.runs())
                .containsExactly(
                        "workflow:a@1 BLOCKED_SIGNATURE_MISMATCH 1",
                        "workflow:a@1 WAITING 3",
                        "workflow:a@2 RUNNING 2",
                        "workflow:b@1 COMPENSATING 1");
    }

    @Test
    void run_without_a_job_is_repaired_however_many_runs_have_ended() {
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version, status, updated_at)
                SELECT id, id, 'lost', '1', CASE n WHEN 5000 THEN 'waiting' ELSE 'completed' END, now() - interval '1 hour'
                FROM (SELECT n, lpad(to_hex(n), 32, '0')::uuid AS id FROM generate_series(1, 10000) AS n) AS ids
                """).update();
        // Rows that earlier tests have deleted would be read, too.
        jdbc.sql("VACUUM ANALYZE forge_workflow_runs, forge_workflow_steps, forge_workflow_signals, forge_jobs")
                .update();
        // About 120 pages, however many runs have ended; a scan of the runs would read most of their 179, too.
        assertThat(pages(
                        () -> assertThat(keeping.repairNext(null, 10)).isEqualTo(new WorkflowKeeping.Repairs(1, null))))
                .as("pages read by the repair")
                .isLessThan(220);
        assertThat(jdbc.sql("SELECT name FROM forge_jobs").query(String.class).list())
                .containsExactly("workflow:lost@1");
    }

    /** Returns how many pages of the tables the work reads, from memory or disk. */
    private long pages(Runnable work) {
        // A reused session would still count pages that it has read lately.
        database.endIdleSessions();
        return new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).execute(status -> {
            work.run();
            return jdbc.sql("""
                    SELECT sum(pg_stat_get_xact_blocks_fetched(i.oid)) FROM pg_class i WHERE i.relname LIKE 'forge_%'
                    """).query(Long.class).single();
        });
    }

    @Test
    void purge_reads_only_runs_that_it_deletes() {
        finishedRuns(10_000, "completed", "now()");
        finishedRuns(10_000, "failed", "now() - interval '3 days'");
        finishedRuns(500, "completed", "now() - interval '2 days'");
        jdbc.sql("""
                INSERT INTO forge_workflow_signals (id, run_id, name)
                SELECT gen_random_uuid(), gen_random_uuid(), 'go' FROM generate_series(1, 10000)
                """).update();
        jdbc.sql("VACUUM ANALYZE forge_workflow_runs, forge_workflow_steps, forge_workflow_signals")
                .update();
        var deleted = new ArrayList<Integer>();
        long read = TableReads.during(
                database,
                "forge_workflow_",
                source -> deleted.add(new WorkflowKeeping(schema, source)
                        .purge(new WorkflowKeeping.Expiry(Duration.ofDays(1), Duration.ofDays(7)), 1_000)));
        assertThat(deleted).containsExactly(500);
        assertThat(count("forge_workflow_steps")).isEqualTo(40_000);
        // Per run two index entries, two steps and the search for its parent.
        assertThat(read).isLessThan(8 * 500);
    }

    private void finishedRuns(int count, String status, String finishedAt) {
        jdbc.sql("""
                WITH run AS (
                    INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, status, finished_at)
                    SELECT gen_random_uuid(), 'old', '1', '%s', %s FROM generate_series(1, %d) RETURNING id)
                INSERT INTO forge_workflow_steps (run_id, position, name, kind, status)
                SELECT id, step, 'step', 'step', 'completed' FROM run, generate_series(0, 1) AS step
                """.formatted(status, finishedAt, count)).update();
    }

    private long count(String table) {
        return jdbc.sql("SELECT count(*) FROM " + table).query(Long.class).single();
    }
}
