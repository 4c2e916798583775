package dev.forge.cluster.internal.engine;

import dev.forge.cluster.LeadershipAcquired;
import dev.forge.cluster.LeadershipLost;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.LeaderStore;
import dev.forge.cluster.internal.store.LeaderStore.Beginning;
import dev.forge.cluster.internal.store.LeaderStore.Ground;
import dev.forge.cluster.internal.store.LeaderStore.Term;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Which roles this node leads. One thread at a time takes {@link #step steps}; anybody may ask.
 *
 * <p><b>Term identity.</b> A leadership is a role and a term; it lasts without a break from {@link LeaderStore#begin} to
 * its end here. Whatever interrupts it (a lost session, a lease that another took, too long without an answer) ends it,
 * and leading again needs a new term.
 *
 * <p><b>Trust window.</b> The node believes that it leads until {@code localDeadline} after it sent the last renewal
 * that was answered. That is shorter than the lease, and the lease is shorter than the server takes to free the locks of
 * a session that was cut off. So it has stopped by itself before anybody can follow.
 *
 * <p><b>Followers.</b> They try the lock; it is free the moment a leader's session ends. A leader that is frozen keeps
 * its session: once its lease is over, a follower ends that session, or leads without the lock where it may not.
 */
final class Elector {

    private static final Logger log = GuardedLogger.of(Elector.class);

    /** How often followers look for leases that have expired although their lock is held. */
    private static final Duration LEASE_CHECK = Duration.ofMillis(500);
    /** How long to wait for fenced writes in flight before a term begins; each further attempt waits twice as long. */
    private static final Duration FENCE_PATIENCE = Duration.ofMillis(200);
    /** So many attempts to get past fenced writes follow each other at once; later ones come at the usual interval. */
    private static final int FENCE_ATTEMPTS = 3;
    /** How long a role whose fence stays blocked is left alone. */
    private static final Duration BLOCKED_PAUSE = Duration.ofSeconds(2);
    /** How much of a fencing token is the term. */
    private static final int TERM_BITS = 40;

    private static final long LAST_TERM = (1L << TERM_BITS) - 1;
    private static final long LAST_TIMELINE = (1L << (63 - TERM_BITS)) - 1;
    /** How soon the lock of an evicted leader is tried again. */
    private static final Duration AFTER_EVICTION = Duration.ofMillis(20);

    /** How election is timed. */
    record Timing(Duration checkInterval, Duration lease, Duration renewInterval, Duration localDeadline) {}

    private record Held(
            long term,
            long confirmedAt,
            long quietUntil,
            @Nullable UUID predecessor,
            boolean locked,
            boolean left,
            OptionalLong token) {
        Held confirmed(long at) {
            return new Held(term, at, quietUntil, predecessor, locked, left, token);
        }

        Held withLock() {
            return new Held(term, confirmedAt, quietUntil, predecessor, true, left, token);
        }

        Held settled(long at) {
            return new Held(term, confirmedAt, at, null, locked, left, token);
        }

        /** To be released with the next step, even if the role is joined again before. */
        Held leaving() {
            return new Held(term, confirmedAt, quietUntil, predecessor, locked, true, token);
        }
    }

    private final Timing timing;
    private final Ground ground;
    private final Pace pace;
    private final Consumer<Object> events;
    private final BlockedFences fences;
    private final Set<String> wanted = ConcurrentHashMap.newKeySet();
    private final ConcurrentMap<String, Held> held = new ConcurrentHashMap<>();
    private volatile Consumer<String> joined = role -> {};
    private volatile boolean competing;
    private volatile boolean wakened;
    private volatile boolean resigning;
    private final Map<String, Long> won = new TreeMap<>();
    /** How often in a row fenced writes have kept a term of a free role from beginning. */
    private final Map<String, Integer> fenceBusy = new HashMap<>();
    /** Roles that have no further term; each is logged once. */
    private final Set<String> withoutTerms = new HashSet<>();
    /** Roles whose fence stays blocked, or that have no further term, with when to try them again. */
    private final Map<String, Long> blockedUntil = new HashMap<>();

    /** The server's timeline, as of this pass. */
    private OptionalLong timeline = OptionalLong.empty();

    private boolean askedForTimeline;

    private long nextTry;
    private long nextRenewal;
    private long nextLeaseCheck;

    Elector(Timing timing, Ground ground, Pace pace, BlockedFences fences, Consumer<Object> events) {
        this.fences = fences;
        this.timing = timing;
        this.ground = ground;
        this.pace = pace;
        this.events = events;
        long now = pace.nanos();
        this.nextTry = now;
        this.nextRenewal = now;
        this.nextLeaseCheck = now;
    }

    void join(String role) {
        if (wanted.add(role)) {
            joined.accept(role);
        }
        wakened = true;
    }

    /** Calls the listener with each role that this node stands for, now and later; with some of them perhaps twice. */
    void onJoin(Consumer<String> listener) {
        joined = listener;
        wanted.forEach(listener);
    }

    /** Ends the present term of the role, if there is one: who joins the role again leads in a new one. */
    void leave(String role) {
        wanted.remove(role);
        held.computeIfPresent(role, (r, h) -> h.leaving());
        wakened = true;
    }

    /** Whether to stand for election at all; a node that drains does not, but leads on until it is told to resign. */
    void compete(boolean whether) {
        if (whether) {
            resigning = false;
        }
        competing = whether;
        wakened = whether;
    }

    /** Gives up what it leads with its next step, until it is told to compete again. */
    void resignSoon() {
        competing = false;
        resigning = true;
        wakened = true;
    }

    /** Somebody has released a role: try at once. */
    void wake() {
        wakened = true;
    }

    boolean isCompeting() {
        return competing;
    }

    boolean isCandidate(String role) {
        return wanted.contains(role);
    }

    boolean isLeader(String role) {
        return term(role).isPresent();
    }

    OptionalLong term(String role) {
        Held leadership = held.get(role);
        return leadership != null && leads(leadership) ? OptionalLong.of(leadership.term) : OptionalLong.empty();
    }

    OptionalLong fencingToken(String role) {
        Held leadership = held.get(role);
        return leadership != null && leads(leadership) ? leadership.token : OptionalLong.empty();
    }

    /** See {@link #fencingToken(String)}; of that very term. */
    OptionalLong fencingToken(String role, long term) {
        Held leadership = held.get(role);
        return leadership != null && leadership.term == term && leads(leadership)
                ? leadership.token
                : OptionalLong.empty();
    }

    /** The timeline above the term; empty if the server does not tell its timeline, or one of them has grown too large. */
    private OptionalLong token(long term) {
        long line = timeline.orElse(0);
        return line > 0 && line <= LAST_TIMELINE && term <= LAST_TERM
                ? OptionalLong.of((line << TERM_BITS) + term)
                : OptionalLong.empty();
    }

    /** Whether nobody else can still believe that it leads: only then may side effects begin that no fence protects. */
    boolean isUndisputed(String role) {
        Held leadership = held.get(role);
        return leadership != null && leads(leadership) && isSettled(leadership);
    }

    /** Whether it leads in that very term. */
    boolean holds(String role, long term) {
        Held leadership = held.get(role);
        return leadership != null && leadership.term == term && leads(leadership);
    }

    /** See {@link #isUndisputed(String)}; in that very term. */
    boolean isUndisputed(String role, long term) {
        Held leadership = held.get(role);
        return leadership != null && leadership.term == term && leads(leadership) && isSettled(leadership);
    }

    /**
     * Gives a role up without saying so: what this node does in it goes on, and its successor must believe that, until
     * the lease is over.
     */
    void forsake(String role) {
        wanted.remove(role);
        Held leadership = held.get(role);
        if (leadership != null) {
            end(Map.of(role, leadership), "given up, but what it does goes on");
        }
    }

    private boolean isSettled(Held leadership) {
        return pace.nanos() - leadership.quietUntil >= 0;
    }

    /** Roles that this node leads by its lease alone, although locks are in use: another session holds their lock. */
    Set<String> rolesWithoutLock() {
        return ground == Ground.LEASE
                ? Set.of()
                : held.entrySet().stream()
                        .filter(role -> !role.getValue().locked)
                        .map(Map.Entry::getKey)
                        .collect(Collectors.toCollection(TreeSet::new));
    }

    Set<String> rolesHeld() {
        return Set.copyOf(held.keySet());
    }

    /** That node is dead: it disputes nothing any more. */
    void died(UUID node) {
        long now = pace.nanos();
        held.replaceAll((role, h) -> node.equals(h.predecessor) ? h.settled(now) : h);
    }

    private boolean leads(Held leadership) {
        return !leadership.left && isTrusted(leadership);
    }

    private boolean isTrusted(Held leadership) {
        return pace.nanos() - leadership.confirmedAt < timing.localDeadline.toNanos();
    }

    /** Ends leaderships that were not confirmed in time. From a thread of its own: the stepping one may hang in a read. */
    void expireOverdue() {
        var overdue = new TreeMap<>(held);
        overdue.values().removeIf(this::isTrusted);
        end(overdue, "no answer from the database for " + timing.localDeadline.toMillis() + " ms");
    }

    /** The session is gone, and every lock with it. */
    void sessionLost() {
        end(held, "the session that held the locks has ended");
        wakened = true;
    }

    /** One round of whatever is due; answers for how long nothing will be. */
    Duration step(LeaderStore store, Runnable notifyOthers, UUID node) {
        expireOverdue();
        dropForeignLocks(store);
        resignUnwanted(store, notifyOthers, node);
        long now = pace.nanos();
        if (now - nextRenewal >= 0) {
            nextRenewal = now + timing.renewInterval.toNanos();
            renew(store, node);
        }
        boolean called = wakened;
        wakened = false;
        if (competing && (called || now - nextTry >= 0)) {
            nextTry = now + pace.stretched(timing.checkInterval).toNanos();
            compete(store, node);
        }
        long next = competing && nextTry - nextRenewal < 0 ? nextTry : nextRenewal;
        return wakened ? Duration.ZERO : Duration.ofNanos(Math.max(0, next - pace.nanos()));
    }

    /** Gives every role up. Unlocks first, then tells: who is told must find the lock free. */
    void resign(LeaderStore store, Runnable notifyOthers, UUID node) {
        competing = false;
        resign(store, notifyOthers, node, List.copyOf(held.keySet()));
    }

    // Locks outlive leaderships that ended here without the session's end: a lost renewal, an overdue confirmation.
    private final Set<String> lockedWithoutLeading = ConcurrentHashMap.newKeySet();

    private void dropForeignLocks(LeaderStore store) {
        if (!lockedWithoutLeading.isEmpty()) {
            List<String> roles = List.copyOf(lockedWithoutLeading);
            store.unlock(roles);
            roles.forEach(lockedWithoutLeading::remove);
        }
    }

    /** A new session holds nothing yet. */
    void sessionBegun() {
        lockedWithoutLeading.clear();
        wakened = true;
    }

    private void resignUnwanted(LeaderStore store, Runnable notifyOthers, UUID node) {
        var unwanted = new ArrayList<String>();
        held.forEach((role, leadership) -> {
            if (resigning || leadership.left || !wanted.contains(role)) {
                unwanted.add(role);
            }
        });
        if (!unwanted.isEmpty()) {
            resign(store, notifyOthers, node, unwanted);
        }
    }

    private void resign(LeaderStore store, Runnable notifyOthers, UUID node, Collection<String> roles) {
        var resigned = new TreeMap<>(held);
        resigned.keySet().retainAll(roles);
        // First here: from now on nobody acts on it.
        end(resigned, "released");
        resigned.forEach((role, leadership) -> store.release(role, node, isSettled(leadership)));
        dropForeignLocks(store);
        if (!resigned.isEmpty()) {
            notifyOthers.run();
        }
    }

    private void renew(LeaderStore store, UUID node) {
        Map<String, Held> leading = Map.copyOf(held);
        if (leading.isEmpty()) {
            // Who leads nothing must still notice that its session has gone: its liveness lock went with it.
            store.ping();
            return;
        }
        long sent = pace.nanos();
        Set<String> renewed = store.renew(leading.keySet(), node, timing.lease);
        var lost = new TreeMap<>(leading);
        lost.keySet().removeAll(renewed);
        // Terms begin on this thread only, so what is held now is what was renewed.
        renewed.forEach(role -> held.computeIfPresent(role, (r, h) -> h.confirmed(sent)));
        end(lost, "another node has taken over");
    }

    private void compete(LeaderStore store, UUID node) {
        won.clear();
        askedForTimeline = false;
        try {
            takeWhatIsFree(store, node);
        } finally {
            if (!won.isEmpty()) {
                log.info("leads {} (role=term)", won);
            }
        }
    }

    private void takeWhatIsFree(LeaderStore store, UUID node) {
        var open = new TreeSet<>(wanted);
        open.removeIf(role -> {
            Held leadership = held.get(role);
            return leadership != null && (leadership.locked || ground == Ground.LEASE);
        });
        blockedUntil.values().removeIf(until -> pace.nanos() - until >= 0);
        open.removeAll(blockedUntil.keySet());
        if (open.isEmpty()) {
            return;
        }
        switch (ground) {
            case LOCK -> {
                Set<String> locked = store.tryLocks(open);
                List<String> postponed = untilRenewalIsDue(locked, role -> beginLocked(store, role, node));
                store.unlock(postponed);
                open.removeAll(locked);
                open.removeAll(held.keySet());
                long now = pace.nanos();
                if (postponed.isEmpty() && !open.isEmpty() && now - nextLeaseCheck >= 0) {
                    nextLeaseCheck = now + pace.stretched(LEASE_CHECK).toNanos();
                    untilRenewalIsDue(rolesWithoutLeader(store, open), role -> takeFromFrozen(store, role, node));
                }
            }
            case LEASE ->
                untilRenewalIsDue(rolesWithoutLeader(store, open), role -> begin(store, role, node, Ground.LEASE));
        }
    }

    private Set<String> rolesWithoutLeader(LeaderStore store, Set<String> open) {
        Set<String> free = store.rolesWithoutLease(open);
        fenceBusy.keySet().removeIf(role -> open.contains(role) && !free.contains(role));
        return free;
    }

    /** Begins terms, of which each may take its time, unless what this node leads must be renewed first; answers the rest. */
    private List<String> untilRenewalIsDue(Set<String> roles, Consumer<String> begin) {
        var postponed = new ArrayList<String>();
        // Roles whose fence was busy come last: they would use up the time of those that are free, pass after pass.
        List<String> inOrder = roles.stream()
                .sorted(Comparator.comparing((String role) -> fenceBusy.getOrDefault(role, 0))
                        .thenComparing(Comparator.naturalOrder()))
                .toList();
        for (String role : inOrder) {
            if (pace.nanos() - nextRenewal >= 0) {
                postponed.add(role);
            } else {
                begin.accept(role);
            }
        }
        if (!postponed.isEmpty()) {
            wakened = true;
        }
        return postponed;
    }

    private void beginLocked(LeaderStore store, String role, UUID node) {
        Held leading = held.get(role);
        if (leading != null) {
            // Led without the lock so far; now it has that too.
            store.adoptLock(role, node);
            held.computeIfPresent(role, (r, h) -> h.withLock());
        } else if (!begin(store, role, node, Ground.LOCK)) {
            store.unlock(List.of(role));
        }
    }

    private void takeFromFrozen(LeaderStore store, String role, UUID node) {
        if (store.evict(role)) {
            log.warn("role {}: its leader did not renew its lease; ended its session", role);
            nextTry = pace.nanos() + AFTER_EVICTION.toNanos();
        } else {
            begin(store, role, node, Ground.LEASE);
        }
    }

    private boolean begin(LeaderStore store, String role, UUID node, Ground on) {
        if (!askedForTimeline) {
            // Once for all terms that begin in this pass: another timeline is another server, or a new connection.
            timeline = store.timeline();
            askedForTimeline = true;
        }
        long sent = pace.nanos();
        Beginning beginning = store.begin(role, node, timing.lease, on, fencePatience(role));
        if (!(beginning instanceof Beginning.Begun begun)) {
            if (beginning instanceof Beginning.FenceBusy) {
                fenceBusy(role);
            } else if (beginning instanceof Beginning.NoTermLeft) {
                noTermLeft(role);
            }
            return false;
        }
        Term term = begun.term();
        fenceBusy.remove(role);
        withoutTerms.remove(role);
        fences.free(role);
        if (on != ground) {
            log.warn(
                    "Role {}: another session holds its advisory lock without leading. This node leads by its lease; after a"
                            + " crash the next leader has to wait until the lease ends. See pg_locks.",
                    role);
        }
        held.put(
                role,
                new Held(
                        term.number(),
                        sent,
                        pace.nanos() + term.disputed().toNanos(),
                        term.predecessor(),
                        on == Ground.LOCK,
                        false,
                        token(term.number())));
        won.put(role, term.number());
        events.accept(new LeadershipAcquired(role, term.number()));
        return true;
    }

    private void fenceBusy(String role) {
        if (fenceBusy.merge(role, 1, Integer::sum) < FENCE_ATTEMPTS) {
            wakened = true;
        } else {
            fences.blocked(role);
            blockedUntil.put(role, pace.nanos() + BLOCKED_PAUSE.toNanos());
        }
    }

    private void noTermLeft(String role) {
        if (withoutTerms.add(role)) {
            log.error(
                    "Role {}: no node can lead it, because current_term of its row in forge_leaders is {}, the last possible term."
                            + " Only SQL can have written that. Set current_term back to the number of the last real term.",
                    role,
                    LeaderStore.LAST_TERM);
        }
        blockedUntil.put(role, pace.nanos() + BLOCKED_PAUSE.toNanos());
    }

    /** On a busy machine fenced writes take longer to commit; waiting for them must not delay the next renewal. */
    private Duration fencePatience(String role) {
        int failures = fenceBusy.getOrDefault(role, 0);
        if (failures >= FENCE_ATTEMPTS) {
            return FENCE_PATIENCE;
        }
        Duration wished = FENCE_PATIENCE.multipliedBy(1L << failures);
        Duration untilRenewal = Duration.ofNanos(nextRenewal - pace.nanos());
        Duration possible = wished.compareTo(untilRenewal) < 0 ? wished : untilRenewal;
        return possible.compareTo(FENCE_PATIENCE) < 0 ? FENCE_PATIENCE : possible;
    }

    // Each only once, and only these very leaderships: several threads may notice.
    private void end(Map<String, Held> leaderships, String reason) {
        var ended = new TreeMap<String, Long>();
        leaderships.forEach((role, leadership) -> held.computeIfPresent(role, (r, h) -> {
            if (h.term != leadership.term) {
                return h;
            }
            ended.put(r, h.term);
            if (h.locked) {
                lockedWithoutLeading.add(r);
            }
            return null;
        }));
        if (!ended.isEmpty()) {
            log.info("no longer leads {} (role=term): {}", ended, reason);
            ended.forEach((role, term) -> events.accept(new LeadershipLost(role, term)));
        }
    }
}
