// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.leader.ElectionStore.Term;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.leader.LeadershipLost;
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
import java.util.concurrent.ConcurrentMap;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * The terms in which this node leads, by role. Thread-safe.
 *
 * <p>A leadership counts while its last confirmed renewal was sent less than the local deadline ago. Any thread may find
 * out that it has ended; its end is logged and published once.
 */
final class HeldLeaderships {

    private static final Logger log = GuardedLogger.of(Elector.class);

    private final Pace pace;
    private final Duration localDeadline;
    private final BiConsumer<String, ClusterEvent> publisher;
    private final ConcurrentMap<String, Held> held = new ConcurrentHashMap<>();

    /**
     * Roles whose advisory lock the session still holds although the leadership has ended: a renewal was lost, or a
     * confirmation is overdue.
     */
    private final Set<String> orphanedLocks = ConcurrentHashMap.newKeySet();

    /**
     * A leadership.
     *
     * @param confirmedAt when the last renewal that succeeded was sent
     * @param undisputedAt when no former leader can believe any more that it leads
     * @param predecessor the node whose death ends the dispute; null if there is none
     * @param locked whether the session holds the advisory lock of the role
     * @param left whether the role is to be released with the next step, even if the node joins it again before
     * @param token the fencing token; empty if the server does not tell its timeline
     */
    record Held(
            long term,
            long confirmedAt,
            long undisputedAt,
            @Nullable UUID predecessor,
            boolean locked,
            boolean left,
            OptionalLong token) {

        Held confirmed(long at) {
            return new Held(term, at, undisputedAt, predecessor, locked, left, token);
        }

        Held withLock() {
            return new Held(term, confirmedAt, undisputedAt, predecessor, true, left, token);
        }

        Held undisputed(long at) {
            return new Held(term, confirmedAt, at, null, locked, left, token);
        }

        Held leaving() {
            return new Held(term, confirmedAt, undisputedAt, predecessor, locked, true, token);
        }
    }

    /** @param publisher publishes an event of a role */
    HeldLeaderships(Pace pace, Duration localDeadline, BiConsumer<String, ClusterEvent> publisher) {
        this.pace = pace;
        this.localDeadline = localDeadline;
        this.publisher = publisher;
    }

    // Queries -----------------------------------------------------------------------------------------------

    OptionalLong term(String role) {
        Held leadership = held.get(role);
        return leadership != null && leads(leadership) ? OptionalLong.of(leadership.term) : OptionalLong.empty();
    }

    OptionalLong fencingToken(String role) {
        Held leadership = held.get(role);
        return leadership != null && leads(leadership) ? leadership.token : OptionalLong.empty();
    }

    OptionalLong fencingToken(String role, long term) {
        Held leadership = held.get(role);
        return leadership != null && leadership.term == term && leads(leadership)
                ? leadership.token
                : OptionalLong.empty();
    }

    boolean leads(String role, long term) {
        Held leadership = held.get(role);
        return leadership != null && leadership.term == term && leads(leadership);
    }

    boolean isUndisputed(String role) {
        Held leadership = held.get(role);
        return leadership != null && leads(leadership) && isUndisputed(leadership);
    }

    boolean isUndisputed(String role, long term) {
        Held leadership = held.get(role);
        return leadership != null && leadership.term == term && leads(leadership) && isUndisputed(leadership);
    }

    boolean isUndisputed(Held leadership) {
        return pace.nanos() - leadership.undisputedAt >= 0;
    }

    private boolean leads(Held leadership) {
        return !leadership.left && isConfirmed(leadership);
    }

    private boolean isConfirmed(Held leadership) {
        return pace.nanos() - leadership.confirmedAt < localDeadline.toNanos();
    }

    Set<String> roles() {
        return Set.copyOf(held.keySet());
    }

    boolean contains(String role) {
        return held.containsKey(role);
    }

    boolean isLocked(String role) {
        Held leadership = held.get(role);
        return leadership != null && leadership.locked;
    }

    boolean isLeft(String role) {
        Held leadership = held.get(role);
        return leadership != null && leadership.left;
    }

    Set<String> rolesWithoutLock() {
        return held.entrySet().stream()
                .filter(role -> !role.getValue().locked)
                .map(Map.Entry::getKey)
                .collect(Collectors.toCollection(TreeSet::new));
    }

    Map<String, Held> all() {
        return Map.copyOf(held);
    }

    /** Returns the leaderships of those roles, ordered by role. */
    Map<String, Held> all(Collection<String> roles) {
        var some = new TreeMap<>(held);
        some.keySet().retainAll(roles);
        return some;
    }

    // Changes -----------------------------------------------------------------------------------------------

    /** @param sent when the statement that began the term was sent */
    void begin(Term term, OptionalLong token, long sent, boolean locked) {
        held.put(
                term.role(),
                new Held(
                        term.number(),
                        sent,
                        pace.nanos() + term.disputed().toNanos(),
                        term.predecessor(),
                        locked,
                        false,
                        token));
    }

    /** @param sent when the renewal that succeeded was sent */
    void confirm(Collection<String> roles, long sent) {
        roles.forEach(role -> held.computeIfPresent(role, (r, leadership) -> leadership.confirmed(sent)));
    }

    void lock(String role) {
        held.computeIfPresent(role, (r, leadership) -> leadership.withLock());
    }

    /** Ends the term of a role for callers; the next step releases it in the database. */
    void leave(String role) {
        held.computeIfPresent(role, (r, leadership) -> leadership.leaving());
    }

    void predecessorDied(UUID node) {
        long now = pace.nanos();
        held.replaceAll(
                (role, leadership) -> node.equals(leadership.predecessor) ? leadership.undisputed(now) : leadership);
    }

    /** Ends leaderships that were not confirmed in time. */
    void expireOverdue() {
        var overdue = new TreeMap<>(held);
        overdue.values().removeIf(this::isConfirmed);
        end(overdue, "no response from the database for " + localDeadline.toMillis() + " ms");
    }

    void endAll(String reason) {
        end(held, reason);
    }

    /** Ends these leaderships, each once: several threads may find out, and a role may have a newer term by now. */
    void end(Map<String, Held> leaderships, String reason) {
        var ended = new TreeMap<String, Long>();
        leaderships.forEach((role, leadership) -> held.computeIfPresent(role, (r, current) -> {
            if (current.term != leadership.term) {
                return current;
            }
            ended.put(r, current.term);
            if (current.locked) {
                orphanedLocks.add(r);
            }
            return null;
        }));
        if (!ended.isEmpty()) {
            log.info("No longer leads {} (role=term): {}", ended, reason);
            ended.forEach((role, term) -> publisher.accept(role, new LeadershipLost(role, term)));
        }
    }

    // Locks -------------------------------------------------------------------------------------------------

    /** Releases the locks of leaderships that have ended. */
    void unlockOrphans(ElectionStore store) {
        if (!orphanedLocks.isEmpty()) {
            List<String> roles = List.copyOf(orphanedLocks);
            store.unlock(roles);
            roles.forEach(orphanedLocks::remove);
        }
    }

    /** Called when a new session begins: it holds no lock yet. */
    void forgetLocks() {
        orphanedLocks.clear();
    }
}
