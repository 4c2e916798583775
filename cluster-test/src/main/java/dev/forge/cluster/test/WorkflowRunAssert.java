// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.workflow.StepKind;
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Instant;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import org.assertj.core.api.AbstractAssert;
import org.jspecify.annotations.Nullable;

/** Assertions about a run of a workflow. */
public final class WorkflowRunAssert extends AbstractAssert<WorkflowRunAssert, WorkflowRun> {

    WorkflowRunAssert(WorkflowRun actual) {
        super(actual, WorkflowRunAssert.class);
    }

    /** Asserts the status. */
    public WorkflowRunAssert hasStatus(WorkflowStatus status) {
        isNotNull();
        if (actual.status() != status) {
            failWithMessage("Expected status %s, but found: %s", status, actual);
        }
        return this;
    }

    /** Asserts that the method has returned. */
    public WorkflowRunAssert isCompleted() {
        return hasStatus(WorkflowStatus.COMPLETED);
    }

    /** Asserts that the method has returned that result: the JSON that was stored must be that of the given value. */
    public WorkflowRunAssert hasResult(@Nullable Object result) {
        isCompleted();
        String expected = actual.json(result);
        if (!actual.hasResult(expected)) {
            failWithMessage(
                    "Expected result %s (JSON %s), but found JSON %s: %s",
                    result, expected, actual.info().result(), actual);
        }
        return this;
    }

    /** Asserts that the last error of the run contains a text, whatever its status is. */
    public WorkflowRunAssert hasErrorContaining(String text) {
        isNotNull();
        String error = actual.info().lastError();
        if (error == null || !error.contains(text)) {
            failWithMessage("Expected an error with '%s', but found: %s", text, actual);
        }
        return this;
    }

    /** Asserts which steps have completed, in the order of the method; waits, jobs and values are not counted. */
    public WorkflowRunAssert hasCompletedSteps(String... steps) {
        isNotNull();
        List<String> found = actual.info().steps().stream()
                .filter(step -> step.kind() == StepKind.STEP
                        && EnumSet.of(StepStatus.COMPLETED, StepStatus.COMPENSATED)
                                .contains(step.status()))
                .map(WorkflowInfo.Step::name)
                .toList();
        return requireEqual("completed steps", List.of(steps), found);
    }

    /** Asserts which steps were compensated in this test, in the order in which that happened. */
    public WorkflowRunAssert hasCompensated(String... steps) {
        isNotNull();
        return requireEqual("compensated steps", List.of(steps), actual.compensatedSteps());
    }

    /** Asserts which steps have run in this test, in order; a step that ran again after a crash comes up twice. */
    public WorkflowRunAssert hasExecuted(String... steps) {
        isNotNull();
        return requireEqual("executed steps", List.of(steps), actual.executedSteps());
    }

    private WorkflowRunAssert requireEqual(String what, List<String> expected, List<String> found) {
        if (!expected.equals(found)) {
            failWithMessage("Expected %s %s, but found %s. %s", what, expected, found, actual);
        }
        return this;
    }

    /** Asserts that the run waits for a signal. */
    public WorkflowRunAssert waitsForSignal(String name) {
        hasStatus(WorkflowStatus.WAITING);
        if (!name.equals(actual.info().awaits())) {
            failWithMessage("Expected a wait for signal '%s', but found: %s", name, actual);
        }
        return this;
    }

    /** Asserts that the run continues by itself at that time. */
    public WorkflowRunAssert waitsUntil(Instant instant) {
        hasStatus(WorkflowStatus.WAITING);
        if (!Objects.equals(instant, actual.info().wakeAt())) {
            failWithMessage("Expected a wait until %s, but found: %s", instant, actual);
        }
        return this;
    }
}
