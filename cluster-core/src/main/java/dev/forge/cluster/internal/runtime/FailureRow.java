// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.internal.database.connection.DatabaseAnswers;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongPredicate;
import java.util.function.LongSupplier;

/**
 * Counts the failures in a row of something that is tried again and again, and decides when the row is over.
 *
 * <p>A try that ends without a failure is no proof of recovery: during an outage many have nothing to do, or do nothing because the
 * node knows of the outage. The row is over if the try has itself reached the database, or if the node has reached it after the last
 * failure. The latter ends the rows of those that have nothing left to do.
 *
 * <p>Used by one thread at a time, except for {@link #length()}.
 */
public final class FailureRow {

    private final LongSupplier nanos;
    private final LongPredicate contactSince;
    private final AtomicInteger failures = new AtomicInteger();
    private long failedAt;
    private long answersBefore;

    /**
     * @param nanos a monotonic clock
     * @param contactSince whether the database has answered something that this node has sent after a time of that clock
     */
    public FailureRow(LongSupplier nanos, LongPredicate contactSince) {
        this.nanos = nanos;
        this.contactSince = contactSince;
    }

    /** Called before each try, on its thread. */
    public void begin() {
        answersBefore = DatabaseAnswers.toThisThread();
    }

    /** Records a failure; returns how many there are in a row. */
    public int failed() {
        failedAt = nanos.getAsLong();
        return failures.incrementAndGet();
    }

    /**
     * Called after a try without a failure, on its thread.
     *
     * @return how many failures the row had that is over now; 0 if there was none, or if nothing proves that it is over
     */
    public int succeeded() {
        if (failures.get() == 0) {
            return 0;
        }
        boolean reached = DatabaseAnswers.toThisThread() != answersBefore;
        return reached || contactSince.test(failedAt) ? failures.getAndSet(0) : 0;
    }

    /** Returns how many failures there are in a row. Any thread may ask. */
    public int length() {
        return failures.get();
    }

    /** Returns a number of failures for a log line. */
    public static String text(int failures) {
        return failures == 1 ? "1 failure" : failures + " failures";
    }
}
