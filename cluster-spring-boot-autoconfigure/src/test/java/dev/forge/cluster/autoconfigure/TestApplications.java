// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.actuate.ClusterActuatorAutoConfiguration;
import dev.forge.cluster.autoconfigure.attention.AttentionAutoConfiguration;
import dev.forge.cluster.autoconfigure.audit.AuditAutoConfiguration;
import dev.forge.cluster.autoconfigure.cron.CronAutoConfiguration;
import dev.forge.cluster.autoconfigure.daemon.DaemonAutoConfiguration;
import dev.forge.cluster.autoconfigure.job.JobAutoConfiguration;
import dev.forge.cluster.autoconfigure.leader.LeaderAutoConfiguration;
import dev.forge.cluster.autoconfigure.lock.LockAutoConfiguration;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetricsAutoConfiguration;
import dev.forge.cluster.autoconfigure.operations.resource.ClusterOperationsAutoConfiguration;
import dev.forge.cluster.autoconfigure.startup.StartupAutoConfiguration;
import dev.forge.cluster.autoconfigure.state.StateAutoConfiguration;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.TestDatabase;
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

/** Creates applications on the database of a test, configured as the starter does. */
public final class TestApplications {

    /** The auto-configurations of a node, without Actuator, HTTP, rate limits and workflows. */
    public static final AutoConfigurations CLUSTER = AutoConfigurations.of(
            ClusterAutoConfiguration.class,
            AttentionAutoConfiguration.class,
            AuditAutoConfiguration.class,
            CronAutoConfiguration.class,
            DaemonAutoConfiguration.class,
            JobAutoConfiguration.class,
            LeaderAutoConfiguration.class,
            LockAutoConfiguration.class,
            StartupAutoConfiguration.class,
            StateAutoConfiguration.class);

    private TestApplications() {}

    /** Returns an application with a data source and a cluster; tests add the rest. */
    public static ApplicationContextRunner on(TestDatabase database) {
        return new ApplicationContextRunner()
                .withPropertyValues(
                        "spring.application.name=orders",
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password(),
                        // Opening the default of ten connections takes longer than many tests.
                        "spring.datasource.hikari.minimum-idle=1")
                .withConfiguration(AutoConfigurations.of(DataSourceAutoConfiguration.class))
                .withConfiguration(CLUSTER);
    }

    /** Returns an application that also has transactions, meters and the endpoint. */
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
                        ClusterOperationsAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class,
                        JacksonEndpointAutoConfiguration.class));
    }

    /** Waits for the end of a job and returns it. */
    public static JobInfo ended(ApplicationContext context, UUID job) {
        Jobs jobs = context.getBean(Jobs.class);
        await().until(() -> jobs.find(job).orElseThrow().status().isFinal());
        return jobs.find(job).orElseThrow();
    }

    /** Returns the exception with which the cluster failed the start. */
    public static ClusterStartupException refusal(@Nullable Throwable failure) {
        for (Throwable e = failure; e != null; e = e.getCause()) {
            if (e instanceof ClusterStartupException startup) {
                return startup;
            }
        }
        throw new AssertionError("not refused by us", failure);
    }
}
