// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.internal.database.TransientFailure;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.function.IntUnaryOperator;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Deletes rows in batches of a suitable size. Rows may be small or have a megabyte each, so the size follows from the duration of
 * the last statement; a statement that timed out is repeated with a quarter of the rows.
 */
public final class PurgeBatch {

    private static final Logger log = GuardedLogger.of(PurgeBatch.class);
    private static final int FIRST = 500;
    private static final Duration FAST = Duration.ofMillis(100);
    private static final Duration SLOW = Duration.ofMillis(500);

    private final String what;
    private final int largest;
    private final LongSupplier nanos;
    private int size;

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
        int deleted;
        int limit;
        do {
            limit = size;
            long began = nanos.getAsLong();
            try {
                deleted = delete.applyAsInt(limit);
            } catch (DataAccessException e) {
                if (limit == 1 || !TransientFailure.caused(e)) {
                    throw e;
                }
                size = Math.max(1, limit / 4);
                log.debug("Could not delete {} {} in one statement; trying {}", limit, what, size, e);
                deleted = limit;
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
