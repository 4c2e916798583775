// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.follow;

import dev.forge.cluster.internal.job.row.JobDependencyStore;
import dev.forge.cluster.internal.job.row.JobDependencyStore.Candidate;
import dev.forge.cluster.internal.job.row.JobDependencyStore.Decided;
import dev.forge.cluster.internal.job.row.JobDependencyStore.Decision;
import dev.forge.cluster.internal.job.row.JobDependencyStore.Waiter;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.Portion;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Releases jobs that run after other jobs. A node that ends a job decides about those that wait for it, as long as any job waits for
 * others. The leader of the scheduler role decides about all others in turns: a node may have crashed, or somebody changed a row.
 */
public final class JobDependencyKeeper {

    private static final Logger log = GuardedLogger.of(JobDependencyKeeper.class);

    private static final int MOST_CHECKED = 500;

    /** A pass is followed by a pause that is many times as long. */
    private static final Duration LONGEST_PASS = Duration.ofMillis(200);

    private static final Duration LONGEST_SWEEP = Duration.ofSeconds(1);

    /** How many dependencies a statement reads at least: all of a job. */
    private static final int FEWEST_DEPENDENCIES = 2_000;

    private static final UUID BEFORE_ALL = new UUID(0, 0);

    private final Node node;
    private final JobDependencyStore dependencies;
    private final Runnable onReleased;
    private final Consumer<UUID> onBatchChanged;
    private final FollowUps followUps;

    private final PossibleWaiters waiters = new PossibleWaiters();

    /** Jobs that have ended, with the last of those that wait for them that was examined: a pass may end before all are. */
    private final Map<UUID, UUID> examinedUpTo = new ConcurrentHashMap<>();

    private final Portion followed = new Portion(JobDependencyStore.MOST_JOBS);
    private final Portion swept = new Portion(JobDependencyStore.MOST_JOBS);

    private @Nullable UUID last;

    /** @param onReleased called if jobs may run */
    public JobDependencyKeeper(
            Node node, JobDependencyStore dependencies, Runnable onReleased, Consumer<UUID> onBatchChanged) {
        this.node = node;
        this.dependencies = dependencies;
        this.onReleased = onReleased;
        this.onBatchChanged = onBatchChanged;
        this.followUps = new FollowUps("release-jobs", node::nanos, this::followUp);
        if (node.isStepped()) {
            followUps.neverPause();
        }
    }

    public NodeLoop loop() {
        return followUps.loop();
    }

    /** Schedules a check of the jobs that wait for this one. */
    public void ended(UUID job) {
        if (waiters.possible()) {
            examinedUpTo.remove(job);
            followUps.add(job);
        }
    }

    /** Schedules a check of a job that has begun to wait: the jobs that it waits for may have ended before. */
    public void waiting(UUID job) {
        waiters.begun();
        followUps.add(job);
    }

    /** Some job of the cluster has begun to wait. */
    public void begun() {
        waiters.begun();
    }

    /** Reads whether any job waits for others. */
    public void refresh() {
        waiters.refresh(dependencies::exist);
    }

    /** Decides about the next jobs that wait. */
    public void sweep() {
        long began = node.nanos();
        UUID before = last;
        List<UUID> next = dependencies.next(before, MOST_CHECKED);
        // Before the decision: if it fails, the next sweep must get to the other jobs nevertheless.
        last = next.size() < MOST_CHECKED ? null : next.get(next.size() - 1);
        List<Candidate> candidates =
                next.stream().map(id -> new Candidate(id, null, true)).toList();
        int examined = 0;
        while (examined < next.size() && node.nanos() - began < LONGEST_SWEEP.toNanos()) {
            examined += decide(candidates.subList(examined, next.size()), swept);
        }
        if (examined < next.size()) {
            last = examined == 0 ? before : next.get(examined - 1);
        }
        if (examined > 0) {
            forgetOthers(next.subList(0, examined), began);
        }
    }

