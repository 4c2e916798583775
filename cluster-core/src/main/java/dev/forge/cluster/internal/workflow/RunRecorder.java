// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.DatabaseFailed;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Interruption;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Waiting;
import dev.forge.cluster.internal.workflow.store.CoalescedStatements;
import dev.forge.cluster.internal.workflow.store.StepRow;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RunClaim;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.WriteResult;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.End;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.Wait;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/**
 * Makes all writes of one execution of a run. Rows that need not be written at once are kept and written with the next row.
 *
 * <p>The first reason that suspends the execution is kept, too: every later call on the context throws the same {@link
 * WorkflowSuspension}.
 */
final class RunRecorder {

    private final CoalescedStatements statements;
    private final WorkflowRunStore runs;
    private final Claim job;
    private final RunClaim claim;
    private final long wakeSeq;
    private final long maxHistoryBytes;
    /** How many bytes the next execution reads. */
    private final AtomicLong historyBytes;

    private final List<StepRow> pendingRows = new ArrayList<>();
    private boolean compensating;
    private volatile boolean recoveriesReset;
    private volatile boolean hasWritten;
    private volatile @Nullable WorkflowSuspension suspension;

    RunRecorder(
            CoalescedStatements statements,
            WorkflowRunStore runs,
            Claim job,
            RecordedRun recorded,
            long maxHistoryBytes) {
        this.statements = statements;
        this.runs = runs;
        this.job = job;
        this.claim = new RunClaim(job.claimed().key(), job.node());
        this.wakeSeq = recorded.wakeSeq();
        this.compensating = recorded.compensating();
        this.maxHistoryBytes = maxHistoryBytes;
        this.historyBytes = new AtomicLong(PrintedJson.bytes(recorded.input())
                + recorded.steps().values().stream()
                        .mapToLong(row -> PrintedJson.bytes(row.result()))
                        .sum());
        this.recoveriesReset = job.claimed().recoveries() == 0;
    }

    // Suspension --------------------------------------------------------------------------------------------

    /** Returns the error to throw. If the execution is suspended already, the first reason counts. */
    WorkflowSuspension suspendBecause(WorkflowSuspension.Reason reason) {
        synchronized (this) {
            if (suspension == null) {
                suspension = new WorkflowSuspension(reason);
            }
            return suspension;
        }
    }

    /** Returns the error to throw when the job has to stop. */
    WorkflowSuspension suspendToStop() {
        return suspendBecause(
                job.stopReason() == Claim.Stop.LOST ? Interruption.CLAIM_LOST : Interruption.NODE_STOPPING);
    }

    /** Throws if the execution is suspended. */
    void requireNotSuspended() {
        WorkflowSuspension thrown = suspension;
        if (thrown != null) {
            throw thrown;
        }
    }

    /** Throws if the job has to stop. */
    void requireNotStopping() {
        if (job.stopReason() != null) {
            throw suspendToStop();
        }
    }

    @Nullable
    WorkflowSuspension suspension() {
        return suspension;
    }

    /** Forgets the suspension that ended the method, so that the run can be compensated. */
    void clearSuspension() {
        suspension = null;
    }

