// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobBatchStatus;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.BulkResult;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Batches of jobs, on nodes in this JVM. */
@ClusterPostgres
class JobBatchTests extends JobFixture {

    record Line(int number) {}

    record Ended(String file) {}

    record Failed(String file) {}

    record Succeeded(String file) {}

    private final ConcurrentHashMap<String, List<UUID>> called = new ConcurrentHashMap<>();
    private final AtomicInteger ran = new AtomicInteger();
    private final AtomicBoolean failing = new AtomicBoolean();

    JobBatchTests(TestDatabase database) {
        super(database);
    }

    @BeforeEach
    void handlers() {
        work.on(job("line").taking(Line.class), (payload, context) -> {
            if (failing.get() && ((Line) payload).number() % 10 == 0) {
                throw new NonRetryableJobException("a bad line");
            }
            ran.incrementAndGet();
            return context.batch();
        });
        List.of(Ended.class, Failed.class, Succeeded.class)
                .forEach(type -> work.on(job(type.getSimpleName()).taking(type), (payload, context) -> {
                    called.computeIfAbsent(type.getSimpleName(), name -> new CopyOnWriteArrayList<>())
                            .add(context.batch());
                    return null;
                }));
    }

    private static JobBatchOptions options() {
        return JobBatchOptions.named("import")
                .withOnEnd(new Ended("a.csv"))
                .withOnFailure(new Failed("a.csv"))
                .withOnSuccess(new Succeeded("a.csv"));
    }

    private static JobOptions in(JobBatch batch) {
        return JobOptions.defaults().withBatch(batch.id());
    }

    private static List<Line> lines(int count) {
        return IntStream.range(0, count).mapToObj(Line::new).toList();
    }

    private static JobBatchInfo info(JobBatch batch) {
        return batch.info().orElseThrow();
    }

    private static void awaitStatus(JobBatch batch, JobBatchStatus status) {
        await().untilAsserted(() -> assertThat(info(batch).status()).isEqualTo(status));
    }

    private void awaitCalled(String... callbacks) {
        await().untilAsserted(() -> assertThat(called).containsOnlyKeys(callbacks));
    }

    @Test
    void callbacks_run_once_when_all_jobs_on_all_nodes_have_ended() {
        // Neither a poll nor a sweep helps.
        work.poll = Duration.ofMinutes(1);
        work.sweep = Duration.ofMinutes(1);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        cluster.start("two", work, UnaryOperator.identity());

        JobBatch batch = one.jobs().batch(options());
        for (int i = 0; i < 5; i++) {
            one.jobs().enqueueAll(lines(200), in(batch));
        }
        UUID single = one.jobs().enqueue(new Line(1), in(batch)).id();
        assertThat(one.ended(single).result()).isEqualTo("\"%s\"".formatted(batch.id()));
        assertThat(one.jobs().find(single).orElseThrow().batch()).isEqualTo(batch.id());
        assertThat(called).isEmpty();
        assertThat(batch.close()).isTrue();

        awaitCalled("Ended", "Succeeded");
        assertThat(ran).hasValue(1_001);
        assertThat(called.values()).allSatisfy(batches -> assertThat(batches).containsExactly(batch.id()));
        assertThat(info(batch).completed()).isEqualTo(1_001);
        assertThat(info(batch).exact()).isTrue();
        assertThat(one.operations().batches(10).items())
                .extracting(JobBatchInfo::id)
                .containsExactly(batch.id());
    }

    @Test
    void jobs_of_a_batch_are_found_and_changed_together() {
        Member one = cluster.start("one", work, UnaryOperator.identity());
        one.jobs().pause("line");
        JobBatch batch = one.jobs().batch(options());
        JobBatch other = one.jobs().batch(options());
        List<UUID> enqueued = one.jobs().enqueueAll(lines(5), in(batch)).stream()
                .map(EnqueuedJob::id)
                .sorted(Comparator.comparing(UUID::toString))
                .toList();
        one.jobs().enqueueAll(lines(3), in(other));
        JobFilter filter = JobFilter.all().withBatch(batch.id());
        assertThat(one.operations().search(filter, 100).items())
                .extracting(JobInfo::id)
                .isEqualTo(enqueued);
        assertThat(one.operations().count(filter)).isEqualTo(new JobCount(5, true));
        BulkResult cancelled = one.operations().cancelAll(filter, BulkOptions.defaults());
        assertThat(cancelled.changed()).isEqualTo(5);
        assertThat(one.operations().count(JobFilter.all().withBatch(other.id()).withStatuses(JobStatus.PENDING)))
                .isEqualTo(new JobCount(3, true));
        Page<JobBatchInfo> newest = one.operations().batches(1);
        assertThat(newest.items()).extracting(JobBatchInfo::id).containsExactly(other.id());
        Page<JobBatchInfo> older = one.operations().batches(1, newest.next());
        assertThat(older.items()).extracting(JobBatchInfo::id).containsExactly(batch.id());
        assertThat(one.operations().batches(1, older.next())).isEqualTo(new Page<>(List.of(), null));
        one.jobs().resume("line");
    }

