// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;

import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import org.junit.jupiter.api.RepeatedTest;
import org.springframework.beans.factory.annotation.Autowired;
import shop.Mailing.SendMail;
import shop.Mailing.SendReminder;

/** Measures tests of the kit. */
@ClusterTest
class KitTimesTests extends MeasuredTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    @RepeatedTest(TESTS)
    void mail_is_sent() {
        assertThat(cluster.perform(new SendMail("ada", "Hello"))).isCompleted();
        assertThat(jobs).enqueued(SendReminder.class).once();
        ended();
    }
}
