// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Handlers with a transaction of their own, and transactions of callers. */
@ClusterPostgres
class JobTransactionTests extends JobFixture {

    JobTransactionTests(TestDatabase database) {
        super(database);
    }

    private void effect(JobContext context) {
        jdbc.sql("INSERT INTO effects VALUES (?, ?)")
                .params(context.id(), context.attempt())
                .update();
    }

    @Test
    void effects_and_completion_of_a_transactional_handler_commit_together() {
        // A JdbcClient on the same data source joins the transaction.
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            effect(context);
            if (context.attempt() < 3) {
                throw new IllegalStateException("roll back");
            }
            return "kept";
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.result()).isEqualTo("\"kept\"");
        assertThat(effects(id)).containsExactly(3);
    }

    @Test
    void transactional_handler_with_a_lost_claim_is_rolled_back() throws Exception {
        var inside = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            if (context.epoch() == 1) {
                effect(context);
                inside.countDown();
                until(go);
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(inside);
        jdbc.sql(
                        "UPDATE forge_jobs SET claim_epoch = claim_epoch + 1, status = 'pending', worker_id = NULL WHERE id = ?")
                .param(id)
                .update();
        go.countDown();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(effects(id)).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void effects_of_a_transactional_handler_stay_if_its_own_transaction_cancels_the_job(boolean own) {
        var jobs = new CompletableFuture<Jobs>();
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            effect(context);
            CompletableFuture<Boolean> cancelled = CompletableFuture.supplyAsync(
                    () -> jobs.join().cancel(context.id()),
                    own ? Runnable::run : action -> new Thread(action, "cancels").start());
            assertThat(cancelled.join()).isTrue();
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        jobs.complete(member.jobs());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.CANCELLED);
        member.stop();
        assertThat(effects(id)).hasSize(own ? 1 : 0);
    }

    @Test
    void handlers_with_repeatable_read_complete() throws Exception {
        work.heartbeat = Duration.ofMillis(50);
        work.lease = Duration.ofSeconds(20);
        work.sweep = Duration.ofMillis(100);
        work.grace = Duration.ZERO;
        var go = new CountDownLatch(1);
        for (int isolation : List.of(
                TransactionDefinition.ISOLATION_REPEATABLE_READ, TransactionDefinition.ISOLATION_SERIALIZABLE)) {
            work.on(job("job" + isolation).in(work.transaction(isolation)), (payload, context) -> {
                effect(context);
                context.progress(50, "half");
                until(go);
                return null;
            });
        }
        work.on("companion", context -> until(go));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        await().until(() -> member.leadership().isLeader("scheduler"));
        List<UUID> ids = Stream.of("job4", "job8")
                .map(name -> member.jobs().enqueueNamed(name, null))
                .map(EnqueuedJob::id)
                .toList();
        await().until(() ->
                ids.stream().allMatch(id -> member.jobs().find(id).orElseThrow().status() == JobStatus.RUNNING));
        renewedFor(member.jobs().enqueueNamed("companion", null).id(), Duration.ofMillis(900));
        go.countDown();
        ids.forEach(id -> {
            JobInfo job = member.ended(id);
            assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(job.attempts()).isOne();
            assertThat(job.recoveries()).isZero();
            assertThat(effects(id)).containsExactly(1);
        });
    }

    @ParameterizedTest
    @CsvSource({"4, false", "4, true", "8, false", "8, true"})
    void successor_hidden_by_the_snapshot_of_a_handler_runs_after_it(int isolation, boolean enqueuedBefore)
            throws Exception {
        // Only the worker itself may release the successor.
        work.sweep = Duration.ofHours(1);
        var started = new CountDownLatch(1);
        var enqueued = new CountDownLatch(1);
        var snapshot = new CountDownLatch(1);
        var replaced = new CountDownLatch(1);
        work.on(job("order").taking(Order.class).in(work.transaction(isolation)), (payload, context) -> {
            if (((Order) payload).quantity() == 1) {
                started.countDown();
                until(enqueued);
                effect(context);
                snapshot.countDown();
                until(replaced);
            }
            return payload;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobOptions replacing = JobOptions.defaults().withUniqueKey("k", UniquePolicy.REPLACE);
        UUID first = member.jobs().enqueue(new Order("a", 1), replacing).id();
        until(started);
        if (enqueuedBefore) {
            member.jobs().enqueue(new Order("a", 2), replacing);
        }
        enqueued.countDown();
        until(snapshot);
        UUID second = member.jobs().enqueue(new Order("a", 3), replacing).id();
        replaced.countDown();
        JobInfo job = member.ended(first);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).as("%s", job.lastError()).isOne();
        assertThat(effects(first)).containsExactly(1);
        assertThat(member.ended(second).result()).contains("3");
    }

    @Test
    void job_cancelled_under_an_old_snapshot_releases_its_successor() throws Exception {
        work.sweep = Duration.ofHours(1);
        // No renewal changes the row after the snapshot.
        work.lease = Duration.ofHours(1);
        work.heartbeat = Duration.ofMinutes(30);
        var started = new CountDownLatch(1);
        work.on(job("order").taking(Order.class), (payload, context) -> {
            if (((Order) payload).quantity() == 1) {
                started.countDown();
                new CountDownLatch(1).await();
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        JobOptions replacing = JobOptions.defaults().withUniqueKey("k", UniquePolicy.REPLACE);
        UUID first = member.jobs().enqueue(new Order("a", 1), replacing).id();
        until(started);
        var transactions = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transactions.setIsolationLevel(TransactionDefinition.ISOLATION_REPEATABLE_READ);
        UUID second = transactions.execute(status -> {
            assertThat(member.jobs().find(first)).isPresent();
            UUID successor = CompletableFuture.supplyAsync(() -> member.jobs().enqueue(new Order("a", 2), replacing))
                    .join()
                    .id();
            assertThat(member.jobs().cancel(first)).isTrue();
            return successor;
        });
        assertThat(member.ended(second).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void transaction_marked_for_rollback_is_a_failed_attempt() {
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            effect(context);
            if (context.attempt() == 1) {
                var inner = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
                inner.executeWithoutResult(status -> status.setRollbackOnly());
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        assertThat(member.ended(id).attempts()).isEqualTo(2);
        assertThat(effects(id)).containsExactly(2);
    }

    private List<String> statuses() {
        return jdbc.sql("SELECT status, count(*) FROM forge_jobs GROUP BY 1 ORDER BY 1")
                .query((row, n) -> row.getString(1) + " " + row.getInt(2))
                .list();
    }

    /** A row may be marked as running while its transaction is open, because the isolation is READ COMMITTED. */
    @ParameterizedTest
    @ValueSource(ints = {TransactionDefinition.ISOLATION_DEFAULT, TransactionDefinition.ISOLATION_READ_COMMITTED})
    void transactional_jobs_are_prefetched_under_read_committed(int isolation) throws Exception {
        var blocking = new AtomicBoolean();
        var go = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on(job("job").in(work.transaction(isolation)), (payload, context) -> {
            effect(context);
            if (blocking.get()) {
                until(go);
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.ended(member.jobs().enqueueNamed("job", null).id());
        blocking.set(true);
        List<UUID> ids = IntStream.range(0, 6)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .map(EnqueuedJob::id)
                .toList();
        await().until(() -> statuses().equals(List.of("claimed 4", "completed 1", "running 2")));
        go.countDown();
        ids.forEach(id -> {
            JobInfo job = member.ended(id);
            assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(job.attempts()).isOne();
            assertThat(effects(id)).containsExactly(1);
        });
    }

    @Test
    void prefetched_transactional_job_that_takes_longer_is_marked_as_running() throws Exception {
        var go = new CountDownLatch(1);
        var calls = new AtomicInteger();
        work.slots = 1;
        work.prefetch = 10;
        work.on(job("job").in(work.transaction(TransactionDefinition.ISOLATION_READ_COMMITTED)), (payload, context) -> {
            effect(context);
            if (calls.incrementAndGet() == 2) {
                until(go);
            }
            return null;
        });
        cluster.start("one", work, UnaryOperator.identity());
        // One statement enqueues all jobs: one of them starts with its claim, the other two are prefetched.
        jdbc.sql("SELECT forge_enqueue('job') FROM generate_series(1, 3)")
                .query()
                .listOfRows();
        await().until(() -> statuses().equals(List.of("claimed 1", "completed 1", "running 1")));
        go.countDown();
        await().until(() -> statuses().equals(List.of("completed 3")));
        assertThat(jdbc.sql("SELECT count(*) FROM effects").query(Long.class).single())
                .isEqualTo(3);
    }

    @Test
    void default_isolation_of_the_database_decides_whether_jobs_are_prefetched() throws Exception {
        String change = "ALTER DATABASE %s %%s default_transaction_isolation".formatted(database.name());
        jdbc.sql(change.formatted("SET") + " = 'repeatable read'").update();
        database.endIdleSessions();
        try {
            claimsOnlyWhatStarts(TransactionDefinition.ISOLATION_DEFAULT);
        } finally {
            jdbc.sql(change.formatted("RESET")).update();
            database.endIdleSessions();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {TransactionDefinition.ISOLATION_REPEATABLE_READ, TransactionDefinition.ISOLATION_SERIALIZABLE})
    void job_in_a_snapshot_is_claimed_only_if_it_starts_immediately(int isolation) throws Exception {
        claimsOnlyWhatStarts(isolation);
    }

    private void claimsOnlyWhatStarts(int isolation) throws Exception {
        var blocking = new AtomicBoolean();
        var go = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on(job("job").in(work.transaction(isolation)), (payload, context) -> {
            if (blocking.get()) {
                until(go);
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.ended(member.jobs().enqueueNamed("job", null).id());
        blocking.set(true);
        List<UUID> ids = IntStream.range(0, 6)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .map(EnqueuedJob::id)
                .toList();
        await().until(() -> member.engine().load() == 2);
        await().during(Duration.ofMillis(300))
                .until(() -> statuses().equals(List.of("completed 1", "pending 4", "running 2")));
        go.countDown();
        ids.forEach(id -> assertThat(member.ended(id).attempts()).isOne());
    }

    /** As behind a pooler: the level was set on one session, and the transaction runs in another. */
    private JobHandler.Transaction losingItsLevel(int isolation) {
        return new JobHandler.Transaction(
                new OwnTransactions(database.dataSource()),
                work.transaction(isolation).definition());
    }

    @ParameterizedTest
    @ValueSource(ints = {TransactionDefinition.ISOLATION_REPEATABLE_READ, TransactionDefinition.ISOLATION_SERIALIZABLE})
    void handler_whose_transaction_lost_its_isolation_level_does_not_commit(int isolation) {
        work.on(job("job").attempts(1).in(losingItsLevel(isolation)), (payload, context) -> {
            effect(context);
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.lastError()).contains("READ COMMITTED, not", "pooler");
        assertThat(effects(id)).isEmpty();
    }

    @Test
    void bulk_handler_whose_transaction_lost_its_isolation_level_does_not_commit() {
        work.onMany(
                job("job").attempts(1).in(losingItsLevel(TransactionDefinition.ISOLATION_SERIALIZABLE)),
                10,
                Duration.ofMillis(100),
                (payloads, contexts) -> {
                    contexts.forEach(this::effect);
                    return null;
                });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        IntStream.range(0, 10).forEach(i -> member.jobs().enqueueNamed("job", null));
        await().until(() -> statuses().equals(List.of("failed 10")));
        assertThat(jdbc.sql("SELECT count(*) FROM effects").query(Integer.class).single())
                .isZero();
    }

    @Test
    void handler_may_set_its_isolation_level_with_its_first_statement() {
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            jdbc.sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").update();
            effect(context);
            return jdbc.sql("SHOW transaction_isolation").query(String.class).single();
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        for (int i = 0; i < 2; i++) {
            UUID id = member.jobs().enqueueNamed("job", null).id();
            JobInfo job = member.ended(id);
            assertThat(job.result()).isEqualTo("\"serializable\"");
            assertThat(job.attempts()).isOne();
            assertThat(effects(id)).hasSize(1);
        }
    }

    @Test
    void serializable_transactions_that_conflict_only_in_the_tables_of_the_cluster_cost_no_attempt() {
        work.slots = 10;
        work.on(job("job").in(work.transaction(TransactionDefinition.ISOLATION_SERIALIZABLE)), (payload, context) -> {
            jdbc.sql("INSERT INTO effects VALUES (?, ?)")
                    .params(context.id(), context.attempt())
                    .update();
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        IntStream.range(0, 300).forEach(i -> member.jobs().enqueueNamed("job", null));
        await().until(() -> statuses().equals(List.of("completed 300")));
        assertThat(jdbc.sql("SELECT DISTINCT attempts FROM forge_jobs")
                        .query(Integer.class)
                        .list())
                .containsExactly(1);
        assertThat(jdbc.sql("SELECT count(*) FROM effects").query(Integer.class).single())
                .isEqualTo(300);
    }

    @ParameterizedTest
    @ValueSource(strings = {"40001", "40P01"})
    void conflict_with_another_transaction_costs_no_attempt_unless_it_repeats(String state) {
        var conflicts = new AtomicInteger();
        var tries = new AtomicInteger();
        work.on(job("job").attempts(2).in(work.transaction()), (payload, context) -> {
            tries.incrementAndGet();
            if (conflicts.getAndDecrement() > 0) {
                jdbc.sql("DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '%s'; END $$".formatted(state))
                        .update();
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        conflicts.set(5);
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).attempts())
                .isOne();
        conflicts.set(Integer.MAX_VALUE);
        tries.set(0);
        JobInfo failed = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(failed.status()).isEqualTo(JobStatus.FAILED);
        assertThat(failed.lastError()).contains("conflict");
        assertThat(tries).as("two attempts of six tries each").hasValue(12);
    }

    @Test
    void enqueueing_joins_the_transaction_of_the_caller() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        var transactions = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        var ids = new ArrayList<UUID>();
        transactions.executeWithoutResult(status -> {
            ids.add(member.jobs().enqueueNamed("job", null).id());
            status.setRollbackOnly();
        });
        transactions.executeWithoutResult(
                status -> ids.add(member.jobs().enqueueNamed("job", null).id()));
        assertThat(member.ended(ids.get(1)).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.jobs().find(ids.get(0))).isEmpty();
        assertThat(member.operations().explain(ids.get(0)).reason()).isEqualTo(Reason.NOT_FOUND);
    }
}
