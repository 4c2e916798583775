package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.database.DatabaseFault;
import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.database.StatementFailure;
import dev.forge.cluster.internal.job.RunningJob;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.workflow.WorkflowStore.Claim;
import dev.forge.cluster.internal.workflow.WorkflowStore.End;
import dev.forge.cluster.internal.workflow.WorkflowStore.Loaded;
import dev.forge.cluster.internal.workflow.WorkflowStore.Signal;
import dev.forge.cluster.internal.workflow.WorkflowStore.Wait;
import dev.forge.cluster.internal.workflow.WorkflowStore.Written;
import dev.forge.cluster.internal.workflow.WorkflowSuspension.Plain;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.lang.reflect.Type;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * What is remembered of a run, in the order in which its method asks for it, and what is about to be. All that an execution
 * writes about its run is written here.
 *
 * <p>What keeps the method from going on is thrown, and kept: from then on it is the answer to everything.
 */
final class WorkflowHistory {

    private final WorkflowStore store;
    private final RunStatements statements;
    private final PayloadJson json;
    private final LongSupplier nanos;
    private final RunningJob job;
    private final Claim claim;
    private final Loaded loaded;
    private final long loadedAt;
    private final List<Signal> signals;
    private final long mostHistory;
    /** How many bytes the next execution reads. */
    private final AtomicLong history;
    /** What is remembered with the next thing that is written. */
    private final List<StepRow> unwritten = new ArrayList<>();

    private final Thread thread = Thread.currentThread();
    private final AtomicInteger actions = new AtomicInteger();
    private int position;
    private boolean unwinding;
    private volatile boolean forgiven;
    private volatile boolean advanced;
    private volatile @Nullable WorkflowSuspension unwound;

    WorkflowHistory(
            WorkflowStore store,
            RunStatements statements,
            PayloadJson json,
            LongSupplier nanos,
            RunningJob job,
            Loaded loaded,
            long mostHistory) {
        this.store = store;
        this.statements = statements;
        this.json = json;
        this.nanos = nanos;
        this.job = job;
        this.claim = new Claim(job.key(), job.node());
        this.loaded = loaded;
        this.mostHistory = mostHistory;
        this.history = new AtomicLong(PrintedJson.bytes(loaded.input())
                + loaded.steps().values().stream()
                        .mapToLong(row -> PrintedJson.bytes(row.result()))
                        .sum());
        this.loadedAt = nanos.getAsLong();
        this.signals = new ArrayList<>(loaded.signals());
        this.unwinding = loaded.unwinding();
        this.forgiven = job.claimed().recoveries() == 0;
    }

    // What ends the method ----------------------------------------------------------------------------------

    /** What to throw; the first reason counts. */
    WorkflowSuspension unwind(WorkflowSuspension.Why why) {
        synchronized (this) {
            if (unwound == null) {
                unwound = new WorkflowSuspension(why);
            }
            return unwound;
        }
    }

    /** The same, when the job is to stop. */
    WorkflowSuspension stopped() {
        return unwind(job.stopReason() == RunningJob.Stop.LOST ? Plain.LOST : Plain.STOPPED);
    }

    /** What has been thrown. */
    @Nullable
    WorkflowSuspension unwound() {
        return unwound;
    }

    /** What has ended the method does not end its being undone. */
    void forgetEnd() {
        unwound = null;
    }

    // What is remembered ------------------------------------------------------------------------------------

    /** What is remembered of the next thing; null if it has not been met before. */
    @Nullable
    StepRow next(String kind, String name) {
        Names.require(kind + " name", name);
        if (Thread.currentThread() != thread && actions.get() == 0) {
            throw new IllegalStateException(
                    "%s '%s' on another thread: only that of the method may use its context".formatted(kind, name));
        }
        if (actions.get() > 0) {
            throw new IllegalStateException(
                    "%s '%s' within a step: only the method itself may use its context".formatted(kind, name));
        }
        WorkflowSuspension pause = unwound;
        if (pause != null) {
            throw pause;
        }
        if (TransactionSynchronizationManager.isActualTransactionActive()) {
            throw new IllegalStateException(
                    "%s '%s' within a transaction: what is remembered must not be rolled back with it. Use a"
                                    .formatted(kind, name)
                            + " transactionalStep, and no @Transactional on the workflow's method.");
        }
        if (job.stopReason() != null) {
            throw stopped();
        }
        int at = position++;
        StepRow known = loaded.steps().get(at);
        if (known == null) {
            requireOnward();
            return null;
        }
        if (!known.kind().equals(kind) || !known.name().equals(name)) {
            throw unwind(new WorkflowSuspension.Mismatch(
                    "%s, but the method asks for %s".formatted(text(known), named(StepRow.of(at, name, kind, "")))));
        }
        return known;
    }

    /** How what {@link #next} did not know begins to be remembered. */
    StepRow fresh(String kind, String name, String status) {
        return StepRow.of(position - 1, name, kind, status);
    }

