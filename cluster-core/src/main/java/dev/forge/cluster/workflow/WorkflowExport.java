// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import java.time.Instant;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * The recorded history of a run, as {@link WorkflowOperations#export} returns it. The {@code WorkflowReplayer} of the module
 * {@code cluster-test} replays its {@link #json()} against the code of an application.
 *
 * @param id the run
 * @param name the workflow
 * @param version the version of the workflow
 * @param status its status
 * @param input the input as JSON; null: none
 * @param steps its history in order
 */
public record WorkflowExport(
        UUID id,
        String name,
        String version,
        WorkflowStatus status,
        @Nullable String input,
        List<Step> steps) {

    /** Kinds whose results the cluster reads itself: times, random UUIDs and statuses of batches. */
    private static final Set<StepKind> UNMASKED_KINDS = Set.of(StepKind.NOW, StepKind.UUID, StepKind.BATCH);

    /** Copies the list. */
    public WorkflowExport {
        steps = List.copyOf(steps);
    }

    /**
     * An entry in the history of a run.
     *
     * @param position its position in the history, from 0
     * @param name the name of the step, signal, job or child run
     * @param kind what it records
     * @param status its status
     * @param attempts the number of attempts
     * @param result the recorded result as JSON; null: none
     * @param lastError the error of the last attempt; null: none
     * @param wakeAt when it ends by itself or is retried; null: it does not, or is not
     * @param ref the job, batch or child run that it waits for; null: none
     */
    public record Step(
            int position,
            String name,
            StepKind kind,
            StepStatus status,
            int attempts,
            @Nullable String result,
            @Nullable String lastError,
            @Nullable Instant wakeAt,
            @Nullable UUID ref) {

        private Step masked() {
            return new Step(
                    position,
                    name,
                    kind,
                    status,
                    attempts,
                    result == null || UNMASKED_KINDS.contains(kind)
                            ? result
                            : maskedPart("result at position " + position, result),
                    lastError == null ? null : MaskedJson.TEXT,
                    wakeAt,
                    ref);
        }
    }

    /**
     * Returns this history without the values of the application. In the input, the results and the errors each text becomes
     * {@code "x"} and each number 0. Booleans, nulls, the names of members, and the shapes of objects and arrays stay, as do ids,
     * times, and the names, kinds and statuses of steps. Results of the kinds {@code now}, {@code uuid} and {@code batch} stay,
     * because the cluster parses them.
     *
     * <p>Names are not masked: a map by customer keeps the customers, and a step or signal whose name contains an order number
     * keeps the number. A masked text is no constant of an enum, no date and no UUID, so a workflow that reads such types from its
     * input or from results cannot be replayed with masked values. A workflow that branches on texts or numbers may take another
     * branch.
     *
     * @throws IllegalArgumentException if the input or a result is not JSON, which exports of {@link Workflows} always are
     */
    public WorkflowExport masked() {
        return new WorkflowExport(
                id,
                name,
                version,
                status,
                input == null ? null : maskedPart("input", input),
                steps.stream().map(Step::masked).toList());
    }

    private static String maskedPart(String part, String json) {
        try {
            return MaskedJson.of(json);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("Cannot mask the %s: %s".formatted(part, e.getMessage()), e);
        }
    }

    /** Returns the history as a JSON object on one line, without any character that some reader takes for the end of a line. */
    public String json() {
        return ExportJson.of(this);
    }
}
