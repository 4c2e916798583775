// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.purge;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Bisect;
import dev.forge.cluster.internal.runtime.ErrorText;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.IntFunction;
import java.util.function.IntUnaryOperator;
import java.util.function.LongSupplier;
import java.util.function.ToIntFunction;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Deletes rows in batches of a suitable size. Rows may be small or have a megabyte each, so the size follows from the duration of
 * the last statement; a statement that timed out is repeated with a quarter of the rows. A row that the server refuses to delete,
 * because a foreign key of the application references it for example, is found and set aside.
 */
public final class PurgeBatch {

    private static final Logger log = GuardedLogger.of(PurgeBatch.class);
    private static final int FIRST = 500;
    private static final Duration FAST = Duration.ofMillis(100);
    private static final Duration SLOW = Duration.ofMillis(500);

    /** How long a pass searches for rows that cannot be deleted; the next pass continues. */
    private static final Duration LONGEST_SEARCH = Duration.ofSeconds(20);

    /** How many rows are tried at least: the success of others shows that a row is to blame. */
    private static final int FEW = 20;

    /** How many rows of a batch are named in the log. */
    private static final int MOST_LOGGED = 10;

    private final String what;
    private final int largest;
    private final LongSupplier nanos;
    private int size;

    /**
     * Rows that can be deleted one by one.
     *
     * @param delete deletes up to that many rows and returns how many it deleted; leaves out rows that are set aside
     * @param next returns the rows that {@code delete} would delete
     * @param deleteAmong deletes those of these rows that have to be deleted, and returns how many
     */
    public record Rows(IntUnaryOperator delete, IntFunction<List<UUID>> next, ToIntFunction<List<UUID>> deleteAmong) {}

    /**
     * Where rows of a table that cannot be deleted are recorded.
     *
     * @param remaining an SQL query that finds the row {@code u.row_id} as long as it has to be deleted
     */
    public record SetAside(UndeletableStore store, String table, String remaining) {}

    /** @param what the kind of rows, for the log */
    public PurgeBatch(String what, int largest, LongSupplier nanos) {
        this.what = what;
        this.largest = largest;
        this.nanos = nanos;
        this.size = Math.min(FIRST, largest);
    }

    /**
     * Deletes all rows, in as many statements as necessary.
     *
     * @param delete deletes up to that many rows and returns how many it deleted; called until it finds fewer
     */
    public void deleteAll(IntUnaryOperator delete) {
        deleteAll(delete, null);
    }

    /** Deletes all rows that can be deleted, in as many statements as necessary, and sets the others aside. */
    public void deleteAll(Rows rows, SetAside setAside) {
        long[] left = {LONGEST_SEARCH.toNanos()};
        deleteAll(rows.delete, (limit, failure) -> {
            long began = nanos.getAsLong();
            int found = isolate(rows, setAside, began + left[0], limit, failure);
            left[0] -= nanos.getAsLong() - began;
            return found;
        });
        setAside.store.forget(setAside.table, setAside.remaining);
    }

    /** @param until when the search ends, by the monotonic clock */
    private int isolate(Rows rows, SetAside setAside, long until, int limit, DataAccessException failure) {
        var culprits = new LinkedHashMap<UUID, DataAccessException>();
        int[] deleted = {0};
        DataAccessException end = null;
        try {
            new Bisect<UUID>(
                            some -> deleted[0] += rows.deleteAmong.applyAsInt(some),
                            e -> isOfRow(e, limit) && until - nanos.getAsLong() > 0,
                            Integer.MAX_VALUE,
                            culprits::put)
                    .run(rows.next.apply(isSlow(failure, limit) ? limit : Math.max(limit, FEW)));
        } catch (DataAccessException e) {
            end = e;
        }
        if (deleted[0] == 0) {
            // Without the success of another row the cause may as well be the schema or a privilege.
            culprits.values().removeIf(e -> !DatabaseFailure.kind(e).isOfRow() && !isSlow(e, limit));
        }
        if (!culprits.isEmpty()) {
            report(setAside, culprits);
        }
        if (deleted[0] == 0 && culprits.isEmpty()) {
            throw failure;
        }
        if (end != null && until - nanos.getAsLong() > 0) {
            if (limit == 1) {
                throw end;
            }
            size = Math.max(1, limit / 4);
            return limit;
        }
        // Out of time, the next pass continues.
        return end == null ? limit : 0;
    }

    private static boolean isOfRow(DataAccessException failure, int limit) {
        return DatabaseFailure.kind(failure).isPerhapsOfRow() || isSlow(failure, limit);
    }

    /** Returns whether a single row took too long to delete, because a foreign key has no index or a transaction locks its rows. */
    private static boolean isSlow(DataAccessException failure, int limit) {
        return limit == 1
                && (DatabaseFailure.kind(failure) == Kind.STATEMENT_TIMEOUT
                        || DatabaseFailure.kind(failure) == Kind.LOCK_TIMEOUT);
    }

    private void report(SetAside setAside, Map<UUID, DataAccessException> culprits) {
        Set<UUID> added = setAside.store.setAside(
                setAside.table,
                culprits.keySet(),
                culprits.values().stream().map(DatabaseFailure::names).toList());
        culprits.entrySet().stream()
                .filter(culprit -> added.contains(culprit.getKey()))
                .limit(MOST_LOGGED)
                .forEach(culprit -> log.warn(
                        "{} {}: cannot be deleted and stays after its retention; trying again in an hour. Other rows are not"
                                + " affected. Table forge_undeletable_rows lists such rows.",
                        setAside.table,
                        culprit.getKey(),
                        ErrorText.loggable(culprit.getValue())));
        if (added.size() > MOST_LOGGED) {
            log.warn(
                    "{}: {} more rows cannot be deleted; see forge_undeletable_rows",
                    setAside.table,
                    added.size() - MOST_LOGGED);
        }
    }

    /** What is done about a statement that failed for another reason than its size; returns how many rows it found. */
    private interface Isolation {
        int of(int limit, DataAccessException failure);
    }

    private void deleteAll(IntUnaryOperator delete, @Nullable Isolation isolation) {
        int deleted;
        int limit;
        do {
            limit = size;
            long began = nanos.getAsLong();
            try {
                deleted = delete.applyAsInt(limit);
            } catch (DataAccessException e) {
                if (limit > 1 && DatabaseFailure.kind(e).isTransient()) {
                    size = Math.max(1, limit / 4);
                    log.debug("Could not delete {} {} in one statement; trying {}", limit, what, size, e);
                    deleted = limit;
                } else if (isolation != null && isOfRow(e, limit)) {
                    deleted = isolation.of(limit, e);
                } else {
                    throw e;
                }
                continue;
            }
            long took = nanos.getAsLong() - began;
            if (took > SLOW.toNanos()) {
                size = Math.max(1, limit / 2);
            } else if (took < FAST.toNanos() && deleted >= limit) {
                // The duration of a statement that found fewer rows says nothing about a full batch.
                size = Math.min(largest, limit * 2);
            }
            log.debug("Deleted {} {}", deleted, what);
        } while (deleted >= limit);
    }
}
