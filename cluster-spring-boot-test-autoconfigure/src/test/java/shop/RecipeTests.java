// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.JobRun;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.core.io.ClassPathResource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;
import shop.Mailing.Flaky;
import shop.Mailing.SendMail;
import shop.Mailing.SendReminder;
import shop.Mailing.Ship;

/** The recipes of the guide, docs/reference/testing.md; {@link RecipePageTests} compares them. */
@ClusterTest
class RecipeTests {

    @Autowired
    ClusterTester cluster;

    @Autowired
    Jobs jobs;

    @Autowired
    Crons crons;

    @Autowired
    Workflows workflows;

    @Autowired
    RateLimiter limiter;

    @Autowired
    JdbcClient jdbc;

    // recipe
    @Test
    @Transactional
    void order_enqueues_a_shipment() {
        jobs.enqueue(
                new Ship("ada"),
                JobOptions.defaults().withDelay(Duration.ofHours(2)).withTags("express"));

        assertThat(jobs)
                .enqueued(Ship.class)
                .withPayload(ship -> ship.customer().equals("ada"))
                .withDelay(Duration.ofHours(2))
                .withTag("express")
                .once();
        assertThat(jobs).neverEnqueued(SendMail.class);
    }

    // recipe
    @Test
    void mail_is_sent() {
        JobRun run = cluster.perform(new SendMail("ada", "Hello"));

        assertThat(run).isCompleted().hasResult("sent to ada");
        assertThat(jobs)
                .enqueued(SendReminder.class)
                .withDelay(Duration.ofDays(3))
                .once();
    }

    // recipe
    @Test
    void job_is_retried_with_backoff() {
        UUID job = jobs.enqueue(new Flaky(3)).id();

        JobRun first = cluster.run(job);
        assertThat(first).hasStatus(JobStatus.PENDING).hasFailed().hasMessage("attempt 1");
        assertThat(first.nextAttempt().orElseThrow()).isAfter(cluster.clock().instant());

        assertThat(cluster.retryUntilFinal(job)).isCompleted().hasAttempts(3);
    }

    // recipe
    @Test
    void report_skips_the_hour_that_does_not_exist() {
        // On 28 March 2027 the clocks of Berlin go from 2:00 to 3:00.
        assertThat(crons)
                .fires("nightly-report")
                .at(LocalDateTime.parse("2027-03-27T02:30"), LocalDateTime.parse("2027-03-29T02:30"))
                .timesIn(2027, 364);

        cluster.beginAt(Instant.parse("2027-03-27T12:00:00Z"));
        cluster.runFor(Duration.ofDays(3));
        assertThat(crons.runs("nightly-report", 10).items())
                .extracting(run -> run.slot().toString())
                .containsExactlyInAnyOrder("2027-03-29T00:30:00Z", "2027-03-30T00:30:00Z");
    }

    // recipe
    @Test
    void report_runs_once_after_an_outage_of_three_days() {
        cluster.runAllDue();
        cluster.clock().advance(Duration.ofDays(3));

        assertThat(cluster.runAllDue()).extracting(JobRun::name).containsExactly("nightly-report");
    }

    // recipe
    @Test
    void checkout_waits_three_days_and_is_undone_without_a_confirmation() {
        UUID run = workflows.start("checkout", new Checkout.Order("ada"));
        cluster.failStep("charge", 1);
        cluster.crashAfterStep("reserve");
        cluster.runFor(Duration.ofMinutes(5));
        assertThat(cluster.workflow(run)).hasCompletedSteps("reserve", "charge").hasStatus(WorkflowStatus.WAITING);

        assertThat(cluster.skipWait(run)).waitsForSignal("confirmed");
        assertThat(cluster.skipWait(run)).hasStatus(WorkflowStatus.COMPENSATED).hasCompensated("charge", "reserve");
    }

    // recipe
    @Test
    void runs_of_production_continue_with_this_code() throws IOException {
        String runs = new ClassPathResource("runs-of-production.jsonl").getContentAsString(StandardCharsets.UTF_8);
        cluster.replayer().requireCompatible(runs);

        String olderCode = runs.replace("\"charge\"", "\"bill\"");
        assertThat(cluster.replayer().replay(olderCode))
                .extracting(difference -> difference.message())
                .containsOnly(
                        "History mismatch at position 1: recorded step 'bill', but the method calls step 'charge'");
    }

    // recipe
    @Test
    void customer_gets_one_shipment_per_hour() {
        JobOptions hourly = JobOptions.defaults().withUniqueKey("ada").withUniqueFor(Duration.ofHours(1));
        jobs.enqueue(new Ship("ada"), hourly);
        cluster.runAllDue();
        assertThat(jobs.enqueue(new Ship("ada"), hourly).created()).isFalse();

        cluster.clock().advance(Duration.ofHours(1).plusMillis(1));
        assertThat(jobs.enqueue(new Ship("ada"), hourly).created()).isTrue();
    }

    // recipe
    @Test
    void two_exports_per_minute_are_allowed() {
        RateLimit limit = RateLimit.of(2, Duration.ofMinutes(1));
        assertThat(limiter.tryAcquire("export", limit).allowed()).isTrue();
        assertThat(limiter.tryAcquire("export", limit).allowed()).isTrue();
        assertThat(limiter.tryAcquire("export", limit).allowed()).isFalse();

        cluster.clock().advance(Duration.ofSeconds(30));
        assertThat(limiter.tryAcquire("export", limit).allowed()).isTrue();
    }
}
