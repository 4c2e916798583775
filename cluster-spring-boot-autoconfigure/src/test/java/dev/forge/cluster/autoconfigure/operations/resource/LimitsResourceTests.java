// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.EndpointClient;
import dev.forge.cluster.autoconfigure.operations.web.ApiClient;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** The limits of jobs in the HTTP API, in applications on a database. */
@ClusterPostgres
class LimitsResourceTests {

    private final TestDatabase database;

    LimitsResourceTests(TestDatabase database) {
        this.database = database;
    }

    @AfterEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner() {
        return EndpointClient.expose(TestApplications.on(database)).withBean(Work.class);
    }

    static class Work {

        final CountDownLatch release = new CountDownLatch(1);

        @ClusterJob(concurrency = 20, groupConcurrency = 1, groupRate = "10/15m", groupBurst = 3)
        void sync() throws InterruptedException {
            assertThat(release.await(5, TimeUnit.MINUTES)).isTrue();
        }

        @ClusterJob(ordered = true)
        void book() {}

        @ClusterJob
        void free() {}
    }

    private static EndpointClient.Response post(ApiClient client, Map<String, Object> body, String... path) {
        return client.change(body, path);
    }

    private static Map<String, Object> sync(Object held) {
        return new HashMap<>(Map.of(
                "name",
                "sync",
                "held",
                held,
                "concurrency",
                20,
                "groupConcurrency",
                1,
                "groupRate",
                "10/15m",
                "groupBurst",
                3,
                "ordered",
                false,
                "overridden",
                false));
    }

    @Test
    void limits_are_listed_with_the_jobs_that_hold_their_places() {
        runner().run(context -> {
            ApiClient client = ApiClient.of(context);
            Jobs jobs = context.getBean(Jobs.class);
            JobOperations operations = context.getBean(JobOperations.class);
            assertThat(client.get("limits").body())
                    .isEqualTo(Map.of(
                            "limits",
                            List.of(Map.of("name", "book", "held", 0, "ordered", true, "overridden", false), sync(0))));
            assertThat(client.get(Map.of("after", "book"), "limits").list("limits"))
                    .hasSize(1);
            assertThat(client.get(Map.of("limit", 1), "limits").list("limits")).hasSize(1);
            JobOptions acme = JobOptions.defaults().withGroup("acme");
            UUID first = jobs.enqueueNamed("sync", null, acme).id();
            await().until(() -> jobs.find(first).orElseThrow().status() == JobStatus.RUNNING);
            operations.setGroupWeight("sync", "other", 4);
            Map<String, Object> expected = sync(1);
            expected.put(
                    "groups",
                    List.of(
                            Map.of("group", "acme", "held", 1, "weight", 1),
                            Map.of("group", "other", "held", 0, "weight", 4)));
            assertThat(client.get("limits", "sync").body()).isEqualTo(expected);
            assertThat(client.get("limits", "free").status()).isEqualTo(404);
            assertThat(client.get("limits", "nobody").status()).isEqualTo(404);
            context.getBean(Work.class).release.countDown();
            await().until(() -> jobs.find(first).orElseThrow().status().isFinal());
        });
    }

    @Test
    void names_of_groups_are_masked_also_in_explanations() {
        runner().run(context -> {
            ApiClient client = ApiClient.of(context).blind();
            Jobs jobs = context.getBean(Jobs.class);
            JobOptions acme = JobOptions.defaults().withGroup("acme");
            UUID first = jobs.enqueueNamed("sync", null, acme).id();
            await().until(() -> jobs.find(first).orElseThrow().status() == JobStatus.RUNNING);
            UUID second = jobs.enqueueNamed("sync", null, acme).id();
            assertThat(client.get("limits", "sync").at("groups", 0, "group")).isEqualTo("******");
            EndpointClient.Response shown = client.get("jobs", second.toString());
            assertThat(shown.at("explanation", "reason")).isEqualTo("GROUP_FULL");
            assertThat(String.valueOf(shown.body()))
                    .contains("job of group '******' runs")
                    .doesNotContain("acme");
            context.getBean(Work.class).release.countDown();
            await().until(() -> jobs.find(second).orElseThrow().status().isFinal());
        });
    }

    @Test
    void operator_overrides_and_resets_limits() {
        runner().run(context -> {
            ApiClient client = ApiClient.of(context);
            JobOperations operations = context.getBean(JobOperations.class);
            assertThat(post(
                                    client,
                                    Map.of(
                                            "state",
                                            "overridden",
                                            "groupConcurrency",
                                            2,
                                            "groupRate",
                                            "1/s",
                                            "groupBurst",
                                            5),
                                    "limits",
                                    "sync")
                            .body())
                    .isEqualTo(Map.of(
                            "name",
                            "sync",
                            "held",
                            0,
                            "groupConcurrency",
                            2,
                            "groupRate",
                            "1/s",
                            "groupBurst",
                            5,
                            "ordered",
                            false,
                            "overridden",
                            true,
                            "declared",
                            Map.of("concurrency", 20, "groupConcurrency", 1, "groupRate", "10/15m", "groupBurst", 3)));
            assertThat(operations.limits("sync"))
                    .isEqualTo(new JobLimits(null, 2, new RateLimit(1, Duration.ofSeconds(1), 5)));
            assertThat(client.post("declared", "limits", "sync").body()).isEqualTo(sync(0));
            assertThat(client.post("declared", "limits", "sync").body()).isEqualTo(sync(0));
            assertThat(operations.limits("sync").concurrency()).isEqualTo(20);
            assertThat(post(client, Map.of("state", "weighted", "group", "acme", "weight", 3), "limits", "free")
                            .status())
                    .isEqualTo(200);
            assertThat(client.get("limits", "free").at("groups", 0, "weight")).isEqualTo(3);
            operations.setGroupWeight("free", "acme", 1);
        });
    }

