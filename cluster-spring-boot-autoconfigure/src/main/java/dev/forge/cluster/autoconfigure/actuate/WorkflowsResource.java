// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.actuate.EndpointValues.Sanitized;
import dev.forge.cluster.autoconfigure.actuate.WorkflowsDescriptor.AttemptDescriptor;
import dev.forge.cluster.autoconfigure.actuate.WorkflowsDescriptor.RunDescriptor;
import dev.forge.cluster.autoconfigure.actuate.WorkflowsDescriptor.RunStatusDescriptor;
import dev.forge.cluster.autoconfigure.actuate.WorkflowsDescriptor.RunSummaryDescriptor;
import dev.forge.cluster.autoconfigure.actuate.WorkflowsDescriptor.StepDescriptor;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/** {@code /actuator/forgecluster/workflows}: lists runs, shows one with its history, cancels and retries runs. */
final class WorkflowsResource {

    private static final int DEFAULT_LIMIT = 50;

    private final Workflows workflows;
    private final EndpointValues values;

    WorkflowsResource(Workflows workflows, EndpointValues values) {
        this.workflows = workflows;
        this.values = values;
    }

    WorkflowsDescriptor list(@Nullable String name, @Nullable String status, @Nullable Integer limit) {
        return new WorkflowsDescriptor(workflows
                .list(
                        name,
                        EndpointRequests.status(WorkflowStatus.class, status),
                        EndpointRequests.limit(limit, DEFAULT_LIMIT))
                .stream()
                .map(run -> new RunSummaryDescriptor(
                        run.id(),
                        run.name(),
                        run.version(),
                        EnumText.underscored(run.status()),
                        run.parent(),
                        run.wakeAt(),
                        run.createdAt(),
                        run.finishedAt()))
                .toList());
    }

    /** Returns one run with its history; null if there is no such run. */
    @Nullable
    RunDescriptor find(String id, SecurityContext user) {
        Sanitized shown = values.shownTo(user);
        return workflows
                .find(EndpointRequests.id("run", id))
                .map(run -> descriptor(run, shown))
                .orElse(null);
    }

    private static RunDescriptor descriptor(WorkflowInfo run, Sanitized shown) {
        return new RunDescriptor(
                run.id(),
                run.name(),
                run.version(),
                EnumText.underscored(run.status()),
                run.parent(),
                run.wakeAt(),
                run.createdAt(),
                run.finishedAt(),
                shown.value("awaits", run.awaits()),
                shown.value("resolutionReason", run.resolutionReason()),
                shown.json("progress", run.progress()),
                shown.value("key", run.key()),
                shown.json("input", run.input()),
                shown.json("result", run.result()),
                shown.value("error", run.lastError()),
                run.steps().stream().map(step -> step(step, shown)).toList());
    }

    private static StepDescriptor step(WorkflowInfo.Step step, Sanitized shown) {
        return new StepDescriptor(
                step.position(),
                // Hidden like the name of the signal that the run awaits.
                step.kind().equals("signal") ? String.valueOf(shown.value("awaits", step.name())) : step.name(),
                step.kind(),
                step.status(),
                step.attempts(),
                step.compensationAttempts() > 0 ? step.compensationAttempts() : null,
                step.startedAt(),
                step.finishedAt(),
                shown.json("steps." + step.name(), step.result()),
                shown.value("error", step.lastError()),
                attempts(step.attemptHistory(), shown));
    }

    private static @Nullable List<AttemptDescriptor> attempts(List<WorkflowInfo.Attempt> attempts, Sanitized shown) {
        return attempts.isEmpty()
                ? null
                : attempts.stream().map(attempt -> attempt(attempt, shown)).toList();
    }

    private static AttemptDescriptor attempt(WorkflowInfo.Attempt attempt, Sanitized shown) {
        Duration duration = attempt.duration();
        return new AttemptDescriptor(
                attempt.attempt(),
                attempt.compensation() ? true : null,
                attempt.endedAt(),
                duration == null ? null : duration.toMillis(),
                shown.value("error", attempt.error()));
    }

    /** Cancels or retries a run; returns null if there is no such run. */
    @Nullable
    RunStatusDescriptor changeState(String id, String state) {
        UUID run = EndpointRequests.id("run", id);
        BooleanSupplier change = switch (state) {
            case "cancelled" -> () -> workflows.cancel(run, "cancelled through the endpoint");
            case "retry" -> () -> workflows.retry(run);
            default ->
                throw EndpointRequests.invalid(
                        "Unsupported state '%s' for a run: use 'cancelled' or 'retry'".formatted(state));
        };
        boolean changed;
        try {
            changed = change.getAsBoolean();
        } catch (MutationRefusedException e) {
            throw EndpointRequests.refused(e);
        }
        WorkflowInfo info = workflows.find(run).orElse(null);
        if (info == null) {
            return null;
        }
        String status = EnumText.underscored(info.status());
        if (!changed) {
            throw EndpointRequests.invalid("Run %s is %s: state '%s' is not possible".formatted(run, status, state));
        }
        return new RunStatusDescriptor(run, status);
    }
}
