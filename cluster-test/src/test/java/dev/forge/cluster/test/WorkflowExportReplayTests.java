// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.test.WorkflowReplayer.Difference;
import dev.forge.cluster.workflow.StepFailedException;
import dev.forge.cluster.workflow.WorkflowExport;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
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
                    throw new PermanentJobFailure("refused: " + SECRET);
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
        await().until(() -> one.workflows().export(run).orElseThrow().steps().stream()
                .anyMatch(step -> step.kind().equals("sleep")));
        one.await(run, WorkflowStatus.WAITING);
        return run;
    }

    @Test
    void exported_run_replays_with_and_without_its_values() {
        Member one = shop();
        UUID run = waiting(one);
        WorkflowExport export = one.workflows().export(run).orElseThrow();
        assertThat(export.name()).isEqualTo("shop");
        assertThat(export.status()).isEqualTo(WorkflowStatus.WAITING);
        assertThat(export.steps())
                .extracting(step -> step.position() + " " + step.kind() + " " + step.status())
                .containsExactly(
                        "0 now completed",
                        "1 uuid completed",
                        "2 state completed",
                        "3 step completed",
                        "4 step failed",
                        "5 step completed",
                        "6 signal completed",
                        "7 sleep waiting");
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

    @Test
    void export_of_an_unknown_run_is_empty() {
        assertThat(flows.start("one").workflows().export(UUID.randomUUID())).isEmpty();
    }

    @Test
    void run_without_input_and_steps_is_exported() {
        flows.on("empty", wf -> null);
        Member one = flows.start("one");
        UUID run = one.workflows().start("empty", null);
        one.ended(run);
        assertThat(one.workflows().export(run))
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
        assertThatThrownBy(() -> one.workflows().export(run))
                .isInstanceOf(WorkflowRejectedException.class)
                .hasMessageContainingAll(run.toString(), "8 steps", "8388608 bytes");
        database.jdbc()
                .sql("UPDATE forge_workflow_steps SET result_bytes = 0 WHERE run_id = ?")
                .param(run)
                .update();
        assertThat(one.workflows().export(run)).isPresent();
        database.jdbc().sql("""
                INSERT INTO forge_workflow_steps (run_id, position, name, kind, status)
                SELECT ?, n, 'a', 'step', 'completed' FROM generate_series(8, 100000) AS n
                """).param(run).update();
        assertThatThrownBy(() -> one.workflows().export(run))
                .isInstanceOf(WorkflowRejectedException.class)
                .hasMessageContaining("100001 steps");
    }
}
