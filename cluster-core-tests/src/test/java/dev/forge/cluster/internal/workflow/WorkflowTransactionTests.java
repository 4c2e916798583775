// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.UUID;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Transactional steps: one transaction for the effect and its record. */
@ClusterPostgres
class WorkflowTransactionTests extends WorkflowFixture {

    WorkflowTransactionTests(TestDatabase database) {
        super(database);
    }

    @Test
    void transactional_step_writes_once_or_not_at_all() {
        flows.on("transactional", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                wrote(wf.id(), "write");
                if (done.isEmpty()) {
                    did("failed");
                    throw new IllegalStateException("after the write");
                }
                return "written";
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("transactional", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(written(run)).containsExactly("write");
    }

    @Test
    void callback_that_fails_after_the_commit_does_not_repeat_a_transactional_step() {
        flows.on("callback", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                wrote(flows.source, wf.id(), "write");
                if (done.isEmpty()) {
                    did("first");
                    TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
                        @Override
                        public void afterCommit() {
                            throw new IllegalStateException("the mail server is away");
                        }
                    });
                }
                return "written";
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("callback", null);
        one.ended(run);
        assertThat(written(run)).containsExactly("write");
    }

    @Test
    void transactional_step_under_repeatable_read_may_take_longer_than_a_heartbeat() throws InterruptedException {
        flows.source = repeatableRead();
        // Shorter than the default of 10 s, so that the step soon outlasts it.
        flows.work = jobs -> jobs.heartbeat = Duration.ofMillis(300);
        flows.on("snapshot", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                did("attempt");
                wrote(flows.source, wf.id(), "write");
                Object before = lease(wf.id());
                await().until(() -> !lease(wf.id()).equals(before));
                return "written";
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("snapshot", null);
        WorkflowStatus status = one.ended(run).status();
        assertThat(status).as("after %s", done).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void transactional_step_under_repeatable_read_may_store_its_progress() throws InterruptedException {
        flows.source = repeatableRead();
        flows.on("snapshot", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                did("attempt");
                wrote(flows.source, wf.id(), "write");
                wf.progress(50, "half");
                await().until(() -> jdbc.sql("SELECT progress IS NOT NULL FROM forge_jobs WHERE id = ?")
                        .param(wf.id())
                        .query(Boolean.class)
                        .single());
                return "written";
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("snapshot", null);
        WorkflowStatus status = one.ended(run).status();
        assertThat(status).as("after %s", done).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void transactional_step_that_waits_for_the_database_beyond_its_timeout_fails() {
        flows.attempts = 1;
        flows.on(
                "slow",
                wf -> wf.transactionalStep(
                        "hang",
                        String.class,
                        () -> {
                            JdbcClient.create(flows.source)
                                    .sql("SELECT pg_sleep(3)::text")
                                    .query(String.class)
                                    .single();
                            return "";
                        },
                        step -> step.withTimeout(Duration.ofMillis(200))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("slow", null);
        long began = System.nanoTime();
        WorkflowInfo info = one.ended(run);
        assertThat(info.status())
                .as("after %d ms", (System.nanoTime() - began) / 1_000_000)
                .isEqualTo(WorkflowStatus.FAILED);
    }

    private Member startWith(String name, DataSource source, WorkflowHandler handler) {
        var jobs = new TestJobs(source);
        TestCluster.Member member = cluster.create(name, jobs, settings -> settings);
        var tools = new JobEngine.Dependencies(
                source, new TestJobs.Json(), jobs.monitor, () -> jobs.interceptors, null, jobs.maxPayload);
        var engine = new WorkflowEngine(
                member.node(),
                member.engine(),
                jobs.handlers(),
                new WorkflowEngine.Resources(
                        tools, member.control().shared(), new DataSourceTransactionManager(source)),
                new WorkflowSettings(
                        3,
                        TestJobs.AT_ONCE,
                        0,
                        new WorkflowSettings.Retention(Duration.ofDays(1), Duration.ofDays(1)),
                        new WorkflowSettings.StrandedCheck(Duration.ofMillis(200), false),
                        WorkflowSettings.Limits.DEFAULTS));
        member.node().components().register(engine);
        engine.add(handler);
        cluster.members().add(member);
        member.node().start();
        return new Member(
                member, engine, new DefaultWorkflows(member.node(), engine), new DefaultWorkflowOperations(engine));
    }

    @Test
    void rejected_commit_is_a_failed_attempt_with_any_transaction_manager() throws InterruptedException {
        jdbc.sql("DROP TABLE IF EXISTS deferred").update();
        jdbc.sql("CREATE TABLE deferred (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
                .update();
        jdbc.sql("INSERT INTO deferred VALUES (1)").update();
        DataSource source = database.dataSource();
        Member one = startWith(
                "one",
                source,
                new WorkflowHandler(
                        new WorkflowVersion("deferred", "1"),
                        false,
                        null,
                        (wf, input) -> wf.transactionalStep("write", String.class, () -> {
                            did("attempt");
                            JdbcClient.create(source)
                                    .sql("INSERT INTO deferred VALUES (1)")
                                    .update();
                            return "";
                        }),
                        "test"));
        UUID run = one.workflows().start("deferred", null);
        WorkflowStatus status = one.ended(run).status();
        assertThat(status).as("after %d attempts of 3", done.size()).isEqualTo(WorkflowStatus.FAILED);
    }
}
