// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Signals that are sent before or after the run waits, in time or late, readable or not. */
@ClusterPostgres
class WorkflowSignalTests extends WorkflowFixture {

    WorkflowSignalTests(TestDatabase database) {
        super(database);
    }

    @Test
    void signal_is_consumed_whether_it_is_sent_before_or_after_the_run_waits() {
        var go = new CountDownLatch(1);
        flows.on("signals", wf -> {
            wf.step("first", () -> assertThat(go.await(60, TimeUnit.SECONDS)).isTrue());
            String early = wf.awaitSignal("early", String.class);
            String late =
                    wf.awaitSignal("late", String.class, Duration.ofMinutes(1)).orElseThrow();
            return early + " " + late;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("signals", null);
        assertThat(one.workflows().signal(run, "early", "e")).isTrue();
        go.countDown();
        // The run may wait for the early signal for a moment: it may have been sent after the history was read.
        await().until(() ->
                "late".equals(one.workflows().find(run).orElseThrow().awaits()));
        assertThat(one.workflows().signal(run, "late", "l")).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, String.class)).contains("e l");
        assertThat(one.workflows().signal(run, "late", "l")).isFalse();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_workflow_signals")
                        .query(Integer.class)
                        .single())
                .isZero();
    }

    @Test
    void job_of_a_run_that_waits_for_a_signal_is_explained_by_the_signal() {
        flows.on("forever", wf -> wf.awaitSignal("approve", String.class));
        flows.on("limited", wf -> wf.awaitSignal("approve", String.class, Duration.ofHours(3)));
        Member one = flows.start("one");
        UUID forever = one.workflows().start("forever", null);
        UUID limited = one.workflows().start("limited", null);
        one.await(forever, WorkflowStatus.WAITING);
        one.await(limited, WorkflowStatus.WAITING);
        Jobs jobs = one.member().jobs();
        JobOperations operations = one.member().operations();
        assertThat(jobs.find(forever).orElseThrow().scheduledAt()).isEqualTo(Instant.MAX);
        assertThat(operations.explain(forever))
                .isEqualTo(new JobExplanation(
                        Reason.WAITING_FOR_SIGNAL, "Its run waits for signal 'approve'.", "approve"));
        JobExplanation explanation = operations.explain(limited);
        assertThat(explanation.reason()).isEqualTo(Reason.WAITING_FOR_SIGNAL);
        assertThat(explanation.text())
                .matches("Its run waits for signal 'approve', until [-0-9]{10}T[:0-9]{8}Z at the latest\\.");
    }

    @Test
    void signal_that_was_sent_is_no_longer_awaited_and_is_listed_until_it_is_consumed() {
        flows.on("approval", wf -> wf.awaitSignal("approve", String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("approval", null);
        one.await(run, WorkflowStatus.WAITING);
        assertThat(one.workflows().find(run).orElseThrow().awaits()).isEqualTo("approve");
        one.workflows().signal(run, "reject", null);
        Jobs jobs = one.member().jobs();
        String job = jobs.find(run).orElseThrow().name();
        jobs.pause(job);
        one.workflows().signal(run, "approve", "yes");
        WorkflowInfo delivered = one.workflows().find(run).orElseThrow();
        assertThat(delivered.status()).isEqualTo(WorkflowStatus.WAITING);
        assertThat(delivered.awaits()).isNull();
        assertThat(delivered.signals()).extracting(WorkflowInfo.Signal::name).containsExactly("reject", "approve");
        assertThat(one.operations()
                        .search(WorkflowFilter.all().withName("approval"), 10)
                        .items())
                .singleElement()
                .satisfies(listed -> assertThat(listed.awaits()).isNull());
        // What the explanation of the job is based on.
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        assertThat(new WorkflowReports(schema, database.dataSource()).waitOf(run))
                .hasValueSatisfying(wait -> assertThat(wait.signal()).isNull());
        jobs.resume(job);
        one.ended(run);
        assertThat(one.workflows().find(run).orElseThrow().signals())
                .extracting(WorkflowInfo.Signal::name)
                .containsExactly("reject");
    }

    @Test
    void signal_that_is_sent_after_the_timeout_is_not_consumed_by_a_replay() {
        flows.on("timeout", wf -> {
            Optional<String> missed = wf.awaitSignal("approve", String.class, Duration.ofMillis(100));
            wf.sleep("nap", Duration.ofMillis(100));
            return missed.orElse("nobody");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("timeout", null);
        await().until(() -> one.workflows().find(run).orElseThrow().steps().size() > 1);
        one.workflows().signal(run, "approve", "too late");
        one.ended(run);
        assertThat(one.workflows().result(run, String.class)).contains("nobody");
    }

    @Test
    void signal_without_payload_is_distinguished_from_a_timeout() {
        flows.on("bare", wf -> wf.awaitSignal("go", Duration.ofMinutes(1)) ? "came" : "none");
        flows.on("late", wf -> wf.awaitSignal("go", Duration.ofMillis(50)) ? "came" : "none");
        flows.on(
                "typed",
                wf -> wf.awaitSignal("go", String.class, Duration.ofMinutes(1)).orElse("none"));
        flows.on("void", wf -> wf.awaitSignal("go", Void.class, Duration.ofMinutes(1)));
        Member one = flows.start("one");
        UUID bare = one.workflows().start("bare", null);
        UUID late = one.workflows().start("late", null);
        UUID typed = one.workflows().start("typed", null);
        UUID refused = one.workflows().start("void", null);
        assertThat(one.workflows().signal(bare, "go", null)).isTrue();
        assertThat(one.workflows().signal(typed, "go", null)).isTrue();
        assertThat(one.workflows().signal(typed, "go", "payload")).isTrue();
        one.ended(bare);
        one.ended(late);
        one.ended(typed);
        assertThat(one.workflows().result(bare, String.class)).contains("came");
        assertThat(one.workflows().result(late, String.class)).contains("none");
        assertThat(one.workflows().result(typed, String.class)).contains("payload");
        assertThat(one.ended(refused).lastError()).contains("awaitSignal(name, timeout)");
    }

    @Test
    void signal_of_a_transaction_that_rolls_back_is_not_sent() {
        flows.on("signalled", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("signalled", null);
        one.await(run, WorkflowStatus.WAITING);
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transaction.executeWithoutResult(status -> {
            one.workflows().signal(run, "go", "wrong");
            status.setRollbackOnly();
        });
        transaction.executeWithoutResult(status -> one.workflows().signal(run, "go", "right"));
        one.ended(run);
        assertThat(one.workflows().result(run, String.class)).contains("right");
    }

    @Test
    void unreadable_signal_is_discarded_and_does_not_fail_the_run() {
        flows.on("typed", wf -> wf.awaitSignal("approve", Order.class).item());
        Member one = flows.start("one");
        UUID run = one.workflows().start("typed", null);
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().signal(run, "approve", "not an order");
        one.workflows().signal(run, "approve", new Order("anvil", 1));
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        // A flood of unreadable signals must not be stored until the run is deleted.
        assertThat(jdbc.sql("SELECT count(*) FROM forge_workflow_signals")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    @Test
    void signal_that_was_inserted_by_hand_is_consumed() {
        flows.on("signalled", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("signalled", null);
        one.await(run, WorkflowStatus.WAITING);
        jdbc.sql("""
                INSERT INTO forge_workflow_signals (id, run_id, name, payload) VALUES (gen_random_uuid(), ?, 'go', '"on"')
                """).param(run).update();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, String.class)).contains("on");
    }
}
