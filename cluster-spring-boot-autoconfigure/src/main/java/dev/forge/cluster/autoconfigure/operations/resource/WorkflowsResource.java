// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.Page;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.HiddenValuesException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer.Sanitized;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.workflow.StepKind;
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowExport;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowOperations;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/** The resource {@code workflows}: lists runs, shows one with its history, exports histories, cancels, retries and signals runs. */
final class WorkflowsResource extends Resource {

    private static final int DEFAULT_LIMIT = 50;
    private static final String VALUES = "values";
    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList(
                    "name", "version", "status", "after", "limit")
            .withEntry(VALUES)
            .withChange("signal", "value");
    private static final String SIGNALLED = "signalled";

    private final Workflows workflows;
    private final WorkflowOperations operations;
    private final ValueSanitizer values;
    private final PayloadCodec codec;

    WorkflowsResource(Workflows workflows, WorkflowOperations operations, ValueSanitizer values, PayloadCodec codec) {
        super("workflows", PARAMETERS);
        this.workflows = workflows;
        this.operations = operations;
        this.values = values;
        this.codec = codec;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        if (!request.hasEntry()) {
            try {
                return request.result(list(request));
            } catch (IllegalArgumentException e) {
                throw InvalidOperationException.because(e);
            }
        }
        List<String> path = request.path();
        if (path.size() == 3 && path.get(2).equals("history")) {
            try {
                return request.result(history(path.get(1), request));
            } catch (WorkflowRejectedException e) {
                throw InvalidOperationException.because(e);
            }
        }
        request.requireOnly(List.of());
        return request.result(path.size() == 2 ? find(request.entry(), request.caller()) : null);
    }

    /** The parameter {@code after} is {@code next} of the page before. */
    private JsonObject list(OperationRequest request) {
        int limit = request.limit(DEFAULT_LIMIT);
        Page<WorkflowInfo> page = operations.search(filter(request), limit, request.text("after"));
        return new JsonObject()
                .with("runs", values.shownTo(request.caller()).summaries(page.items()))
                .with("cutOff", page.next() != null && page.items().size() < limit)
                .with("next", page.next());
    }

    private static WorkflowFilter filter(OperationRequest request) {
        WorkflowFilter filter = WorkflowFilter.all();
        String name = request.text("name");
        if (name != null) {
            filter = filter.withName(name);
        }
        String version = request.text("version");
        if (version != null) {
            filter = filter.withVersion(version);
        }
        WorkflowStatus status = OperationRequest.status(WorkflowStatus.class, request.text("status"));
        return status == null ? filter : filter.withStatus(status);
    }

    /** Returns one run with its history; null if there is no such run. */
    private @Nullable JsonObject find(String id, Caller caller) {
        Sanitized shown = values.shownTo(caller);
        return workflows
                .find(OperationRequest.id("run", id))
                .map(run -> shown.object(run)
                        .with(
                                "steps",
                                run.steps().stream()
                                        .map(step -> shown.object(step).with("deliveredAt", deliveredAt(run, step)))
                                        .toList()))
                .orElse(null);
    }

    /** By the real names: sanitized ones may be equal. */
    private static @Nullable Instant deliveredAt(WorkflowInfo run, WorkflowInfo.Step step) {
        return step.kind() == StepKind.SIGNAL && step.status() == StepStatus.WAITING
                ? run.signals().stream()
                        .filter(signal -> signal.name().equals(step.name()))
                        .map(WorkflowInfo.Signal::sentAt)
                        .findFirst()
                        .orElse(null)
                : null;
    }

    /** What an exported history contains: the parameter {@code values}. */
    private enum ExportedValues {
        MASKED,
        FULL
    }

    /**
     * Returns the history of a run for a replay; null if there is no such run. A masked history still has booleans, names of members,
     * random UUIDs and times, so it is for users who may see values, too: it is masked because the file leaves production.
     */
    private @Nullable JsonObject history(String id, OperationRequest request) {
        Sanitized shown = values.shownTo(request.caller());
        if (!shown.isShown()) {
            throw new HiddenValuesException(
                    "Histories cannot be exported, not even masked: they contain values that are hidden from this user");
        }
        UUID run = OperationRequest.id("run", id);
        String requested = request.text(VALUES);
        boolean full = requested != null
                && OperationRequest.constant(ExportedValues.class, VALUES, requested) == ExportedValues.FULL;
        WorkflowExport export = operations.export(run).orElse(null);
        if (export == null) {
            return null;
        }
        try {
            requireNamesShown(export, shown);
            return shown.object(full ? export : export.masked());
        } catch (InvalidOperationException e) {
            throw new InvalidOperationException(
                    "Run %s cannot be exported: %s. Export it with WorkflowOperations.export or with the SQL statement of docs/reference/workflows.md."
                            .formatted(run, e.getMessage()));
        }
    }

    /** Rejects histories with hidden names of signals: a replay would report each of them as a difference. */
    private static void requireNamesShown(WorkflowExport export, Sanitized shown) {
        if (export.steps().stream()
                .anyMatch(step ->
                        step.kind() == StepKind.SIGNAL && !step.name().equals(shown.value("awaits", step.name())))) {
            throw new InvalidOperationException(
                    "a sanitizing function of the application hides the name of a signal (key 'awaits')");
        }
    }

    @Override
    protected OperationResult change(OperationRequest request, String state) {
        return request.result(changeState(request, state));
    }

    /** Cancels, retries or signals a run; returns null if there is no such run. */
    private @Nullable JsonObject changeState(OperationRequest request, String state) {
        UUID run = OperationRequest.id("run", request.entry());
        String reason = request.text("reason");
        if (!state.equals(SIGNALLED) && (request.text("signal") != null || request.text("value") != null)) {
            throw new InvalidOperationException("The parameters 'signal' and 'value' need the state 'signalled'");
        }
        BooleanSupplier change = switch (state) {
            case "cancelled" -> () -> workflows.cancel(run, reason == null ? "cancelled by an operator" : reason);
            case "retry" -> () -> workflows.retry(run);
            case SIGNALLED -> signal(request, run);
            default ->
                throw new InvalidOperationException(
                        "Unsupported state '%s' for a run: use 'cancelled', 'retry' or 'signalled'".formatted(state));
        };
        boolean changed;
        try {
            changed = change.getAsBoolean();
        } catch (MutationRefusedException | WorkflowRejectedException e) {
            throw InvalidOperationException.because(e);
        }
        WorkflowInfo info = workflows.find(run).orElse(null);
        if (info == null) {
            return null;
        }
        String status = EnumText.underscored(info.status());
        if (!changed) {
            throw new InvalidOperationException(
                    "Run %s is %s: state '%s' is not possible".formatted(run, status, state));
        }
        return new JsonObject().with("id", run).with("status", status);
    }

    /** The value is JSON; without one the signal has none. */
    private BooleanSupplier signal(OperationRequest request, UUID run) {
        String name = request.text("signal");
        String json = request.text("value");
        if (name == null) {
            throw new InvalidOperationException("State 'signalled' needs the parameter 'signal'");
        }
        Object value;
        try {
            value = json == null ? null : codec.read(json, Object.class);
        } catch (RuntimeException e) {
            throw new InvalidOperationException(
                    "Parameter 'value' is not JSON: " + Names.printable(String.valueOf(e.getMessage())));
        }
        return () -> workflows.signal(run, name, value);
    }
}
