// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.springframework.core.ParameterizedTypeReference;

/** Results, lists and counts of jobs. */
@ClusterPostgres
class JobQueryTests extends JobFixture {

    JobQueryTests(TestDatabase database) {
        super(database);
    }

    private Member start() {
        return cluster.start("one", work, UnaryOperator.identity());
    }

    @Test
    void result_is_read_as_a_class_or_as_a_generic_type() {
        work.on(job("order"), (payload, context) -> List.of(new Order("anvil", 2)));
        work.on(job("number"), (payload, context) -> 42);
        work.on("nothing", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        Jobs jobs = member.jobs();
        UUID order = jobs.enqueueNamed("order", null).id();
        UUID number = jobs.enqueueNamed("number", null).id();
        UUID nothing = jobs.enqueueNamed("nothing", null).id();
        List.of(order, number, nothing).forEach(member::ended);
        assertThat(jobs.result(order, new ParameterizedTypeReference<List<Order>>() {}))
                .hasValue(List.of(new Order("anvil", 2)));
        assertThat(jobs.result(number, Integer.class)).hasValue(42);
        assertThat(jobs.result(number, int.class)).hasValue(42);
        assertThat(jobs.result(nothing, String.class)).isEmpty();
        assertThat(jobs.result(UUID.randomUUID(), String.class)).isEmpty();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> jobs.result(order, Integer.class))
                .withMessageContaining(order.toString())
                .withMessageContaining("java.lang.Integer");
    }

    @Test
    void job_that_has_not_completed_has_no_result() {
        work.on(job("job"), (payload, context) -> "done");
        Member member = start();
        Jobs jobs = member.jobs();
        jobs.pause("job");
        UUID id = jobs.enqueueNamed("job", null).id();
        jdbc.sql("UPDATE forge_jobs SET result = '\"early\"' WHERE id = ?")
                .param(id)
                .update();
        assertThat(jobs.result(id, String.class)).isEmpty();
    }

    @Test
    void enqueue_distinguishes_new_and_existing_jobs() {
        work.on("job", context -> {});
        Member member = start();
        Jobs jobs = member.jobs();
        jobs.pause("job");
        JobOptions options = JobOptions.defaults().withUniqueKey("key");
        EnqueuedJob first = jobs.enqueueNamed("job", null, options);
        assertThat(first.created()).isTrue();
        assertThat(jobs.enqueueNamed("job", null, options)).isEqualTo(new EnqueuedJob(first.id(), false));
        assertThat(jobs.enqueueNamed("job", null, options.withUniqueKey("key", UniquePolicy.REPLACE)))
                .as("a pending job is overwritten and keeps its id")
                .isEqualTo(new EnqueuedJob(first.id(), false));
        assertThat(jobs.enqueueNamed("job", null).created()).isTrue();
    }

    @Test
    void pause_and_resume_return_whether_they_changed_anything() {
        work.on("job", context -> {});
        Member member = start();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        assertThat(jobs.resume("job")).isFalse();
        assertThat(jobs.pause("job")).isTrue();
        assertThat(jobs.pause("job")).isFalse();
        assertThat(operations.paused()).containsExactly("job");
        assertThat(jobs.resume("job")).isTrue();
    }

    @Test
    void all_conditions_of_a_filter_hold_for_listed_and_counted_jobs() {
        work.on("job", context -> {});
        work.on("other", context -> {});
        Member member = start();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        List.of("job", "other").forEach(jobs::pause);
        UUID old = jobs.enqueueNamed("job", null).id();
        UUID failed = jobs.enqueueNamed("job", null).id();
        UUID delayed = jobs.enqueueNamed("job", null, JobOptions.defaults().withDelay(Duration.ofDays(1)))
                .id();
        UUID other = jobs.enqueueNamed("other", null).id();
        jdbc.sql("UPDATE forge_jobs SET created_at = now() - interval '2 days' WHERE id = ?")
                .param(old)
                .update();
        jdbc.sql("UPDATE forge_jobs SET status = 'failed', finished_at = now() WHERE id = ?")
                .param(failed)
                .update();
        Instant yesterday = Instant.now().minus(Duration.ofDays(1));
        JobFilter all = JobFilter.all();
        selects(operations, all, other, delayed, failed, old);
        selects(operations, all.withName("job"), delayed, failed, old);
        selects(operations, all.withName("nobody"));
        selects(operations, all.withStatuses(JobStatus.PENDING), other, delayed, old);
        selects(
                operations,
                all.withStatuses(JobStatus.FAILED, JobStatus.PENDING).withName("job"),
                delayed,
                failed,
                old);
        selects(operations, all.withStatuses(JobStatus.RUNNING));
        selects(operations, all.withStatuses(), other, delayed, failed, old);
        selects(operations, all.withCreatedFrom(yesterday), other, delayed, failed);
        selects(operations, all.withCreatedBefore(yesterday), old);
        selects(operations, all.withCreatedBefore(yesterday).withName("other"));
        selects(
                operations,
                all.withCreatedFrom(yesterday).withStatuses(JobStatus.PENDING).withName("job"),
                delayed);
        selects(
                operations,
                all.withCreatedFrom(Instant.MIN).withCreatedBefore(Instant.MAX),
                other,
                delayed,
                failed,
                old);
        assertThatIllegalArgumentException().isThrownBy(() -> operations.count(all.withName("a\0b")));
        assertThat(operations.search(all, 2).items()).extracting(JobInfo::id).containsExactly(other, delayed);
    }

    private static void selects(JobOperations operations, JobFilter filter, UUID... jobs) {
        assertThat(operations.search(filter, 1_000).items())
                .extracting(JobInfo::id)
                .containsExactlyInAnyOrder(jobs);
        assertThat(operations.count(filter)).isEqualTo(new JobCount(jobs.length, true));
    }

    @Test
    void count_beyond_the_scan_limit_is_marked_as_incomplete() {
        work.on("few", context -> {});
        Member member = start();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        jobs.pause("few");
        jobs.enqueueNamed("few", null);
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, payload, status, finished_at)
                SELECT gen_random_uuid(), 'many', '{}', 'completed', now() FROM generate_series(1, 10050)
                """).update();
        assertThat(operations.count(JobFilter.all())).isEqualTo(new JobCount(10_000, false));
        assertThat(operations.count(JobFilter.all().withStatuses(JobStatus.COMPLETED)))
                .isEqualTo(new JobCount(10_000, false));
        assertThat(operations.count(JobFilter.all().withStatuses(JobStatus.PENDING)))
                .isEqualTo(new JobCount(1, true));
        assertThat(operations.count(JobFilter.all().withName("few").withStatuses(JobStatus.PENDING, JobStatus.RUNNING)))
                .isEqualTo(new JobCount(1, true));
    }
}
