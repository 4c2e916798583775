// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;

import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import shop.UnusualHandlers.Slow;

@ClusterTest(
        properties = {
            "forge.cluster.job.lease-duration=1s",
            "forge.cluster.job.heartbeat-interval=300ms",
            "forge.cluster.sweep.interval=500ms"
        })
class ShortLeaseTests {

    @Autowired
    private ClusterTester cluster;

    @Test
    void handler_that_a_developer_stops_at_a_breakpoint_keeps_its_claim() {
        assertThat(cluster.perform(new Slow(1_500))).isCompleted().hasResult("done");
    }
}