    @Test
    void invalid_change_of_limits_is_a_bad_request_with_the_reason() {
        runner().run(context -> {
            ApiClient client = ApiClient.of(context);
            assertThat(client.post("overridden", "limits", "sync").error(400)).contains("needs at least one of");
            assertThat(client.post("flying", "limits", "sync").error(400)).contains("'overridden', 'declared'");
            assertThat(post(client, Map.of("state", "overridden", "concurrency", 0), "limits", "sync")
                            .error(400))
                    .isEqualTo("JobLimits: concurrency (0) must be at least 1");
            assertThat(post(client, Map.of("state", "overridden", "groupRate", "often"), "limits", "sync")
                            .error(400))
                    .isEqualTo("Parameter 'groupRate' (often): is not a rate such as 10/s, 100/m or 1/15m");
            assertThat(post(
                                    client,
                                    Map.of("state", "overridden", "groupRate", "1/s", "groupBurst", 0),
                                    "limits",
                                    "sync")
                            .error(400))
                    .contains("burst (0)");
            assertThat(post(client, Map.of("state", "overridden", "groupBurst", 4), "limits", "sync")
                            .error(400))
                    .isEqualTo("groupBurst (4) needs a groupRate");
            assertThat(post(client, Map.of("state", "overridden", "weight", 4), "limits", "sync")
                            .error(400))
                    .contains("use 'weighted'");
            assertThat(post(client, Map.of("state", "declared", "concurrency", 4), "limits", "sync")
                            .error(400))
                    .contains("takes no limits");
            assertThat(post(client, Map.of("state", "weighted", "group", "acme"), "limits", "sync")
                            .error(400))
                    .contains("a group and a weight");
            assertThat(post(client, Map.of("state", "weighted", "group", "acme", "weight", 1_001), "limits", "sync")
                            .error(400))
                    .contains("weight (1001)");
            assertThat(post(client, Map.of("state", "weighted", "group", " ", "weight", 1), "limits", "sync")
                            .error(400))
                    .contains("group of 1 characters");
            assertThat(post(client, Map.of("state", "paused", "concurrency", 4), "jobs", "sync")
                            .error(400))
                    .contains("Unknown parameter 'concurrency'");
            assertThat(client.post("declared", "limits").error(400)).contains("'id' is missing");
            assertThat(client.post("declared", "limits", "nobody").status()).isEqualTo(404);
            assertThat(post(client, Map.of("state", "overridden", "concurrency", 4), "limits", "nobody")
                            .error(404))
                    .contains("Unknown job 'nobody'");
        });
    }

    @Test
    void observer_changes_no_limits() {
        runner().withPropertyValues("forge.cluster.node.mode=observer").run(context -> {
            ApiClient client = ApiClient.of(context);
            assertThat(post(client, Map.of("state", "overridden", "concurrency", 4), "limits", "sync")
                            .error(400))
                    .contains("observer");
            assertThat(client.post("declared", "limits", "sync").error(400)).contains("observer");
        });
    }

    @Test
    void limits_that_a_node_cannot_read_are_shown_as_invalid() {
        runner().run(context -> {
            ApiClient client = ApiClient.of(context);
            database.jdbc()
                    .sql("ALTER TABLE forge_job_limits DROP CONSTRAINT forge_job_limits_concurrency")
                    .update();
            try {
                database.jdbc()
                        .sql("UPDATE forge_job_limits SET concurrency = 0 WHERE name = 'sync'")
                        .update();
                String problem = "JobLimits: concurrency (0) must be at least 1";
                assertThat(client.get("limits").list("limits"))
                        .hasSize(2)
                        .element(1)
                        .isEqualTo(Map.of(
                                "name", "sync", "held", 0, "ordered", false, "overridden", false, "problem", problem));
                assertThat(client.get("limits", "sync").body().toString()).contains(problem);
                assertThat(client.get("job-names").list("names"))
                        .filteredOn(name -> name.toString().contains(problem))
                        .hasSize(1);
            } finally {
                database.clear();
                database.jdbc()
                        .sql(
                                "ALTER TABLE forge_job_limits ADD CONSTRAINT forge_job_limits_concurrency CHECK (concurrency >= 1)")
                        .update();
            }
        });
    }
}
