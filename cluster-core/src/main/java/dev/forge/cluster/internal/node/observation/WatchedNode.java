// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node.observation;

import dev.forge.cluster.internal.node.observation.ObservationStore.ObservedNode;
import dev.forge.cluster.node.NodeStatus;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Another node over many looks, on the monotonic clock of this one: since when its heartbeat counter has stood still, and since
 * when its liveness lock is missing.
 */
final class WatchedNode {

    /** How long a node may be without its lock and without a heartbeat. */
    private static final Duration GRACE = Duration.ofMillis(600);
    /**
     * The same for a node whose lock was never seen held: this observer may have joined right after a failover, before that
     * node had its session back.
     */
    private static final Duration GRACE_IF_LOCK_NEVER_SEEN = Duration.ofSeconds(6);
    /**
     * The same for a node that gave no sign of life for a while before its lock was lost: it may be alive and only cut off, and
     * needs time to find that out and to stop its work.
     */
    private static final Duration GRACE_IF_CUT_OFF = Duration.ofSeconds(13);
    /**
     * The server takes seven seconds to free the lock of a session that was cut off. A node whose heartbeat, or whose session's
     * statement, arrived within the last six seconds was therefore not cut off but has crashed. A session runs a statement every
     * other second at least, so this does not depend on the heartbeat's interval.
     */
    private static final Duration RECENT_SIGN_OF_LIFE = Duration.ofSeconds(6);

    private final String name;
    private NodeStatus status;
    private long beats;
    private long silentSince;
    /** When its session last ran a statement; null if this database role may not see that. */
    private @Nullable Long sessionUsedAt;

    private boolean lockSeen;
    private @Nullable Long lockMissingSince;
    private Duration grace = GRACE;
    private boolean presumedDead;

    WatchedNode(ObservedNode seen, long now) {
        this.name = seen.name();
        this.status = seen.status();
        this.beats = seen.beats();
        this.silentSince = now;
    }

    /** Takes over what a further look has shown. */
    void seen(ObservedNode node, long now) {
        status = node.status();
        if (beats != node.beats()) {
            beats = node.beats();
            startAgain(now);
        }
    }

    /** Counts the node's silence from now on. */
    void startAgain(long now) {
        silentSince = now;
        lockMissingSince = null;
        presumedDead = false;
    }

    Duration silence(long now) {
        return Duration.ofNanos(now - silentSince);
    }

    /**
     * Judges the node by its liveness lock.
     *
     * @param locksReliable whether a missing lock means that the node's session has ended
     * @return whether the node has been without its lock, and silent, for so long that it is dead
     */
    boolean isDeadWithoutLock(ObservedNode node, boolean locksReliable, long now) {
        lockSeen |= !node.lockMissing();
        Duration idle = node.sessionIdle();
        if (idle != null) {
            sessionUsedAt = now - idle.toNanos();
        }
        if (!node.lockMissing() || !locksReliable) {
            lockMissingSince = null;
            return false;
        }
        Long since = lockMissingSince;
        if (since == null) {
            lockMissingSince = now;
            grace = !gaveSignOfLife(now) ? GRACE_IF_CUT_OFF : lockSeen ? GRACE : GRACE_IF_LOCK_NEVER_SEEN;
            return false;
        }
        return now - since >= grace.toNanos();
    }

    private boolean gaveSignOfLife(long now) {
        Long used = sessionUsedAt;
        return silence(now).compareTo(RECENT_SIGN_OF_LIFE) <= 0
                || (used != null && now - used <= RECENT_SIGN_OF_LIFE.toNanos());
    }

    /** Returns whether its lock is missing, so that the next look should come soon. */
    boolean isSuspect() {
        return lockMissingSince != null && status != NodeStatus.DEAD;
    }

    /** Records that an observer, which may declare no node dead, takes this one for dead; returns false if it did before. */
    boolean presumeDead() {
        boolean before = presumedDead;
        presumedDead = true;
        return !before;
    }

    boolean isPresumedDead() {
        return presumedDead;
    }

    void declaredDead() {
        status = NodeStatus.DEAD;
    }

    boolean isDead() {
        return status == NodeStatus.DEAD;
    }

    String name() {
        return name;
    }
}
