package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.store.NodeStore.Deadlines;
import java.time.Duration;

/**
 * How often a node beats, and for how long its silence may last. An adaptive pulse slows down while nothing happens; each
 * beat declares the deadlines that fit the pause after it, so that nobody expects the next one sooner.
 */
final class Pulse {

    /** Without its session a node is suspect; beating this often it stays alive in the eyes of the others. */
    private static final Duration WITHOUT_SESSION = Duration.ofMillis(200);

    private final NodeSettings.Heartbeat settings;
    private volatile Duration interval;

    Pulse(NodeSettings.Heartbeat settings) {
        this.settings = settings;
        this.interval = settings.interval();
    }

    Duration pause(boolean hasSession) {
        return hasSession ? interval : min(interval, WITHOUT_SESSION);
    }

    /** Nothing has happened since the last beat. */
    void slowDown() {
        if (settings.adaptive()) {
            interval = min(interval.multipliedBy(2), settings.maxInterval());
        }
    }

    /** Something has happened; answers whether the next beat should come at once. */
    boolean quicken() {
        interval = settings.interval();
        return settings.adaptive();
    }

    Deadlines deadlines() {
        return new Deadlines(
                max(settings.stale(), interval.multipliedBy(2)), max(settings.dead(), interval.multipliedBy(3)));
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    private static Duration max(Duration a, Duration b) {
        return a.compareTo(b) > 0 ? a : b;
    }
}
