// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.leader.ElectionStore.BeginResult;
import dev.forge.cluster.internal.leader.ElectionStore.Term;
import dev.forge.cluster.internal.leader.HeldLeaderships.Held;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.leader.LeadershipAcquired;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.slf4j.Logger;

/**
 * Stands for election to roles, and knows which of them this node leads. One thread at a time takes {@link #step steps}; all
 * other methods may be called from any thread.
 *
 * <p><b>Term identity.</b> A leadership is a role and a term. It lasts without interruption from {@link ElectionStore#begin}
 * to its end here. A lost session, a lease that another node took, and a missing confirmation end it; to lead again, the node
 * needs a new term.
 *
 * <p><b>Trust window.</b> The node believes that it leads until {@code localDeadline} after it sent the last renewal that
 * succeeded. That is shorter than the lease, and the lease is shorter than the time after which the server frees the locks of a
 * session that was cut off. So the node has stopped before another node can lead.
 *
 * <p><b>Followers.</b> Followers try the lock, which is free the moment a leader's session ends. A frozen leader keeps its
 * session: once its lease has ended, a follower ends that session, or leads without the lock if it may not do so.
 */
public final class Elector {

    private static final Logger log = GuardedLogger.of(Elector.class);

    /** How often followers look for leases that have ended although the lock is held. */
    private static final Duration LEASE_CHECK = Duration.ofMillis(500);
    /** How many bits of a fencing token are the term. */
    private static final int TERM_BITS = 40;

    private static final long LAST_TERM = (1L << TERM_BITS) - 1;
    private static final long LAST_TIMELINE = (1L << (63 - TERM_BITS)) - 1;
    /** How soon the lock of an evicted leader is tried again. */
    private static final Duration AFTER_EVICTION = Duration.ofMillis(20);

    /**
     * The timing of elections.
     *
     * @param checkInterval how often to try roles that another node leads
     * @param lease how long a renewal is valid for other nodes
     * @param localDeadline how long a renewal is valid for this node
     */
    public record Timing(Duration checkInterval, Duration lease, Duration renewInterval, Duration localDeadline) {}

    private final Timing timing;
    private final LeadershipBasis basis;
    private final Pace pace;
    private final Consumer<ClusterEvent> events;
    private final HeldLeaderships held;
    private final TermRetries retries;
    private final Set<String> wanted = ConcurrentHashMap.newKeySet();
    /** Roles that components use for themselves. An entry stays when its role is left: the end of the term follows later. */
    private final Map<String, Runnable> componentRoles = new ConcurrentHashMap<>();

    private volatile Consumer<String> joinListener = role -> {};
    private volatile boolean competing;
    private volatile boolean woken;
    private volatile boolean resigning;

    // The fields below belong to the stepping thread.
    private final Map<String, Long> won = new TreeMap<>();
    private OptionalLong timeline = OptionalLong.empty();
    private boolean timelineKnown;
    private long nextTry;
    private long nextRenewal;
    private long nextLeaseCheck;

    public Elector(
            Timing timing, LeadershipBasis basis, Pace pace, BlockedFences fences, Consumer<ClusterEvent> events) {
        this.timing = timing;
        this.basis = basis;
        this.pace = pace;
        this.events = events;
        this.held = new HeldLeaderships(pace, timing.localDeadline, this::publish);
        this.retries = new TermRetries(pace, fences);
        long now = pace.nanos();
        this.nextTry = now;
        this.nextRenewal = now;
        this.nextLeaseCheck = now;
    }

    // Candidacy ---------------------------------------------------------------------------------------------

    /** Stands for a role of the application. */
    public void join(String role) {
        if (wanted.add(role)) {
            joinListener.accept(role);
        }
        woken = true;
    }

    /**
     * Stands for a role that a component of the node uses for itself. No events are published for it.
     *
     * @param changed called when this node begins or ends to lead; must not block
     */
    public void join(String role, Runnable changed) {
        componentRoles.put(role, changed);
        wanted.add(role);
        woken = true;
    }

    /** Returns the roles that this node stands for. */
    public Set<String> roles() {
        return Set.copyOf(wanted);
    }

    /** Returns whether a role is none of those that components use for themselves. */
    public boolean isOfApplication(String role) {
        return !componentRoles.containsKey(role);
    }

    private void publish(String role, ClusterEvent event) {
        Runnable changed = componentRoles.get(role);
        if (changed == null) {
            events.accept(event);
        } else {
            changed.run();
        }
    }

    /** Calls the listener with each application role that this node stands for, now and later; perhaps twice with the same. */
    public void onJoin(Consumer<String> listener) {
        joinListener = listener;
        wanted.stream().filter(this::isOfApplication).forEach(listener);
    }

    /** Stops standing for a role and ends its present term. A node that joins the role again leads in a new term. */
    public void leave(String role) {
        wanted.remove(role);
        held.leave(role);
        woken = true;
    }

    /**
     * Stops standing for a role without releasing it. This node's work in the role continues, so its successor must treat the
     * role as disputed until the lease has ended.
     */
    public void abandon(String role) {
        wanted.remove(role);
        held.end(held.all(List.of(role)), "abandoned while its work continues");
    }

    /** Starts or stops standing for election. A node that stops keeps its roles until it is told to resign. */
    public void compete(boolean whether) {
        if (whether) {
            resigning = false;
        }
        competing = whether;
        woken = whether;
    }

    /** Resigns from all roles with the next step, until the node is told to compete again. */
    public void resignSoon() {
        competing = false;
        resigning = true;
        woken = true;
    }

    /** Tries all roles with the next step: another node has released one. */
    public void wake() {
        woken = true;
    }