    @Test
    void failed_jobs_are_reported_at_once_and_the_batch_succeeds_after_their_retry() {
        failing.set(true);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch batch = one.jobs().batch(options());
        one.jobs().enqueueAll(lines(50), in(batch));
        awaitCalled("Failed");
        batch.close();
        awaitCalled("Failed", "Ended");
        JobBatchInfo info = info(batch);
        assertThat(info.status()).isEqualTo(JobBatchStatus.FAILED);
        assertThat(List.of(info.total(), info.completed(), info.failed())).containsExactly(50L, 45L, 5L);

        failing.set(false);
        assertThat(batch.retryFailed()).isTrue();
        awaitCalled("Failed", "Ended", "Succeeded");
        assertThat(called.values()).allSatisfy(batches -> assertThat(batches).containsExactly(batch.id()));
        assertThat(info(batch).status()).isEqualTo(JobBatchStatus.SUCCEEDED);
        assertThat(batch.retryFailed()).isFalse();
    }

    @Test
    void cancelled_batch_interrupts_running_handlers_and_reports_its_end() throws InterruptedException {
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on(job("slow"), (payload, context) -> {
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                interrupted.countDown();
                throw e;
            }
            return null;
        });
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch batch = one.jobs().batch(options());
        for (int i = 0; i < 10; i++) {
            one.jobs().enqueueNamed("slow", null, in(batch));
        }
        until(started);
        assertThat(batch.cancel()).isTrue();
        until(interrupted);
        awaitCalled("Ended");
        awaitStatus(batch, JobBatchStatus.CANCELLED);
        assertThat(info(batch).cancelled()).isEqualTo(10);
        assertThat(batch.cancel()).isFalse();
        refused(() -> one.jobs().enqueue(new Line(1), in(batch)), batch.id().toString(), "closed");
    }

    @Test
    void batch_in_a_transaction_that_is_rolled_back_never_existed() {
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch batch = new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).execute(status -> {
            JobBatch opened = one.jobs().batch(options());
            one.jobs().enqueueAll(lines(3), in(opened));
            opened.close();
            status.setRollbackOnly();
            return opened;
        });
        assertThat(batch.info()).isEmpty();
        assertThat(batch.close()).isFalse();
        refused(() -> one.jobs().enqueue(new Line(1), in(batch)), batch.id().toString(), "unknown");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs")
                        .query(Integer.class)
                        .single())
                .isZero();
    }

    @Test
    void batch_without_jobs_succeeds_when_it_is_closed() {
        Member one = cluster.start("one", work, UnaryOperator.identity());
        one.jobs().batch(options()).close();
        awaitCalled("Ended", "Succeeded");
    }

    @Test
    void batch_ends_after_the_batches_that_are_part_of_it() {
        work.sweep = Duration.ofMinutes(1);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch whole = one.jobs().batch(options());
        List<JobBatch> parts = IntStream.range(0, 10)
                .mapToObj(n -> one.jobs().batch(JobBatchOptions.named("part").withParent(whole.id())))
                .toList();
        whole.close();
        for (JobBatch part : parts) {
            assertThat(called).isEmpty();
            one.jobs().enqueueAll(lines(5), in(part));
            part.close();
        }
        awaitCalled("Ended", "Succeeded");
        assertThat(ran).hasValue(50);
        refused(
                () -> one.jobs().batch(options().withParent(whole.id())),
                whole.id().toString(),
                "closed");
    }

    @Test
    void job_that_was_ended_or_deleted_by_hand_does_not_hold_up_its_batch() {
        work.sweep = Duration.ofMillis(100);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        one.jobs().pause("line");
        JobBatch batch = one.jobs().batch(options());
        one.jobs().enqueueAll(lines(2), in(batch));
        batch.close();
        jdbc.sql("DELETE FROM forge_jobs WHERE id = (SELECT min(id::text)::uuid FROM forge_jobs WHERE name = 'line')")
                .update();
        assertThat(info(batch).status()).isEqualTo(JobBatchStatus.RUNNING);
        jdbc.sql("UPDATE forge_jobs SET status = 'completed' WHERE name = 'line'")
                .update();
        awaitCalled("Ended", "Succeeded");
    }

    @Test
    void cancelled_job_ends_its_batch_without_success() {
        work.sweep = Duration.ofMinutes(1);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        one.jobs().pause("line");
        JobBatch batch = one.jobs().batch(options());
        UUID job = one.jobs().enqueue(new Line(1), in(batch)).id();
        batch.close();
        one.jobs().cancel(job);
        awaitCalled("Ended");
        assertThat(info(batch).status()).isEqualTo(JobBatchStatus.FAILED);
        assertThat(info(batch).cancelled()).isEqualTo(1);
    }

    @Test
    void jobs_that_are_cancelled_or_deleted_together_count_in_their_batch() {
        work.sweep = Duration.ofMinutes(1);
        failing.set(true);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch batch = one.jobs().batch(options());
        UUID bad = one.jobs().enqueue(new Line(0), in(batch)).id();
        one.ended(bad);
        one.jobs().pause("line");
        one.jobs().enqueueAll(lines(3), in(batch));
        assertThat(one.operations()
                        .deleteAll(JobFilter.all().withStatuses(JobStatus.FAILED), BulkOptions.defaults())
                        .changed())
                .isEqualTo(1);
        batch.close();
        assertThat(one.operations()
                        .cancelAll(JobFilter.all().withName("line"), BulkOptions.defaults())
                        .changed())
                .isEqualTo(3);
        awaitCalled("Failed", "Ended");
        JobBatchInfo info = info(batch);
        assertThat(List.of(info.total(), info.completed(), info.failed(), info.cancelled()))
                .containsExactly(4L, 0L, 1L, 3L);
        assertThat(info.status()).isEqualTo(JobBatchStatus.FAILED);
    }

    @Test
    void locked_callback_holds_up_no_other_batch() throws SQLException {
        work.sweep = Duration.ofMillis(100);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch locked = one.jobs().batch(options());
        try (Connection operator = database.dataSource().getConnection();
                Statement statement = operator.createStatement()) {
            operator.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE"
                    .formatted(info(locked).onEnd()));
            locked.close();
            for (int i = 0; i < 5; i++) {
                JobBatch free = one.jobs().batch(JobBatchOptions.named("free"));
                free.close();
                awaitStatus(free, JobBatchStatus.SUCCEEDED);
            }
            assertThat(info(locked).status()).isEqualTo(JobBatchStatus.RUNNING);
            operator.rollback();
        }
        awaitCalled("Ended", "Succeeded");
    }

    @Test
    void cancelled_callback_that_is_retried_waits_again() {
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch batch = one.jobs().batch(options());
        UUID callback = info(batch).onSuccess();
        assertThat(one.jobs().cancel(callback)).isTrue();
        assertThat(one.jobs().retry(callback)).isTrue();
        assertThat(one.operations().explain(callback).reason()).isEqualTo(JobExplanation.Reason.WAITING_FOR_BATCH);
        batch.close();
        awaitCalled("Ended", "Succeeded");
    }

    @Test
    void explanation_names_the_batch_that_a_callback_waits_for() {
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch batch = one.jobs().batch(options());
        JobExplanation explanation = one.operations().explain(info(batch).onEnd());
        assertThat(explanation.reason()).isEqualTo(JobExplanation.Reason.WAITING_FOR_BATCH);
        // Not its name, which some operators may not see.
        assertThat(explanation.text()).contains(batch.id().toString(), "open").doesNotContain("import");
    }

    @Test
    void explanation_tells_what_a_callback_of_a_failed_batch_waits_for() {
        failing.set(true);
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch batch = one.jobs().batch(options());
        one.jobs().enqueueAll(lines(4), in(batch));
        batch.close();
        awaitStatus(batch, JobBatchStatus.FAILED);
        assertThat(one.operations().explain(info(batch).onSuccess()).text())
                .isEqualTo(
                        "It waits for batch %s, which has ended: 1 of 4 jobs has failed. It runs only after these jobs have been retried and have completed.",
                        batch.id());
    }

    @Test
    void unique_key_is_refused_in_a_batch_and_for_callbacks() {
        Member one = cluster.start("one", work, UnaryOperator.identity());
        JobBatch batch = one.jobs().batch(options());
        refused(
                () -> one.jobs().enqueue(new Line(1), in(batch).withUniqueKey("k")),
                batch.id().toString(),
                "'k'");
        refused(
                () -> one.jobs()
                        .batch(JobBatchOptions.named("b")
                                .withOnEnd(new Ended("a"), JobOptions.defaults().withUniqueKey("k"))),
                "callback");
        refused(() -> one.jobs().batch(JobBatchOptions.named("b").withOnEnd("no handler")), "String");
    }
}
