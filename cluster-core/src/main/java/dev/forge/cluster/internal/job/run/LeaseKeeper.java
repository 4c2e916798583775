// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.run.AttemptState.Phase;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Bisect;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Function;
import org.slf4j.Logger;

/**
 * Keeps the claims of this node valid: renews leases, writes starts and progress, and stops handlers whose job another node may
 * hold.
 *
 * <p>A claim is valid until its lease expires. The node counts for itself, from the time at which it sent the last renewal that
 * succeeded. When that time is over, or when other nodes may regard this node as dead, it interrupts the handler before another
 * node can start the job.
 */
public final class LeaseKeeper {

    private static final Logger log = GuardedLogger.of(LeaseKeeper.class);

    /** How long the status of a job may stay claimed after its handler has started. */
    private static final Duration MARK_AFTER = Duration.ofMillis(100);

    /** When a claim that the node does not know of is released. */
    public static final Duration UNKNOWN_AFTER = Duration.ofSeconds(15);

    private final WorkerNode node;
    private final JobStores stores;
    private final Claims claims;
    private final Duration lease;
    private final Queue<UUID> perhapsCancelled = new ConcurrentLinkedQueue<>();

    public LeaseKeeper(WorkerNode node, JobStores stores, Claims claims, Duration lease) {
        this.node = node;
        this.stores = stores;
        this.claims = claims;
        this.lease = lease;
    }

    /** Stops handlers that exceed their timeout or whose claim may have expired. Uses no database, so that nothing delays it. */
    public void watch() {
        boolean trusted = node.isTrusted();
        long now = node.nanos();
        for (Attempt running : claims.all()) {
            if (running.isEnding()) {
                continue;
            }
            if (!trusted || !claims.isHeld(running)) {
                claims.lose(
                        running,
                        trusted
                                ? "the lease could not be renewed in time; does a transaction lock its row?"
                                : "the process stood still, or the database is unreachable");
                continue;
            }
            Duration timeout = running.limits().timeout();
            long startedAt = running.startedAt();
            boolean runs = running.phase() == Phase.RUNNING;
            if (runs && timeout != null && now - startedAt > timeout.toNanos()) {
                claims.expire(running, startedAt);
            }
        }
    }

    /** Writes starts and progress, and checks jobs that may have been cancelled. */
    public void writeProgress() {
        for (UUID job = perhapsCancelled.peek(); job != null; job = perhapsCancelled.peek()) {
            check(job);
            perhapsCancelled.remove();
        }
        long now = node.nanos();
        var started = new LinkedHashMap<UUID, List<Attempt>>();
        claims.all().stream()
                .filter(running ->
                        running.isUnmarked() && !running.isEnding() && now - running.startedAt() > MARK_AFTER.toNanos())
                .filter(running -> claims.isolation().allowsChanges(running.handler()))
                .forEach(running -> started.computeIfAbsent(running.node(), n -> new ArrayList<>())
                        .add(running));
        started.forEach(this::mark);
        claims.all().stream().filter(running -> running.notes().hasProgress()).forEach(this::writeProgress);
    }

    /** Marks jobs as running. Rows that another transaction has locked are marked later. */
    private void mark(UUID holder, List<Attempt> started) {
        Set<ClaimKey> marked = isolatingRows(
                started.stream().map(Attempt::key).toList(),
                keys -> stores.held().start(holder, keys));
        started.stream().filter(running -> marked.contains(running.key())).forEach(Attempt::marked);
    }

    private void writeProgress(Attempt running) {
        String progress = running.notes().takeProgress();
        if (progress == null) {
            return;
        }
        boolean written = false;
        try {
            written = stores.held().writeProgress(running.node(), running.key(), progress);
        } finally {
            if (!written) {
                // The row is locked. If the claim is lost, the handler ends soon.
                running.notes().keepProgress(progress);
            }
        }
    }

    /** Renews the leases of this node, and stops the handlers of jobs that it no longer holds. */
    public void renew() {
        var nodes = new HashSet<UUID>();
        claims.all().forEach(running -> nodes.add(running.node()));
        UUID current = node.claimingNode();
        if (current != null) {
            nodes.add(current);
        }
        nodes.forEach(this::renew);
    }

    private void renew(UUID holder) {
        List<Attempt> mine = claims.all().stream()
                .filter(running -> running.node().equals(holder))
                .toList();
        // The row of a transactional handler must not change; its claim is valid as long as its node lives.
        Map<ClaimKey, Attempt> leased = byKey(mine, false);
        Map<ClaimKey, Attempt> transactional = byKey(mine, true);
        long sent = node.nanos();
        if (!leased.isEmpty()) {
            Set<ClaimKey> renewed = isolatingRows(
                    List.copyOf(leased.keySet()), keys -> stores.held().renew(holder, keys, lease));
            leased.forEach((key, running) -> {
                if (renewed.contains(key)) {
                    running.confirmed(sent);
                }
            });
            // The other claims are lost, or their rows are locked: then their leases stay as they were.
            leased.keySet().removeAll(renewed);
            if (!leased.isEmpty()) {
                drop(leased, missing(holder, leased.keySet()));
            }
        }
        if (!transactional.isEmpty()) {
            drop(transactional, missing(holder, transactional.keySet()));
        }
        int unknown = stores.recoveries()
                .returnUnknown(holder, claims.all().stream().map(Attempt::id).toList(), UNKNOWN_AFTER);
        if (unknown > 0) {
            log.warn("Released {} claims unknown to this node", unknown);
            node.jobReturned();
        }
    }

    private Set<ClaimKey> missing(UUID holder, Collection<ClaimKey> keys) {
        return isolatingRows(List.copyOf(keys), some -> stores.held().missing(holder, some));
    }

    /**
     * Runs a statement on all claims, and on halves of them if it fails because of one row: the leases of the other jobs must not
     * end with it. A row that fails alone is not part of the result.
     */
    private static Set<ClaimKey> isolatingRows(List<ClaimKey> keys, Function<List<ClaimKey>, Set<ClaimKey>> statement) {
        var result = new HashSet<ClaimKey>();
        new Bisect<ClaimKey>(
                        some -> result.addAll(statement.apply(some)),
                        failure -> DatabaseFailure.kind(failure).isOfRow(),
                        Integer.MAX_VALUE,
                        (key, failure) -> log.debug("Job {}: a statement on its claim failed", key.id(), failure))
                .run(keys);
        return result;
    }

    private static Map<ClaimKey, Attempt> byKey(List<Attempt> runnings, boolean transactional) {
        var byKey = new LinkedHashMap<ClaimKey, Attempt>();
        runnings.stream()
                .filter(running -> running.handler().isTransactional() == transactional)
                .forEach(running -> byKey.put(running.key(), running));
        return byKey;
    }

    // Jobs that have ended meanwhile are not lost: their end was written before, or is being written.
    private void drop(Map<ClaimKey, Attempt> asked, Set<ClaimKey> lost) {
        lost.forEach(key -> {
            Attempt running = asked.get(key);
            if (running != null && claims.has(running) && !running.isEnding()) {
                claims.cancelOrLose(running, "another node holds or has ended it");
            }
        });
    }

    /** Stops the handler of a job that may have been cancelled, if this node runs it, with the next {@link #writeProgress()}. */
    public void checkCancelled(UUID job) {
        perhapsCancelled.add(job);
    }

    private void check(UUID job) {
        List<Attempt> affected = claims.all().stream()
                .filter(running -> running.id().equals(job))
                .toList();
        affected.forEach(running ->
                drop(Map.of(running.key(), running), stores.held().missing(running.node(), List.of(running.key()))));
    }
}
