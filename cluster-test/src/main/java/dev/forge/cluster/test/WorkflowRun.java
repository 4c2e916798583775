// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** A run of a workflow at one time, and what it has executed in this test. */
public final class WorkflowRun {

    private final WorkflowInfo info;
    private final List<StepFaults.Executed> executed;
    private final InspectableJobs codec;

    WorkflowRun(WorkflowInfo info, List<StepFaults.Executed> executed, InspectableJobs codec) {
        this.info = info;
        this.executed = executed;
        this.codec = codec;
    }

    /** Returns the JSON of a value, as it would be stored. */
    String json(@Nullable Object value) {
        return codec.write(value);
    }

    /** Returns whether the result is equal to that JSON. */
    boolean hasResult(String json) {
        return JsonResults.equal(codec, info.result(), json);
    }

    /** Returns the id of the run. */
    public UUID id() {
        return info.id();
    }

    /** Returns the status. */
    public WorkflowStatus status() {
        return info.status();
    }

    /** Returns the run as it is recorded. */
    public WorkflowInfo info() {
        return info;
    }

    /** Returns the steps whose code has completed in this test, in order; a step that runs again after a crash comes up twice. */
    public List<String> executedSteps() {
        return executed.stream()
                .filter(step -> !step.compensation())
                .map(StepFaults.Executed::step)
                .toList();
    }

    /** Returns the steps that were compensated in this test, in order. */
    public List<String> compensatedSteps() {
        return executed.stream()
                .filter(StepFaults.Executed::compensation)
                .map(StepFaults.Executed::step)
                .toList();
    }

    @Override
    public String toString() {
        return "Run %s of workflow %s@%s, %s%s%s%s, recorded calls: %s"
                .formatted(
                        info.id(),
                        info.name(),
                        info.version(),
                        info.status(),
                        info.awaits() == null ? "" : ", waits for signal '%s'".formatted(info.awaits()),
                        info.wakeAt() == null ? "" : ", continues at " + info.wakeAt(),
                        info.lastError() == null ? "" : ", error: " + info.lastError(),
                        info.steps().stream()
                                .map(step -> "%s '%s' (%s)"
                                        .formatted(
                                                EnumText.underscored(step.kind()),
                                                step.name(),
                                                EnumText.underscored(step.status())))
                                .toList());
    }
}
