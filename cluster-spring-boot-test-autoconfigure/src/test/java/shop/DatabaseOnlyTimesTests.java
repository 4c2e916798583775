// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.UUID;
import org.junit.jupiter.api.RepeatedTest;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import shop.Mailing.SendMail;

/** Measures the same test without the kit: on a live node, whose rows are deleted after each test. */
@SpringBootTest(webEnvironment = SpringBootTest.WebEnvironment.NONE)
@ClusterPostgres(migrated = false)
class DatabaseOnlyTimesTests extends MeasuredTests {

    @Autowired
    private Jobs jobs;

    @RepeatedTest(TESTS)
    void mail_is_sent(TestDatabase database) {
        UUID id = jobs.enqueue(new SendMail("ada", "Hello")).id();
        await().until(() -> jobs.find(id).orElseThrow().status() == JobStatus.COMPLETED);
        assertThat(database.jdbc()
                        .sql("SELECT count(*) FROM forge_jobs WHERE name = 'remind'")
                        .query(Long.class)
                        .single())
                .isEqualTo(1);
        database.jdbc().sql("DELETE FROM forge_jobs").update();
        ended();
    }
}
