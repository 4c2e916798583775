// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;
import static org.mockito.Mockito.mock;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.job.JobSlots;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.TestDatabase;
import jakarta.persistence.EntityManagerFactory;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.aop.support.AopUtils;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SimpleDriverDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;

/** Handlers in transactions, and the connections that they need. */
class HandlerTransactionTests extends AbstractHandlerTests {

    HandlerTransactionTests(TestDatabase database) {
        super(database);
    }

    @Test
    void transactional_bean_behind_cglib_commits_with_its_job_and_rolls_back_with_its_failure() {
        database.jdbc().sql("CREATE TABLE IF NOT EXISTS entries (entry text)").update();
        runner().withBean(Entries.class).run(context -> {
            assertThat(AopUtils.isCglibProxy(context.getBean(Entries.class))).isTrue();
            JobInfo job = ended(
                    context,
                    context.getBean(Jobs.class).enqueueNamed("enter", "entry").id());
            assertThat(job.status()).as(job.lastError()).isEqualTo(JobStatus.COMPLETED);
            assertThat(job.attempts()).isEqualTo(2);
            assertThat(database.jdbc()
                            .sql("SELECT entry FROM entries")
                            .query(String.class)
                            .list())
                    .containsExactly("entry 2");
        });
        database.jdbc().sql("DROP TABLE entries").update();
    }

    static class Entries {
        private final JdbcClient jdbc;

        Entries(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob
        @Transactional
        void enter(String entry, JobContext job) {
            jdbc.sql("INSERT INTO entries VALUES (?)")
                    .param(entry + " " + job.attempt())
                    .update();
            if (job.attempt() == 1) {
                throw new IllegalStateException("rolls back");
            }
        }
    }

    static class Apart {
        @ClusterJob
        @Transactional(propagation = Propagation.REQUIRES_NEW)
        void requiresNew() {}

        @ClusterJob
        @Transactional(propagation = Propagation.NOT_SUPPORTED)
        void notSupported() {}

        @ClusterJob
        @Transactional(propagation = Propagation.NEVER)
        void never() {}

        @ClusterJob
        @Transactional(propagation = Propagation.SUPPORTS)
        void supports() {}

        @ClusterJob
        @Transactional(propagation = Propagation.MANDATORY)
        void mandatory() {}
    }

    @Test
    void transaction_that_cannot_complete_the_job_is_a_warning(CapturedOutput output) {
        runner().withBean(Apart.class).run(context -> {
            assertThat(output.getAll())
                    .contains(Apart.class.getName() + ".requiresNew runs at least once")
                    .contains("propagation = REQUIRES_NEW")
                    .contains(".notSupported runs at least once")
                    .contains(".never runs at least once")
                    .contains(".supports runs at least once")
                    .doesNotContain(".mandatory runs");
            JobInfo job = ended(
                    context,
                    context.getBean(Jobs.class)
                            .enqueueNamed("requires-new", null)
                            .id());
            assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        });
    }

    static class ElsewhereUnnamed {
        @ClusterJob
        @Transactional
        void book() {}
    }

    static class ElsewhereNamed {
        @ClusterJob
        @Transactional("elsewhere")
        void book() {}
    }

    static class Here {
        @ClusterJob
        @Transactional("here")
        String book() {
            return "booked";
        }
    }

    static Stream<PlatformTransactionManager> foreign() {
        var jpa = new JpaTransactionManager(mock(EntityManagerFactory.class));
        jpa.setDataSource(new SimpleDriverDataSource());
        return Stream.of(new JdbcTransactionManager(new SimpleDriverDataSource()), jpa);
    }

    @ParameterizedTest
    @MethodSource("foreign")
    void handler_with_transactions_of_another_database_fails_the_start(PlatformTransactionManager elsewhere) {
        for (Class<?> handler : List.of(ElsewhereUnnamed.class, ElsewhereNamed.class)) {
            runner().withBean("elsewhere", PlatformTransactionManager.class, () -> elsewhere)
                    .withBean(handler)
                    .run(context -> assertThat(refusal(context.getStartupFailure()))
                            .hasMessageContainingAll(
                                    handler.getName() + ".book",
                                    "No transaction manager of the cluster's DataSource exists")
                            .extracting(ClusterStartupException::action)
                            .asString()
                            .contains("JpaTransactionManager"));
        }
    }

