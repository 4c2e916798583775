// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.job.store.JobQueueStore.Head;
import dev.forge.cluster.internal.job.store.JobQueueStore.Mark;
import dev.forge.cluster.internal.job.store.JobQueueStore.Place;
import dev.forge.cluster.internal.job.store.JobQueueStore.Queue;
import dev.forge.cluster.internal.job.worker.WorkerSettings.LaneSettings;
import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** An executor, the jobs that are claimed for it, and what is known of their queues. Used by the claiming thread alone. */
public final class Lane {

    /** Every so many claims the oldest job comes first, whatever its priority. */
    private static final int AGING = 16;

    private static final Duration THOROUGH_CLAIMS_APART = Duration.ofSeconds(5);

    /**
     * Selects the jobs of a lane.
     *
     * @param names names of jobs; read when the claimer starts
     * @param capabilities capabilities that jobs may require; {@code ""}: none
     * @param mayClaim checked before each search and claim: code that makes it true should {@link Claimer#wake() wake} the claimer
     */
    public record Selection(
            LaneSettings settings,
            Supplier<? extends Collection<String>> names,
            List<String> capabilities,
            BooleanSupplier mayClaim) {}

    final JobExecutor executor;
    private final Selection selection;
    private List<String> names = List.of();
    private volatile Set<String> knownNames = Set.of();
    private boolean open;
    private int claims;

    /** Queues with due jobs, each with its oldest one. */
    final Map<Queue, Mark> due = new LinkedHashMap<>();

    /** Those of the due queues that were claimed from since the last search, and have more jobs. */
    private final Set<Queue> begun = new HashSet<>();

    /** When queues were last claimed from thoroughly, without those that had no more jobs at a later claim. */
    private final Map<Queue, Long> thoroughClaims = new HashMap<>();

    /** All queues that were ever seen, each with a place before which it is known to be empty. */
    final Map<Queue, Mark> marks = new HashMap<>();

    /** Where the next complete search continues if the last one did not see all queues of a name. */
    Map<Place, Integer> continued = Map.of();

    /** Queues that are skipped for the rest of this pass. */
    final Set<Queue> skipped = new HashSet<>();

    /** Whether jobs of this lane wait for an idle slot: none would ever be idle if others were prefetched meanwhile. */
    boolean keepsSlots;

    Lane(Selection selection, JobExecutor executor) {
        this.selection = selection;
        this.executor = executor;
    }

    void start() {
        names = List.copyOf(selection.names.get());
        knownNames = Set.copyOf(names);
        executor.open();
    }

    List<String> names() {
        return names;
    }

    /** Returns whether jobs of a queue are claimed for this lane. Any thread may call this. */
    boolean takes(Queue queue) {
        return knownNames.contains(queue.name()) && selection.capabilities.contains(queue.capability());
    }

    List<String> capabilities() {
        return selection.capabilities;
    }

    boolean mayClaim() {
        return selection.mayClaim.getAsBoolean();
    }

    /** Checks whether jobs may be claimed; returns true if they may and could not before. */
    boolean updateOpen() {
        boolean wasOpen = open;
        open = mayClaim();
        if (!open) {
            due.clear();
            begun.clear();
        }
        return open && !wasOpen;
    }

    boolean isSearched() {
        return open && !names.isEmpty();
    }

    boolean hasRoom() {
        return isSearched() && executor.hasRoom();
    }

    void replaceDue(List<Head> heads) {
        due.clear();
        begun.clear();
        for (Head head : heads) {
            due.put(head.queue(), head.mark());
        }
    }

    void countClaim() {
        claims++;
    }

    /**
     * Returns whether the next claim may leave out rows that another transaction has perhaps locked. The first claim after a search is
     * thorough every few seconds: it begins at the oldest job, so that no job is left out for long.
     */
    boolean mayClaimQuickly(Queue queue, long now) {
        Long thorough = thoroughClaims.get(queue);
        return thorough != null && (begun.contains(queue) || now - thorough < THOROUGH_CLAIMS_APART.toNanos());
    }

    /** Records a claim after which a queue has more jobs, beginning at the mark. */
    void claimedPart(Queue queue, Mark mark, boolean quickly, long now) {
        due.put(queue, mark);
        begun.add(queue);
        if (!quickly) {
            if (thoroughClaims.size() >= QueueSearch.MOST_MARKS) {
                thoroughClaims.clear();
            }
            thoroughClaims.put(queue, now);
        }
    }

    /** Records a claim that took all due jobs of a queue, as far as it saw them. */
    void claimedAll(Queue queue) {
        due.remove(queue);
        begun.remove(queue);
        thoroughClaims.remove(queue);
    }

    /** Returns the most urgent queue, of equally urgent ones the oldest; every {@value #AGING}th time the oldest of all. */
    @Nullable
    Queue nextQueue(Predicate<Queue> eligible) {
        Comparator<Map.Entry<Queue, Mark>> oldest = Map.Entry.comparingByValue();
        Comparator<Map.Entry<Queue, Mark>> urgent =
                Comparator.comparingInt(entry -> -entry.getKey().priority());
        return due.entrySet().stream()
                .filter(entry -> !skipped.contains(entry.getKey()) && eligible.test(entry.getKey()))
                .min(Math.floorMod(claims, AGING) == AGING - 1 ? oldest : urgent.thenComparing(oldest))
                .map(Map.Entry::getKey)
                .orElse(null);
    }
}
