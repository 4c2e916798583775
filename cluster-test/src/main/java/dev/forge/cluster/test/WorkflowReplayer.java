// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Replays the history of stored runs against the code of this application: each method is called with the recorded input, and each
 * call that it makes on its context is compared with the recorded one. Nothing is executed and nothing is written.
 *
 * <p>The runs come from {@link dev.forge.cluster.workflow.WorkflowOperations#export}, from {@code GET
 * /actuator/forgecluster/workflows/{id}/history}, or from the statement in the guide.
 */
public final class WorkflowReplayer {

    private final WorkflowEngine engine;

    WorkflowReplayer(WorkflowEngine engine) {
        this.engine = engine;
    }

    /**
     * A call of a method that differs from the recorded history.
     *
     * @param run the run
     * @param workflow its name and version
     * @param message the first difference
     */
    public record Difference(UUID run, String workflow, String message) {

        @Override
        public String toString() {
            return "Run %s of workflow %s: %s".formatted(run, workflow, message);
        }
    }

    /**
     * Replays exported runs: one as a JSON object, or several as an array or as one object per line.
     *
     * @return the differences; none if the code makes the calls that were recorded
     * @throws IllegalArgumentException if the text is no export, or the application lacks the version of a run
     */
    public List<Difference> replay(String exported) {
        List<Map<?, ?>> runs = parse(exported);
        // In a transaction of the test, the context of a workflow would refuse every call.
        return NodeDriver.outsideOfTransaction(
                () -> runs.stream().flatMap(run -> differ(run).stream()).toList());
    }

    /**
     * Replays exported runs and fails at a difference.
     *
     * @throws AssertionError if the code differs from the recorded history
     */
    public void requireCompatible(String exported) {
        List<Difference> differences = replay(exported);
        if (!differences.isEmpty()) {
            throw new AssertionError(
                    differences.size() == 1
                            ? differences.get(0).toString()
                            : "%d runs differ from the code:%n%s"
                                    .formatted(
                                            differences.size(),
                                            String.join(
                                                    System.lineSeparator(),
                                                    differences.stream()
                                                            .map(Difference::toString)
                                                            .toList())));
        }
    }

    private List<Map<?, ?>> parse(String exported) {
        String text = exported.strip();
        if (text.isEmpty()) {
            throw new IllegalArgumentException("The export is empty: there is no run to replay");
        }
        List<?> values;
        try {
            // One array: whatever the application has configured, a second value after the first one is an error then.
            values = Objects.requireNonNull(engine.json()
                    .readAs("[%s]".formatted(String.join(",", values(text))), List.class));
        } catch (RuntimeException e) {
            throw new IllegalArgumentException(
                    "The export is not valid JSON. Expected one run as an object, several as an array, or one object per line: "
                            + ErrorText.firstLine(String.valueOf(e.getMessage())),
                    e);
        }
        var runs = new ArrayList<Map<?, ?>>();
        for (Object value : values) {
            for (Object one : value instanceof List<?> list ? list : Collections.singletonList(value)) {
                if (!(one instanceof Map<?, ?> run)) {
                    throw new IllegalArgumentException("The export contains %s where a run is expected".formatted(one));
                }
                runs.add(run);
            }
        }
        if (runs.isEmpty()) {
            throw new IllegalArgumentException("The export is an empty array: there is no run to replay");
        }
        return runs;
    }

    /** Returns the values of a text: the whole text, or its lines if each of them is an object. */
    private static List<String> values(String text) {
        List<String> lines = text.lines().filter(line -> !line.isBlank()).toList();
        return lines.stream()
                        .allMatch(line ->
                                line.startsWith("{") && line.stripTrailing().endsWith("}"))
                ? lines
                : List.of(text);
    }

    private Optional<Difference> differ(Map<?, ?> run) {
        UUID id = UUID.fromString(text(run, "id"));
        var version = new WorkflowVersion(text(run, "name"), text(run, "version"));
        var rows = new HashMap<Integer, StepRow>();
        if (!(required(run, "steps") instanceof List<?> steps)) {
            throw new IllegalArgumentException("Run %s: 'steps' is not an array".formatted(id));
        }
        for (Object one : steps) {
            if (!(one instanceof Map<?, ?> step)) {
                throw new IllegalArgumentException(
                        "Run %s: 'steps' contains %s where an object is expected".formatted(id, one));
            }
            StepRow row = row(step);
            if (rows.put(row.position(), row) != null) {
                throw new IllegalArgumentException(
                        "Run %s: 'steps' contains position %d twice".formatted(id, row.position()));
            }
        }
        var recorded = new RecordedRun(
                status(text(run, "status")),
                true,
                false,
                null,
                json(run.get("input")),
                Instant.EPOCH,
                0,
                rows,
                List.of());
        return engine.replay(id, version, recorded).map(message -> new Difference(id, version.label(), message));
    }

    private static WorkflowStatus status(String text) {
        try {
            return WorkflowStatus.valueOf(text.toUpperCase(Locale.ROOT).replace('-', '_'));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("The export has the unknown status '%s'".formatted(text), e);
        }
    }

    private StepRow row(Map<?, ?> step) {
        Object attempts = step.get("attempts");
        Object error = step.get("lastError");
        Object wakeAt = step.get("wakeAt");
        Object ref = step.get("ref");
        return new StepRow(
                ((Number) required(step, "position")).intValue(),
                text(step, "name"),
                text(step, "kind"),
                text(step, "status"),
                attempts instanceof Number number ? number.intValue() : 0,
                json(step.get("result")),
                error == null ? null : error.toString(),
                wakeAt == null ? null : OffsetDateTime.parse(wakeAt.toString()).toInstant(),
                ref == null ? new UUID(0, 0) : UUID.fromString(ref.toString()),
                0,
                null,
                null);
    }

    private @Nullable String json(@Nullable Object value) {
        return value == null ? null : engine.json().write(value);
    }

    private static Object required(Map<?, ?> object, String key) {
        Object value = object.get(key);
        if (value == null) {
            throw new IllegalArgumentException("The export lacks '%s' in %s".formatted(key, object));
        }
        return value;
    }

    private static String text(Map<?, ?> object, String key) {
        return required(object, key).toString();
    }
}
