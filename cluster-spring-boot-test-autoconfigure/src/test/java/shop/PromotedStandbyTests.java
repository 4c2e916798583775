// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.RepeatedTest;
import org.springframework.beans.factory.annotation.Autowired;
import shop.Mailing.Ship;

@ClusterTest(nodes = 2, standby = true)
class PromotedStandbyTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Jobs jobs;

    // Twice: the second test begins on the promoted server and needs a new standby.
    @RepeatedTest(2)
    void promoted_standby_has_all_that_was_committed() {
        String former = dataDirectory();
        cluster.leader(Leadership.SCHEDULER);
        List<String> customers =
                IntStream.range(0, 200).mapToObj(i -> "customer-" + i).toList();
        jobs.enqueueAll(customers.stream().map(Ship::new).toList());
        cluster.promoteStandby();

        assertThat(dataDirectory()).isNotEqualTo(former);
        cluster.eventually(Duration.ofMinutes(1), () -> cluster.auditor().allJobsCompleted());
        cluster.auditor()
                .eachOnce("SELECT customer FROM orders WHERE status = 'shipped'", customers)
                .noWriteOfAnOldTerm();
        assertThatThrownBy(cluster::promoteStandby).hasMessageContaining("it has been promoted in this test");
    }

    private String dataDirectory() {
        return cluster.database()
                .jdbc()
                .sql("SHOW data_directory")
                .query(String.class)
                .single();
    }
}
