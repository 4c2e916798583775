// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import java.time.Duration;

/**
 * Limits the time that a node spends on searches for due jobs: a fifth in the long run, so that claims get their turn however slow
 * searches have become, and a tenth of a second at once, so that an urgent job need not wait because of the last search.
 */
final class SearchBudget {

    /** About how many queues a search covers. */
    static final int MOST_QUEUES = 1_000;

    /** Of how many queues a lane remembers marks and failures. */
    static final int MOST_MARKS = 2 * MOST_QUEUES;

    private static final long BURST = Duration.ofMillis(100).toNanos();
    private static final int SHARE = 5;
    /** The largest cost of a single search: after it, the next one is five seconds away. */
    private static final long LARGEST_DEBT = Duration.ofSeconds(1).toNanos();

    private static final long SHORTEST_INTERVAL = Duration.ofMillis(1).toNanos();

    private long credit = BURST;
    private long at;
    private boolean begun;

    /** Returns how long the next search has to wait. */
    Duration untilNext(long now) {
        if (!begun) {
            return Duration.ZERO;
        }
        long credited = credit(now);
        return Duration.ofNanos(credited < 0 ? -credited * SHARE : Math.max(0, at + SHORTEST_INTERVAL - now));
    }

    /** Charges a search. */
    void spent(long began, long ended) {
        // Credit accrued during the search, too.
        long cost = (ended - began) - (ended - began) / SHARE;
        credit = Math.max(-LARGEST_DEBT, (begun ? credit(began) : BURST) - cost);
        at = ended;
        begun = true;
    }

    /** Charges a search that failed: the next one waits for half a second, however quickly this one failed. */
    void failed(long began, long ended) {
        spent(began, ended);
        credit = Math.min(credit, -BURST);
    }

    private long credit(long now) {
        return Math.min(BURST, credit + (now - at) / SHARE);
    }
}
