// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import shop.Mailing.SendMail;

@ClusterTest(crons = false)
class LeftOutCronTests {

    @Autowired
    private ClusterTester cluster;

    @Autowired
    private Crons crons;

    @Autowired
    private Jobs jobs;

    @Test
    void crons_fire_no_slots_and_everything_else_runs() {
        jobs.enqueue(new SendMail("ada", "hello"));
        assertThat(cluster.runFor(Duration.ofDays(30)))
                .extracting(run -> run.job().name())
                .containsExactly("send", "remind");
        cluster.clock().advance(Duration.ofDays(3));
        assertThat(cluster.runAllDue()).isEmpty();
        assertThat(crons.runs("nightly-report", 10).items()).isEmpty();
    }

    @Test
    void crons_can_be_listed_and_triggered() {
        assertThat(crons.list(10).items()).extracting(CronInfo::name).contains("nightly-report");
        List<String> ran = crons.trigger("nightly-report").stream()
                .map(job -> cluster.run(job).job().name())
                .toList();
        assertThat(ran).hasSize(1);
    }
}
