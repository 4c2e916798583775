// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static dev.forge.cluster.test.ClusterAssertions.assertThat;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.AutoConfigureClusterTester;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.webmvc.test.autoconfigure.AutoConfigureMockMvc;
import org.springframework.test.web.servlet.assertj.MockMvcTester;
import shop.Mailing.Ship;

/** The whole application with a driven cluster. */
@SpringBootTest
@AutoConfigureMockMvc
@AutoConfigureClusterTester
class WholeApplicationTests {

    @Test
    void order_is_shipped(@Autowired MockMvcTester mvc, @Autowired ClusterTester cluster, @Autowired Jobs jobs) {
        mvc.post().uri("/orders").param("customer", "ada").assertThat().hasStatusOk();
        assertThat(jobs).enqueued(Ship.class).once();
        assertThat(cluster.runAllDue())
                .hasSize(1)
                .allSatisfy(run -> assertThat(run).isCompleted());
    }
}
