// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** An attempt of a step that a {@link JobMonitor} observes. It is made exactly once, whatever the monitor does. */
final class ObservedStep implements JobMonitor.StepAttempt, Runnable {

    private static final Logger log = GuardedLogger.of(ObservedStep.class);

    /** The code of a step or of its compensation. */
    interface Action<E extends Exception> {
        @Nullable
        Object run() throws E;
    }

    private final WorkflowVersion version;
    private final String step;
    private final UUID run;
    private final boolean compensation;
    private final Action<?> action;
    private boolean executed;
    private @Nullable Object result;
    private @Nullable Throwable thrown;

    private ObservedStep(WorkflowVersion version, String step, UUID run, boolean compensation, Action<?> action) {
        this.version = version;
        this.step = step;
        this.run = run;
        this.compensation = compensation;
        this.action = action;
    }

    /** Executes an action once; returns its result, or throws its exception. */
    @SuppressWarnings("unchecked")
    static <E extends Exception> @Nullable Object observe(
            JobMonitor monitor, WorkflowVersion version, String step, UUID run, boolean compensation, Action<E> action)
            throws E {
        var attempt = new ObservedStep(version, step, run, compensation, action);
        try {
            monitor.observe(attempt, attempt);
        } catch (RuntimeException | Error e) {
            // A failing monitor must not change the outcome of the step.
            log.warn(
                    "Workflow {} run {}: the monitor failed to observe step '{}'; its outcome is not affected",
                    version.label(),
                    run,
                    step,
                    ErrorText.loggable(e));
        }
        if (!attempt.executed) {
            attempt.run();
        }
        if (attempt.thrown instanceof Error error) {
            throw error;
        } else if (attempt.thrown instanceof RuntimeException bug) {
            throw bug;
        } else if (attempt.thrown != null) {
            throw (E) attempt.thrown;
        }
        return attempt.result;
    }

    @Override
    public void run() {
        executed = true;
        try {
            result = action.run();
        } catch (Throwable e) {
            thrown = e;
        }
    }

    @Override
    public String workflow() {
        return version.workflow();
    }

    @Override
    public String version() {
        return version.version();
    }

    @Override
    public String step() {
        return step;
    }

    @Override
    public UUID workflowRun() {
        return run;
    }

    @Override
    public boolean undoing() {
        return compensation;
    }

    @Override
    public JobMonitor.StepOutcome outcome() {
        return thrown == null
                ? JobMonitor.StepOutcome.COMPLETED
                : thrown instanceof WorkflowSuspension
                        ? JobMonitor.StepOutcome.INTERRUPTED
                        : JobMonitor.StepOutcome.FAILED;
    }

    @Override
    public @Nullable Throwable failure() {
        // The exception of the step is the cause of the AttemptFailed.
        return thrown == null || thrown instanceof WorkflowSuspension ? null : thrown.getCause();
    }
}
