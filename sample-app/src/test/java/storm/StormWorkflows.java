// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package storm;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.UUID;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;
import org.springframework.transaction.annotation.Transactional;

/** A workflow of five steps with a sleep and a signal. One run in ten fails. Each transactional step writes a row. */
@Component
public class StormWorkflows {

    private final JdbcClient jdbc;
    private final Workflows workflows;

    StormWorkflows(JdbcClient jdbc, Workflows workflows) {
        this.jdbc = jdbc;
        this.workflows = workflows;
    }

    @ClusterWorkflow(name = "storm")
    String storm(WorkflowContext wf) {
        undoable(wf, "one");
        wf.step("two", () -> Thread.sleep(50));
        wf.sleep("nap", Duration.ofMillis(300));
        undoable(wf, "three");
        String by = wf.awaitSignal("go", String.class);
        undoable(wf, "four");
        return wf.transactionalStep("five", String.class, () -> {
            if (fails(wf.id())) {
                throw new NonRetryableJobException("one in ten fails");
            }
            trace(wf.id(), "five");
            return by;
        });
    }

    /** Returns whether a run fails: one in ten, decided by its id. */
    static boolean fails(UUID run) {
        return Math.floorMod(run.getLeastSignificantBits(), 10) == 0;
    }

    private void undoable(WorkflowContext wf, String step) {
        wf.transactionalStep(
                step,
                String.class,
                () -> trace(wf.id(), step),
                options -> options.withCompensation(it -> trace(wf.id(), "undo " + it)));
    }

    private String trace(UUID run, String step) throws InterruptedException {
        jdbc.sql("INSERT INTO traces (run, step) VALUES (?, ?)")
                .params(run, step)
                .update();
        // Long enough for some steps to be interrupted by a kill.
        Thread.sleep(150);
        return step;
    }

    /** The payload of the job that sends a signal to a run. */
    public record Approval(UUID run) {}

    @ClusterJob(name = "approve", maxAttempts = 1000)
    @Transactional
    public void approve(Approval approval) {
        workflows.signal(approval.run(), "go", "storm");
    }
}
