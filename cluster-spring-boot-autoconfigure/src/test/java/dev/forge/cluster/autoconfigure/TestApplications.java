// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.actuate.ClusterActuatorAutoConfiguration;
import dev.forge.cluster.autoconfigure.cron.CronAutoConfiguration;
import dev.forge.cluster.autoconfigure.daemon.DaemonAutoConfiguration;
import dev.forge.cluster.autoconfigure.job.JobAutoConfiguration;
import dev.forge.cluster.autoconfigure.leader.LeaderAutoConfiguration;
import dev.forge.cluster.autoconfigure.lock.LockAutoConfiguration;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetricsAutoConfiguration;
import dev.forge.cluster.autoconfigure.startup.StartupAutoConfiguration;
import dev.forge.cluster.autoconfigure.state.StateAutoConfiguration;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.TestDatabase;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.autoconfigure.endpoint.jackson.JacksonEndpointAutoConfiguration;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.context.PropertyPlaceholderAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcClientAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcTemplateAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.transaction.autoconfigure.TransactionAutoConfiguration;
import org.springframework.context.ApplicationContext;

/** Applications as the starter makes them, on a test's database. */
public final class TestApplications {

    /** What makes an application a node, without Actuator, HTTP, rate limits and workflows. */
    public static final AutoConfigurations CLUSTER = AutoConfigurations.of(
            ClusterAutoConfiguration.class,
            CronAutoConfiguration.class,
            DaemonAutoConfiguration.class,
            JobAutoConfiguration.class,
            LeaderAutoConfiguration.class,
            LockAutoConfiguration.class,
            StartupAutoConfiguration.class,
            StateAutoConfiguration.class);

    private TestApplications() {}

    /** One with a data source and a cluster; the rest is the test's. */
    public static ApplicationContextRunner on(TestDatabase database) {
        return new ApplicationContextRunner()
                .withPropertyValues(
                        "spring.application.name=orders",
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password(),
                        // The usual ten, most of which no test needs, cost more than many a test.
                        "spring.datasource.hikari.minimum-idle=1")
                .withConfiguration(AutoConfigurations.of(DataSourceAutoConfiguration.class))
                .withConfiguration(CLUSTER);
    }

    /** One with transactions, meters and the endpoint, too. */
    public static ApplicationContextRunner whole(TestDatabase database) {
        return on(database)
                .withPropertyValues(
                        "management.endpoints.web.exposure.include=forgecluster",
                        "management.endpoint.forgecluster.access=UNRESTRICTED")
                .withBean(MeterRegistry.class, SimpleMeterRegistry::new)
                .withConfiguration(AutoConfigurations.of(
                        PropertyPlaceholderAutoConfiguration.class,
                        DataSourceTransactionManagerAutoConfiguration.class,
                        TransactionAutoConfiguration.class,
                        JdbcTemplateAutoConfiguration.class,
                        JdbcClientAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class,
                        JacksonEndpointAutoConfiguration.class));
    }

    /** The job, once it has ended. */
    public static JobInfo ended(ApplicationContext context, UUID job) {
        Jobs jobs = context.getBean(Jobs.class);
        await().until(() -> jobs.find(job).orElseThrow().status().isFinal());
        return jobs.find(job).orElseThrow();
    }

    /** Why the cluster refused to start. */
    public static ClusterStartupException refusal(@Nullable Throwable failure) {
        for (Throwable e = failure; e != null; e = e.getCause()) {
            if (e instanceof ClusterStartupException startup) {
                return startup;
            }
        }
        throw new AssertionError("not refused by us", failure);
    }
}
