// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.leader.HeldLeaderships.Held;
import dev.forge.cluster.internal.runtime.Pace;
import java.time.Duration;
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
    private final FreeRoles freeRoles;
    private final Set<String> wanted = ConcurrentHashMap.newKeySet();
    /** Roles that components use for themselves. An entry stays when its role is left: the end of the term follows later. */
    private final Map<String, Runnable> componentRoles = new ConcurrentHashMap<>();

    private volatile Consumer<String> joinListener = role -> {};
    private volatile boolean competing;
    private volatile boolean woken;
    private volatile boolean resigning;

    // The fields below belong to the stepping thread.
    private long nextTry;
    private long nextRenewal;

    public Elector(
            Timing timing, LeadershipBasis basis, Pace pace, BlockedFences fences, Consumer<ClusterEvent> events) {
        this.timing = timing;
        this.basis = basis;
        this.pace = pace;
        this.events = events;
        this.held = new HeldLeaderships(pace, timing.localDeadline, this::publish);
        this.freeRoles = new FreeRoles(timing.lease, basis, pace, held, new TermRetries(pace, fences), this::publish);
        long now = pace.nanos();
        this.nextTry = now;
        this.nextRenewal = now;
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

    /** Returns the roles that this node leads in the order of their names, except those of components. */
    public Set<String> applicationRolesHeld() {
        var roles = new TreeSet<>(held.roles());
        roles.removeIf(componentRoles::containsKey);
        return roles;
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
            FreeRoles.Result result = freeRoles.take(store, node, Set.copyOf(wanted), nextRenewal);
            woken |= result.again();
            if (result.evicted()) {
                nextTry = pace.nanos() + AFTER_EVICTION.toNanos();
            }
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
}
