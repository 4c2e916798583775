// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.JobLogStore;
import dev.forge.cluster.internal.runtime.ErrorText;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.UUID;

/**
 * The lines that a handler has logged and that are not written yet: the last ones, so that a handler that logs faster than lines are
 * written fills no memory.
 */
final class AttemptLog {

    /** The end of an attempt waits up to two seconds for lines that another thread is writing. */
    private static final int MOST_WAITS = 20;

    private static final long WAIT_MILLIS = 100;

    /**
     * A line.
     *
     * @param nanos when it was logged
     */
    record Line(int number, long nanos, String message) {}

    private final ClaimKey key;
    private final UUID node;
    private final int attempt;
    private final Deque<Line> unwritten = new ArrayDeque<>();
    private int next;
    private boolean writing;

    AttemptLog(ClaimKey key, UUID node, int attempt) {
        this.key = key;
        this.node = node;
        this.attempt = attempt;
    }

    ClaimKey key() {
        return key;
    }

    UUID node() {
        return node;
    }

    int attempt() {
        return attempt;
    }

    synchronized void add(String message, long nanos) {
        unwritten.add(new Line(next++, nanos, storable(message)));
        bound();
    }

    private static String storable(String message) {
        String text = ErrorText.bounded(message, JobLogStore.LONGEST_LINE);
        StringBuilder repaired = null;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
                i++;
            } else if (Character.isSurrogate(c)) {
                // Half a pair, which PostgreSQL cannot store.
                repaired = repaired == null ? new StringBuilder(text) : repaired;
                repaired.setCharAt(i, '?');
            }
        }
        return repaired == null ? text : repaired.toString();
    }

    private void bound() {
        while (unwritten.size() > JobLogStore.MOST_LINES) {
            unwritten.removeFirst();
        }
    }

    synchronized boolean isEmpty() {
        return unwritten.isEmpty();
    }

    /** Returns whether the job may have more lines than are kept. */
    synchronized boolean isLong() {
        return next > JobLogStore.MOST_LINES;
    }

    /** Removes and returns the lines, which the caller writes; then it calls {@link #written}. */
    synchronized List<Line> take() {
        List<Line> taken = List.copyOf(unwritten);
        unwritten.clear();
        writing |= !taken.isEmpty();
        return taken;
    }

    /** Called when lines that were taken are written; or not: those are kept. */
    synchronized void written(List<Line> failed) {
        var later = new ArrayList<>(unwritten);
        unwritten.clear();
        unwritten.addAll(failed);
        unwritten.addAll(later);
        bound();
        writing = false;
        notifyAll();
    }

    /** Waits until no other thread writes lines. */
    synchronized void awaitWritten() {
        try {
            for (int waits = 0; writing && waits < MOST_WAITS; waits++) {
                wait(WAIT_MILLIS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
