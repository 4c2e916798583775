// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RunClaim;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.WriteResult;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.End;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Coalesces the frequent reads and writes of concurrent executions into one statement. A run whose claim is lost, whose row is
 * locked or whose values cannot be stored is left out of the shared statement; its execution then sends a statement of its own,
 * which waits for the lock or reports the cause.
 */
public final class CoalescedStatements {

    private static final int MOST_RUNS = 100;
    /** Longer results, in characters, are written with a statement of their own. */
    private static final int LONGEST_RESULTS = 100_000;

    private final WorkflowHistoryStore history;
    private final WorkflowRunStore runs;
    private final Coalescer<RunClaim, RunClaim, RecordedRun> loads;
    private final Coalescer<RunClaim, List<StepRow>, WriteResult> records;
    private final Coalescer<RunClaim, End, WriteResult> ends;

    public CoalescedStatements(WorkflowHistoryStore history, WorkflowRunStore runs, WorkflowBatches batches) {
        this.history = history;
        this.runs = runs;
        this.loads = new Coalescer<>(MOST_RUNS, claims -> batches.load(claims.keySet()));
        this.records = new Coalescer<>(MOST_RUNS, batches::record);
        this.ends = new Coalescer<>(MOST_RUNS, batches::end);
    }

    public Optional<RecordedRun> load(RunClaim claim) {
        RecordedRun loaded = loads.ask(claim, claim);
        return loaded != null ? Optional.of(loaded) : history.load(claim);
    }

    /** Records steps and consumes a signal, in the active transaction or else at once. */
    public WriteResult record(RunClaim claim, List<StepRow> rows, @Nullable UUID signal) {
        if (signal != null || history.joinsTransaction() || isLarge(rows, null)) {
            return history.record(claim, rows, signal);
        }
        WriteResult written = records.ask(claim, rows);
        return written != null ? written : history.record(claim, rows, null);
    }

    public boolean joinsTransaction() {
        return history.joinsTransaction();
    }

    public void makeReadCommitted() {
        history.makeReadCommitted();
    }

    public WriteResult end(RunClaim claim, End end) {
        WriteResult written = isLarge(end.rows(), end.result()) ? null : ends.ask(claim, end);
        return written != null ? written : runs.end(claim, end);
    }

    /** Whether results are so large that a hundred of them would be too much for one statement. */
    private static boolean isLarge(List<StepRow> rows, @Nullable String result) {
        long length = result == null ? 0 : result.length();
        for (StepRow row : rows) {
            String text = row.result();
            length += text == null ? 0 : text.length();
        }
        return length > LONGEST_RESULTS;
    }
}
