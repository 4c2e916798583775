package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.node.NodeStore.Deadlines;
import java.time.Duration;

/**
 * How often a node beats, and for how long its silence may last. An adaptive pulse slows down while nothing happens; each
 * beat declares the deadlines that fit the pause after it, so that nobody expects the next one sooner. A node that holds
 * something (a job, a role, a daemon) does not slow down: others would wait for it as long as its silence may last.
 */
final class HeartbeatSchedule {

    /** Without its session a node is suspect; beating this often it stays alive in the eyes of the others. */
    private static final Duration WITHOUT_SESSION = Duration.ofMillis(200);

    /** A beat that got lost is made up for at once: the others count from the last one they saw. */
    private static final Duration AFTER_FAILURE = Duration.ofMillis(500);

    private final NodeSettings.Heartbeat settings;
    private volatile Duration interval;
    private volatile boolean unanswered;
    private volatile boolean busy;

    HeartbeatSchedule(NodeSettings.Heartbeat settings) {
        this.settings = settings;
        this.interval = settings.interval();
    }

    Duration pause(boolean hasSession) {
        Duration usual = hasSession ? interval : min(interval, WITHOUT_SESSION);
        return unanswered ? min(usual, AFTER_FAILURE) : usual;
    }

    /**
     * A beat is about to be sent.
     *
     * @param busy whether the node holds something that others would wait for
     */
    void beating(boolean busy) {
        unanswered = true;
        this.busy = busy;
        if (busy) {
            interval = settings.interval();
        }
    }

    /** Whether the last beat failed, or is under way. */
    boolean isUnanswered() {
        return unanswered;
    }

    /** The node holds something now; returns whether its last beat declared that it may be silent for longer. */
    boolean isTooSlowForWork() {
        return settings.adaptive() && !busy;
    }

    /** It was answered; an adaptive pulse slows down if nothing has happened since the last one. */
    void answered(boolean quiet) {
        unanswered = false;
        if (quiet && !busy && settings.adaptive()) {
            interval = slower();
        }
    }

    private Duration slower() {
        return min(interval.multipliedBy(2), settings.maxInterval());
    }

    /** Something has happened; answers whether the next beat should come at once. */
    boolean quicken() {
        interval = settings.interval();
        return settings.adaptive();
    }

    /** What the next beat declares: enough for the pause after it, and for one that gets lost. */
    Deadlines deadlines() {
        Duration interval = settings.adaptive() && !busy ? slower() : this.interval;
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
