package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/** {@code /actuator/forgecluster/workflows}: runs, and of one of them what is remembered, step by step. */
final class WorkflowsResource {

    private static final int DEFAULT_LIMIT = 50;
    private static final int LARGEST_LIMIT = 1_000;

    private final Workflows workflows;
    private final JobsResource values;

    /** @param values cleans what is shown, as it does that of jobs */
    WorkflowsResource(Workflows workflows, JobsResource values) {
        this.workflows = workflows;
        this.values = values;
    }

    Map<String, Object> list(@Nullable String name, @Nullable String status, @Nullable Integer limit) {
        int most = limit == null ? DEFAULT_LIMIT : limit;
        if (most < 1 || most > LARGEST_LIMIT) {
            throw refusal("limit %d is not between 1 and %d".formatted(most, LARGEST_LIMIT));
        }
        return Map.of(
                "runs",
                workflows.list(name, status == null ? null : status(status), most).stream()
                        .map(WorkflowsResource::summary)
                        .toList());
    }

    private static WorkflowStatus status(String text) {
        return Arrays.stream(WorkflowStatus.values())
                .filter(status -> word(status).equals(text.toLowerCase(Locale.ROOT)))
                .findFirst()
                .orElseThrow(() -> refusal("status '%s' is unknown; there are %s"
                        .formatted(
                                text,
                                Arrays.stream(WorkflowStatus.values())
                                        .map(WorkflowsResource::word)
                                        .toList())));
    }

    /** One run with all that is remembered of it; null if there is none. */
    @Nullable
    Map<String, Object> one(String id, SecurityContext reader) {
        WorkflowInfo info = workflows.find(id(id)).orElse(null);
        if (info == null) {
            return null;
        }
        boolean shown = values.isShown(reader);
        Map<String, Object> view = summary(info);
        put(view, "awaits", values.clean("awaits", info.awaits(), shown));
        put(view, "resolutionReason", values.clean("resolutionReason", info.resolutionReason(), shown));
        put(view, "progress", values.json("progress", info.progress(), shown));
        put(view, "key", values.clean("key", info.key(), shown));
        put(view, "input", values.json("input", info.input(), shown));
        put(view, "result", values.json("result", info.result(), shown));
        put(view, "error", values.clean("error", info.lastError(), shown));
        view.put("steps", info.steps().stream().map(step -> step(step, shown)).toList());
        return view;
    }

    private Map<String, Object> step(WorkflowInfo.Step step, boolean shown) {
        var view = new LinkedHashMap<String, Object>();
        view.put("position", step.position());
        view.put("name", step.name());
        view.put("kind", step.kind());
        view.put("status", step.status());
        view.put("attempts", step.attempts());
        if (step.compensationAttempts() > 0) {
            view.put("compensationAttempts", step.compensationAttempts());
        }
        put(view, "startedAt", step.startedAt());
        put(view, "finishedAt", step.finishedAt());
        put(view, "result", values.json("steps." + step.name(), step.result(), shown));
        put(view, "error", values.clean("error", step.lastError(), shown));
        if (!step.attemptHistory().isEmpty()) {
            view.put(
                    "attemptHistory",
                    step.attemptHistory().stream()
                            .map(attempt -> attempt(attempt, shown))
                            .toList());
        }
        return view;
    }

    private Map<String, Object> attempt(WorkflowInfo.Attempt attempt, boolean shown) {
        var view = new LinkedHashMap<String, Object>();
        view.put("attempt", attempt.attempt());
        if (attempt.compensation()) {
            view.put("compensation", true);
        }
        view.put("endedAt", attempt.endedAt());
        Duration duration = attempt.duration();
        put(view, "durationMillis", duration == null ? null : duration.toMillis());
        put(view, "error", values.clean("error", attempt.error(), shown));
        return view;
    }

    private static Map<String, Object> summary(WorkflowInfo run) {
        var view = new LinkedHashMap<String, Object>();
        view.put("id", run.id());
        view.put("name", run.name());
        view.put("version", run.version());
        view.put("status", word(run.status()));
        put(view, "parent", run.parent());
        put(view, "wakeAt", run.wakeAt());
        view.put("createdAt", run.createdAt());
        put(view, "finishedAt", run.finishedAt());
        return view;
    }

    /** An order to a run; null if there is none. */
    @Nullable
    Object order(String id, String state) {
        UUID run = id(id);
        BooleanSupplier order = switch (state) {
            case "cancelled" -> () -> workflows.cancel(run, "cancelled through the endpoint");
            case "retry" -> () -> workflows.retry(run);
            default ->
                throw refusal("state '%s' of a run cannot be ordered; 'cancelled' and 'retry' can".formatted(state));
        };
        boolean obeyed;
        try {
            obeyed = order.getAsBoolean();
        } catch (MutationRefusedException e) {
            throw new InvalidEndpointRequestException(String.valueOf(e.getMessage()), "Refused", e);
        }
        WorkflowInfo info = workflows.find(run).orElse(null);
        if (info == null) {
            return null;
        }
        if (!obeyed) {
            throw refusal("run %s is %s: state '%s' cannot be ordered".formatted(run, word(info.status()), state));
        }
        return Map.<String, Object>of("id", run, "status", word(info.status()));
    }

    private static UUID id(String text) {
        try {
            return UUID.fromString(text);
        } catch (IllegalArgumentException e) {
            throw refusal("'%s' is not the id of a run".formatted(text));
        }
    }

    private static void put(Map<String, Object> view, String key, @Nullable Object value) {
        if (value != null) {
            view.put(key, value);
        }
    }

    private static InvalidEndpointRequestException refusal(String message) {
        return new InvalidEndpointRequestException(message, message);
    }

    /** As the table has it. */
    private static String word(WorkflowStatus status) {
        return status.name().toLowerCase(Locale.ROOT);
    }
}
