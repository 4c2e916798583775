// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.ClusterActuatorAutoConfiguration;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetricsAutoConfiguration;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.job.ClusterCoordinator;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import jakarta.jms.ConnectionFactory;
import java.sql.Connection;
import java.sql.Statement;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.data.redis.connection.RedisConnectionFactory;

@ClusterPostgres
@Timeout(180)
class WakeupConfigurationTests {

    private final TestDatabase database;

    WakeupConfigurationTests(TestDatabase database) {
        this.database = database;
    }

    /** Deletes jobs that a test leaves pending: they would start in the next test. */
    @AfterEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner(String... properties) {
        return TestApplications.on(database)
                .withConfiguration(AutoConfigurations.of(
                        WakeupAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class))
                .withPropertyValues(properties);
    }

    private static Health wakeup(ApplicationContext context) {
        var contributor = context.getBean("forgeClusterHealthContributor", CompositeHealthContributor.class);
        return ((HealthIndicator) contributor.getContributor("wakeup")).health(true);
    }

    private static ClusterStartupException refused(ApplicationContextRunner runner) {
        var found = new CopyOnWriteArrayList<ClusterStartupException>();
        runner.run(context -> found.add(refusal(context.getStartupFailure())));
        return found.get(0);
    }

    // Missing libraries and beans ---------------------------------------------------------------------------

    @Test
    void redis_without_its_library_or_its_bean_fails_the_start() {
        ApplicationContextRunner redis = runner("forge.cluster.wakeup.type=redis");
        ClusterStartupException library =
                refused(redis.withClassLoader(new FilteredClassLoader("org.springframework.data.redis", "io.lettuce")));
        assertThat(library)
                .hasMessage(
                        "forge.cluster.wakeup.type (redis) needs Spring Data Redis, which is not on the class path");
        assertThat(library.action()).contains("spring-boot-starter-data-redis");
        ClusterStartupException bean = refused(redis);
        assertThat(bean)
                .hasMessage("forge.cluster.wakeup.type (redis) needs a RedisConnectionFactory bean, but there is none");
        assertThat(bean.action()).contains("spring.data.redis");
    }

    @Test
    void jms_without_its_library_or_its_bean_fails_the_start() {
        ApplicationContextRunner jms = runner("forge.cluster.wakeup.type=jms");
        ClusterStartupException library =
                refused(jms.withClassLoader(new FilteredClassLoader("jakarta.jms", "org.springframework.jms")));
        assertThat(library)
                .hasMessage("forge.cluster.wakeup.type (jms) needs a JMS client, which is not on the class path");
        assertThat(library.action()).contains("spring-boot-starter-activemq");
        assertThat(refused(jms))
                .hasMessage(
                        "forge.cluster.wakeup.type (jms) needs a jakarta.jms.ConnectionFactory bean, but there is none");
    }

    @Configuration(proxyBeanMethods = false)
    static class TwoFactories {
        @Bean
        ConnectionFactory orders() {
            return nowhere();
        }

