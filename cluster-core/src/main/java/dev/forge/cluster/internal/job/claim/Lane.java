// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.job.handler.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.job.row.JobQueueStore.Head;
import dev.forge.cluster.internal.job.row.JobQueueStore.Place;
import dev.forge.cluster.internal.job.row.Mark;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.JobExecutor;
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

    /** Queues that had more jobs after the last claim from them. */
    private final Map<Queue, Backlog> backlogs = new HashMap<>();

    /** All queues that were ever seen, each with a place before which it is known to be empty. */
    final Map<Queue, Mark> marks = new HashMap<>();

    /** Where the next complete search continues if the last one did not see all queues of a name. */
    Map<Place, Integer> continued = Map.of();

    /** How far the groups of queues have come. */
    final GroupTurns turns;

    /** Queues that are skipped for the rest of this pass. */
    final Set<Queue> skipped = new HashSet<>();

    /** Whether jobs of this lane wait for an idle slot: none would ever be idle if others were prefetched meanwhile. */
    boolean keepsSlots;

    /** What is known of a queue with more jobs than a claim takes. */
    private static final class Backlog {
        /** When thorough claims from the oldest job began. */
        final long thoroughSince;
        /** How far claims have come. */
        Mark reached;
        /** Whether claims have been thorough since then. */
        boolean isThorough = true;

        Backlog(long thoroughSince, Mark reached) {
            this.thoroughSince = thoroughSince;
            this.reached = reached;
        }
    }

    Lane(Selection selection, JobExecutor executor, GroupTurns turns) {
        this.selection = selection;
        this.executor = executor;
        this.turns = turns;
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
        }
        return open && !wasOpen;
    }

    boolean isSearched() {
        return open && !names.isEmpty();
    }

    boolean hasRoom() {
        return isSearched() && executor.hasRoom();
    }

    void replaceDue(List<Head> heads, long now) {
        due.clear();
        for (Head head : heads) {
            if (!turns.isBlocked(head.queue(), now)) {
                due.put(head.queue(), head.mark());
            }
        }
    }

    /** Adds queues whose groups may start jobs again. */
    void addUnblocked(long now) {
        turns.takeUnblocked(now).forEach(queue -> due.putIfAbsent(queue, marks.getOrDefault(queue, Mark.UNMARKED)));
    }

    void countClaim() {
        claims++;
    }

    /**
     * Begins a claim; returns whether it may leave out rows that another transaction has perhaps locked. Every few seconds claims are
     * thorough from the oldest job to the place that earlier ones have reached, so that no job is left out for long.
     */
    boolean beginQuickly(Queue queue, Mark mark, long now) {
        Backlog backlog = backlogs.get(queue);
        if (backlog == null) {
            remember(queue, new Backlog(now, mark));
            return false;
        }
        boolean isBehind = mark.compareTo(backlog.reached) < 0;
        if (isBehind && now - backlog.thoroughSince > THOROUGH_CLAIMS_APART.toNanos()) {
            remember(queue, new Backlog(now, backlog.reached));
            return false;
        }
        backlog.isThorough &= isBehind;
        return !backlog.isThorough;
    }

    private void remember(Queue queue, Backlog backlog) {
        if (backlogs.size() >= SearchBudget.MOST_MARKS) {
            backlogs.clear();
        }
        backlogs.put(queue, backlog);
    }

    /** Records a claim after which a queue has more jobs, beginning at the mark. */
    void claimedPart(Queue queue, Mark mark) {
        due.put(queue, mark);
        Backlog backlog = backlogs.get(queue);
        if (backlog != null && mark.compareTo(backlog.reached) > 0) {
            backlog.reached = mark;
        }
    }

    /** Records a claim that took all due jobs of a queue, as far as it saw them. */
    void claimedAll(Queue queue) {
        due.remove(queue);
        backlogs.remove(queue);
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
