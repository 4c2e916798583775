// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.leader.ElectionStore.BeginResult;
import dev.forge.cluster.internal.leader.ElectionStore.Term;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.leader.LeadershipAcquired;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.slf4j.Logger;

/** Takes roles that nobody leads, and begins their terms. Used by the thread that takes the steps of an election. */
final class FreeRoles {

    private static final Logger log = GuardedLogger.of(Elector.class);

    /** How often followers look for leases that have ended although the lock is held. */
    private static final Duration LEASE_CHECK = Duration.ofMillis(500);
    /** How many bits of a fencing token are the term. */
    private static final int TERM_BITS = 40;

    private static final long LAST_TERM = (1L << TERM_BITS) - 1;
    private static final long LAST_TIMELINE = (1L << (63 - TERM_BITS)) - 1;

    private final Duration lease;
    private final LeadershipBasis basis;
    private final Pace pace;
    private final HeldLeaderships held;
    private final TermRetries retries;
    private final BiConsumer<String, ClusterEvent> publisher;
    private long nextLeaseCheck;

    // The fields below belong to one call.
    private final Map<String, Long> won = new TreeMap<>();
    private OptionalLong timeline = OptionalLong.empty();
    private boolean timelineKnown;
    private long renewal;
    private boolean again;
    private boolean evicted;

    /**
     * What is to be tried again.
     *
     * @param again whether to try with the next step
     * @param evicted whether the lock of an evicted leader will be free in a moment
     */
    record Result(boolean again, boolean evicted) {}

    FreeRoles(
            Duration lease,
            LeadershipBasis basis,
            Pace pace,
            HeldLeaderships held,
            TermRetries retries,
            BiConsumer<String, ClusterEvent> publisher) {
        this.lease = lease;
        this.basis = basis;
        this.pace = pace;
        this.held = held;
        this.retries = retries;
        this.publisher = publisher;
        this.nextLeaseCheck = pace.nanos();
    }

    /**
     * Takes those of the roles that are free.
     *
     * @param nextRenewal when the leaderships of this node must be renewed; no term begins after that
     */
    Result take(ElectionStore store, UUID node, Set<String> wanted, long nextRenewal) {
        won.clear();
        timelineKnown = false;
        again = false;
        evicted = false;
        renewal = nextRenewal;
        try {
            takeFree(store, node, wanted);
            return new Result(again, evicted);
        } finally {
            if (!won.isEmpty()) {
                log.info("Leads {} (role=term)", won);
            }
        }
    }

    private void takeFree(ElectionStore store, UUID node, Set<String> wanted) {
        var open = new TreeSet<>(wanted);
        open.removeIf(role -> held.isLocked(role) || (basis == LeadershipBasis.LEASE && held.contains(role)));
        retries.removePaused(open);
        if (open.isEmpty()) {
            return;
        }
        switch (basis) {
            case LOCK -> {
                Set<String> locked = store.tryLocks(open);
                List<String> postponed = untilRenewalIsDue(locked, role -> beginLocked(store, role, node));
                store.unlock(postponed);
                open.removeAll(locked);
                open.removeAll(held.roles());
                long now = pace.nanos();
                if (postponed.isEmpty() && !open.isEmpty() && now - nextLeaseCheck >= 0) {
                    nextLeaseCheck = now + pace.stretched(LEASE_CHECK).toNanos();
                    untilRenewalIsDue(rolesWithoutLeader(store, open), role -> takeFromFrozen(store, role, node));
                }
            }
            case LEASE ->
                untilRenewalIsDue(
                        rolesWithoutLeader(store, open), role -> begin(store, role, node, LeadershipBasis.LEASE));
        }
    }

    private Set<String> rolesWithoutLeader(ElectionStore store, Set<String> open) {
        Set<String> free = store.rolesWithoutLease(open);
        retries.forgetLed(open, free);
        return free;
    }

    /** Begins terms until the leaderships of this node must be renewed; returns the roles that were not tried. */
    private List<String> untilRenewalIsDue(Set<String> roles, Consumer<String> begin) {
        var postponed = new ArrayList<String>();
        for (String role : retries.ordered(roles)) {
            if (pace.nanos() - renewal >= 0) {
                postponed.add(role);
            } else {
                begin.accept(role);
            }
        }
        if (!postponed.isEmpty()) {
            again = true;
        }
        return postponed;
    }

    private void beginLocked(ElectionStore store, String role, UUID node) {
        if (held.contains(role)) {
            // The node has led without the lock so far.
            store.adoptLock(role, node);
            held.lock(role);
        } else if (!begin(store, role, node, LeadershipBasis.LOCK)) {
            store.unlock(List.of(role));
        }
    }

    private void takeFromFrozen(ElectionStore store, String role, UUID node) {
        if (store.evict(role)) {
            log.warn("Role {}: ended the session of its leader, which had not renewed its lease", role);
            evicted = true;
        } else {
            begin(store, role, node, LeadershipBasis.LEASE);
        }
    }

    private boolean begin(ElectionStore store, String role, UUID node, LeadershipBasis on) {
        if (!timelineKnown) {
            // One query for all terms of a pass: another timeline means another server, and so a new connection.
            timeline = store.timeline();
            timelineKnown = true;
        }
        long sent = pace.nanos();
        BeginResult result = store.begin(role, node, lease, on, retries.fencePatience(role, renewal));
        if (!(result instanceof BeginResult.Begun begun)) {
            if (result instanceof BeginResult.FenceBusy) {
                if (retries.fenceWasBusy(role)) {
                    again = true;
                }
            } else if (result instanceof BeginResult.NoTermLeft) {
                retries.noTermLeft(role);
            }
            return false;
        }
        Term term = begun.term();
        retries.begun(role);
        if (on != basis) {
            log.warn(
                    "Role {}: another session holds its advisory lock without leading. This node leads by its lease; after a"
                            + " crash the next leader has to wait until the lease ends. See pg_locks.",
                    role);
        }
        held.begin(term, token(term.number()), sent, on == LeadershipBasis.LOCK);
        won.put(role, term.number());
        publisher.accept(role, new LeadershipAcquired(role, term.number()));
        return true;
    }

    /** Returns the timeline above the term; empty if the timeline is unknown, or one of them has grown too large. */
    private OptionalLong token(long term) {
        long line = timeline.orElse(0);
        return line > 0 && line <= LAST_TIMELINE && term <= LAST_TERM
                ? OptionalLong.of((line << TERM_BITS) + term)
                : OptionalLong.empty();
    }
}
