// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.node.NodeStore.Deadlines;
import java.time.Duration;

/**
 * Decides how often a node sends heartbeats, and how long its silence may last. An adaptive schedule slows down while nothing
 * happens; each heartbeat declares deadlines that fit the pause after it. A node that holds something (a job, a role, a daemon)
 * does not slow down: other nodes would wait for it as long as its silence may last.
 */
final class HeartbeatSchedule {

    /** A node without its session is suspect; at this pace other nodes do not declare it dead. */
    private static final Duration WITHOUT_SESSION = Duration.ofMillis(200);

    /** A heartbeat that failed is repeated soon: other nodes count from the last one that was recorded. */
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
     * Called before a heartbeat is sent; returns the deadlines that it declares.
     *
     * @param busy whether the node holds something that other nodes would wait for
     */
    Deadlines beating(boolean busy) {
        unanswered = true;
        this.busy = busy;
        if (busy) {
            interval = settings.interval();
        }
        return deadlines();
    }

    /** Returns whether the last heartbeat failed, or is under way. */
    boolean isUnanswered() {
        return unanswered;
    }

    /**
     * Returns whether to send the next heartbeat at once, because something has happened or because the last one declared longer
     * deadlines than a node may have that holds something.
     *
     * @param changed whether a node joined, left or died; ends a slow-down
     * @param busy whether the node holds something that other nodes would wait for
     */
    boolean isBeatDue(boolean changed, boolean busy) {
        if (changed) {
            interval = settings.interval();
        }
        return settings.adaptive() && (changed || (busy && !this.busy));
    }

    /**
     * Called when a heartbeat was answered.
     *
     * @param quiet whether nothing has happened since the last one, so that an adaptive schedule slows down
     */
    void answered(boolean quiet) {
        unanswered = false;
        if (quiet && !busy && settings.adaptive()) {
            interval = slower();
        }
    }

    private Duration slower() {
        return min(interval.multipliedBy(2), settings.maxInterval());
    }

    /** Returns the deadlines that the next heartbeat declares: long enough for the pause after it and one lost heartbeat. */
    Deadlines deadlines() {
        Duration next = settings.adaptive() && !busy ? slower() : interval;
        return new Deadlines(max(settings.stale(), next.multipliedBy(2)), max(settings.dead(), next.multipliedBy(3)));
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    private static Duration max(Duration a, Duration b) {
        return a.compareTo(b) > 0 ? a : b;
    }
}
