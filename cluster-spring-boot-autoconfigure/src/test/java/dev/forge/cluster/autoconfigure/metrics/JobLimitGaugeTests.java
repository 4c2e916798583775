// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;

/** The gauges of jobs with limits, in an application on a database. */
@ClusterPostgres
class JobLimitGaugeTests {

    private final TestDatabase database;

    JobLimitGaugeTests(TestDatabase database) {
        this.database = database;
    }

    static class Work {

        final CountDownLatch release = new CountDownLatch(1);

        @ClusterJob(concurrency = 20, groupConcurrency = 1)
        void sync() throws InterruptedException {
            assertThat(release.await(5, TimeUnit.MINUTES)).isTrue();
        }

        @ClusterJob(ordered = true)
        void book() {}
    }

    private static double value(MeterRegistry meters, String name, String... tags) {
        return meters.get(name).tags(tags).gauge().value();
    }

    @Test
    void metrics_aggregator_counts_jobs_that_limits_keep_waiting() {
        TestApplications.on(database)
                .withBean(Work.class)
                .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                .withConfiguration(AutoConfigurations.of(ClusterMetricsAutoConfiguration.class))
                .run(context -> {
                    MeterRegistry meters = context.getBean(MeterRegistry.class);
                    ClusterMetrics metrics = context.getBean(ClusterMetrics.class);
                    Jobs jobs = context.getBean(Jobs.class);
                    JobOptions acme = JobOptions.defaults().withGroup("acme");
                    UUID first = jobs.enqueueNamed("sync", null, acme).id();
                    UUID second = jobs.enqueueNamed("sync", null, acme).id();
                    await().until(() -> jobs.find(first).orElseThrow().status() == JobStatus.RUNNING
                            || jobs.find(second).orElseThrow().status() == JobStatus.RUNNING);
                    // Repeated: the loop may publish an earlier count last, and a paused machine may lose its term.
                    await().ignoreExceptions().untilAsserted(() -> {
                        metrics.countLimits();
                        assertThat(value(meters, "forge.cluster.jobs.held", "job", "sync"))
                                .isEqualTo(1);
                        assertThat(value(meters, "forge.cluster.jobs.limit", "job", "sync"))
                                .isEqualTo(20);
                        assertThat(value(meters, "forge.cluster.jobs.waiting", "job", "sync", "reason", "group-full"))
                                .isEqualTo(1);
                        assertThat(value(meters, "forge.cluster.jobs.waiting", "job", "sync", "reason", "name-full"))
                                .isZero();
                        assertThat(value(
                                        meters,
                                        "forge.cluster.jobs.waiting",
                                        "job",
                                        "book",
                                        "reason",
                                        "waiting-for-order"))
                                .isZero();
                        assertThat(meters.find("forge.cluster.jobs.limit")
                                        .tag("job", "book")
                                        .gauge())
                                .isNull();
                    });
                    context.getBean(Leadership.class).leave(Leadership.METRICS_AGGREGATOR);
                    for (String name : List.of(
                            "forge.cluster.jobs.held", "forge.cluster.jobs.limit", "forge.cluster.jobs.waiting")) {
                        await().until(() -> meters.find(name).gauge() == null);
                    }
                    context.getBean(Work.class).release.countDown();
                    await().until(() -> jobs.find(first).orElseThrow().status().isFinal()
                            && jobs.find(second).orElseThrow().status().isFinal());
                });
    }
}