    public boolean isCompeting() {
        return competing;
    }

    public boolean isCandidate(String role) {
        return wanted.contains(role);
    }

    // Leaderships -------------------------------------------------------------------------------------------

    public boolean isLeader(String role) {
        return term(role).isPresent();
    }

    public OptionalLong term(String role) {
        return held.term(role);
    }

    public OptionalLong fencingToken(String role) {
        return held.fencingToken(role);
    }

    /** Returns the fencing token if this node leads the role in that term. */
    public OptionalLong fencingToken(String role, long term) {
        return held.fencingToken(role, term);
    }

    /** Returns whether this node leads the role in that term. */
    public boolean holds(String role, long term) {
        return held.leads(role, term);
    }

    /**
     * Returns whether this node leads the role and no other node can still believe that it does. Only then may side effects
     * begin that no fence protects.
     */
    public boolean isUndisputed(String role) {
        return held.isUndisputed(role);
    }

    /** Returns {@link #isUndisputed(String)} for that term. */
    public boolean isUndisputed(String role, long term) {
        return held.isUndisputed(role, term);
    }

    /** Returns roles that this node leads by its lease alone because another session holds their lock; none without locks. */
    public Set<String> rolesWithoutLock() {
        return basis == LeadershipBasis.LEASE ? Set.of() : held.rolesWithoutLock();
    }

    public Set<String> rolesHeld() {
        return held.roles();
    }

    /** Ends the disputes with a node that was declared dead. */
    public void died(UUID node) {
        held.predecessorDied(node);
    }

    /** Ends leaderships that were not confirmed in time. Runs on another thread, because the stepping one may hang in a read. */
    public void expireOverdue() {
        held.expireOverdue();
    }

    /** Ends all leaderships: the session has ended, and every lock with it. */
    public void sessionLost() {
        held.endAll("the session that held the locks has ended");
        woken = true;
    }

    /** Called when a new session has begun. */
    public void sessionBegun() {
        held.forgetLocks();
        woken = true;
    }

    // Steps -------------------------------------------------------------------------------------------------

    /** Does what is due; returns how long nothing will be due. */
    public Duration step(ElectionStore store, Runnable notifyOthers, UUID node) {
        expireOverdue();
        held.unlockOrphans(store);
        resignUnwanted(store, notifyOthers, node);
        long now = pace.nanos();
        if (now - nextRenewal >= 0) {
            nextRenewal = now + timing.renewInterval.toNanos();
            renew(store, node);
        }
        boolean wasWoken = woken;
        woken = false;
        if (competing && (wasWoken || now - nextTry >= 0)) {
            nextTry = now + pace.stretched(timing.checkInterval).toNanos();
            tryRoles(store, node);
        }
        long next = competing && nextTry - nextRenewal < 0 ? nextTry : nextRenewal;
        return woken ? Duration.ZERO : Duration.ofNanos(Math.max(0, next - pace.nanos()));
    }

    /** Resigns from all roles. */
    public void resign(ElectionStore store, Runnable notifyOthers, UUID node) {
        competing = false;
        resign(store, notifyOthers, node, held.roles());
    }

    private void resignUnwanted(ElectionStore store, Runnable notifyOthers, UUID node) {
        List<String> unwanted = held.roles().stream()
                .filter(role -> resigning || held.isLeft(role) || !wanted.contains(role))
                .toList();
        if (!unwanted.isEmpty()) {
            resign(store, notifyOthers, node, unwanted);
        }
    }

    private void resign(ElectionStore store, Runnable notifyOthers, UUID node, Collection<String> roles) {
        Map<String, Held> resigned = held.all(roles);
        // This node stops acting as leader before another node can begin.
        held.end(resigned, "released");
        resigned.forEach((role, leadership) -> store.release(role, node, held.isUndisputed(leadership)));
        // Unlocked before the notification: a notified node must find the locks free.
        held.unlockOrphans(store);
        if (!resigned.isEmpty()) {
            notifyOthers.run();
        }
    }

    private void renew(ElectionStore store, UUID node) {
        Map<String, Held> leading = held.all();
        if (leading.isEmpty()) {
            // A node that leads nothing must notice the end of its session, too: its liveness lock went with it.
            store.ping();
            return;
        }
        long sent = pace.nanos();
        Set<String> renewed = store.renew(leading.keySet(), node, timing.lease);
        var lost = new TreeMap<>(leading);
        lost.keySet().removeAll(renewed);
        // Terms begin on this thread only, so the terms held now are the renewed ones.
        held.confirm(renewed, sent);
        held.end(lost, "another node has taken over");
    }

    private void tryRoles(ElectionStore store, UUID node) {
        won.clear();
        timelineKnown = false;
        try {
            takeFreeRoles(store, node);
        } finally {
            if (!won.isEmpty()) {
                log.info("Leads {} (role=term)", won);
            }
        }
    }

    private void takeFreeRoles(ElectionStore store, UUID node) {
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
            if (pace.nanos() - nextRenewal >= 0) {
                postponed.add(role);
            } else {
                begin.accept(role);
            }
        }
        if (!postponed.isEmpty()) {
            woken = true;
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
            nextTry = pace.nanos() + AFTER_EVICTION.toNanos();
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
        BeginResult result = store.begin(role, node, timing.lease, on, retries.fencePatience(role, nextRenewal));
        if (!(result instanceof BeginResult.Begun begun)) {
            if (result instanceof BeginResult.FenceBusy) {
                if (retries.fenceWasBusy(role)) {
                    woken = true;
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
        publish(role, new LeadershipAcquired(role, term.number()));
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