    @ParameterizedTest
    @MethodSource("foreign")
    void handler_with_the_wrong_transaction_manager_fails_the_start(PlatformTransactionManager elsewhere) {
        runner().withBean("elsewhere", PlatformTransactionManager.class, () -> elsewhere)
                .withUserConfiguration(OwnManager.class)
                .withBean(ElsewhereNamed.class)
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining(ElsewhereNamed.class.getName() + ".book")
                        .extracting(ClusterStartupException::action)
                        .asString()
                        .contains("@Transactional(\"...\")"));
    }

    @ParameterizedTest
    @MethodSource("foreign")
    void handler_may_name_the_matching_transaction_manager(PlatformTransactionManager elsewhere) {
        runner().withBean("elsewhere", PlatformTransactionManager.class, () -> elsewhere)
                .withUserConfiguration(OwnManager.class)
                .withBean(Here.class)
                .run(context -> assertThat(ended(
                                        context,
                                        context.getBean(Jobs.class)
                                                .enqueueNamed("book", null)
                                                .id())
                                .result())
                        .isEqualTo("\"booked\""));
    }

    @Configuration(proxyBeanMethods = false)
    static class OwnManager {
        @Bean
        JdbcTransactionManager here(DataSource source) {
            return new JdbcTransactionManager(source);
        }
    }

    record Latches(CountDownLatch begun, CountDownLatch end) {}

    static class Patient {
        private final Latches latches;

        Patient(Latches latches) {
            this.latches = latches;
        }

        @ClusterJob
        @Transactional
        public void wait(Integer number) throws InterruptedException {
            latches.begun.countDown();
            latches.end.await();
        }
    }

    @Test
    void transactional_jobs_leave_connections_to_the_application(CapturedOutput output) {
        var latches = new Latches(new CountDownLatch(3), new CountDownLatch(1));
        runner().withBean(Latches.class, () -> latches)
                .withBean(Patient.class)
                .withPropertyValues(
                        "spring.datasource.hikari.maximum-pool-size=5", "spring.datasource.hikari.pool-name=small")
                .run(context -> {
                    List<UUID> ids = context.getBean(Jobs.class).enqueueAll(List.of(1, 2, 3, 4, 5, 6)).stream()
                            .map(EnqueuedJob::id)
                            .toList();
                    latches.begun.await();
                    assertThat(context.getBean(HikariDataSource.class)
                                    .getHikariPoolMXBean()
                                    .getActiveConnections())
                            .isEqualTo(3);
                    assertThat(context.getBean(JdbcClient.class)
                                    .sql("SELECT count(*) FROM forge_jobs WHERE status = 'running'")
                                    .query(Integer.class)
                                    .single())
                            .isEqualTo(3);
                    latches.end.countDown();
                    ids.forEach(id -> assertThat(ended(context, id).status()).isEqualTo(JobStatus.COMPLETED));
                });
        assertThat(output.getAll()).doesNotContain("may hold");
    }

    @Test
    void settings_that_may_use_all_connections_are_a_warning(CapturedOutput output) {
        database.jdbc().sql("CREATE TABLE IF NOT EXISTS entries (entry text)").update();
        runner().withBean(Entries.class)
                .withPropertyValues(
                        "spring.datasource.hikari.pool-name=small", "forge.cluster.worker.max-concurrent-jobs=10")
                .run(context -> assertThat(output.getAll())
                        .contains(
                                "Pool 'small' is too small",
                                "may hold 10 of its 10 connections",
                                "spring.datasource.hikari.maximum-pool-size (DataSource bean 'dataSource') to 15"));
        int before = output.getAll().length();
        runner().withBean(Entries.class)
                .withBean(HandlerSignatureTests.Signatures.class)
                .withPropertyValues(
                        "forge.cluster.worker.executors.narrow.max-concurrent-jobs=4",
                        "forge.cluster.worker.routing[0].pattern=enter",
                        "forge.cluster.worker.routing[0].executor=narrow")
                .run(context -> {
                    assertThat(context.getBean(JobSlots.class).jobs()).isEqualTo(10);
                    assertThat(output.getAll().substring(before)).doesNotContain("may hold");
                });
        runner().withBean(Entries.class)
                .withPropertyValues(
                        "spring.datasource.hikari.maximum-pool-size=2", "forge.cluster.node.roles=scheduler")
                .run(context -> assertThat(output.getAll().substring(before)).doesNotContain("may hold"));
        database.jdbc().sql("DROP TABLE entries").update();
    }
}