        @Bean
        ConnectionFactory invoices() {
            return nowhere();
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class OneIsPrimary {
        @Bean
        @Primary
        ConnectionFactory orders() {
            return nowhere();
        }

        @Bean
        ConnectionFactory invoices() {
            return nowhere();
        }
    }

    private static ConnectionFactory nowhere() {
        return new ActiveMQConnectionFactory("tcp://127.0.0.1:1");
    }

    @Test
    void primary_connection_factory_is_used() {
        ApplicationContextRunner jms = runner("forge.cluster.wakeup.type=jms");
        assertThat(refused(jms.withUserConfiguration(TwoFactories.class)))
                .hasMessageContaining("several jakarta.jms.ConnectionFactory beans, and none of them is primary")
                .hasMessageContaining("orders")
                .hasMessageContaining("invoices");
        jms.withUserConfiguration(OneIsPrimary.class)
                .run(context -> assertThat(context).hasNotFailed().hasSingleBean(BrokerCoordinator.class));
    }

    @ParameterizedTest
    @ValueSource(strings = {"postgres", "none"})
    void disabled_oauth2_needs_no_library(String type) {
        runner("forge.cluster.wakeup.type=" + type)
                .withClassLoader(new FilteredClassLoader(
                        "org.springframework.data.redis", "io.lettuce", "jakarta.jms", "org.springframework.jms"))
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void clusters_that_share_a_broker_have_separate_destinations() {
        runner("forge.cluster.schema.name=a.b*>,ü")
                .run(context -> assertThat(WakeupAutoConfiguration.destination(context.getBean(Schema.class)))
                        .startsWith("forge-cluster.forge_test_")
                        .endsWith(".a_b____"));
    }

    // Types of wake-ups -------------------------------------------------------------------------------------

    @Test
    void wakeup_health_of_postgres_reports_its_session() {
        runner().run(context -> {
            assertThat(context).doesNotHaveBean(ClusterCoordinator.class);
            assertThat(wakeup(context).getStatus()).isEqualTo(Status.UP);
            // A machine that paused may have lost the session for a moment.
            await().untilAsserted(() -> assertThat(wakeup(context).getDetails())
                    .containsEntry("type", "postgres")
                    .containsEntry("connected", true));
        });
        // As behind a transaction pooler: no session can listen.
        runner("forge.cluster.leader.strategy=lease").run(context -> {
            assertThat(wakeup(context).getStatus()).isEqualTo(Status.UP);
            assertThat(wakeup(context).getDetails())
                    .containsEntry("connected", false)
                    .containsEntry("warning", "no wake-ups: workers poll every 5s");
        });
    }

    static class Pings {
        final Semaphore begun = new Semaphore(0);

        @ClusterJob
        void ping() {
            begun.release();
        }
    }

    private String channel() {
        return database.jdbc()
                .sql("SELECT channel FROM forge_settings")
                .query(String.class)
                .single();
    }

    /** Returns the notifications that are sent while one node enqueues jobs and another node runs them. */
    private List<String> newsAbout(String type) {
        var news = new CopyOnWriteArrayList<String>();
        String kind = "forge.cluster.wakeup.type=" + type;
        runner(kind, "forge.cluster.worker.poll-interval=1s")
                .withBean(Pings.class)
                .run(worker -> runner(kind, "forge.cluster.node.roles=function").run(enqueuer -> {
                    assertThat(wakeup(worker).getDetails()).containsEntry("type", type);
                    try (Connection connection = database.dataSource().getConnection();
                            Statement statement = connection.createStatement()) {
                        statement.execute("LISTEN " + channel());
                        for (int i = 0; i < 3; i++) {
                            enqueuer.getBean(Jobs.class).enqueueNamed("ping", null);
                            assertThat(worker.getBean(Pings.class).begun.tryAcquire(60, TimeUnit.SECONDS))
                                    .isTrue();
                        }
                        for (PGNotification heard :
                                connection.unwrap(PGConnection.class).getNotifications(1_000)) {
                            news.add(heard.getParameter());
                        }
                    }
                }));
        return news;
    }

    @Test
    void workers_poll_with_wakeup_type_none() {
        // Nodes still notify each other of other things, such as a new leader.
        assertThat(newsAbout("none")).noneMatch(text -> text.startsWith("work"));
        assertThat(newsAbout("postgres")).anyMatch(text -> text.startsWith("work"));
    }

    /** A coordinator of the application. */
    static class Pigeons implements ClusterCoordinator {
        final List<JobPriority> sent = new CopyOnWriteArrayList<>();
        final List<Runnable> listeners = new CopyOnWriteArrayList<>();
        volatile CountDownLatch grounded = new CountDownLatch(0);
        volatile boolean lost;

        @Override
        public void notifyNewWork(JobPriority priority) {
            try {
                grounded.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            if (lost) {
                lost = false;
                throw new IllegalStateException("a hawk");
            }
            sent.add(priority);
        }

        @Override
        public void registerWakeupListener(Runnable listener) {
            listeners.add(listener);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"postgres", "redis", "jms", "none"})
    void coordinator_of_the_application_takes_precedence(String type) {
        runner("forge.cluster.wakeup.type=" + type).withBean(Pigeons.class).run(context -> {
            assertThat(context).hasNotFailed().hasSingleBean(ClusterCoordinator.class);
            assertThat(context.getBean(Pigeons.class).listeners).hasSize(1);
            assertThat(wakeup(context).getDetails())
                    .containsEntry("type", "custom")
                    .containsEntry("connected", true);
        });
    }

    @Test
    void enqueue_does_not_wait_for_the_broker_and_announcements_are_coalesced() {
        // A second node is needed: a lone node announces no jobs.
        runner("forge.cluster.node.roles=function")
                .run(other -> runner("forge.cluster.node.roles=function")
                        .withBean(Pigeons.class)
                        .withBean(Pings.class)
                        .run(context -> {
                            var pigeons = context.getBean(Pigeons.class);
                            var jobs = context.getBean(Jobs.class);
                            pigeons.grounded = new CountDownLatch(1);
                            // This announcement may begin before the next jobs are enqueued, or include them.
                            jobs.enqueueNamed("ping", null);
                            for (JobPriority priority :
                                    List.of(JobPriority.LOW, JobPriority.HIGH, JobPriority.NORMAL)) {
                                for (int i = 0; i < 20; i++) {
                                    jobs.enqueueNamed(
                                            "ping", null, JobOptions.defaults().withPriority(priority));
                                }
                            }
                            assertThat(pigeons.sent).isEmpty();
                            pigeons.grounded.countDown();
                            await().until(() -> pigeons.sent.contains(JobPriority.HIGH));
                            assertThat(pigeons.sent).hasSizeLessThanOrEqualTo(2);
                            // A lost announcement is repeated, and its caller gets no exception.
                            int before = pigeons.sent.size();
                            pigeons.lost = true;
                            jobs.enqueueNamed("ping", null);
                            await().until(() -> !pigeons.lost && pigeons.sent.size() > before);
                        }));
    }

    @Test
    void listener_of_the_application_wakes_the_worker() {
        runner("forge.cluster.worker.poll-interval=5m")
                .withBean(Pigeons.class)
                .withBean(Pings.class)
                .run(context -> {
                    // A job that is enqueued with SQL is not announced.
                    database.jdbc()
                            .sql("SELECT forge_enqueue('ping')")
                            .query((row, n) -> row.getString(1))
                            .single();
                    context.getBean(Pigeons.class).listeners.forEach(Runnable::run);
                    assertThat(context.getBean(Pings.class).begun.tryAcquire(60, TimeUnit.SECONDS))
                            .isTrue();
                });
    }

    @Test
    void connection_factory_is_ignored_without_the_wakeup_type() {
        runner().withBean(
                        RedisConnectionFactory.class,
                        () -> {
                            throw new AssertionError("not asked for");
                        },
                        definition -> definition.setLazyInit(true))
                .run(context -> assertThat(context).hasNotFailed());
    }
}
