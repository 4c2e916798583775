// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import java.time.Duration;
import java.time.Instant;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.transaction.annotation.Transactional;
import shop.Mailing.SendMail;
import shop.Mailing.SendReminder;

@ClusterTest(mode = ClusterTester.Mode.LIVE)
class LiveTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    @Test
    void jobs_run_by_themselves_and_the_time_can_be_moved() {
        jobs.enqueue(new SendMail("ada", "hello"));
        cluster.eventually(() -> assertThat(jobs)
                .enqueued(SendMail.class)
                .withStatus(JobStatus.COMPLETED)
                .once());
        assertThat(jobs)
                .enqueued(SendReminder.class)
                .withStatus(JobStatus.PENDING)
                .once();
        cluster.clock().advance(Duration.ofDays(3));
        cluster.eventually(() -> assertThat(jobs)
                .enqueued(SendReminder.class)
                .withStatus(JobStatus.COMPLETED)
                .once());
    }

    @RepeatedTest(2)
    void limits_of_keys_follow_the_time_and_begin_anew(@Autowired RateLimiter limiter) {
        RateLimit hourly = RateLimit.of(1, Duration.ofHours(1));
        assertThat(limiter.tryAcquire("export", "ada", hourly).allowed()).isTrue();
        assertThat(limiter.tryAcquire("export", "ada", hourly).allowed()).isFalse();
        cluster.clock().advance(Duration.ofHours(2));
        assertThat(limiter.tryAcquire("export", "ada", hourly).allowed()).isTrue();
    }

    @Test
    @Transactional
    void time_can_be_moved_in_a_transaction_that_enqueues() {
        jobs.enqueue(new SendMail("ada", "hello"));
        Instant before = cluster.clock().instant();
        cluster.clock().advance(Duration.ofDays(1));
        assertThat(cluster.clock().instant()).isAfterOrEqualTo(before.plus(Duration.ofDays(1)));
    }

    @RepeatedTest(2)
    void role_that_a_test_joins_is_left_after_it(@Autowired Leadership leadership) {
        assertThat(leadership.isLeader("imports")).isFalse();
        leadership.join("imports");
        cluster.eventually(() -> assertThat(leadership.isLeader("imports")).isTrue());
    }

    @Test
    void tables_are_clean_and_steps_are_refused() {
        assertThat(jobs).enqueuedNothing();
        assertThatIllegalStateException().isThrownBy(cluster::runAllDue).withMessageContaining("eventually");
    }
}
