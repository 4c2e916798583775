package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.TransientFailure;
import java.time.Duration;
import java.util.function.IntUnaryOperator;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * How many rows one statement deletes. Rows may be small or have a megabyte each, so their number follows from the time that
 * the last statement took; a statement that did not end in time is repeated with a quarter of the rows.
 */
final class PurgeBatch {

    private static final Logger log = GuardedLogger.of(PurgeBatch.class);
    private static final int FIRST = 500;
    private static final Duration FAST = Duration.ofMillis(100);
    private static final Duration SLOW = Duration.ofMillis(500);

    private final String what;
    private final int largest;
    private final LongSupplier nanos;
    private int size;

    /** @param what is deleted, for the log */
    PurgeBatch(String what, int largest, LongSupplier nanos) {
        this.what = what;
        this.largest = largest;
        this.nanos = nanos;
        this.size = Math.min(FIRST, largest);
    }

    /** @param delete deletes up to that many rows and answers how many; called until it finds fewer */
    void deleteAll(IntUnaryOperator delete) {
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
                log.debug("could not delete {} {} in one statement; trying {}", limit, what, size, e);
                deleted = limit;
                continue;
            }
            long took = nanos.getAsLong() - began;
            if (took > SLOW.toNanos()) {
                size = Math.max(1, limit / 2);
            } else if (took < FAST.toNanos() && deleted >= limit) {
                // A statement that found less says nothing about as many rows.
                size = Math.min(largest, limit * 2);
            }
            log.debug("deleted {} {}", deleted, what);
        } while (deleted >= limit);
    }
}
