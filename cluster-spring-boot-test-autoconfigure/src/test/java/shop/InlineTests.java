// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.transaction.support.TransactionTemplate;
import shop.Mailing.SendMail;
import shop.Mailing.SendReminder;
import shop.Mailing.Ship;
import shop.UnusualHandlers.Delegated;

@ClusterTest(mode = ClusterTester.Mode.INLINE)
class InlineTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    @Autowired
    private TransactionTemplate transaction;

    @Test
    void job_runs_with_the_commit() {
        UUID id = jobs.enqueue(new Ship("ada")).id();
        assertThat(jobs.find(id).orElseThrow().status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void job_waits_for_the_commit() {
        UUID id = transaction.execute(status -> {
            UUID enqueued = jobs.enqueue(new Ship("ada")).id();
            assertThat(jobs.find(enqueued).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            return enqueued;
        });
        assertThat(jobs.find(id).orElseThrow().status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void job_of_a_rolled_back_transaction_does_not_run() {
        transaction.executeWithoutResult(status -> {
            jobs.enqueue(new Ship("ada"));
            status.setRollbackOnly();
        });
        assertThat(jobs).enqueuedNothing();
    }

    @Test
    void handler_may_enqueue_on_another_thread() {
        jobs.enqueue(new Delegated("ada"));
        assertThat(jobs).enqueued(Ship.class).withStatus(JobStatus.COMPLETED).once();
    }

    @Test
    void delayed_job_runs_when_the_time_has_moved() {
        jobs.enqueue(new SendMail("ada", "hello"));
        assertThat(jobs)
                .enqueued(SendReminder.class)
                .withStatus(JobStatus.PENDING)
                .once();
        cluster.clock().advance(Duration.ofDays(3));
        assertThat(jobs)
                .enqueued(SendReminder.class)
                .withStatus(JobStatus.COMPLETED)
                .once();
        jobs.enqueue(new Ship("eve"), JobOptions.defaults().withDelay(Duration.ofMinutes(1)));
        assertThat(jobs).enqueued(Ship.class).withStatus(JobStatus.PENDING).once();
    }
}
