// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
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

    @Test
    void tables_are_clean_and_steps_are_refused() {
        assertThat(jobs).enqueuedNothing();
        assertThatIllegalStateException().isThrownBy(cluster::runAllDue).withMessageContaining("eventually");
    }
}
