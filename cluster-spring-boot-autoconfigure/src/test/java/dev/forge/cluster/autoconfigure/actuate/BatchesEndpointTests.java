// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.endpoint.web.WebEndpointHttpMethod;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** Batches of jobs in the endpoint, in applications on a database. */
@ClusterPostgres
class BatchesEndpointTests {

    private final TestDatabase database;

    BatchesEndpointTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        database.clear();
    }

    record Line(boolean good) {}

    record Ended(String file) {}

    static class Work {

        private volatile boolean strict = true;

        @ClusterJob
        void line(Line line) {
            if (strict && !line.good) {
                throw new NonRetryableJobException("bad");
            }
        }

        @ClusterJob
        void ended(Ended ended) {}
    }

    private ApplicationContextRunner runner() {
        return EndpointClient.expose(TestApplications.on(database))
                .withPropertyValues("management.endpoint.forgecluster.show-values=always")
                .withBean(Work.class);
    }

    private static Map<?, ?> body(EndpointClient.Response response) {
        return (Map<?, ?>) response.body();
    }

    private static EndpointClient.Response post(EndpointClient client, String id, String state) {
        return client.invoke(WebEndpointHttpMethod.POST, Map.of("state", state, "reason", "test"), "batches", id);
    }

    @Test
    void batch_is_shown_closed_and_retried() {
        runner().run(context -> {
            EndpointClient client = EndpointClient.of(context);
            Jobs jobs = context.getBean(Jobs.class);
            JobBatch batch = jobs.batch(JobBatchOptions.named("import").withOnEnd(new Ended("a.csv")));
            JobOptions in = JobOptions.defaults().withBatch(batch.id());
            jobs.enqueue(new Line(true), in);
            jobs.enqueue(new Line(false), in);
            String id = batch.id().toString();

            assertThat(client.get("batches").list("batches"))
                    .singleElement()
                    .extracting("id", "name", "status", "jobs", "onEnd")
                    .containsExactly(
                            id,
                            "import",
                            "open",
                            2,
                            String.valueOf(batch.info().orElseThrow().onEnd()));
            assertThat(post(client, id, "closed").status()).isEqualTo(200);
            assertThat(post(client, id, "closed").status()).isEqualTo(400);
            await().untilAsserted(() -> assertThat(body(client.get("batches", id)))
                    .extracting("status", "completed", "failed", "remaining")
                    .containsExactly("failed", 1, 1, 0));
            context.getBean(Work.class).strict = false;
            assertThat(post(client, id, "retry").status()).isEqualTo(200);
            await().untilAsserted(() ->
                    assertThat(body(client.get("batches", id)).get("status")).isEqualTo("succeeded"));
            assertThat(body(post(client, id, "retry")).get("error").toString()).contains(id, "no failed job");
        });
    }

    @Test
    void batch_is_cancelled_and_wrong_requests_are_refused() {
        runner().run(context -> {
            EndpointClient client = EndpointClient.of(context);
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("line");
            JobBatch batch = jobs.batch(JobBatchOptions.named("import"));
            jobs.enqueue(new Line(true), JobOptions.defaults().withBatch(batch.id()));
            String id = batch.id().toString();

            assertThat(body(post(client, id, "gone")).get("error").toString()).contains("'gone'", "'cancelled'");
            assertThat(post(client, id, "cancelled").status()).isEqualTo(200);
            await().untilAsserted(() ->
                    assertThat(body(client.get("batches", id)).get("status")).isEqualTo("cancelled"));
            assertThat(post(client, id, "cancelled").status()).isEqualTo(400);
            String unknown = UUID.randomUUID().toString();
            assertThat(client.get("batches", unknown).status()).isEqualTo(404);
            assertThat(post(client, unknown, "closed").status()).isEqualTo(404);
            assertThat(client.get("batches", "no-id").status()).isEqualTo(400);
        });
    }
}
