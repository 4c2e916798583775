// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.peer.LeaderElection;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** The gauges of nodes and leaders, in applications on a database. */
@ClusterPostgres
class ClusterGaugeTests {

    private final TestDatabase database;

    ClusterGaugeTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                .withConfiguration(AutoConfigurations.of(ClusterMetricsAutoConfiguration.class));
    }

    @Test
    void candidate_that_does_not_lead_has_a_leader_gauge() {
        var other = new LeaderElection(database);
        assertThat(other.tryBecomeLeader("reports")).isTrue();
        runner().run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            context.getBean(Leadership.class).join("reports");
            assertThat(meters.get("forge.cluster.leader")
                            .tag("role", "reports")
                            .gauge()
                            .value())
                    .isZero();
        });
        other.releaseLeadership("reports");
        database.jdbc().sql("DELETE FROM forge_nodes").update();
    }

    @Test
    void application_that_has_ended_leaves_no_gauges_that_refer_to_it() {
        var meters = new SimpleMeterRegistry();
        Gauge.builder("forge.cluster.leader", () -> 1).tag("cluster", "another").register(meters);
        TestApplications.on(database)
                // Its owner closes it: somebody else may keep the registry.
                .withBean(MeterRegistry.class, () -> meters, bean -> bean.setDestroyMethodName(""))
                .withConfiguration(AutoConfigurations.of(ClusterMetricsAutoConfiguration.class))
                .run(context ->
                        assertThat(meters.find("forge.cluster.leader").gauges()).hasSizeGreaterThan(1));

        assertThat(meters.getMeters())
                .filteredOn(Gauge.class::isInstance)
                .extracting(meter -> meter.getId().getTag("cluster"))
                .containsExactly("another");
    }

    static class Handlers {
        @ClusterJob
        void mail() {}
    }

    @Test
    void demand_is_published_by_the_metrics_aggregator_alone() {
        runner().withPropertyValues("forge.cluster.worker.max-concurrent-jobs=6")
                .withBean(Handlers.class)
                .run(context -> {
                    MeterRegistry meters = context.getBean(MeterRegistry.class);
                    ClusterMetrics metrics = context.getBean(ClusterMetrics.class);
                    Jobs jobs = context.getBean(Jobs.class);
                    jobs.pause("mail");
                    jobs.enqueueNamed("mail", null);
                    // As of a worker that has just left.
                    database.jdbc().sql("""
                            INSERT INTO forge_job_names (name) VALUES ('gone')
                            """).update();
                    database.jdbc().sql("""
                            INSERT INTO forge_jobs (id, name, worker_capability, scheduled_at)
                            SELECT gen_random_uuid(), 'gone', 'gpu', now() - interval '1 hour' FROM generate_series(1, 3)
                            """).update();
                    // Repeated: the loop may publish an earlier demand last, and a paused machine may lose its term.
                    await().ignoreExceptions().untilAsserted(() -> {
                        metrics.countDemand();
                        assertThat(job(meters, "forge.cluster.jobs.due", "mail", "none"))
                                .isEqualTo(1);
                        assertThat(job(meters, "forge.cluster.jobs.slots", "mail", "none"))
                                .isEqualTo(6);
                        assertThat(job(meters, "forge.cluster.jobs.slots.needed", "mail", "none"))
                                .isZero();
                        assertThat(job(meters, "forge.cluster.jobs.running", "mail", "none"))
                                .isZero();
                        assertThat(job(meters, "forge.cluster.jobs.due", "gone", "gpu"))
                                .isEqualTo(3);
                        assertThat(job(meters, "forge.cluster.jobs.due.age", "gone", "gpu"))
                                .isBetween(3600.0, 3700.0);
                        assertThat(job(meters, "forge.cluster.jobs.slots.needed", "gone", "gpu"))
                                .isEqualTo(3);
                        assertThat(meters.find("forge.cluster.jobs.drain.time").gauge())
                                .isNull();
                        assertThat(executor(meters, "forge.cluster.executor.slots"))
                                .isEqualTo(6);
                        assertThat(executor(meters, "forge.cluster.executor.slots.needed"))
                                .isEqualTo(3);
                        assertThat(meters.find("forge.cluster.executor.drain.time")
                                        .gauge())
                                .isNull();
                    });
                    database.jdbc().sql("DELETE FROM forge_jobs").update();
                    await().ignoreExceptions().untilAsserted(() -> {
                        metrics.countDemand();
                        assertThat(job(meters, "forge.cluster.jobs.due", "mail", "none"))
                                .isZero();
                        assertThat(job(meters, "forge.cluster.jobs.drain.time", "mail", "none"))
                                .isZero();
                        assertThat(executor(meters, "forge.cluster.executor.drain.time"))
                                .isZero();
                        assertThat(meters.find("forge.cluster.jobs.due").gauges())
                                .hasSize(1);
                    });
                    context.getBean(Leadership.class).leave(Leadership.METRICS_AGGREGATOR);
                    await().until(() -> meters.find("forge.cluster.jobs.due").gauge() == null);
                    metrics.countDemand();
                    assertThat(meters.find("forge.cluster.jobs.due").gauge()).isNull();
                    assertThat(meters.find("forge.cluster.executor.slots").gauge())
                            .isNull();
                    jobs.resume("mail");
                });
    }

    private static double job(MeterRegistry meters, String gauge, String job, String capability) {
        return meters.get(gauge)
                .tags("cluster", "orders", "job", job, "executor", "default", "capability", capability)
                .gauge()
                .value();
    }

    private static double executor(MeterRegistry meters, String gauge) {
        return meters.get(gauge)
                .tags("cluster", "orders", "executor", "default")
                .gauge()
                .value();
    }

    @Test
    void undeletable_rows_are_counted_by_table() {
        database.jdbc().sql("""
                INSERT INTO forge_undeletable_rows (table_name, row_id, retry_at, reason)
                SELECT 'forge_jobs', gen_random_uuid(), now() + interval '1 hour', 'SQLSTATE 23503' FROM generate_series(1, 2)
                """).update();
        runner().run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            await().ignoreExceptions().untilAsserted(() -> {
                assertThat(meters.get("forge.cluster.undeletable.rows")
                                .tag("table", "forge_jobs")
                                .gauge()
                                .value())
                        .isEqualTo(2);
                assertThat(meters.get("forge.cluster.undeletable.rows")
                                .tag("table", "forge_workflow_runs")
                                .gauge()
                                .value())
                        .isZero();
            });
        });
    }

    @Test
    void cluster_wide_gauges_exist_only_on_the_metrics_aggregator() {
        database.jdbc().sql("""
                INSERT INTO forge_state (state_key, state_value, expires_at)
                VALUES ('@oauth2/pending', '{}', now() + interval '1 hour'), ('@oauth2/expired', '{}', now()),
                       ('another', '{}', now() + interval '1 hour')
                """).update();
        runner().run(context -> {
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            await().until(() -> meters.find("forge.cluster.oauth2.pending").gauge() != null
                    && meters.get("forge.cluster.oauth2.pending").gauge().value() == 1);
            // While a paused machine has lost its term, the gauges are absent.
            await().ignoreExceptions().untilAsserted(() -> {
                assertThat(meters.get("forge.cluster.nodes")
                                .tag("status", "active")
                                .gauge()
                                .value())
                        .isEqualTo(1);
                assertThat(meters.get("forge.cluster.leader")
                                .tag("role", "metrics_aggregator")
                                .gauge()
                                .value())
                        .isEqualTo(1);
                assertThat(meters.get("forge.cluster.leader.term")
                                .tag("role", "metrics_aggregator")
                                .gauge()
                                .value())
                        .isPositive();
            });
            context.getBean(Leadership.class).leave(Leadership.METRICS_AGGREGATOR);
            await().until(() -> meters.find("forge.cluster.nodes").gauge() == null
                    && meters.find("forge.cluster.oauth2.pending").gauge() == null);
            assertThat(meters.get("forge.cluster.leader")
                            .tag("role", "metrics_aggregator")
                            .gauge()
                            .value())
                    .isZero();
        });
    }
}
