// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.JobTimeoutException;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.ClusterTestLifecycle;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.JobRun;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.context.ApplicationContext;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;
import shop.Mailing.Flaky;
import shop.Mailing.SendMail;
import shop.Mailing.SendReminder;
import shop.Mailing.Ship;
import shop.UnusualHandlers.Endless;
import shop.UnusualHandlers.Forgotten;

@ClusterTest
class ClusterTestTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    @Autowired
    private JdbcClient jdbc;

    @Test
    void slice_has_handlers_and_no_web(@Autowired ApplicationContext context) {
        assertThat(context.getBeanNamesForType(Mailing.class)).hasSize(1);
        assertThat(context.getBeanNamesForType(OrderController.class)).isEmpty();
    }

    @Test
    void nothing_runs_by_itself() {
        UUID id = jobs.enqueue(new Ship("ada")).id();
        assertThat(jobs.find(id).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        JobRun run = cluster.run(id);
        assertThat(run).isCompleted().hasAttempts(1);
        assertThat(orders("shipped")).containsExactly("ada");
    }

    @RepeatedTest(3)
    void tables_begin_with_their_first_rows() {
        assertThat(jdbc.sql("SELECT customer FROM orders").query(String.class).list())
                .containsExactly("first");
        assertThat(jobs).enqueuedNothing();
        jdbc.sql("UPDATE orders SET status = 'changed'").update();
        long order = jdbc.sql("INSERT INTO orders (customer) VALUES ('x') RETURNING id")
                .query(Long.class)
                .single();
        jdbc.sql("INSERT INTO order_lines VALUES (?, 'a')").params(order).update();
        assertThat(order).isEqualTo(2);
        jobs.enqueue(new Ship("ada"));
    }

    @Test
    void perform_returns_the_result() {
        JobRun run = cluster.perform(new SendMail("ada", "hello"));
        assertThat(run).isCompleted().hasResult("sent to ada");
        assertThat(jobs)
                .enqueued(SendReminder.class)
                .withPayload(reminder -> reminder.to().equals("ada"))
                .withDelay(Duration.ofDays(3))
                .once();
    }

    @Test
    void failure_is_that_of_the_handler() {
        JobRun run = cluster.perform(new SendMail("", "hello"));
        assertThat(run).hasStatus(JobStatus.PENDING).hasFailed().isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void delays_follow_the_time() {
        cluster.perform(new SendMail("ada", "hello"));
        cluster.clock().advance(Duration.ofDays(3).minusMillis(1));
        assertThat(cluster.runAllDue()).extracting(JobRun::name).doesNotContain("remind");
        assertThat(orders("reminded")).isEmpty();
        cluster.clock().advance(Duration.ofMillis(1));
        assertThat(cluster.runAllDue()).extracting(JobRun::name).containsExactly("remind");
        assertThat(orders("reminded")).containsExactly("ada");
    }

    @Test
    void retries_follow_the_time() {
        UUID id = jobs.enqueue(new Flaky(4)).id();
        JobRun first = cluster.run(id);
        assertThat(first).hasFailed();
        assertThatThrownBy(() -> cluster.run(id)).hasMessageContaining("is due at");
        Instant begin = cluster.clock().instant();
        JobRun last = cluster.retryUntilFinal(id);
        assertThat(last).isCompleted().hasAttempts(4);
        assertThat(cluster.clock().instant()).isAfter(begin);
    }

    @Test
    void last_attempt_fails_for_good() {
        UUID id = jobs.enqueue(new Flaky(99)).id();
        assertThat(cluster.retryUntilFinal(id)).hasStatus(JobStatus.FAILED).hasAttempts(5);
    }

    @Test
    void job_without_retention_can_be_looked_at() {
        assertThat(cluster.perform(new Forgotten("gone"))).isCompleted().hasResult("gone");
        jobs.enqueue(new Forgotten("gone"));
        jobs.enqueue(new Ship("ada"));
        assertThat(cluster.runAllDue()).hasSize(2);
        assertThat(jobs).enqueued(Forgotten.class).times(2);
    }

    @Test
    void fault_outlasts_a_new_beginning(@Autowired ClusterTestLifecycle lifecycle) {
        cluster.crashAfterHandler("ship");
        cluster.beginAt(Instant.parse("2030-01-01T00:00:00Z"));
        assertThatThrownBy(lifecycle::requireFaultsHappened).hasMessageContaining("ship");
        assertThat(cluster.retryUntilFinal(jobs.enqueue(new Ship("ada")).id())).isCompleted();
    }

    @Test
    @Transactional
    void job_that_waits_for_the_transaction_of_the_test_is_reported_soon() {
        jdbc.sql("LOCK TABLE orders IN EXCLUSIVE MODE").update();
        assertThatThrownBy(() -> cluster.perform(new Ship("ada")))
                .hasMessageContainingAll("the test's own transaction holds", "INSERT INTO orders");
    }

    @Test
    void attempt_that_takes_too_long_has_failed_with_its_timeout() {
        assertThat(cluster.perform(new Endless("for ever")))
                .hasFailed()
                .isInstanceOf(JobTimeoutException.class)
                .hasCauseInstanceOf(InterruptedException.class);
    }

    @Test
    void impossible_times_are_refused() {
        Instant before = cluster.clock().instant();
        assertThatThrownBy(() -> cluster.beginAt(Instant.parse("1999-12-31T23:59:59Z")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("2000-01-01T00:00:00Z");
        assertThatThrownBy(() -> cluster.runFor(Duration.ofDays(-1))).isInstanceOf(IllegalArgumentException.class);
        assertThat(cluster.clock().instant()).isEqualTo(before);
    }

    @Test
    void fault_that_does_not_happen_fails_the_test(@Autowired ClusterTestLifecycle lifecycle) {
        cluster.crashAfterHandler("no such job");
        cluster.failStep("no such step", 1);
        assertThatThrownBy(lifecycle::requireFaultsHappened)
                .isInstanceOf(AssertionError.class)
                .hasMessageContainingAll("no such job", "no such step");
        lifecycle.begin();
        lifecycle.requireFaultsHappened();
    }

    @Test
    void messages_say_what_was_found() {
        jobs.enqueue(
                new Ship("ada"),
                JobOptions.defaults()
                        .withTags("express")
                        .withDelay(Duration.ofHours(1))
                        .withUniqueKey("k"));
        assertThatThrownBy(() -> assertThat(jobs).enqueued(Ship.class).withTag("slow"))
                .hasMessageContainingAll("with tag slow", "tags [express]", "delay PT1H", "unique key k", "ada");
        assertThatThrownBy(() ->
                        assertThat(cluster.perform(new SendMail("ada", "x"))).hasResult(42))
                .isInstanceOf(AssertionError.class)
                .hasMessageContainingAll("42", "sent to ada");
        assertThatThrownBy(() -> cluster.failStep("charge", 0)).hasMessageContaining("times (0)");
        assertThatThrownBy(() -> cluster.node(1)).hasMessageContaining("nodes = 2");
    }

    @Test
    void payload_that_no_handler_takes_is_no_proof() {
        assertThatThrownBy(() -> assertThat(jobs).neverEnqueued(Integer.class)).hasMessageContaining("No handler");
    }

    @Test
    void block_runs_jobs_inline() {
        cluster.inline(() -> {
            UUID id = jobs.enqueue(new Ship("ada")).id();
            assertThat(jobs.find(id).orElseThrow().status()).isEqualTo(JobStatus.COMPLETED);
        });
        UUID id = jobs.enqueue(new Ship("eve")).id();
        assertThat(jobs.find(id).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void clocks_of_the_application_follow(@Autowired Clock clock) {
        Instant begin = clock.instant();
        cluster.clock().advance(Duration.ofDays(100));
        assertThat(clock.instant()).isEqualTo(begin.plus(Duration.ofDays(100)));
        assertThat(clock.getZone()).isEqualTo(ZoneId.of("Europe/Berlin"));
        assertThat(jdbc.sql("SELECT now()")
                        .query(java.time.OffsetDateTime.class)
                        .single()
                        .toInstant())
                .isEqualTo(clock.instant());
    }

    @Test
    @Transactional
    void uncommitted_jobs_are_seen() {
        jobs.enqueue(new Ship("eve"), JobOptions.defaults().withUniqueKey("eve"));
        assertThat(jobs).enqueued(Ship.class).withUniqueKey("eve").once();
        assertThat(jobs).neverEnqueued(SendMail.class);
        assertThat(cluster.perform(new Ship("bob"))).isCompleted();
    }

    @Test
    void job_of_a_crashed_node_runs_again() {
        UUID id = jobs.enqueue(new Ship("ada")).id();
        cluster.crashAfterHandler("ship");
        assertThat(cluster.run(id)).hasStatus(JobStatus.PENDING);
        assertThat(orders("shipped")).isEmpty();
        assertThat(cluster.retryUntilFinal(id)).isCompleted();
        assertThat(orders("shipped")).containsExactly("ada");
    }

    private List<String> orders(String status) {
        return jdbc.sql("SELECT customer FROM orders WHERE status = ? ORDER BY id")
                .params(status)
                .query(String.class)
                .list();
    }
}