    /** Passes the next thing by if it is not remembered; answers whether it did. */
    boolean passUnknown() {
        boolean unknown = !loaded.steps().containsKey(position);
        if (unknown) {
            position++;
        }
        return unknown;
    }

    /** The number of the next thing. */
    int position() {
        return position;
    }

    /** The first thing that is remembered, but that the method has not asked for. */
    @Nullable
    StepRow unmet() {
        return loaded.steps().values().stream()
                .filter(row -> row.position() >= position)
                .min(Comparator.comparingInt(StepRow::position))
                .orElse(null);
    }

    /** For people. */
    static String text(StepRow row) {
        return "remembered as number %d is %s".formatted(row.position(), named(row));
    }

    private static String named(StepRow row) {
        return "%s '%s'".formatted(row.kind(), row.name());
    }

    /** Whether the method only runs so that it can be undone: nothing new is done then. */
    boolean isReplay() {
        return loaded.unwinding();
    }

    /** Something is to be done that is not remembered as done. */
    void requireOnward() {
        if (isReplay()) {
            throw unwind(Plain.MEMORY_ENDS);
        }
    }

    /** Takes the oldest signal of that name that has been given. */
    @Nullable
    Signal takeSignal(String name) {
        Signal given = signals.stream()
                .filter(signal -> signal.name().equals(name))
                .findFirst()
                .orElse(null);
        if (given == null) {
            return null;
        }
        signals.remove(given);
        UUID id = given.id();
        return given.read() ? given : guarded(() -> new Signal(id, name, store.payloadOf(id), true));
    }

    <T> @Nullable T read(StepRow row, Class<T> type) {
        String text = row.result();
        return text == null || type == Void.class ? null : json.readAs(text, type);
    }

    @Nullable
    Object read(StepRow row, Type type) {
        if (type instanceof Class<?> plain) {
            return read(row, plain);
        }
        String text = row.result();
        return text == null ? null : json.read(text, type);
    }

    /** What a step has returned, as whoever runs the method again will be given it: nobody is to see a difference. */
    @Nullable
    Object readAgain(StepRow row, Type type) {
        try {
            return read(row, type);
        } catch (RuntimeException e) {
            throw new PermanentJobFailure(
                    "what it returned cannot be read again as %s: %s".formatted(type.getTypeName(), e.getMessage()), e);
        }
    }

    /** A signal of no use is taken, and that is all. */
    void setAside(Signal signal) {
        guarded(() -> store.remember(claim, List.of(), signal.id()));
    }

    /** What cannot be stored is not to keep the run from ending. */
    void forgetUnwritten() {
        synchronized (unwritten) {
            unwritten.clear();
        }
    }

    /** What a step has returned, as it is remembered. */
    @Nullable
    String json(@Nullable Object value) {
        try {
            String text = value == null ? null : json.write(value);
            requireRoom(text);
            return text;
        } catch (IllegalArgumentException e) {
            throw new PermanentJobFailure("what it returned " + e.getMessage(), e);
        }
    }

    /** Each execution reads all that was recorded: a run that goes on for ever would become too large for any node. */
    void requireRoom(@Nullable String result) {
        long bytes = PrintedJson.bytes(result);
        if (bytes > 0 && history.get() + bytes > mostHistory) {
            throw new PermanentJobFailure(
                    "what run %s has recorded (%d bytes with this result of %d) exceeds forge.cluster.workflow.max-history-size (%d); store large data elsewhere and return where it is, or go on in a child workflow"
                            .formatted(claim.key().id(), history.get() + bytes, bytes, mostHistory));
        }
    }

    /** By the database's clock, as far as this node can tell. */
    Instant databaseNow() {
        return loaded.now().plusNanos(nanos.getAsLong() - loadedAt).truncatedTo(ChronoUnit.MICROS);
    }

    /** When the signals were read, by the same clock. */
    Instant snapshotTime() {
        return loaded.now();
    }

    // What is written ---------------------------------------------------------------------------------------

    /** A step's own code runs, which may not ask for anything. */
    void stepBegins() {
        actions.incrementAndGet();
    }

    void stepEnds() {
        actions.decrementAndGet();
    }

    /** It will be remembered as done with the next thing that is written; until then, that its time has passed says so too. */
    void later(StepRow row) {
        history.addAndGet(PrintedJson.bytes(row.result()));
        synchronized (unwritten) {
            replace(unwritten, row);
        }
    }

    /** What gathers until something is written. */
    private List<StepRow> taken() {
        synchronized (unwritten) {
            return new ArrayList<>(unwritten);
        }
    }

    /** One statement writes each row once: the latest that is known of it. */
    private static void replace(List<StepRow> rows, StepRow latest) {
        rows.removeIf(row -> row.position() == latest.position());
        rows.add(latest);
    }

    /** Time and chance are remembered before anything is done with them: who does it again must have the same. */
    void settleChance() {
        List<StepRow> rows = taken();
        if (rows.stream().anyMatch(row -> row.kind().equals("now") || row.kind().equals("uuid"))) {
            accept(note(rows, rows.size(), null));
        }
    }

