// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The decisions about the due slots of one cron.
 *
 * @param decisions one for each slot that is decided now, oldest slot first
 * @param next the first slot that is not decided; null if there is none
 * @param replaces whether the previous run, which waits for its next attempt, must be cancelled
 */
record CronPlan(List<Decision> decisions, @Nullable Instant next, boolean replaces) {

    /** The largest number of slots in one plan; the next pass decides the rest. */
    private static final int MAX_SLOTS = 5_000;

    /** The decision about one slot. */
    record Decision(Instant slot, Outcome outcome, @Nullable String reason) {}

    /**
     * The state that a plan depends on.
     *
     * @param next the first undecided slot
     * @param previous the previous run; null if it has finished
     * @param threshold slots that are later than this are misfires
     * @param purged slots before this time get a row in the ledger only if they run
     */
    record Situation(
            Instant now,
            Instant next,
            boolean paused,
            @Nullable PreviousRun previous,
            Duration threshold,
            Instant purged) {}

    /**
     * An unfinished run.
     *
     * @param description its job, slot and state, as the ledger shows it
     * @param retry whether it has failed and waits for its next attempt
     */
    record PreviousRun(String description, boolean retry) {}

    /** The options of a cron that decide about its slots. */
    record Policy(Misfire misfire, int catchUpLimit, Overlap overlap) {}

    /** Returns the number of slots that run. */
    long runs() {
        return decisions.stream()
                .filter(decision -> decision.outcome() == Outcome.RAN)
                .count();
    }

    /** Returns the same plan with at most {@code most} runs, but at least one; later slots stay undecided. */
    CronPlan withRuns(long most) {
        long runs = 0;
        for (int i = 0; i < decisions.size(); i++) {
            if (decisions.get(i).outcome == Outcome.RAN && ++runs > Math.max(1, most)) {
                return new CronPlan(List.copyOf(decisions.subList(0, i)), decisions.get(i).slot, replaces);
            }
        }
        return this;
    }

    /** Decides the slots of a schedule that are due. */
    static CronPlan of(CronSchedule schedule, Policy policy, Situation now) {
        var plan = new ArrayList<Decision>();
        // A slot that is not late runs, however short the retention of the ledger is.
        Instant purged = earlier(now.purged, now.now.minus(now.threshold));
        var open = new ArrayDeque<Instant>(slotsBeforeLedger(schedule, policy, now, purged));
        Instant slot = now.next.isBefore(purged) ? schedule.next(purged.minusNanos(1)) : now.next;
        while (slot != null && !slot.isAfter(now.now) && plan.size() + open.size() < MAX_SLOTS) {
            open.add(slot);
            if (now.paused) {
                plan.add(new Decision(open.remove(), Outcome.SKIPPED, "paused"));
            } else if (open.size() > kept(policy, slot, now) && isLate(open.getFirst(), now)) {
                Instant passed = open.remove();
                if (!passed.isBefore(purged)) {
                    plan.add(passedOver(passed, policy, now));
                }
            }
            slot = schedule.next(slot);
        }
        boolean all = slot == null || slot.isAfter(now.now);
        // Otherwise the decision about open slots depends on slots that the plan has not reached.
        boolean replaces = (all || plan.isEmpty()) && decide(open, plan, policy, now);
        return new CronPlan(plan, open.isEmpty() ? slot : open.getFirst(), replaces);
    }

    /** Returns slots from before the retention of the ledger that run unless a later slot runs instead. */
    private static List<Instant> slotsBeforeLedger(
            CronSchedule schedule, Policy policy, Situation now, Instant purged) {
        int kept = now.paused ? 0 : kept(policy, now.next, now);
        if (kept == 0 || !now.next.isBefore(purged)) {
            return List.of();
        }
        List<Instant> latest = schedule.latest(kept, now.next, purged.minusNanos(1));
        if (latest.size() == kept) {
            return latest;
        }
        var all = new ArrayList<Instant>();
        all.add(now.next);
        all.addAll(latest);
        return all;
    }

    private static Instant earlier(Instant one, Instant other) {
        return one.isBefore(other) ? one : other;
    }

    /** Decides the open slots; returns whether the previous run must be cancelled. */
    private static boolean decide(Deque<Instant> open, List<Decision> plan, Policy policy, Situation now) {
        boolean mayNotOverlap = policy.overlap == Overlap.SKIP;
        // Otherwise a run that fails again and again would suppress all slots until its last attempt.
        boolean replaces = mayNotOverlap
                && now.previous != null
                && now.previous.retry
                && policy.misfire != Misfire.CATCH_UP
                && !open.isEmpty();
        String busy = now.previous == null || replaces ? null : now.previous.description;
        while (!open.isEmpty()) {
            Instant slot = open.getFirst();
            boolean late = isLate(slot, now);
            if (busy == null || !mayNotOverlap) {
                plan.add(new Decision(slot, Outcome.RAN, late ? lateness(slot, now) : null));
                busy = "the run of an earlier slot was enqueued at the same time";
            } else if (policy.misfire == Misfire.CATCH_UP) {
                // Slots that are caught up run one after another: this one waits for its predecessor.
                return false;
            } else {
                plan.add(new Decision(slot, Outcome.SKIPPED, busy));
            }
            open.remove();
        }
        return replaces;
    }

    private static boolean isLate(Instant slot, Situation now) {
        return slot.isBefore(now.now.minus(now.threshold));
    }

    /** Returns how many open slots are kept; beyond that number the oldest is missed if it is late. */
    private static int kept(Policy policy, Instant latest, Situation now) {
        return switch (policy.misfire) {
            case SKIP -> 0;
            case FIRE_ONCE, DEFAULT -> 1;
            // Slots that are not late do not count.
            case CATCH_UP -> isLate(latest, now) ? policy.catchUpLimit : Integer.MAX_VALUE;
        };
    }

    private static Decision passedOver(Instant slot, Policy policy, Situation now) {
        String reason = switch (policy.misfire) {
            case CATCH_UP -> "catch-up limit %d".formatted(policy.catchUpLimit);
            case SKIP -> "misfire skip";
            case FIRE_ONCE, DEFAULT -> "a later slot runs instead";
        };
        return new Decision(slot, Outcome.MISSED, lateness(slot, now) + "; " + reason);
    }

    private static String lateness(Instant slot, Situation now) {
        return "%d s late".formatted(Duration.between(slot, now.now).toSeconds());
    }
}
