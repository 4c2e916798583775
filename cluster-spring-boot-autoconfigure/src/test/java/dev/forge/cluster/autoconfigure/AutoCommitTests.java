// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.state.ClusterStateStore;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionTemplate;

/** Jobs on a pool with {@code auto-commit=false}, which is often recommended for Hibernate. */
@ClusterPostgres
class AutoCommitTests {

    private final TestDatabase database;

    AutoCommitTests(TestDatabase database) {
        this.database = database;
        database.jdbc().sql("CREATE TABLE IF NOT EXISTS effects (what text)").update();
    }

    @Configuration(proxyBeanMethods = false)
    static class Beans {
        @Bean
        Work work(JdbcClient jdbc) {
            return new Work(jdbc);
        }
    }

    static class Work {
        private final JdbcClient jdbc;

        Work(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob(name = "plain")
        public String plain() {
            return "done";
        }

        @ClusterJob(name = "transactional")
        @Transactional
        public void transactional() {
            effect("job");
        }

        @ClusterCron(name = "report", value = "0 0 3 1 1 *")
        public void report() {}

        @ClusterWorkflow(name = "flow")
        public String flow(WorkflowContext wf) {
            wf.step("first", String.class, () -> "one");
            wf.transactionalStep("second", Integer.class, () -> effect("flow"));
            return wf.awaitSignal("go", String.class);
        }

        private int effect(String what) {
            return jdbc.sql("INSERT INTO effects VALUES (?)").param(what).update();
        }
    }

    @Test
    void committed_jobs_are_never_lost_and_rolled_back_jobs_never_run() {
        TestApplications.whole(database)
                .withPropertyValues("spring.datasource.hikari.auto-commit=false")
                .withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class))
                .withUserConfiguration(Beans.class)
                .run(context -> {
                    Jobs jobs = context.getBean(Jobs.class);
                    var transaction = new TransactionTemplate(context.getBean(PlatformTransactionManager.class));
                    assertThat(ended(context, jobs.enqueueNamed("plain", null).id())
                                    .status())
                            .isEqualTo(JobStatus.COMPLETED);
                    assertThat(ended(
                                            context,
                                            jobs.enqueueNamed("transactional", null)
                                                    .id())
                                    .status())
                            .isEqualTo(JobStatus.COMPLETED);
                    UUID never = transaction.execute(status -> {
                        status.setRollbackOnly();
                        return jobs.enqueueNamed("plain", null).id();
                    });
                    assertThat(jobs.find(never)).isEmpty();

                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("flow", null);
                    await().until(() ->
                            "go".equals(workflows.find(run).orElseThrow().awaits()));
                    assertThat(workflows.signal(run, "go", "now")).isTrue();
                    await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.COMPLETED);
                    assertThat(workflows.result(run, String.class)).contains("now");
                    assertThat(database.jdbc()
                                    .sql("SELECT what FROM effects")
                                    .query(String.class)
                                    .list())
                            .containsExactlyInAnyOrder("job", "flow");

                    Crons crons = context.getBean(Crons.class);
                    crons.create(CronDefinition.cron("mine", "0 0 4 1 1 *").withHandler("report"));
                    assertThat(crons.find("mine")).isPresent();
                    assertThat(crons.pause("mine")).isTrue();
                    assertThat(crons.find("mine").orElseThrow().paused()).isTrue();
                    assertThat(crons.delete("mine")).isTrue();
                    assertThat(crons.find("mine")).isEmpty();

                    ClusterStateStore states = context.getBean(ClusterStateStore.class);
                    states.putOnce("key", "value", Duration.ofMinutes(1));
                    assertThat(states.takeOnce("key", String.class)).contains("value");
                });
    }
}
