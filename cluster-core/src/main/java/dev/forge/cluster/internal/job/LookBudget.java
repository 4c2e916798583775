package dev.forge.cluster.internal.job;

import java.time.Duration;

/**
 * How much of its time a node may spend on looking for work: a fifth in the long run, so that claims get their turn however
 * slow a look has become, and a tenth of a second at once, so that an urgent job need not wait for the price of the last
 * look.
 */
final class LookBudget {

    private static final long BURST = Duration.ofMillis(100).toNanos();
    private static final int SHARE = 5;
    /** What a single look may cost at most: with it, the next one is five seconds away. */
    private static final long LARGEST_DEBT = Duration.ofSeconds(1).toNanos();

    private static final long APART = Duration.ofMillis(1).toNanos();

    private long credit = BURST;
    private long at;
    private boolean begun;

    /** How long the next look has to wait. */
    Duration untilNext(long now) {
        if (!begun) {
            return Duration.ZERO;
        }
        long credited = credit(now);
        return Duration.ofNanos(credited < 0 ? -credited * SHARE : Math.max(0, at + APART - now));
    }

    /** A look took that time. */
    void spent(long began, long ended) {
        // While it was under way its share came in.
        long cost = (ended - began) - (ended - began) / SHARE;
        credit = Math.max(-LARGEST_DEBT, (begun ? credit(began) : BURST) - cost);
        at = ended;
        begun = true;
    }

    /** A look failed: the next one waits for half a second, however quickly it did. */
    void failed(long began, long ended) {
        spent(began, ended);
        credit = Math.min(credit, -BURST);
    }

    private long credit(long now) {
        return Math.min(BURST, credit + (now - at) / SHARE);
    }
}
