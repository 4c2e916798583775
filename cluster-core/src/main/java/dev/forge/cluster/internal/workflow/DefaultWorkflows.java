// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.audit.AuditedChanges;
import dev.forge.cluster.internal.audit.Operation;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.node.Member;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.EventLoops;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.workflow.store.WorkflowCommandStore.Cancelled;
import dev.forge.cluster.internal.workflow.store.WorkflowReports;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.NewRun;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings.SignalLimits;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore.NewSignal;
import dev.forge.cluster.internal.workflow.store.WorkflowSignalStore.SendResult;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.lang.reflect.Type;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/** Implements {@link Workflows} with {@code forge_workflow_runs}. */
public final class DefaultWorkflows implements Workflows {

    private final Member member;
    private final EventLoops eventLoops = new EventLoops();
    private final WorkflowEngine engine;
    private final WorkflowRunStore runs;
    private final WorkflowReports reports;
    private final AuditedChanges audited;
    private final CallerTransaction caller;

    public DefaultWorkflows(Node node, WorkflowEngine engine) {
        this.member = node;
        this.engine = engine;
        this.runs = engine.runs();
        this.reports = engine.reports();
        this.audited = node.resources().audit().on(engine.application());
        this.caller = new CallerTransaction(engine.application());
    }

    @Override
    public UUID start(String workflow, @Nullable Object input, @Nullable String key) {
        eventLoops.warn("Workflows.start");
        Arguments.required("Workflows.start", "workflow", workflow);
        requireMayChange("Workflows.start");
        engine.requireVersions("Workflows.start");
        requireStorable("workflow", workflow);
        if (key != null) {
            requireStorable("key", key);
            Optional<UUID> existing = runs.findByKey(workflow, key);
            if (existing.isPresent()) {
                return existing.get();
            }
        }
        NewRun run = engine.prepare(workflow, input, key, null);
        while (!caller.run(() -> runs.insert(run))) {
            // Another caller has inserted the key, unless its run was rolled back or deleted meanwhile.
            Optional<UUID> other = key == null ? Optional.empty() : runs.findByKey(workflow, key);
            if (other.isPresent()) {
                return other.get();
            }
        }
        caller.afterCommit(engine::announce);
        return run.id();
    }

    @Override
    public boolean signal(UUID run, String name, @Nullable Object payload) {
        Arguments.required("Workflows.signal", "run", run);
        Arguments.required("Workflows.signal", "name", name);
        requireMayChange("Workflows.signal");
        requireStorable("signal", name);
        String text;
        try {
            text = payload == null ? null : engine.json().write(payload);
        } catch (IllegalArgumentException e) {
            throw new WorkflowRejectedException("The payload of signal '%s' %s".formatted(name, e.getMessage()), e);
        }
        SignalLimits limits = engine.limits().signals();
        SendResult result = audited.record(
                new Operation("workflow.signal", run, name),
                () -> engine.signals().send(run, new NewSignal(engine.nextId(), name, text), limits),
                sent -> sent instanceof SendResult.Sent ? 1 : 0);
        if (result instanceof SendResult.LimitReached reached) {
            throw new WorkflowRejectedException(limitReached(run, name, reached, limits));
        }
        if (result instanceof SendResult.Sent sent && sent.wakes()) {
            caller.afterCommit(engine::announce);
        }
        return result instanceof SendResult.Sent;
    }

    private static String limitReached(UUID run, String name, SendResult.LimitReached reached, SignalLimits limits) {
        String limit = reached.signals() >= limits.signals()
                ? "forge.cluster.workflow.max-pending-signals (%d)".formatted(limits.signals())
                : "forge.cluster.workflow.max-pending-signals-size (%d bytes)".formatted(limits.bytes());
        return "Signal '%s' to run %s rejected: the run has %d unconsumed signals with %d bytes, and %s allows no more. Let the workflow consume them with awaitSignal, signal less often, or cancel the run."
                .formatted(name, run, reached.signals(), reached.bytes(), limit);
    }

    @Override
    public boolean cancel(UUID run, String reason) {
        Arguments.required("Workflows.cancel", "run", run);
        Arguments.required("Workflows.cancel", "reason", reason);
        requireMayChange("Workflows.cancel");
        Cancelled cancelled = audited.record(
                new Operation("workflow.cancel", run, reason),
                () -> engine.commands().cancel(run, ErrorText.bounded(reason, ErrorText.LONGEST_MESSAGE)),
                changed -> changed.runs().size());
        if (!cancelled.runs().isEmpty()) {
            caller.afterCommit(() -> {
                engine.announce();
                cancelled.heldJobs().forEach(engine::announceCancelled);
            });
        }
        // Also true if only a descendant was not cancelled before.
        return !cancelled.runs().isEmpty();
    }

    @Override
    public boolean retry(UUID run) {
        Arguments.required("Workflows.retry", "run", run);
        requireMayChange("Workflows.retry");
        boolean retried = audited.record(
                new Operation("workflow.retry", run), () -> engine.commands().retry(run));
        if (retried) {
            caller.afterCommit(engine::announce);
        }
        return retried;
    }

    @Override
    public Optional<WorkflowInfo> find(UUID run) {
        Arguments.required("Workflows.find", "run", run);
        return reports.find(run);
    }

    @Override
    public <T> Optional<T> result(UUID run, Class<T> type) {
        Arguments.required("Workflows.result", "type", type);
        return resultAs(run, type);
    }

    @Override
    public <T> Optional<T> result(UUID run, ParameterizedTypeReference<T> type) {
        Arguments.required("Workflows.result", "type", type);
        return resultAs(run, type.getType());
    }

    private <T> Optional<T> resultAs(UUID run, Type type) {
        Arguments.required("Workflows.result", "run", run);
        return reports.find(run)
                .filter(info -> info.status() == WorkflowStatus.COMPLETED)
                .map(WorkflowInfo::result)
                .flatMap(result -> engine.json().readResult("run " + run, result, type));
    }

    private void requireMayChange(String call) {
        member.requireMayMutate();
        caller.requireWritable(call);
    }

    private static void requireStorable(String what, String text) {
        try {
            Names.require(what, text);
        } catch (IllegalArgumentException e) {
            throw new WorkflowRejectedException(String.valueOf(e.getMessage()), e);
        }
    }
}
