// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeIdentityProvider;
import dev.forge.cluster.startup.StartupCoordinator;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.InitializingBean;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.data.jpa.autoconfigure.DataJpaRepositoriesAutoConfiguration;
import org.springframework.boot.hibernate.autoconfigure.HibernateJpaAutoConfiguration;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Start and stop of an application as a node, its configuration and its start-up log. */
class ClusterAutoConfigurationTests extends AbstractApplicationTests {

    @Test
    void startup_action_can_run_while_beans_are_created() {
        runner().withUserConfiguration(SeedsOnce.class).run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(context.getBean(SeedsOnce.class).seeded).isTrue();
            assertThat(context.getBean(StartupCoordinator.class).once("seed", "1", () -> {}))
                    .isFalse();
        });
    }

    /** Runs its startup action while beans are created, which is before the node joins; application runners run after that. */
    static class SeedsBeforeJobs {

        final List<String> order = new CopyOnWriteArrayList<>();

        @Bean
        InitializingBean seeds(StartupCoordinator startup) {
            return () -> startup.once("seed-before-jobs", "1", () -> order.add("seed"));
        }

        @ClusterJob
        void needsSeed() {
            order.add("job");
        }
    }

    @Test
    void startup_action_ends_before_the_first_job_begins() {
        Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
        database.jdbc()
                .sql("SELECT forge_enqueue('needs-seed')")
                .query(UUID.class)
                .single();
        runner().withUserConfiguration(SeedsBeforeJobs.class).run(context -> {
            List<String> order = context.getBean(SeedsBeforeJobs.class).order;
            await().until(() -> order.contains("job"));
            assertThat(order).containsExactly("seed", "job");
        });
    }

    static class SeedsOnce {

        boolean seeded;

        @Bean
        SmartInitializingSingleton seeds(StartupCoordinator startup) {
            return () -> seeded = startup.once("seed", "1", () -> {});
        }
    }

    @Test
    void every_loop_has_a_thread() {
        runner().run(context -> {
            NodeRuntime runtime = context.getBean(NodeRuntime.class);
            assertThat(runtime.scheduler().getScheduledThreadPoolExecutor().getCorePoolSize())
                    .isGreaterThan(runtime.node().components().loops());
        });
    }

    @Test
    void disabled_cluster_does_not_touch_the_database() {
        runner().withPropertyValues("forge.cluster.enabled=false", "forge.cluster.node.mode=nonsense")
                .withConfiguration(AutoConfigurations.of(DisabledClusterAutoConfiguration.class))
                .run(context -> assertThat(context)
                        .hasNotFailed()
                        .hasSingleBean(Jobs.class)
                        .doesNotHaveBean(ClusterLifecycle.class));
        assertThat(tables("public")).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"yes", "1", "TRUE"})
    void enabled_accepts_every_boolean_text(String word) {
        runner().withPropertyValues("forge.cluster.enabled=" + word)
                .run(context -> assertThat(context).hasSingleBean(ClusterLifecycle.class));
    }

    @Test
    void stop_then_start_rejoins_as_a_new_node_and_leaves_nothing_open_in_between() {
        runner().run(context -> {
            ClusterLifecycle lifecycle = context.getBean(ClusterLifecycle.class);
            UUID first = nodes().get(0);
            lifecycle.stop();
            assertThat(lifecycle.isRunning()).isFalse();
            assertThat(nodes()).isEmpty();
            // The server needs a moment to end a closed session.
            await().until(() -> database.sessions().stream().noneMatch(session -> session.contains("forge-cluster")));
            lifecycle.start();
            assertThat(nodes()).hasSize(1).doesNotContain(first);
        });
    }

    @Test
    void configuration_reaches_the_row_of_the_node() {
        runner().withPropertyValues(
                        "forge.cluster.node.id=orders-1",
                        "forge.cluster.node.name=first",
                        "forge.cluster.node.info.rack=7",
                        "forge.cluster.node.roles=worker",
                        "forge.cluster.node.capabilities=gpu,media")
                .run(context -> assertThat(
                                database.jdbc().sql("""
                                SELECT concat_ws(' ', node_key, name, info ->> 'rack', array_to_string(roles, ','),
                                    array_to_string(worker_capabilities, ',')) FROM forge_nodes
                                """).query(String.class).single())
                        .isEqualTo("orders-1 first 7 worker gpu,media"));
    }

    @Test
    void identity_provider_of_the_application_takes_precedence() {
        runner().withBean(NodeIdentityProvider.class, () -> () -> new NodeIdentity("own-id", "own name"))
                .run(context -> assertThat(database.jdbc()
                                .sql("SELECT node_key || ' ' || name FROM forge_nodes")
                                .query(String.class)
                                .single())
                        .isEqualTo("own-id own name"));
    }

    @Test
    void start_up_log_has_at_most_four_lines(CapturedOutput output) {
        var logger = (Logger) LoggerFactory.getLogger("dev.forge.cluster");
        logger.setLevel(Level.INFO);
        Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
        int before = output.getOut().length();
        var lines = new ArrayList<String>();
        try {
            runner().withPropertyValues("forge.cluster.node.name=first").run(context -> {
                Leadership leadership = context.getBean(Leadership.class);
                await().until(() -> leadership.isLeader(Leadership.SCHEDULER));
                for (String line : output.getOut().substring(before).lines().toList()) {
                    if (line.contains("d.f.c") || line.contains("dev.forge.cluster")) {
                        lines.add(line);
                    }
                    // Another thread reports the first terms. Later ones may be terms that a paused machine has lost.
                    String all = String.join("\n", lines);
                    if (all.contains("Leads ") && all.contains("Connections: ")) {
                        break;
                    }
                }
            });
        } finally {
            logger.setLevel(null);
        }
        assertThat(lines).hasSizeBetween(1, 4);
        assertThat(String.join("\n", lines))
                .contains(
                        "cluster 'orders'",
                        "node 'first'",
                        "roles gateway, function, worker, scheduler",
                        "PostgreSQL ",
                        "schema 'public' version " + Schema.VERSION,
                        "leader strategy advisory-lock",
                        "Connections: ");
    }

    @Test
    void refusal_prints_description_and_action_instead_of_a_stack_trace(CapturedOutput output) {
        var application = new SpringApplication(Empty.class);
        application.setLogStartupInfo(false);
        try {
            application
                    .run(
                            "--spring.datasource.url=" + database.url(),
                            "--spring.datasource.username=" + database.username(),
                            "--spring.datasource.password=" + database.password(),
                            "--spring.main.banner-mode=off",
                            "--spring.flyway.enabled=false",
                            "--spring.liquibase.enabled=false",
                            "--forge.cluster.leader.renew-interval=6s")
                    .close();
            throw new AssertionError("it started");
        } catch (RuntimeException e) {
            assertThat(refusal(e)).hasMessageContaining("renew-interval");
        }
        assertThat(output.getAll())
                .contains(
                        "APPLICATION FAILED TO START",
                        "forge.cluster.leader.renew-interval (6s) must be shorter than forge.cluster.leader.lease-duration (5s)",
                        "Change forge.cluster.leader.renew-interval or forge.cluster.leader.lease-duration in the application's configuration.");
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration(
            exclude = {HibernateJpaAutoConfiguration.class, DataJpaRepositoriesAutoConfiguration.class})
    static class Empty {}
}
