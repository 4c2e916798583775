// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.row.JobClaimStore.Turn;
import dev.forge.cluster.internal.job.row.JobClaimStore.Turns;
import dev.forge.cluster.internal.job.row.Queue;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Which group of a queue had the last turn on this node, and when a queue that limits have blocked is tried again: when a job of it
 * ends here, when a rate allows another start, or after a pause that grows with each try in vain. Another node that ends a
 * job of a group claims the next one itself; the pause is for jobs of dead nodes, and for nodes without a free slot.
 *
 * <p>Used by the claiming thread alone, except for {@link #ended}.
 */
final class GroupTurns {

    /** Another claim that holds the lock of a group lasts a few milliseconds. */
    private static final Duration AFTER_CONTENTION = Duration.ofMillis(3);

    private static final Duration SHORTEST_PAUSE = Duration.ofMillis(100);

    /** New jobs, and further groups, are no reason for tries that take more than a fifth of the time. */
    private static final int PAUSE_FACTOR = 4;

    private static final int MOST_ENDED = 1_000;

    private final Duration longestPause;
    private final Map<Queue, Place> places = new HashMap<>();
    private final Map<Queue, Obstacle> blocked = new HashMap<>();

    /** Groups whose jobs have ended, by the name of their handler. */
    private final Map<String, Set<String>> ended = new HashMap<>();

    /** The group that had the last turn, and how many jobs it may still start in that turn. */
    private record Place(String group, int credit) {}

    /**
     * Why a queue is not tried.
     *
     * @param handler the name of its handler
     * @param until when it is tried again
     * @param notBefore when new jobs may bring that forward
     * @param pause the present pause, which the next one doubles
     * @param taken whether {@link #takeUnblocked} has returned the queue since
     */
    private record Obstacle(String handler, long until, long notBefore, Duration pause, boolean taken) {}

    GroupTurns(Duration longestPause) {
        this.longestPause = longestPause;
    }

    /** Returns where the turns of a queue continue. */
    Turn next(Queue queue, JobHandler handler) {
        Place place = places.getOrDefault(queue, new Place("", 0));
        return new Turn(handler.name(), handler.names(), place.group, place.credit, takeEnded(handler.name()));
    }

    /**
     * Records a claim; returns whether the queue may have more jobs that can start now.
     *
     * @param began when the claim was sent
     */
    boolean claimed(Queue queue, JobHandler handler, Turns turns, int limit, long began, long now) {
        remember(queue, new Place(turns.group(), turns.credit()));
        boolean inVain = turns.jobs().isEmpty();
        Obstacle before = blocked.remove(queue);
        if (turns.jobs().size() >= limit || (!turns.complete() && !inVain)) {
            return true;
        }
        if (turns.blocked() > 0 || turns.contended() || !turns.complete()) {
            long notBefore = now + PAUSE_FACTOR * (now - began);
            Duration pause =
                    before == null || !inVain ? SHORTEST_PAUSE : min(longestPause, before.pause.multipliedBy(2));
            Long rate = turns.waitMillis();
            Duration wait = turns.contended() ? AFTER_CONTENTION : pause;
            Duration sooner = rate == null ? wait : min(wait, Duration.ofMillis(rate + 1));
            if (blocked.size() >= SearchBudget.MOST_MARKS) {
                blocked.clear();
            }
            blocked.put(
                    queue,
                    turns.complete()
                            ? new Obstacle(handler.name(), now + sooner.toNanos(), notBefore, pause, false)
                            // The next try continues with other groups.
                            : new Obstacle(handler.name(), notBefore, notBefore, SHORTEST_PAUSE, false));
        }
        return false;
    }

    private void remember(Queue queue, Place place) {
        if (places.size() >= SearchBudget.MOST_MARKS) {
            places.clear();
        }
        places.put(queue, place);
    }

    /** Returns whether a queue is not to be tried now although it has due jobs. */
    boolean isBlocked(Queue queue, long now) {
        Obstacle obstacle = blocked.get(queue);
        return obstacle != null && obstacle.until - now > 0;
    }

    /** Unblocks all queues. */
    void forgetBlocked() {
        blocked.clear();
    }

    /** Makes the next turn of a queue continue with that group. */
    void continueWith(Queue queue, String group) {
        places.put(queue, new Place(group, 1));
    }

    /** Shortens the time for which a queue with new jobs is blocked. */
    void hasNewJobs(Queue queue) {
        blocked.computeIfPresent(
                queue,
                (q, obstacle) -> new Obstacle(
                        obstacle.handler,
                        obstacle.notBefore - obstacle.until < 0 ? obstacle.notBefore : obstacle.until,
                        obstacle.notBefore,
                        obstacle.pause,
                        obstacle.taken));
    }

    /** Returns the queues whose time has come, and those of which a job has ended; they are no longer blocked. */
    List<Queue> takeUnblocked(long now) {
        if (blocked.isEmpty()) {
            return List.of();
        }
        Set<String> handlers = endedHandlers();
        var unblocked = new ArrayList<Queue>();
        blocked.forEach((queue, obstacle) -> {
            if (obstacle.until - now <= 0 || handlers.contains(obstacle.handler)) {
                unblocked.add(queue);
            }
        });
        // The obstacle stays known, because the next pause depends on it.
        unblocked.forEach(queue -> blocked.computeIfPresent(
                queue, (q, obstacle) -> new Obstacle(obstacle.handler, now, now, obstacle.pause, true)));
        return unblocked;
    }

    /** Returns the time until a queue is tried again, zero if that time has passed; null if none waits for a time. */
    @Nullable
    Duration untilNext(long now) {
        return blocked.values().stream()
                .filter(obstacle -> !obstacle.taken)
                .map(obstacle -> Duration.ofNanos(Math.max(0, obstacle.until - now)))
                .min(Duration::compareTo)
                .orElse(null);
    }

    /**
     * Records that a job has ended, or was returned. Any thread may call this.
     *
     * @param group null if the job had none
     */
    void ended(String handler, @Nullable String group) {
        synchronized (ended) {
            Set<String> groups = ended.computeIfAbsent(handler, h -> new LinkedHashSet<>());
            if (group != null && groups.size() < MOST_ENDED) {
                groups.add(group);
            }
        }
    }

    private Set<String> endedHandlers() {
        synchronized (ended) {
            return ended.isEmpty() ? Set.of() : Set.copyOf(ended.keySet());
        }
    }

    private List<String> takeEnded(String handler) {
        synchronized (ended) {
            Set<String> groups = ended.remove(handler);
            return groups == null ? List.of() : List.copyOf(groups);
        }
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }
}
