// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.mockito.Mockito.mock;

import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.operations.resource.ClusterOperationsAutoConfiguration;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.time.Instant;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.assertj.core.api.InstanceOfAssertFactories;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroup;
import org.springframework.boot.health.actuate.endpoint.HealthEndpointGroups;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;

/** The health of a node, in applications on a database. */
@ClusterPostgres
class ClusterHealthTests {

    private final TestDatabase database;

    ClusterHealthTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withPropertyValues("forge.cluster.node.name=first", "management.endpoints.web.exposure.include=*")
                .withConfiguration(AutoConfigurations.of(
                        ClusterOperationsAutoConfiguration.class, ClusterActuatorAutoConfiguration.class));
    }

    private static Health health(ApplicationContext context, String component) {
        var contributor = context.getBean("forgeClusterHealthContributor", CompositeHealthContributor.class);
        return ((HealthIndicator) contributor.getContributor(component)).health(true);
    }

    @Test
    void node_is_up_and_out_of_service_once_it_drains() {
        runner().run(context -> {
            assertThat(health(context, "node").getStatus()).isEqualTo(Status.UP);
            assertThat(health(context, "schema").getDetails()).containsEntry("name", "public");
            context.getBean(NodeRuntime.class).node().drain();
            assertThat(health(context, "node").getStatus()).isEqualTo(Status.OUT_OF_SERVICE);
            assertThat(health(context, "node").getDetails()).containsEntry("state", "draining");
        });
    }

    @Test
    void cluster_without_a_scheduler_candidate_has_a_warning() {
        runner().withPropertyValues("forge.cluster.node.roles=worker").run(context -> {
            await().until(() -> health(context, "leadership").getDetails().containsKey("warning"));
            assertThat(health(context, "leadership").getStatus()).isEqualTo(Status.UP);
            assertThat(health(context, "leadership").getDetails())
                    .containsEntry("warning", "no live scheduler candidate");
        });
    }

    @Test
    void fence_locked_by_another_session_is_reported_with_its_role() {
        runner().run(context -> {
            Leadership leadership = context.getBean(Leadership.class);
            await().until(() -> leadership.isLeader(Leadership.SCHEDULER));
            assertThat(health(context, ClusterHealth.FENCES).getStatus()).isEqualTo(Status.UP);
            try (Connection blocking = database.dataSource().getConnection()) {
                blocking.setAutoCommit(false);
                blocking.createStatement().execute("SELECT FROM forge_leaders WHERE role = 'scheduler' FOR UPDATE");
                // The scheduler fires crons in fenced transactions.
                await().until(() -> health(context, ClusterHealth.FENCES).getStatus(), Status.DOWN::equals);
                assertThat(health(context, ClusterHealth.FENCES).getDetails().get("blockedSince"))
                        .asInstanceOf(InstanceOfAssertFactories.map(String.class, Instant.class))
                        .containsOnlyKeys("scheduler");
                assertThat(health(context, "node").getStatus()).isEqualTo(Status.UP);
                blocking.rollback();
            }
            await().until(() -> health(context, ClusterHealth.FENCES).getStatus(), Status.UP::equals);
        });
    }

    @Test
    void blocked_fences_do_not_make_a_node_unready() {
        HealthEndpointGroup group = mock(HealthEndpointGroup.class);
        HealthEndpointGroup readiness = new ReadinessMembership("forgeCluster", () -> false)
                .postProcessHealthEndpointGroups(HealthEndpointGroups.of(group, Map.of("readiness", group)))
                .get("readiness");
        assertThat(Stream.of("forgeCluster", "forgeCluster/node", "forgeCluster/fences")
                        .filter(readiness::isMember))
                .containsExactly("forgeCluster", "forgeCluster/node");
    }

    @Test
    void worker_reports_its_slots() {
        runner().withPropertyValues("forge.cluster.worker.executors.narrow.max-concurrent-jobs=2")
                .run(context -> {
                    Health health = health(context, "workers");
                    assertThat(health.getStatus()).isEqualTo(Status.UP);
                    assertThat(health.getDetails())
                            .containsEntry("working", true)
                            .containsEntry("slots", 12)
                            .containsEntry("overloaded", false)
                            .containsEntry(
                                    "executors",
                                    Map.of(
                                            "default", Map.of("slots", 10, "busy", 0, "jobs", 0),
                                            "narrow", Map.of("slots", 2, "busy", 0, "jobs", 0)));
                });
        runner().withPropertyValues("forge.cluster.node.roles=scheduler").run(context -> {
            assertThat(health(context, "workers").getStatus()).isEqualTo(Status.UP);
            assertThat(health(context, "workers").getDetails()).isEqualTo(Map.of("working", false));
        });
    }

    @Test
    void worker_that_does_not_claim_is_down_beside_another_worker() {
        runner().withPropertyValues("forge.cluster.worker.claiming=false").run(alone -> {
            assertThat(health(alone, "workers").getStatus()).isEqualTo(Status.UP);
            runner().withPropertyValues("forge.cluster.node.name=second").run(other -> {
                await().until(() -> health(alone, "workers").getStatus().equals(Status.DOWN));
                assertThat(health(alone, "workers").getDetails().get("reason").toString())
                        .contains("forge.cluster.worker.claiming (false)", "there are 2");
                assertThat(health(other, "workers").getStatus()).isEqualTo(Status.UP);
            });
            await().until(() -> health(alone, "workers").getStatus().equals(Status.UP));
        });
    }

    @Test
    void worker_whose_claims_keep_failing_is_down_until_one_succeeds() {
        runner().withBean(Handler.class)
                .withPropertyValues("forge.cluster.worker.poll-interval=100ms")
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    UUID job;
                    database.jdbc()
                            .sql("ALTER TABLE forge_jobs RENAME COLUMN claimed_at TO hidden")
                            .update();
                    try {
                        job = jobs.enqueueNamed("handle", null).id();
                        await().until(() ->
                                health(context, "workers").getStatus().equals(Status.DOWN));
                        assertThat(health(context, "workers")
                                        .getDetails()
                                        .get("reason")
                                        .toString())
                                .contains("claims have failed", "claimed_at");
                    } finally {
                        database.jdbc()
                                .sql("ALTER TABLE forge_jobs RENAME COLUMN hidden TO claimed_at")
                                .update();
                    }
                    await().until(() -> health(context, "workers").getStatus().equals(Status.UP));
                    await().until(() -> jobs.find(job).orElseThrow().status() == JobStatus.COMPLETED);
                });
    }

    static class Handler {
        @ClusterJob
        void handle() {}
    }
}