    private void forgetOthers(List<UUID> ids, long began) {
        int forgotten;
        do {
            forgotten = dependencies.forgetOthers(ids);
        } while (forgotten == JobDependencyStore.MOST_DEPENDENCIES && node.nanos() - began < LONGEST_SWEEP.toNanos());
    }

    /** Decides about the jobs that wait for these ones, and about these, if they wait; removes those that are done. */
    private void followUp(List<UUID> ids) {
        long began = node.nanos();
        // All of the given jobs have ended before, so that one look at a job that waits for several of them is enough.
        var seen = new HashSet<UUID>();
        while (!ids.isEmpty() && node.nanos() - began < LONGEST_PASS.toNanos()) {
            List<Waiter> page = dependencies.waiters(ids, examinedUpTo.get(ids.get(0)));
            List<Candidate> candidates = candidates(ids, page, seen);
            int examined = candidates.isEmpty() ? 0 : decide(candidates, followed);
            candidates.subList(0, examined).forEach(candidate -> seen.add(candidate.id()));
            int done = page.size();
            if (examined < candidates.size()) {
                done = page.stream()
                        .map(Waiter::job)
                        .toList()
                        .indexOf(candidates.get(examined).id());
            } else if (page.size() < JobDependencyStore.MOST_JOBS) {
                removeFirst(ids, ids.size());
            }
            if (!ids.isEmpty() && done > 0) {
                Waiter lastDone = page.get(done - 1);
                removeFirst(ids, lastDone.given() - 1);
                examinedUpTo.put(ids.get(0), lastDone.own() ? BEFORE_ALL : lastDone.job());
            }
        }
    }

    private void removeFirst(List<UUID> ids, int number) {
        List<UUID> first = ids.subList(0, number);
        first.forEach(examinedUpTo::remove);
        first.clear();
    }

    /** Returns the waiting jobs of a page in its order, without those that were seen, unless their predecessor has failed. */
    private static List<Candidate> candidates(List<UUID> ids, List<Waiter> page, Set<UUID> seen) {
        var candidates = new LinkedHashMap<UUID, Candidate>();
        for (Waiter waiter : page) {
            UUID failed = waiter.failed() ? ids.get(waiter.given() - 1) : null;
            if (waiter.own() || failed != null || !seen.contains(waiter.job())) {
                candidates.merge(
                        waiter.job(),
                        new Candidate(waiter.job(), failed, waiter.own()),
                        (one, other) -> new Candidate(
                                one.id(),
                                one.failed() != null ? one.failed() : other.failed(),
                                one.whole() || other.whole()));
            }
        }
        return new ArrayList<>(candidates.values());
    }

    /**
     * Decides about the first of these jobs; returns about how many. After a failure a smaller number is tried next. A job that cannot
     * be changed at present, because another transaction has locked its row or the database rejects it, is left to the next sweep.
     */
    private int decide(List<Candidate> candidates, Portion portion) {
        int tried = Math.min(portion.size(), candidates.size());
        Decision decision;
        try {
            decision = dependencies.decide(
                    candidates.subList(0, tried),
                    Math.max(
                            FEWEST_DEPENDENCIES,
                            portion.size() * (JobDependencyStore.MOST_DEPENDENCIES / JobDependencyStore.MOST_JOBS)));
        } catch (DataAccessException e) {
            portion.failed(tried);
            if (!FollowUps.isOfRow(e)) {
                throw e;
            }
            if (tried == 1) {
                log.debug("Could not decide about {}; the next sweep will", candidates.get(0), e);
                return 1;
            }
            return 0;
        }
        portion.succeeded();
        report(decision.jobs());
        return decision.examined();
    }

    private void report(List<Decided> jobs) {
        boolean released = false;
        for (Decided decided : jobs) {
            released |= !decided.cancelled();
            UUID batch = decided.batch();
            if (decided.cancelled() && decided.awaited()) {
                ended(decided.id());
            }
            if (decided.cancelled() && batch != null) {
                onBatchChanged.accept(batch);
            }
        }
        if (released) {
            onReleased.run();
        }
    }
}
