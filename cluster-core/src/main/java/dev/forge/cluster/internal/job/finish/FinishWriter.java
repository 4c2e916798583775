// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.finish;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.RowLog;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/**
 * Writes batches of results. Isolates rows that cannot be written, sets locked rows aside, and distinguishes lost claims from ends
 * that were written although the response was lost. Used by the finishing thread alone, except for {@link #settle}.
 */
final class FinishWriter {

    private static final Logger log = GuardedLogger.of(FinishWriter.class);

    /** For this long after a statement met a locked row, statements skip locked rows from the beginning. */
    private static final Duration SKIP_LOCKED_FOR = Duration.ofSeconds(1);

    /** How many statements of one batch may wait for a lock in vain. */
    private static final int MOST_WAITS = 4;

    private static final int MOST_REPORTED = 1_000;

    /** After this many failures in a row, one of the results may be the cause. */
    private static final int REPEATED = 3;

    private final RowLog rows = new RowLog();
    private final JobFinishStore finishes;
    private final HeldJobStore held;
    private final LongSupplier nanos;
    private final Consumer<JobEnd> setAside;

    /** Rows that cannot be changed, until their results are written. */
    private final Set<ClaimKey> unwritable = ConcurrentHashMap.newKeySet();

    /** Results that the present batch has set aside. */
    private final Set<JobEnd> setAsideNow = new HashSet<>();

    /** How often batches have failed in a row, perhaps because of one row. */
    private int failures;

    /** Whether failures that are perhaps of one row are taken for such. */
    private boolean isolates;

    private boolean skipsLocked;
    private long skipsLockedUntil;

    /** Writes results of one node with one statement; returns the failure, or null. */
    private interface PartWriter {
        @Nullable
        Throwable write(UUID node, List<JobEnd> part);
    }

    /**
     * Creates a writer.
     *
     * @param setAside called with results whose rows another transaction has locked
     */
    FinishWriter(JobFinishStore finishes, HeldJobStore held, LongSupplier nanos, Consumer<JobEnd> setAside) {
        this.finishes = finishes;
        this.held = held;
        this.nanos = nanos;
        this.setAside = one -> {
            setAsideNow.add(one);
            setAside.accept(one);
        };
    }

    /** Writes what can be written; returns the failure that kept it from writing the rest, or null. */
    @Nullable
    Throwable write(List<JobEnd> batch) {
        setAsideNow.clear();
        Throwable failure = writeByNode(batch, this::writePart);
        if (failure == null || !DatabaseFailure.kind(failure).isPerhapsOfRow()) {
            failures = 0;
            return failure;
        }
        return ++failures > REPEATED ? isolate(batch, failure) : failure;
    }

    /** Writes the first and the last result alone. If either succeeds, one of the others is the cause of the failure, and is found. */
    private @Nullable Throwable isolate(List<JobEnd> batch, Throwable failure) {
        List<JobEnd> open = unwritten(batch);
        if (open.size() < 2) {
            return failure;
        }
        JobEnd first = open.get(0);
        JobEnd last = open.get(open.size() - 1);
        writeByNode(List.of(first), this::writePart);
        writeByNode(List.of(last), this::writePart);
        // A result that was set aside proves nothing about the server.
        if (!first.isSettled() && !last.isSettled()) {
            return failure;
        }
        isolates = true;
        try {
            return writeByNode(unwritten(open), this::writePart);
        } finally {
            isolates = false;
        }
    }

    private List<JobEnd> unwritten(List<JobEnd> batch) {
        return batch.stream()
                .filter(one -> !one.isSettled() && !setAsideNow.contains(one))
                .toList();
    }

    private boolean isOfRow(Throwable failure) {
        return isolates
                ? DatabaseFailure.kind(failure).isPerhapsOfRow()
                : DatabaseFailure.kind(failure).isOfRow();
    }

    /** Writes the result of a row that could not be changed before; returns the failure, or null. */
    @Nullable
    Throwable writeUnwritable(JobEnd one) {
        isolates = true;
        try {
            return writeUnlocked(List.of(one));
        } finally {
            isolates = false;
        }
    }

    /** Writes results whose rows are not locked, and sets the others aside; returns the failure, or null. */
    @Nullable
    Throwable writeUnlocked(List<JobEnd> batch) {
        int[] waits = {0};
        return writeByNode(batch, (node, part) -> writeUnlockedPart(node, part, waits));
    }

    private static @Nullable Throwable writeByNode(List<JobEnd> batch, PartWriter writer) {
        // Claims of a former membership are lost; the guards of the statements detect that.
        Map<UUID, List<JobEnd>> byNode = new LinkedHashMap<>();
        batch.forEach(one ->
                byNode.computeIfAbsent(one.node(), n -> new ArrayList<>()).add(one));
        Throwable failure = null;
        for (Map.Entry<UUID, List<JobEnd>> group : byNode.entrySet()) {
            Throwable own = writeParts(group.getKey(), group.getValue(), writer);
            failure = own == null ? failure : own;
        }
        return failure;
    }

    /**
     * Runs one statement at a time: if one fails, results that another has written must not be written again. A job that the first
     * statement deleted or returned would look like a lost claim.
     */
    private static @Nullable Throwable writeParts(UUID node, List<JobEnd> batch, PartWriter writer) {
        Throwable failure = null;
        for (List<JobEnd> part : JobFinishStore.parts(batch, JobEnd::finish)) {
            Throwable own = writer.write(node, part);
            failure = failure == null ? own : failure;
        }
        return failure;
    }

    private @Nullable Throwable writePart(UUID node, List<JobEnd> part) {
        if (skipsLocked()) {
            return writeUnlockedPart(node, part, new int[] {0});
        }
        try {
            Set<ClaimKey> lost =
                    finishes.finishPart(node, part.stream().map(JobEnd::finish).toList());
            Set<ClaimKey> own = endedByThisNode(node, part, lost);
            part.forEach(one -> settle(one, !lost.contains(one.key()) || own.contains(one.key())));
            return null;
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) == DatabaseFailure.Kind.LOCK_TIMEOUT) {
                startSkippingLocked();
                return writeUnlockedPart(node, part, new int[] {0});
            }
            if (!isOfRow(e)) {
                markUnconfirmed(part, e);
                return e;
            }
            // A row that cannot be written must not block the others.
            return part.size() > 1 ? writeHalves(node, part, this::writePart) : writeRejected(node, part.get(0), e);
        } catch (RuntimeException | Error e) {
            // Every failure: without this thread no job would ever end.
            markUnconfirmed(part, e);
            return part.size() > 1 ? writeHalves(node, part, this::writePart) : e;
        }
    }

    private static @Nullable Throwable writeHalves(UUID node, List<JobEnd> part, PartWriter writer) {
        Throwable first = writer.write(node, List.copyOf(part.subList(0, part.size() / 2)));
        Throwable second = writer.write(node, List.copyOf(part.subList(part.size() / 2, part.size())));
        return first != null ? first : second;
    }

    private @Nullable Throwable writeRejected(UUID node, JobEnd culprit, Throwable rejection) {
        if (!DatabaseFailure.kind(rejection).isRejection()) {
            // Damage, for example: its result can be written when that is repaired.
            setAsideUnwritable(culprit, rejection);
            return null;
        }
        Finish finish = culprit.finish();
        if (finish.isDeletion()) {
            // It has completed, also if a foreign key of the application keeps its row.
            culprit.leaveToCleanUp();
            return writeUnlocked(List.of(culprit));
        }
        // Without anything else that could be rejected.
        var failed = Finish.failed(
                finish.key(),
                ErrorText.storable("the database rejected the result: "
                        + (rejection instanceof DataAccessException access ? access.getMostSpecificCause() : rejection)
                                .getMessage()),
                finish.ranMillis());
        try {
            Set<ClaimKey> lost = finishes.finish(node, List.of(failed));
            rows.warn(
                    log,
                    "Job %s: database rejected the result".formatted(culprit.name()),
                    "Job {} ({}): database rejected the result; job marked failed",
                    culprit.name(),
                    finish.key().id(),
                    ErrorText.loggable(rejection));
            culprit.rejected(String.valueOf(failed.error()), rejection);
            settle(culprit, endedByThisNode(node, List.of(culprit), lost).containsAll(lost));
            return null;
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) == DatabaseFailure.Kind.LOCK_TIMEOUT) {
                setAside.accept(culprit);
                return null;
            }
            if (isOfRow(e)) {
                setAsideUnwritable(culprit, e);
                return null;
            }
            markUnconfirmed(List.of(culprit), e);
            return e;
        }
    }

    /** Retries a row that cannot be written at all, apart from the others, and reports it once. */
    private void setAsideUnwritable(JobEnd culprit, Throwable failure) {
        if (unwritable.add(culprit.key()) && unwritable.size() <= MOST_REPORTED) {
            log.error(
                    "Job {} ({}): its row cannot be changed, so its end cannot be recorded; retrying. This node holds it until the"
                            + " cause is removed: a trigger of the application, or a damaged table or index.",
                    culprit.name(),
                    culprit.key().id(),
                    ErrorText.loggable(failure));
        }
        setAside.accept(culprit);
    }

    /** Returns whether it is known that the row of a job cannot be changed. */
    boolean isUnwritable(JobEnd one) {
        return unwritable.contains(one.key());
    }

    // Locked rows ---------------------------------------------------------------------------------------------

    private boolean skipsLocked() {
        skipsLocked &= nanos.getAsLong() - skipsLockedUntil < 0;
        return skipsLocked;
    }

    private void startSkippingLocked() {
        skipsLocked = true;
        skipsLockedUntil = nanos.getAsLong() + SKIP_LOCKED_FOR.toNanos();
    }

    /**
     * Writes results whose rows are not locked and sets the others aside; a second query distinguishes locked rows from lost claims.
     * A row that is not locked may still have to wait for a row that a trigger writes: such a job is isolated and set aside, too.
     *
     * @param waits how many statements have waited in vain so far
     */
    private @Nullable Throwable writeUnlockedPart(UUID node, List<JobEnd> part, int[] waits) {
        try {
            Set<ClaimKey> written = finishes.finishUnlocked(
                    node, part.stream().map(JobEnd::finish).toList());
            List<JobEnd> rest =
                    part.stream().filter(one -> !written.contains(one.key())).toList();
            part.stream().filter(one -> written.contains(one.key())).forEach(one -> settle(one, true));
            if (!rest.isEmpty()) {
                startSkippingLocked();
                separateLockedFromLost(node, rest);
            }
            return null;
        } catch (DataAccessException | TransactionException e) {
            boolean rejected = isOfRow(e);
            boolean waited = DatabaseFailure.kind(e) == DatabaseFailure.Kind.LOCK_TIMEOUT;
            if (!rejected && !waited) {
                markUnconfirmed(part, e);
                return e;
            }
            if (waited && (part.size() == 1 || ++waits[0] > MOST_WAITS)) {
                part.forEach(setAside);
                return null;
            }
            return part.size() > 1
                    ? writeHalves(node, part, (n, half) -> writeUnlockedPart(n, half, waits))
                    : writeRejected(node, part.get(0), e);
        } catch (RuntimeException | Error e) {
            markUnconfirmed(part, e);
            return part.size() > 1 ? writeHalves(node, part, (n, half) -> writeUnlockedPart(n, half, waits)) : e;
        }
    }

    private void separateLockedFromLost(UUID node, List<JobEnd> unwritten) {
        Set<ClaimKey> missing =
                held.missing(node, unwritten.stream().map(one -> one.key()).toList());
        Set<ClaimKey> finished = missing.isEmpty() ? Set.of() : finishes.finished(node, missing);
        Set<ClaimKey> own = endedByThisNode(node, unwritten, missing);
        for (JobEnd one : unwritten) {
            ClaimKey key = one.key();
            if (missing.contains(key)) {
                settle(one, finished.contains(key) || own.contains(key));
            } else {
                setAside.accept(one);
            }
        }
    }

    // Lost responses ------------------------------------------------------------------------------------------

    /** Records that a statement may have been committed although it failed here. */
    private static void markUnconfirmed(List<JobEnd> part, Throwable failure) {
        if (!DatabaseFailure.kind(failure).isAnswered()) {
            part.forEach(one -> one.markUnconfirmed());
        }
    }

    /**
     * Returns those of the lost claims that this node itself ended with a statement whose response was lost. A job that was deleted
     * or returned by that statement looks as if another node had taken it.
     */
    private Set<ClaimKey> endedByThisNode(UUID node, List<JobEnd> part, Set<ClaimKey> lost) {
        Map<ClaimKey, Integer> unconfirmed = new HashMap<>();
        for (JobEnd one : part) {
            if (lost.contains(one.key()) && one.isUnconfirmed()) {
                unconfirmed.put(one.key(), one.recoveries());
            }
        }
        if (unconfirmed.isEmpty()) {
            return Set.of();
        }
        Set<ClaimKey> own = finishes.endedByHolder(node, unconfirmed);
        own.forEach(key ->
                log.debug("Job {} epoch {}: end was written, only the response was lost", key.id(), key.epoch()));
        return own;
    }

    private void settle(JobEnd end, boolean written) {
        unwritable.remove(end.key());
        end.settle(written);
    }
}
