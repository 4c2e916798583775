// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.JobRun;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.context.ApplicationContext;
import org.springframework.jdbc.core.simple.JdbcClient;
import shop.Exporting.Export;
import shop.Inherited.Import;
import shop.Mailing.Flaky;
import shop.Mailing.SendMail;
import shop.Mailing.SendReminder;
import shop.Mailing.Ship;
import shop.Results.Compute;
import shop.Results.FailAtCommit;
import shop.Results.InBulk;

/** Assertions fail where what they say is not so. */
@ClusterTest
class AssertionTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    @Autowired
    private JobOperations operations;

    @Autowired
    private JdbcClient jdbc;

    private static void fails(ThrowingCallable assertion, String... parts) {
        assertThatThrownBy(assertion)
                .isInstanceOf(AssertionError.class)
                .satisfies(
                        e -> assertThat(parts).allSatisfy(part -> assertThat(e).hasMessageContaining(part)));
    }

    // Enqueued jobs -----------------------------------------------------------------------------------------

    private void ship(int count) {
        jobs.enqueueAll(
                IntStream.range(0, count).mapToObj(i -> new Ship("c" + i)).toList());
    }

    @Test
    void all_jobs_are_counted() {
        ship(1_500);
        assertThat(jobs).enqueued(Ship.class).times(1_500);
        fails(() -> assertThat(jobs).enqueued(Ship.class).times(1_000), "found 1500", "and 1480 more");
        assertThat(jobs).enqueued(Ship.class).withPayload(new Ship("c3")).once();
        assertThat(jobs).enqueued(Ship.class).withPayload(new Ship("c1499")).once();
        assertThat(jobs).neverEnqueued(SendMail.class);
        assertThat(operations
                        .count(dev.forge.cluster.job.operations.JobFilter.all())
                        .jobs())
                .isEqualTo(1_500);
    }

    @Test
    void jobs_are_listed_in_their_order_with_payloads() {
        ship(20);
        assertThat(assertThat(jobs).enqueued(Ship.class).jobs())
                .extracting(job -> job.payload().replaceAll("\\D", ""))
                .containsExactlyElementsOf(
                        IntStream.range(0, 20).mapToObj(Integer::toString).toList());
    }

    @Test
    void too_many_jobs_fail_the_assertion() {
        jdbc.sql(
                        "INSERT INTO forge_jobs (id, name, payload) SELECT gen_random_uuid(), 'ship', '{}' FROM generate_series(1, 10001)")
                .update();
        fails(() -> assertThat(jobs).enqueued(Ship.class), "More than 10000 jobs");
    }

    @Test
    void names_are_asserted_and_misspelt_ones_are_no_proof() {
        assertThat(jobs).neverEnqueuedNamed("ship");
        fails(() -> assertThat(jobs).neverEnqueuedNamed("shipp"), "Unknown job 'shipp'", "ship");
        assertThat(jobs).neverEnqueuedNamed("workflow:checkout@1");
        fails(() -> assertThat(jobs).neverEnqueuedNamed("workflow:chekout@1"), "'workflow:chekout@1'");
        fails(() -> assertThat(jobs).neverEnqueuedNamed("daemon:feed"), "'daemon:feed'");
        ship(1);
        assertThat(jobs).enqueuedNamed("ship").once();
        fails(() -> assertThat(jobs).neverEnqueuedNamed("ship"), "Expected no job ship", "c0");
        fails(() -> assertThat(jobs).enqueuedNamed("shipp"), "found none");
    }

    @Test
    void delay_is_that_of_enqueueing() {
        JobRun first = cluster.perform(new Flaky(3));
        Duration backoff =
                Duration.between(first.job().createdAt(), first.nextAttempt().orElseThrow());
        fails(
                () -> assertThat(jobs).enqueued(Flaky.class).withDelay(backoff),
                "found none",
                "no longer tell the delay of 1 jobs");
        jobs.enqueue(new Flaky(1), JobOptions.defaults().withDelay(Duration.ofDays(2)));
        assertThat(jobs).enqueued(Flaky.class).withDelay(Duration.ofDays(2));
        fails(
                () -> assertThat(jobs)
                        .enqueued(Flaky.class)
                        .withDelay(Duration.ofDays(2))
                        .once(),
                "no longer tell");
        assertThat(jobs)
                .enqueued(Flaky.class)
                .withDelay(Duration.ofDays(2))
                .withPayload(new Flaky(1))
                .once();
    }

    @Test
    void delay_is_known_after_the_only_attempt() {
        jobs.enqueue(new SendReminder("ada"), JobOptions.defaults().withDelay(Duration.ofDays(3)));
        cluster.runFor(Duration.ofDays(4));
        assertThat(jobs)
                .enqueued(SendReminder.class)
                .withStatus(JobStatus.COMPLETED)
                .withDelay(Duration.ofDays(3))
                .once();
    }

    // Attempts ----------------------------------------------------------------------------------------------

    @Test
    void results_are_compared_as_json() {
        JobRun decimal = cluster.perform(new Compute("decimal"));
        assertThat(decimal).hasResult(1.9);
        fails(() -> assertThat(decimal).hasResult(1), "Expected result 1", "1.9");
        JobRun text = cluster.perform(new Compute("text"));
        assertThat(text).hasResult("42");
        fails(() -> assertThat(text).hasResult(42));
        JobRun number = cluster.perform(new Compute("number"));
        assertThat(number).hasResult(42).hasResult(42L);
        fails(() -> assertThat(number).hasResult("42"));
        fails(() -> assertThat(number).hasResult(null));
        JobRun list = cluster.perform(new Compute("list"));
        assertThat(list).hasResult(List.of("a", "b"));
        fails(() -> assertThat(list).hasResult(List.of("b", "a")));
        JobRun map = cluster.perform(new Compute("map"));
        assertThat(map).hasResult(Map.of("b", List.of(2, 3L), "a", 1));
        fails(() -> assertThat(map).hasResult(Map.of("a", 1)));
        JobRun record = cluster.perform(new Compute("record"));
        assertThat(record).hasResult(new Compute("record"));
        fails(() -> assertThat(record).hasResult(new Compute("other")));
        assertThat(cluster.perform(new Ship("ada"))).hasResult(null);
    }

    @Test
    void failure_at_the_commit_is_seen() {
        JobRun run = cluster.perform(new FailAtCommit("twice"));
        assertThat(run).hasStatus(JobStatus.PENDING).hasFailed().hasMessageContaining("once_name_key");
        fails(() -> assertThat(run).isCompleted(), "once_name_key");
        assertThat(run.failure()).isEmpty();
    }

    @Test
    void unreadable_payload_is_a_failure() {
        UUID id = jobs.enqueue(new Ship("ada")).id();
        jdbc.sql("UPDATE forge_jobs SET payload = '{\"customer\": {\"a\": 1}}'").update();
        assertThat(cluster.run(id)).hasFailed().hasMessageContaining("customer");
    }

    @Test
    void failure_in_bulk_is_seen() {
        JobRun first = cluster.perform(new InBulk("a"));
        assertThat(first).hasAttempts(1).hasFailed().hasMessageContaining("none of 1");
        assertThat(cluster.retryUntilFinal(first.id()))
                .hasStatus(JobStatus.FAILED)
                .hasFailed();
    }

    @Test
    void completed_and_lost_attempts_have_not_failed() {
        UUID id = jobs.enqueue(new Flaky(2)).id();
        assertThat(cluster.run(id)).hasFailed();
        JobRun last = cluster.retryUntilFinal(id);
        fails(() -> assertThat(last).hasFailed(), "COMPLETED after 2 attempts");
        UUID lost = jobs.enqueue(new Ship("ada")).id();
        cluster.crashAfterHandler("ship");
        JobRun run = cluster.run(lost);
        fails(() -> assertThat(run).hasFailed());
    }

    // The auditor -------------------------------------------------------------------------------------------

    @Test
    void auditor_lists_runs_that_have_not_completed(@Autowired Workflows workflows) {
        UUID run = workflows.start("checkout", new Checkout.Order("ada"));
        cluster.runAllDue();
        fails(() -> cluster.auditor().allRunsCompleted(), run.toString(), "waiting");
        cluster.runFor(Duration.ofDays(4));
        assertThat(cluster.workflow(run)).hasStatus(WorkflowStatus.COMPENSATED);
        cluster.auditor().allJobsCompleted();
        fails(() -> cluster.auditor().allRunsCompleted(), run.toString(), "compensated", "not confirmed");
    }

    @Test
    void auditor_accepts_completed_runs(@Autowired Workflows workflows) {
        UUID run = workflows.start("checkout", new Checkout.Order("ada"));
        cluster.runAllDue();
        cluster.skipWait(run);
        cluster.signal(run, "confirmed", null);
        cluster.runAllDue();
        cluster.auditor().allRunsCompleted();
    }

    // The slice ---------------------------------------------------------------------------------------------

    @Test
    void slice_has_beans_that_inherit_handlers(@Autowired ApplicationContext context) {
        assertThat(context.getBeanNamesForType(Importer.class)).hasSize(1);
        assertThat(context.getBeanNamesForType(Exporter.class)).hasSize(1);
        assertThat(cluster.perform(new Import("a"))).isCompleted();
        assertThat(cluster.perform(new Export("a"))).isCompleted();
    }
}
