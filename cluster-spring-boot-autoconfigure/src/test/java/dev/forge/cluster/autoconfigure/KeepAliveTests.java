// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.cron.CronAutoConfiguration;
import dev.forge.cluster.autoconfigure.daemon.DaemonAutoConfiguration;
import dev.forge.cluster.autoconfigure.job.JobAutoConfiguration;
import dev.forge.cluster.autoconfigure.leader.LeaderAutoConfiguration;
import dev.forge.cluster.autoconfigure.lock.LockAutoConfiguration;
import dev.forge.cluster.autoconfigure.startup.StartupAutoConfiguration;
import dev.forge.cluster.autoconfigure.state.StateAutoConfiguration;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/** Applications without a web server, as real processes. */
@ClusterPostgres
class KeepAliveTests {

    private static final Duration START = Duration.ofMinutes(2);
    private static final Duration STOP = Duration.ofMinutes(1);

    private final TestDatabase database;

    KeepAliveTests(TestDatabase database) {
        this.database = database;
    }

    @Test
    void joined_node_keeps_its_jvm_alive_until_it_is_stopped() {
        try (AppProcess terminated = node("terminated").start();
                AppProcess closed = node("closed").start()) {
            // A process that has ended sends no heartbeats.
            await().atMost(START).until(() -> beats("terminated") > 3 && beats("closed") > 3);

            terminated.terminate();
            assertThat(terminated.awaitExit(STOP)).isEqualTo(143);
            await().until(() -> beats("terminated") == 0);

            database.jdbc()
                    .sql("SELECT forge_enqueue('close-context')")
                    .query(String.class)
                    .single();
            assertThat(closed.awaitExit(STOP)).isZero();
            assertThat(beats("closed")).isZero();
        }
    }

    @Test
    void jvm_ends_with_its_main_method_without_keep_alive_or_cluster() {
        try (AppProcess refused = node("refused")
                        .property("spring.main.keep-alive", false)
                        .start();
                AppProcess disabled = node("disabled")
                        .property("forge.cluster.enabled", false)
                        .start()) {
            assertThat(refused.awaitExit(START)).isZero();
            assertThat(disabled.awaitExit(START)).isZero();
        }
    }

    private AppProcess.Builder node(String name) {
        return AppProcess.of(CommandLineApplication.class)
                .database(database)
                .property("spring.main.web-application-type", "none")
                .property("forge.cluster.node.name", name)
                .property("forge.cluster.heartbeat.interval", "100ms");
    }

    /** Returns the number of heartbeats of a node; zero if it is not registered, or was declared dead by the other node. */
    private long beats(String name) {
        return database.jdbc()
                .sql("SELECT coalesce(max(beats), 0) FROM forge_nodes WHERE name = ? AND status <> 'dead'")
                .param(name)
                .query(Long.class)
                .single();
    }

    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration({
        DataSourceAutoConfiguration.class,
        ClusterAutoConfiguration.class,
        CronAutoConfiguration.class,
        DaemonAutoConfiguration.class,
        JobAutoConfiguration.class,
        LeaderAutoConfiguration.class,
        LockAutoConfiguration.class,
        StartupAutoConfiguration.class,
        StateAutoConfiguration.class
    })
    static class CommandLineApplication {

        private final ConfigurableApplicationContext context;

        CommandLineApplication(ConfigurableApplicationContext context) {
            this.context = context;
        }

        public static void main(String... args) {
            SpringApplication.run(CommandLineApplication.class, args);
        }

        // On a separate thread, because closing waits for the end of this job.
        @ClusterJob(name = "close-context")
        void close() {
            var thread = new Thread(context::close, "close-context");
            thread.setDaemon(true);
            thread.start();
        }
    }
}
