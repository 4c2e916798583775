// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobBatchStatus;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs that run after other jobs, on nodes in this JVM. */
@ClusterPostgres
class JobDependencyTests extends JobFixture {

    record Later(int number) {}

    private final List<UUID> order = new CopyOnWriteArrayList<>();

    JobDependencyTests(TestDatabase database) {
        super(database);
    }

    @BeforeEach
    void handlers() {
        work.on("job", context -> order.add(context.id()));
        work.on("other", context -> order.add(context.id()));
        work.on(TestJobs.job("later").taking(Later.class), (payload, context) -> order.add(context.id()));
        work.on("bad", context -> {
            throw new NonRetryableJobException("bad");
        });
    }

    private Member start() {
        return cluster.start("one", work, UnaryOperator.identity());
    }

    private static UUID enqueue(Member member, String name, JobOptions options) {
        return member.jobs().enqueueNamed(name, null, options).id();
    }

    private static JobOptions after(UUID... jobs) {
        return JobOptions.defaults().withStartAfterSuccessOf(jobs);
    }

    private int dependencies() {
        return jdbc.sql("SELECT count(*) FROM forge_job_dependencies")
                .query(Integer.class)
                .single();
    }

    @Test
    void job_runs_after_all_others_have_completed_without_a_poll_or_a_sweep() {
        work.poll = Duration.ofMinutes(1);
        work.sweep = Duration.ofMinutes(1);
        Member one = start();
        Member two = cluster.start("two", work, UnaryOperator.identity());
        one.jobs().pause("job");
        List<UUID> first = IntStream.range(0, 20)
                .mapToObj(n -> enqueue(one, "job", JobOptions.defaults()))
                .toList();
        UUID last = enqueue(two, "other", JobOptions.defaults().withStartAfterSuccessOf(first));
        UUID next = enqueue(one, "other", after(last));
        assertThat(one.operations().explain(last).reason()).isEqualTo(JobExplanation.Reason.WAITING_FOR_JOBS);
        assertThat(one.operations().explain(next).text()).contains(last.toString());
        one.jobs().resume("job");

        one.ended(next);
        assertThat(order).hasSize(22).endsWith(last, next);
        assertThat(dependencies()).isZero();
    }

