// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import static org.assertj.core.api.Assertions.assertThat;
import static sample.PatientAwaits.await;

import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.context.SpringBootTest.WebEnvironment;
import org.springframework.context.ApplicationContext;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.web.context.WebApplicationContext;

/** The sample with {@code spring.main.web-application-type=none}. */
@SpringBootTest(webEnvironment = WebEnvironment.NONE, properties = "spring.main.web-application-type=none")
@ClusterPostgres(migrated = false)
@DirtiesContext // A cached context would start threads while other classes check for leaked ones.
class WorkerWithoutWebServerTests {

    @Autowired
    private ApplicationContext context;

    @Autowired
    private Jobs jobs;

    @Test
    void sample_runs_jobs_without_a_web_server() {
        assertThat(context).isNotInstanceOf(WebApplicationContext.class);
        UUID job = jobs.enqueue(new ItemViews.CountView("anvil")).id();
        await().until(() -> jobs.find(job).orElseThrow().status() == JobStatus.COMPLETED);
    }
}