    /**
     * Executes a statement. A failure of the database suspends the execution; values that the database rejects are the run's own
     * failure, which is thrown.
     */
    <T> T guarded(Supplier<T> statement) {
        try {
            return statement.get();
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) == DatabaseFailure.Kind.REJECTED) {
                throw e;
            }
            throw suspendBecause(new DatabaseFailed(e));
        } catch (TransactionException e) {
            throw suspendBecause(new DatabaseFailed(e));
        }
    }

    // Rows --------------------------------------------------------------------------------------------------

    /** Records a row with the next write. Until then the call can be replayed from what is recorded. */
    void recordLater(StepRow row) {
        historyBytes.addAndGet(PrintedJson.bytes(row.result()));
        synchronized (pendingRows) {
            replace(pendingRows, row);
        }
    }

    private List<StepRow> pendingRows() {
        synchronized (pendingRows) {
            return new ArrayList<>(pendingRows);
        }
    }

    /** Discards rows that the database rejects, so that the run can end without them. */
    void discardPendingRows() {
        synchronized (pendingRows) {
            pendingRows.clear();
        }
    }

    /** A statement may contain each position once: its latest row. */
    private static void replace(List<StepRow> rows, StepRow latest) {
        rows.removeIf(row -> row.position() == latest.position());
        rows.add(latest);
    }

    /** Writes pending times and UUIDs before a step uses them: each replay must return the same values. */
    void recordTimesAndUuids() {
        List<StepRow> rows = pendingRows();
        if (rows.stream().anyMatch(row -> row.kind().equals("now") || row.kind().equals("uuid"))) {
            committed(write(rows, rows.size(), null));
        }
    }

    /** Records a row, with all pending ones, and consumes a signal. */
    void record(StepRow row, @Nullable UUID signal) {
        // An interrupt that was meant for the step must not disturb this write.
        Thread.interrupted();
        List<StepRow> rows = pendingRows();
        int pending = rows.size();
        replace(rows, row);
        Write write = write(rows, pending, signal);
        historyBytes.addAndGet(PrintedJson.bytes(row.result()));
        committed(write);
    }

    /** Consumes a signal that cannot be used. */
    void discardSignal(UUID signal) {
        guarded(() -> statements.record(claim, List.of(), signal));
    }

    /**
     * A write that may not be committed yet.
     *
     * @param pendingRows how many of the pending rows it contains
     */
    record Write(WriteResult result, int pendingRows) {}

    private Write write(List<StepRow> rows, int pending, @Nullable UUID signal) {
        return requireWritten(guarded(() -> statements.record(claim, rows, signal)), pending);
    }

    /** Returns whether a write joins the transaction that is active on this thread. */
    boolean joinsTransaction() {
        return statements.joinsTransaction();
    }

    /**
     * Makes the transaction of a step READ COMMITTED, as its first statement: under a snapshot the proof of the claim would fail as
     * soon as the lease is renewed. Does nothing if writes do not join the transaction.
     */
    void makeReadCommitted() {
        try {
            statements.makeReadCommitted();
        } catch (DataAccessException e) {
            if (isOfDatabase(e)) {
                throw suspendBecause(new DatabaseFailed(e));
            }
            throw e;
        }
    }

    /**
     * Writes a row, with all pending ones, as the last statement of a step's own transaction. Only a lost connection and a
     * rollback that another transaction has caused are failures of the database there; every other failure is the step's own,
     * and thrown.
     */
    Write writeInTransaction(StepRow row) {
        List<StepRow> rows = pendingRows();
        int pending = rows.size();
        replace(rows, row);
        WriteResult result;
        try {
            result = statements.record(claim, rows, null);
        } catch (DataAccessException | TransactionException e) {
            if (isOfDatabase(e)) {
                throw suspendBecause(new DatabaseFailed(e));
            }
            throw e;
        }
        Write write = requireWritten(result, pending);
        historyBytes.addAndGet(PrintedJson.bytes(row.result()));
        return write;
    }

    private Write requireWritten(WriteResult result, int pending) {
        if (result == WriteResult.CLAIM_LOST) {
            throw suspendBecause(Interruption.CLAIM_LOST);
        }
        if (result == WriteResult.SUPERSEDED) {
            throw suspendBecause(Interruption.SUPERSEDED);
        }
        return new Write(result, pending);
    }

    /** Notes that a write is committed. */
    void committed(Write write) {
        hasWritten = true;
        synchronized (pendingRows) {
            pendingRows
                    .subList(0, Math.min(write.pendingRows, pendingRows.size()))
                    .clear();
        }
        if (!recoveriesReset) {
            recoveriesReset = true;
            guarded(() -> {
                runs.resetRecoveries(claim);
                return write;
            });
        }
        if (write.result == WriteResult.CANCELLED && !compensating) {
            throw suspendBecause(Interruption.CANCELLED);
        }
    }

    /** Returns whether this execution has written something, so that the next one gets further. */
    boolean hasWritten() {
        return hasWritten;
    }

    /**
     * Records a failed attempt of a step that still runs, from another thread. Returns false, and writes nothing, if an outcome of
     * the step is recorded already or the claim is lost.
     */
    boolean recordFailedAttempt(StepRow row) {
        // With the pending rows: a history without them would end before this row.
        List<StepRow> rows = pendingRows();
        replace(rows, row);
        return switch (statements.record(claim, rows, null)) {
            case WRITTEN, CANCELLED -> true;
            case SUPERSEDED, CLAIM_LOST -> false;
        };
    }

    /**
     * Requires that a result fits into the history: each execution reads the whole history, and a run without a limit would
     * become too large for any node.
     */
    void requireWithinHistoryLimit(@Nullable String result) {
        long bytes = PrintedJson.bytes(result);
        if (bytes > 0 && historyBytes.get() + bytes > maxHistoryBytes) {
            throw new NonRetryableJobException(
                    "The history of run %s (%d bytes with this result of %d) exceeds forge.cluster.workflow.max-history-size (%d). Store large data elsewhere and return a reference to it, or continue in a child workflow."
                            .formatted(claim.run(), historyBytes.get() + bytes, bytes, maxHistoryBytes));
        }
    }

    // The run -----------------------------------------------------------------------------------------------

    /** Returns whether the run compensates. */
    boolean isCompensating() {
        return compensating;
    }

    /** Marks the run as compensating; returns false if the claim is lost. */
    boolean beginCompensation(String error) {
        if (guarded(() -> runs.beginCompensation(claim, error, pendingRows())) == WriteResult.CLAIM_LOST) {
            return false;
        }
        discardPendingRows();
        compensating = true;
        return true;
    }

    /** Stores why the run is repeated, unless it compensates: then its error says why it does. */
    void storeRepetition(String error) {
        if (!compensating) {
            runs.storeError(claim, error);
        }
    }

    WriteResult end(WorkflowStatus status, @Nullable String result, @Nullable String error) {
        return guarded(() ->
                statements.end(claim, new End(status, result, error, pendingRows(), job.takeProgress(), compensating)));
    }

    /**
     * Releases the job until the run can continue; returns false if the claim is lost.
     *
     * @param mismatch why the run is blocked; pending rows are discarded then
     */
    boolean suspendRun(Waiting waiting, @Nullable String mismatch) {
        List<StepRow> rows = mismatch == null ? pendingRows() : new ArrayList<>();
        waiting.rows().forEach(row -> replace(rows, row));
        return runs.suspend(
                claim,
                new Wait(
                        rows,
                        waiting.until(),
                        waiting.signal(),
                        waiting.job(),
                        mismatch,
                        job.takeProgress(),
                        wakeSeq,
                        compensating),
                waiting.inTransaction());
    }

    /**
     * Returns whether the database and not the step caused a failure inside of its transaction. All other failures there repeat with each
     * attempt: a timeout, or a statement after an error that was caught.
     */
    static boolean isOfDatabase(Throwable failure) {
        DatabaseFailure.Kind kind = DatabaseFailure.kind(failure);
        return kind == DatabaseFailure.Kind.CONNECTION_LOST || kind.isConflict();
    }
}