    @Test
    void job_after_jobs_that_have_ended_or_been_deleted_runs_at_once() {
        work.sweep = Duration.ofMinutes(1);
        Member one = start();
        UUID ended = enqueue(one, "job", JobOptions.defaults());
        one.ended(ended);
        UUID after = enqueue(one, "job", after(ended, UUID.randomUUID()));
        assertThat(one.ended(after).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void job_after_a_failed_one_is_cancelled_and_so_are_those_after_it() {
        work.sweep = Duration.ofMinutes(1);
        Member one = start();
        one.jobs().pause("bad");
        UUID bad = enqueue(one, "bad", JobOptions.defaults());
        UUID second = enqueue(one, "job", after(bad));
        UUID third = enqueue(one, "job", after(second));
        UUID anyway = enqueue(one, "job", JobOptions.defaults().withStartAfterEndOf(List.of(bad, third)));
        one.jobs().resume("bad");

        JobInfo cancelled = one.ended(second);
        assertThat(cancelled.status()).isEqualTo(JobStatus.CANCELLED);
        assertThat(cancelled.lastError()).contains(bad.toString());
        assertThat(one.ended(third).status()).isEqualTo(JobStatus.CANCELLED);
        assertThat(one.ended(anyway).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(order).containsExactly(anyway);
    }

    @Test
    void thousands_of_jobs_after_a_failed_one_are_cancelled_without_a_sweep_even_if_it_is_deleted() {
        work.sweep = Duration.ofMinutes(1);
        Member one = start();
        one.jobs().pause("bad");
        UUID bad = enqueue(one, "bad", JobOptions.defaults());
        one.jobs().enqueueAll(IntStream.range(0, 2_500).mapToObj(Later::new).toList(), after(bad));
        one.jobs().resume("bad");
        one.ended(bad);
        one.operations().deleteAll(JobFilter.all().withName("bad"), BulkOptions.defaults());
        await().untilAsserted(() -> assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'cancelled'")
                        .query(Integer.class)
                        .single())
                .isEqualTo(2_500));
        assertThat(order).isEmpty();
    }

    @Test
    void hundreds_of_jobs_that_each_wait_for_a_hundred_run_without_a_sweep() {
        work.sweep = Duration.ofMinutes(1);
        Member one = start();
        one.jobs().pause("job");
        one.jobs().pause("later");
        List<UUID> first = IntStream.range(0, 100)
                .mapToObj(n -> enqueue(one, "job", JobOptions.defaults()))
                .toList();
        one.jobs()
                .enqueueAll(
                        IntStream.range(0, 200).mapToObj(Later::new).toList(),
                        JobOptions.defaults().withStartAfterSuccessOf(first));
        one.jobs().resume("job");
        await().untilAsserted(() -> assertThat(dependencies()).isZero());
        assertThat(jdbc.sql(
                                "SELECT count(*) FROM forge_jobs WHERE name = 'later' AND status = 'pending' AND waits_for IS NULL")
                        .query(Integer.class)
                        .single())
                .isEqualTo(200);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "PERFORM pg_terminate_backend(pg_backend_pid())",
                "RAISE EXCEPTION 'too many' USING ERRCODE = '57014'"
            })
    void jobs_are_released_a_few_at_a_time_if_statements_about_more_of_them_fail(String failure) {
        work.sweep = Duration.ofMinutes(1);
        Member one = start();
        one.jobs().pause("job");
        UUID first = enqueue(one, "job", JobOptions.defaults());
        one.jobs().enqueueAll(IntStream.range(0, 40).mapToObj(Later::new).toList(), after(first));
        jdbc.sql("""
                CREATE OR REPLACE FUNCTION few_at_a_time() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF (SELECT count(*) FROM after WHERE status = 'pending' AND waits_for IS NULL) > 5 THEN %s; END IF;
                    RETURN NULL;
                END $$
                """.formatted(failure)).update();
        jdbc.sql("""
                CREATE TRIGGER few_at_a_time AFTER UPDATE ON forge_jobs REFERENCING NEW TABLE AS after
                FOR EACH STATEMENT EXECUTE FUNCTION few_at_a_time()
                """).update();
        try {
            one.jobs().resume("job");
            await().untilAsserted(() -> assertThat(dependencies()).isZero());
            await().untilAsserted(() -> assertThat(order).hasSize(41));
        } finally {
            jdbc.sql("DROP TRIGGER few_at_a_time ON forge_jobs").update();
        }
    }

    @Test
    void cancelled_job_cancels_those_after_it() {
        work.sweep = Duration.ofMinutes(1);
        Member one = start();
        one.jobs().pause("job");
        UUID first = enqueue(one, "job", JobOptions.defaults());
        UUID second = enqueue(one, "job", after(first));
        one.jobs().cancel(first);
        assertThat(one.ended(second).status()).isEqualTo(JobStatus.CANCELLED);
    }

    @Test
    void job_of_a_batch_may_wait_for_another_one() {
        Member one = start();
        one.jobs().pause("bad");
        JobBatch batch = one.jobs().batch(JobBatchOptions.named("batch"));
        UUID bad = enqueue(one, "bad", JobOptions.defaults().withBatch(batch.id()));
        UUID second = enqueue(one, "job", after(bad).withBatch(batch.id()));
        batch.close();
        one.jobs().resume("bad");
        assertThat(one.ended(second).status()).isEqualTo(JobStatus.CANCELLED);
        await().until(() -> batch.info().orElseThrow().status() == JobBatchStatus.FAILED);
        assertThat(batch.info().orElseThrow().total()).isEqualTo(2);
        refused(
                () -> enqueue(one, "job", after(bad).withBatch(batch.id())),
                batch.id().toString(),
                "closed");
        await().untilAsserted(() -> assertThat(dependencies()).isZero());
    }

    @Test
    void sweep_releases_jobs_whose_predecessor_was_changed_by_hand_and_forgets_cancelled_ones() {
        work.sweep = Duration.ofMillis(100);
        Member one = start();
        one.jobs().pause("job");
        UUID first = enqueue(one, "job", JobOptions.defaults());
        UUID second = enqueue(one, "other", after(first));
        UUID third = enqueue(one, "other", after(first));
        one.jobs().cancel(third);
        await().untilAsserted(() -> assertThat(dependencies()).isEqualTo(1));
        assertThat(one.jobs().find(second).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        jdbc.sql("UPDATE forge_jobs SET status = 'completed' WHERE id = ?")
                .param(first)
                .update();
        assertThat(one.ended(second).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(dependencies()).isZero();
    }

    @Test
    void unique_keys_and_wrong_numbers_of_jobs_are_refused() {
        Member one = start();
        refused(() -> enqueue(one, "job", after(UUID.randomUUID()).withUniqueKey("k")), "'k'", "waits");
        assertThatIllegalArgumentException().isThrownBy(() -> after()).withMessageContaining("number of jobs (0)");
    }
}
