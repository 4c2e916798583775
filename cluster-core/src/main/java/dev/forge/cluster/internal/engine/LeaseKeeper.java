package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.JobStore;
import dev.forge.cluster.internal.store.JobStore.ClaimKey;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.slf4j.Logger;

/**
 * Keeps the node and the table agreed on who has a job: it renews leases, notes starts and progress, and ends handlers
 * whose job may be another's.
 *
 * <p>A claim is this node's until its lease ends, which renewals move on. The node counts for itself, from when it sent
 * the last renewal that was answered: past that, or when the node itself may be taken for dead, it interrupts the
 * handler before anybody else can begin.
 */
final class LeaseKeeper {

    private static final Logger log = GuardedLogger.of(LeaseKeeper.class);

    /** How long the table may say of a job that it waits although it runs. */
    private static final Duration MARK_AFTER = Duration.ofMillis(100);

    /** When a claim of this node that it knows nothing of is given back. */
    static final Duration UNKNOWN_AFTER = Duration.ofSeconds(15);

    private final Worker.Host host;
    private final JobStore jobs;
    private final Claims claims;
    private final Duration lease;
    private final Queue<UUID> doubts = new ConcurrentLinkedQueue<>();

    LeaseKeeper(Worker.Host host, Worker.Stores stores, Claims claims, Duration lease) {
        this.host = host;
        this.jobs = stores.control();
        this.claims = claims;
        this.lease = lease;
    }

    /** Several times a second: ends what takes too long or may be another's by now. Asks nobody, so that nothing delays it. */
    void watch() {
        boolean trusted = host.isTrusted();
        long now = host.nanos();
        for (Running running : claims.all()) {
            if (running.isEnding()) {
                continue;
            }
            if (!trusted || !claims.isHeld(running)) {
                claims.lose(
                        running,
                        trusted
                                ? "its lease could not be renewed in time; does a transaction lock its row?"
                                : "the process stood still, or the database is out of reach");
                continue;
            }
            Duration timeout = running.handler().limits().timeout();
            boolean runs = running.stage() == Running.Stage.STARTED;
            if (runs && timeout != null && now - running.startedAt() > timeout.toNanos()) {
                claims.expire(running);
            }
        }
    }

    /** Writes what has gathered: starts and progress. Finds out whether jobs that may be cancelled are. */
    void note() {
        for (UUID doubtful = doubts.peek(); doubtful != null; doubtful = doubts.peek()) {
            check(doubtful);
            doubts.remove();
        }
        long now = host.nanos();
        var started = new LinkedHashMap<UUID, List<Running>>();
        claims.all().stream()
                .filter(running ->
                        running.isUnmarked() && !running.isEnding() && now - running.startedAt() > MARK_AFTER.toNanos())
                .forEach(running -> started.computeIfAbsent(running.node(), n -> new ArrayList<>())
                        .add(running));
        started.forEach(this::mark);
        claims.all().stream().filter(Running::hasProgress).forEach(this::noteProgress);
    }

    /** Those whose rows another transaction has locked are marked later. */
    private void mark(UUID node, List<Running> started) {
        Set<ClaimKey> marked =
                jobs.start(node, started.stream().map(Running::key).toList());
        started.stream().filter(running -> marked.contains(running.key())).forEach(Running::marked);
    }

    private void noteProgress(Running running) {
        String progress = running.takeProgress();
        if (progress == null) {
            return;
        }
        boolean noted = false;
        try {
            noted = jobs.noteUnlocked(running.node(), running.key(), progress);
        } finally {
            if (!noted) {
                // A locked row; a lost claim ends soon anyway.
                running.keepProgress(progress);
            }
        }
    }

    /** Shows that the jobs of this node are being worked on, and finds out which are not its any more. */
    void renew() {
        var nodes = new HashSet<UUID>();
        claims.all().forEach(running -> nodes.add(running.node()));
        UUID claimant = host.claimant();
        if (claimant != null) {
            nodes.add(claimant);
        }
        nodes.forEach(this::renew);
    }

    private void renew(UUID node) {
        List<Running> mine = claims.all().stream()
                .filter(running -> running.node().equals(node))
                .toList();
        // A transactional handler's row must not change under it; its node's life covers it.
        Map<ClaimKey, Running> plain = byKey(mine, false);
        Map<ClaimKey, Running> transactional = byKey(mine, true);
        long sent = host.nanos();
        if (!plain.isEmpty()) {
            Set<ClaimKey> renewed = jobs.renew(node, plain.keySet(), lease);
            plain.forEach((key, running) -> {
                if (renewed.contains(key)) {
                    running.confirmed(sent);
                }
            });
            // The rest is lost, or somebody has locked it. Then its lease goes on as it was, and so does our belief in
            // it.
            plain.keySet().removeAll(renewed);
            if (!plain.isEmpty()) {
                drop(plain, jobs.missing(node, plain.keySet()));
            }
        }
        if (!transactional.isEmpty()) {
            drop(transactional, jobs.missing(node, transactional.keySet()));
        }
        int unknown =
                jobs.returnUnknown(node, claims.all().stream().map(Running::id).toList(), UNKNOWN_AFTER);
        if (unknown > 0) {
            log.warn("{} jobs were claimed for this node without its knowing; returned", unknown);
        }
    }

    private static Map<ClaimKey, Running> byKey(List<Running> runnings, boolean transactional) {
        var byKey = new LinkedHashMap<ClaimKey, Running>();
        runnings.stream()
                .filter(running -> running.handler().isTransactional() == transactional)
                .forEach(running -> byKey.put(running.key(), running));
        return byKey;
    }

    // Those that have ended meanwhile are not lost: their end was written before, or is being written now.
    private void drop(Map<ClaimKey, Running> asked, Set<ClaimKey> lost) {
        lost.forEach(key -> {
            Running running = asked.get(key);
            if (running != null && claims.has(running) && !running.isEnding()) {
                claims.cancelOrLose(running, "another node has it or has ended it");
            }
        });
    }

    /** A job was called off somewhere: if it is one of ours, its handler ends with the next {@link #note()}. */
    void doubt(UUID job) {
        doubts.add(job);
    }

    private void check(UUID job) {
        List<Running> affected = claims.all().stream()
                .filter(running -> running.id().equals(job))
                .toList();
        affected.forEach(
                running -> drop(Map.of(running.key(), running), jobs.missing(running.node(), List.of(running.key()))));
    }
}
