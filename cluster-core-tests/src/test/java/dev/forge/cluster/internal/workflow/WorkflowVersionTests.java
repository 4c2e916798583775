// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Versions, history mismatches and keys of runs. */
@ClusterPostgres
class WorkflowVersionTests extends WorkflowFixture {

    WorkflowVersionTests(TestDatabase database) {
        super(database);
    }

    @Test
    void method_that_does_not_match_its_history_blocks_its_run_until_it_is_retried() {
        var name = new AtomicReference<>("charge");
        flows.on("changes", wf -> {
            wf.step("reserve", String.class, () -> did("reserve"));
            wf.step(name.get(), String.class, () -> did(name.get()));
            wf.awaitSignal("go", String.class);
            return "fine";
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("changes", null);
        one.await(run, WorkflowStatus.WAITING);
        name.set("pay");
        one.workflows().signal(run, "go", "on");
        WorkflowInfo blocked = one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH);
        assertThat(blocked.lastError()).contains("position 1", "step 'charge'", "step 'pay'");
        assertThat(job(run)).containsEntry("status", "pending").containsEntry("attempts", 0);
        assertThat(one.member().operations().explain(run).reason()).isEqualTo(Reason.RUN_BLOCKED);
        assertThat(one.member().operations().explain(run).text())
                .isEqualTo(
                        "Its run is blocked: its method does not match its recorded history; see the workflow's page.");
        name.set("charge");
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("reserve", "charge");
    }

    @Test
    void method_that_ends_before_its_history_does_blocks_its_run() {
        var shortened = new AtomicBoolean();
        flows.on("shortened", wf -> {
            wf.step("one", String.class, () -> did("one"));
            if (!shortened.get()) {
                wf.step("two", String.class, () -> did("two"));
                wf.awaitSignal("go", String.class);
            }
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("shortened", null);
        one.await(run, WorkflowStatus.WAITING);
        shortened.set(true);
        one.workflows().signal(run, "go", "on");
        assertThat(one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH).lastError())
                .contains("step 'two'", "returned");
    }

    @Test
    void recorded_result_of_another_type_blocks_its_run_until_it_is_retried() {
        var type = new AtomicReference<Class<?>>(String.class);
        flows.on("typed", wf -> {
            wf.step(typed("one", type.get(), () -> did("one")).withCompensation(what -> did("undo one")));
            wf.awaitSignal("go", String.class);
            return "fine";
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("typed", null);
        one.await(run, WorkflowStatus.WAITING);
        type.set(Integer.class);
        one.workflows().signal(run, "go", "on");
        assertThat(one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH).lastError())
                .startsWith(
                        "History mismatch at position 0: recorded step 'one', whose result cannot be read as java.lang.Integer: ");
        type.set(String.class);
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("one");
    }

    @Test
    void no_parallel_step_is_attempted_beside_a_recorded_result_of_another_type() {
        var type = new AtomicReference<Class<?>>(String.class);
        flows.on(
                "parallel",
                wf -> wf.all(List.of(
                        Step.of("other", String.class, () -> {
                                    did("other");
                                    throw new IllegalStateException("not now");
                                })
                                .withBackoff(Duration.ofMinutes(5)),
                        typed("typed", type.get(), () -> did("typed")))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parallel", null);
        one.await(run, WorkflowStatus.WAITING);
        type.set(Integer.class);
        jdbc.sql("UPDATE forge_workflow_steps SET wake_at = now() WHERE run_id = ? AND name = 'other'")
                .param(run)
                .update();
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE id = ?")
                .param(run)
                .update();
        assertThat(one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH).lastError())
                .contains("position 1", "step 'typed'");
        assertThat(done).containsExactlyInAnyOrder("other", "typed");
    }

    @Test
    void result_of_a_job_of_another_type_blocks_the_run_that_waits_for_it() {
        var type = new AtomicReference<Class<?>>(Integer.class);
        flows.work = jobs -> jobs.on(TestJobs.job("count"), (payload, context) -> did("many"));
        flows.on("counts", wf -> wf.job("count", null, type.get()));
        Member one = flows.start("one");
        UUID run = one.workflows().start("counts", null);
        assertThat(one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH).lastError())
                .contains("position 0", "job 'count'", "java.lang.Integer");
        type.set(String.class);
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, String.class)).contains("many");
        assertThat(done).containsExactly("many");
    }

    @Test
    void new_runs_have_the_newest_version_and_old_runs_keep_theirs() {
        flows.on("deploy", "9", wf -> wf.awaitSignal("go", String.class) + " by 9");
        Member nine = flows.start("nine");
        UUID old = nine.workflows().start("deploy", null);
        var newer = new TestWorkflows(cluster);
        newer.on("deploy", "10", wf -> wf.awaitSignal("go", String.class) + " by 10");
        newer.deprecated("deploy", "11", wf -> "by 11");
        Member ten = newer.start("ten");
        UUID fresh = ten.workflows().start("deploy", null);
        ten.await(fresh, WorkflowStatus.WAITING);
        nine.await(old, WorkflowStatus.WAITING);
        assertThat(ten.workflows().find(fresh).orElseThrow().version()).isEqualTo("10");
        // Each run continues on the node that has its version, whichever node sends the signal.
        ten.workflows().signal(old, "go", "old");
        nine.workflows().signal(fresh, "go", "fresh");
        nine.ended(old);
        nine.ended(fresh);
        assertThat(ten.workflows().result(old, String.class)).contains("old by 9");
        assertThat(ten.workflows().result(fresh, String.class)).contains("fresh by 10");
    }

    @Test
    void node_without_the_workflow_starts_a_version_of_a_live_node() {
        flows.on("remote", "1.2", wf -> "1.2");
        flows.on("remote", "1.10", wf -> "1.10");
        flows.deprecated("remote", "2", wf -> "2");
        flows.deprecated("gone", "1", wf -> "gone");
        flows.start("has");
        Member lacks = new TestWorkflows(cluster).start("lacks");
        UUID run = lacks.workflows().start("remote", null);
        assertThat(lacks.ended(run).version()).isEqualTo("1.10");
        for (String refused : List.of("gone", "unknown")) {
            assertThatExceptionOfType(WorkflowRejectedException.class)
                    .isThrownBy(() -> lacks.workflows().start(refused, null))
                    .withMessageContaining("'" + refused + "'");
        }
    }

    @Test
    void versions_are_compared_as_numbers_then_as_text() {
        List<String> sorted = Stream.of("10", "2", "beta", "1.10", "1.9.9", "1.9", "alpha", "1.9-rc", "010")
                .map(version -> new WorkflowVersion("any", version))
                .sorted(WorkflowVersion.OLDEST_FIRST)
                .map(WorkflowVersion::version)
                .toList();
        assertThat(sorted).containsExactly("alpha", "beta", "1.9-rc", "1.9", "1.9.9", "1.10", "2", "010", "10");
    }

    @Test
    void name_of_a_job_contains_the_version_of_its_run() {
        var version = new WorkflowVersion("mail@home", "1.2");
        assertThat(WorkflowVersion.ofJob(version.jobName())).contains(version);
        assertThat(WorkflowVersion.ofJob("order")).isEmpty();
    }

    @Test
    void runs_without_a_live_version_are_blocked_and_continue_when_a_node_has_it() {
        flows.on("stranded", wf -> wf.awaitSignal("go", String.class));
        Member has = flows.start("has");
        UUID run = has.workflows().start("stranded", null);
        has.await(run, WorkflowStatus.WAITING);
        Member lacks = new TestWorkflows(cluster).start("lacks");
        has.member().stop();
        lacks.await(run, WorkflowStatus.BLOCKED_MISSING_VERSION);
        assertThat(lacks.member().operations().explain(run).text())
                .isEqualTo(
                        "Its run is blocked: no live node has the version 1 of the workflow stranded; see the workflow's page.");
        assertThat(lacks.workflows().signal(run, "go", "on")).isTrue();
        Member again = flows.start("again");
        assertThat(again.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void key_starts_one_run_however_many_callers_start_it_at_once() {
        flows.on("keyed", wf -> wf.step("once", String.class, () -> did("once")));
        Member one = flows.start("one");
        List<UUID> runs = IntStream.range(0, 20)
                .parallel()
                .mapToObj(i -> one.workflows().start("keyed", null, "order-1"))
                .distinct()
                .toList();
        assertThat(runs).hasSize(1);
        one.ended(runs.get(0));
        assertThat(one.workflows().start("keyed", null, "order-1")).isEqualTo(runs.get(0));
        assertThat(done).containsExactly("once");
    }

    @Test
    void run_of_a_transaction_that_rolls_back_is_not_started() {
        flows.on("rolled", wf -> did("ran"));
        Member one = flows.start("one");
        UUID run = new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).execute(status -> {
            UUID started = one.workflows().start("rolled", null);
            status.setRollbackOnly();
            return started;
        });
        assertThat(one.workflows().find(run)).isEmpty();
        assertThat(one.operations()
                        .search(WorkflowFilter.all().withName("rolled"), 10)
                        .items())
                .isEmpty();
        UUID real = one.workflows().start("rolled", null);
        one.ended(real);
        assertThat(one.operations()
                        .search(WorkflowFilter.all().withName("rolled").withStatus(WorkflowStatus.COMPLETED), 10)
                        .items())
                .extracting(WorkflowInfo::id)
                .containsExactly(real);
    }
}
