// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.test.WorkflowReplayer.Difference;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepFailedException;
import dev.forge.cluster.workflow.StepKind;
import dev.forge.cluster.workflow.WorkflowExport;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Exports of runs can be replayed, with all values and without them. */
@ClusterPostgres
class WorkflowExportReplayTests {

    private static final String SECRET = "4711";

    private final TestDatabase database;
    private final TestCluster cluster;
    private final TestWorkflows flows;

    WorkflowExportReplayTests(TestDatabase database) {
        this.database = database;
        this.cluster = new TestCluster(database);
        this.flows = new TestWorkflows(cluster);
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    record Order(String item, int quantity) {}

    /** Uses each kind of entry that has a value. */
    private Member shop() {
        flows.on("shop", Order.class, (wf, input) -> {
            wf.now();
            wf.randomUuid();
            wf.saveState(Map.of("card", SECRET));
            wf.step("pay", Order.class, () -> new Order("card " + SECRET, 4711));
            try {
                wf.step("check", () -> {
                    throw new NonRetryableJobException("refused: " + SECRET);
                });
            } catch (StepFailedException e) {
                wf.step("instead", () -> {});
            }
            wf.awaitSignal("paid", String.class);
            wf.sleep("later", Duration.ofDays(1));
            return null;
        });
        return flows.start("one");
    }

    private static UUID waiting(Member one) {
        UUID run = one.workflows().start("shop", new Order("anvil " + SECRET, 3));
        one.workflows().signal(run, "paid", "by " + SECRET);
        await().until(() -> one.operations().export(run).orElseThrow().steps().stream()
                .anyMatch(step -> step.kind() == StepKind.SLEEP));
        one.await(run, WorkflowStatus.WAITING);
        return run;
    }

    @Test
    void exported_run_replays_with_and_without_its_values() {
        Member one = shop();
        UUID run = waiting(one);
        WorkflowExport export = one.operations().export(run).orElseThrow();
        assertThat(export.name()).isEqualTo("shop");
        assertThat(export.status()).isEqualTo(WorkflowStatus.WAITING);
        assertThat(export.steps())
                .extracting(step -> step.position() + " " + step.kind() + " " + step.status())
                .containsExactly(
                        "0 NOW COMPLETED",
                        "1 UUID COMPLETED",
                        "2 STATE COMPLETED",
                        "3 STEP COMPLETED",
                        "4 STEP FAILED",
                        "5 STEP COMPLETED",
                        "6 SIGNAL COMPLETED",
                        "7 SLEEP WAITING");
        assertThat(export.steps().get(7).wakeAt()).isNotNull();
        assertThat(export.json()).contains("anvil " + SECRET, "card " + SECRET, "refused: " + SECRET, "by " + SECRET);

        String masked = export.masked().json();
        assertThat(masked).contains("\"item\"", "\"quantity\"", "\"later\"").doesNotContain(SECRET, "anvil");
        var replayer = new WorkflowReplayer(one.engine());
        assertThat(replayer.replay(export.json() + "\n" + masked)).isEmpty();
        assertThat(replayer.replay(masked.replace("\"pay\"", "\"bill\"")))
                .extracting(Difference::message)
                .singleElement()
                .asString()
                .contains("position 3", "bill");
    }

    /** Three steps in parallel, of which b waits for its next attempt until {@code repaired}. */
    private Member group(AtomicReference<List<String>> names, AtomicBoolean repaired) {
        flows.on("group", wf -> {
            wf.all(names.get().stream()
                    .map(name -> Step.of(name, String.class, () -> {
                                if (name.equals("b") && !repaired.get()) {
                                    throw new IllegalStateException("not now");
                                }
                                return name;
                            })
                            .withBackoff(Duration.ofMinutes(5)))
                    .toList());
            return names.get().size() > 3 ? null : wf.step("next", String.class, () -> "next");
        });
        return flows.start("one");
    }

    private static List<String> differences(Member one, WorkflowExport export) {
        return new WorkflowReplayer(one.engine())
                .replay(export.json()).stream().map(Difference::message).toList();
    }

    @Test
    void step_that_a_parallel_group_lacks_is_a_difference() {
        var names = new AtomicReference<>(List.of("a", "b", "c"));
        Member one = group(names, new AtomicBoolean());
        UUID run = one.workflows().start("group", null);
        one.await(run, WorkflowStatus.WAITING);
        WorkflowExport export = one.operations().export(run).orElseThrow();
        assertThat(differences(one, export)).isEmpty();
        names.set(List.of("a", "b"));
        assertThat(differences(one, export))
                .containsExactly(
                        "History mismatch at position 2: recorded step 'c', but the method calls step 'b' before it, which has not completed");
    }

    @Test
    void step_that_was_added_to_the_last_parallel_group_is_named() {
        var names = new AtomicReference<>(List.of("a", "b", "c"));
        Member one = group(names, new AtomicBoolean(true));
        UUID run = one.workflows().start("group", null);
        one.ended(run);
        WorkflowExport export = one.operations().export(run).orElseThrow();
        assertThat(differences(one, export)).isEmpty();
        names.set(List.of("a", "b", "c", "d"));
        assertThat(differences(one, export))
                .containsExactly("History mismatch at position 3: recorded step 'next', but the method calls step 'd'");
        var withoutNext = new WorkflowExport(
                run, "group", "1", export.status(), null, export.steps().subList(0, 3));
        assertThat(differences(one, withoutNext))
                .containsExactly("The recorded run completed after 3 calls, but the method calls step 'd'");
    }

    @Test
    void history_with_a_gap_is_a_difference() {
        Member one = shop();
        WorkflowExport export = one.operations().export(waiting(one)).orElseThrow();
        var steps = new ArrayList<>(export.steps());
        steps.remove(3);
        var gap = new WorkflowExport(export.id(), "shop", "1", export.status(), export.input(), steps);
        assertThat(differences(one, gap))
                .containsExactly(
                        "History mismatch at position 4: recorded step 'check', but the method calls step 'pay' before it, which has not completed");
    }

    @Test
    void recorded_value_of_another_type_is_a_difference_whatever_became_of_the_run() {
        flows.on("typed", Order.class, (wf, input) -> {
            wf.awaitSignal("paid", String.class);
            wf.step(Step.of("one", String.class, () -> "uno").withCompensation(what -> {}));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("typed", new Order("anvil", 3));
        one.workflows().signal(run, "paid", "text");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        WorkflowExport recorded = one.operations().export(run).orElseThrow();
        Map<String, String> changes = Map.of(
                "\"text\"", "History mismatch at position 0: recorded signal 'paid', whose result cannot be read as ",
                "\"uno\"", "History mismatch at position 1: recorded step 'one', whose result cannot be read as ",
                "\"anvil\"", "The input of the run cannot be read as ");
        for (WorkflowStatus status : WorkflowStatus.values()) {
            changes.forEach((value, message) -> {
                var export = new WorkflowExport(run, "typed", "1", status, recorded.input(), recorded.steps());
                assertThat(export.json()).contains(value);
                assertThat(new WorkflowReplayer(one.engine())
                                .replay(export.json().replace(value, "[1]")))
                        .as("%s, %s", value, status)
                        .extracting(Difference::message)
                        .singleElement()
                        .asString()
                        .startsWith(message);
            });
        }
    }

    @Test
    void runs_that_wait_are_compatible() {
        var ended = new CountDownLatch(1);
        flows.work = jobs -> jobs.on(
                "job", context -> assertThat(ended.await(5, TimeUnit.MINUTES)).isTrue());
        flows.on("signal", wf -> wf.awaitSignal("never", String.class, Duration.ofDays(1)));
        flows.on("job", wf -> wf.job("job", null, String.class));
        flows.on("child", wf -> wf.child("signal", null, String.class));
        flows.on("batch", UUID.class, (wf, batch) -> wf.awaitBatch("batch", (UUID) batch));
        flows.on(
                "retry",
                wf -> wf.step(
                        "fails",
                        String.class,
                        () -> {
                            throw new IllegalStateException("not now");
                        },
                        step -> step.withBackoff(Duration.ofMinutes(5))));
        Member one = flows.start("one");
        UUID batch = one.member().jobs().batch(JobBatchOptions.named("open")).id();
        try {
            for (String name : List.of("signal", "job", "child", "batch", "retry")) {
                UUID run = one.workflows().start(name, name.equals("batch") ? batch : null);
                one.await(run, WorkflowStatus.WAITING);
                assertThat(differences(one, one.operations().export(run).orElseThrow()))
                        .as(name)
                        .isEmpty();
            }
        } finally {
            ended.countDown();
        }
    }

    @Test
    void export_of_an_unknown_run_is_empty() {
        assertThat(flows.start("one").operations().export(UUID.randomUUID())).isEmpty();
    }

    @Test
    void run_without_input_and_steps_is_exported() {
        flows.on("empty", wf -> null);
        Member one = flows.start("one");
        UUID run = one.workflows().start("empty", null);
        one.ended(run);
        assertThat(one.operations().export(run))
                .contains(new WorkflowExport(run, "empty", "1", WorkflowStatus.COMPLETED, null, List.of()));
    }

    @Test
    void history_that_is_too_large_is_not_read() {
        Member one = shop();
        UUID run = waiting(one);
        database.jdbc()
                .sql("UPDATE forge_workflow_steps SET result_bytes = 70000000 WHERE run_id = ? AND position = 3")
                .param(run)
                .update();
        assertThatThrownBy(() -> one.operations().export(run))
                .isInstanceOf(WorkflowRejectedException.class)
                .hasMessageContainingAll(run.toString(), "8 steps", "8388608 bytes");
        database.jdbc()
                .sql("UPDATE forge_workflow_steps SET result_bytes = 0 WHERE run_id = ?")
                .param(run)
                .update();
        assertThat(one.operations().export(run)).isPresent();
        database.jdbc().sql("""
                INSERT INTO forge_workflow_steps (run_id, position, name, kind, status)
                SELECT ?, n, 'a', 'step', 'completed' FROM generate_series(8, 100000) AS n
                """).param(run).update();
        assertThatThrownBy(() -> one.operations().export(run))
                .isInstanceOf(WorkflowRejectedException.class)
                .hasMessageContaining("100001 steps");
    }
}
