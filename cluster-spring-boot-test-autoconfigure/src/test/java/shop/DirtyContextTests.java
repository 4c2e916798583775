// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;

import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import org.junit.jupiter.api.RepeatedTest;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.test.annotation.DirtiesContext;
import shop.Mailing.Ship;

@ClusterTest
class DirtyContextTests {

    @Autowired
    private ClusterTester cluster;

    @RepeatedTest(2)
    @DirtiesContext
    void test_after_a_dirty_one_has_a_node() {
        assertThat(cluster.perform(new Ship("ada"))).isCompleted();
    }
}
