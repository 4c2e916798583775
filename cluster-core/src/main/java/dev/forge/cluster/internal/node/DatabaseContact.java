// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.runtime.Pace;
import java.time.Duration;

/**
 * When the database last answered this node, and how long the other nodes must believe after that that it lives. A look at the
 * other nodes proves contact as a heartbeat does, except while heartbeats fail, which are what the other nodes count.
 */
public final class DatabaseContact {

    /**
     * The server frees the lock of a session that was cut off after seven seconds. Other nodes wait as long again before they
     * take over what its node held.
     */
    private static final Duration TRUSTED_WITHOUT_CONTACT = Duration.ofSeconds(12);
    /** The shortest silence after which the database counts as unreachable. Large clusters look less often. */
    private static final Duration UNREACHABLE = Duration.ofSeconds(4);

    private final Pace pace;
    private final Duration lookInterval;
    private volatile long answeredAt;
    private volatile long answeredSent;
    private volatile long lastBeat;
    private volatile Duration trustedFor = Duration.ZERO;

    /** @param lookInterval the pause between two looks at the other nodes, before it is stretched */
    DatabaseContact(Pace pace, Duration lookInterval) {
        this.pace = pace;
        this.lookInterval = lookInterval;
    }

    /**
     * Records that the database has responded.
     *
     * @param sent when the statement was sent
     */
    void answered(long sent) {
        answeredAt = pace.nanos();
        answeredSent = sent;
    }

    /**
     * Records that the database has recorded a heartbeat.
     *
     * @param sent other nodes may have seen the heartbeat that early
     * @param dead how long the node may be silent after it, as it declared
     */
    void beatRecorded(long sent, Duration dead) {
        answered(sent);
        lastBeat = sent;
        trustedFor = dead.multipliedBy(4).dividedBy(5);
    }

    /** Returns whether the database has responded to a statement that was sent after that time. */
    public boolean hasAnsweredSince(long nanos) {
        return answeredSent - nanos > 0;
    }

    public Duration sinceLastAnswer() {
        return Duration.ofNanos(pace.nanos() - answeredAt);
    }

    /** Returns whether the database has responded lately. */
    public boolean isRecent() {
        Duration twoLooks = pace.longest(lookInterval).multipliedBy(2);
        return sinceLastAnswer().compareTo(twoLooks.compareTo(UNREACHABLE) > 0 ? twoLooks : UNREACHABLE) <= 0;
    }

    /** Returns whether no other node can have declared this one dead yet. */
    boolean isTrusted() {
        long now = pace.nanos();
        return now - lastBeat < trustedFor.toNanos() && now - answeredAt < TRUSTED_WITHOUT_CONTACT.toNanos();
    }
}