    /** Remembers something, and takes a signal if there is one. */
    void remember(StepRow row, @Nullable UUID signal) {
        // Whatever interrupted the step must not disturb this.
        Thread.interrupted();
        accept(note(row, signal));
    }

    /**
     * What has been written and, in a transaction, is not committed yet.
     *
     * @param gathered how many of those rows that had gathered are among it
     */
    record Noted(Written written, int gathered) {}

    /** Whether what is noted is part of the running transaction. */
    boolean joinsTransaction() {
        return store.joinsTransaction();
    }

    /** Writes something with all that has gathered, in the transaction that runs, or else at once. */
    Noted note(StepRow row, @Nullable UUID signal) {
        List<StepRow> rows = taken();
        int gathered = rows.size();
        replace(rows, row);
        Noted noted = note(rows, gathered, signal);
        history.addAndGet(PrintedJson.bytes(row.result()));
        return noted;
    }

    private Noted note(List<StepRow> rows, int gathered, @Nullable UUID signal) {
        return noted(guarded(() -> statements.remember(claim, rows, signal)), gathered);
    }

    /**
     * Writes something as the last statement of a step's own transaction. There only a lost connection and a rollback that
     * another transaction has caused are the database's fault: all else is the step's, and thrown.
     */
    Noted noteInTransaction(StepRow row) {
        List<StepRow> rows = taken();
        int gathered = rows.size();
        replace(rows, row);
        Written written;
        try {
            written = statements.remember(claim, rows, null);
        } catch (DataAccessException | TransactionException e) {
            if (DatabaseFault.caused(e)) {
                throw unwind(new WorkflowSuspension.Unwritten(e));
            }
            throw e;
        }
        Noted noted = noted(written, gathered);
        history.addAndGet(PrintedJson.bytes(row.result()));
        return noted;
    }

    private Noted noted(Written written, int gathered) {
        if (written == Written.CLAIM_LOST) {
            throw unwind(Plain.LOST);
        }
        if (written == Written.SUPERSEDED) {
            throw unwind(Plain.SUPERSEDED);
        }
        return new Noted(written, gathered);
    }

    /**
     * Records an attempt of a step that still runs, from another thread than the step's. False if it is recorded already what
     * became of the step, or the run is not this node's any more: then nothing is written.
     */
    boolean spend(StepRow row) {
        return switch (statements.remember(claim, List.of(row), null)) {
            case WRITTEN, CALLED_OFF -> true;
            case SUPERSEDED, CLAIM_LOST -> false;
        };
    }

    /** What has been noted is committed. */
    void accept(Noted noted) {
        advanced = true;
        synchronized (unwritten) {
            unwritten.subList(0, Math.min(noted.gathered, unwritten.size())).clear();
        }
        if (!forgiven) {
            forgiven = true;
            guarded(() -> {
                store.forgiveCrashes(claim);
                return noted;
            });
        }
        if (noted.written == Written.CALLED_OFF && !unwinding) {
            throw unwind(Plain.CALLED_OFF);
        }
    }

    /** Whether this execution has written something: the next one gets further. */
    boolean hasAdvanced() {
        return advanced;
    }

    /** Records why the run is repeated, unless it compensates: then its error says why. */
    void noteRepetition(String error) {
        if (!unwinding) {
            store.noteError(claim, error);
        }
    }

    /** Tells what is the database's fault, and therefore none of the run's, from what it refuses to store. */
    <T> T guarded(Supplier<T> work) {
        try {
            return work.get();
        } catch (DataAccessException e) {
            if (StatementFailure.isRejected(e)) {
                throw e;
            }
            throw unwind(new WorkflowSuspension.Unwritten(e));
        } catch (TransactionException e) {
            throw unwind(new WorkflowSuspension.Unwritten(e));
        }
    }

    // How the run goes on -----------------------------------------------------------------------------------

    /** Whether the run undoes what it has done. */
    boolean isUnwinding() {
        return unwinding;
    }

    /** From now on it does; false if it is not this node's any more. */
    boolean beginUnwinding(String error) {
        if (guarded(() -> store.unwind(claim, error, taken())) == Written.CLAIM_LOST) {
            return false;
        }
        forgetUnwritten();
        unwinding = true;
        return true;
    }

    Written end(WorkflowStatus status, @Nullable String result, @Nullable String error) {
        return guarded(
                () -> statements.end(claim, new End(status, result, error, taken(), job.takeProgress(), unwinding)));
    }

    /**
     * Gives the job back until there is something to go on with; false if it is not this node's any more.
     *
     * @param mismatch why it cannot go on at all: what has gathered is then worth nothing
     */
    boolean suspend(WorkflowSuspension.Waits waits, @Nullable String mismatch) {
        List<StepRow> rows = mismatch == null ? taken() : new ArrayList<>();
        waits.rows().forEach(row -> replace(rows, row));
        return store.suspend(
                claim,
                new Wait(
                        rows,
                        waits.until(),
                        waits.signal(),
                        waits.job(),
                        mismatch,
                        job.takeProgress(),
                        loaded.wakeSeq(),
                        unwinding),
                waits.before());
    }
}
