package dev.forge.cluster.internal.engine;

import dev.forge.cluster.CronRun.Outcome;
import dev.forge.cluster.Misfire;
import dev.forge.cluster.Overlap;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What becomes of the slots of one cron that are due.
 *
 * @param decisions one for each slot that is decided now, in their order
 * @param next the first slot that is not; null: there is none
 * @param replaces whether the former run, which only waits for another try, must make room
 */
record CronPlan(List<Decision> decisions, @Nullable Instant next, boolean replaces) {

    /** How many slots are decided at once; more come with the next pass. */
    private static final int MOST = 5_000;

    /** What becomes of one slot. */
    record Decision(Instant slot, Outcome outcome, @Nullable String reason) {}

    /**
     * What the plan depends on.
     *
     * @param next the first slot that is undecided
     * @param former the former run, if it has not ended
     * @param forgotten slots before that time leave a row in the ledger only if they run
     */
    record Situation(
            Instant now,
            Instant next,
            boolean paused,
            @Nullable Former former,
            Duration threshold,
            Instant forgotten) {}

    /**
     * A run that has not ended.
     *
     * @param what which one, and what it is at
     * @param retry whether it has failed and only waits for another try
     */
    record Former(String what, boolean retry) {}

    /** How a cron wants it. */
    record Policy(Misfire misfire, int catchUpLimit, Overlap overlap) {}

    /** How many runs it has. */
    long runs() {
        return decisions.stream()
                .filter(decision -> decision.outcome() == Outcome.RAN)
                .count();
    }

    /** The same with so many runs at most, one at least; the slots of the others are decided later. */
    CronPlan withRuns(long most) {
        long runs = 0;
        for (int i = 0; i < decisions.size(); i++) {
            if (decisions.get(i).outcome == Outcome.RAN && ++runs > Math.max(1, most)) {
                return new CronPlan(List.copyOf(decisions.subList(0, i)), decisions.get(i).slot, replaces);
            }
        }
        return this;
    }

    static CronPlan of(CronSchedule schedule, Policy policy, Situation now) {
        var plan = new ArrayList<Decision>();
        // What is not late runs, whatever the ledger keeps.
        Instant forgotten = earlier(now.forgotten, now.now.minus(now.threshold));
        var open = new ArrayDeque<Instant>(longPast(schedule, policy, now, forgotten));
        Instant slot = now.next.isBefore(forgotten) ? schedule.next(forgotten.minusNanos(1)) : now.next;
        while (slot != null && !slot.isAfter(now.now) && plan.size() + open.size() < MOST) {
            open.add(slot);
            if (now.paused) {
                plan.add(new Decision(open.remove(), Outcome.SKIPPED, "paused"));
            } else if (open.size() > kept(policy, slot, now) && isLate(open.getFirst(), now)) {
                Instant passed = open.remove();
                if (!passed.isBefore(forgotten)) {
                    plan.add(passedOver(passed, policy, now));
                }
            }
            slot = schedule.next(slot);
        }
        boolean all = slot == null || slot.isAfter(now.now);
        // Otherwise what becomes of the open ones depends on slots that have not been looked at yet.
        boolean replaces = (all || plan.isEmpty()) && decide(open, plan, policy, now);
        return new CronPlan(plan, open.isEmpty() ? slot : open.getFirst(), replaces);
    }

    /** Slots from before the ledger's time that run if no later one takes their place. */
    private static List<Instant> longPast(CronSchedule schedule, Policy policy, Situation now, Instant forgotten) {
        int kept = now.paused ? 0 : kept(policy, now.next, now);
        if (kept == 0 || !now.next.isBefore(forgotten)) {
            return List.of();
        }
        List<Instant> latest = schedule.latest(kept, now.next, forgotten.minusNanos(1));
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

    /** Answers whether the former run must make room. */
    private static boolean decide(Deque<Instant> open, List<Decision> plan, Policy policy, Situation now) {
        boolean apart = policy.overlap == Overlap.SKIP;
        // A run that fails again and again would otherwise silence all slots until it has failed for good.
        boolean replaces = apart
                && now.former != null
                && now.former.retry
                && policy.misfire != Misfire.CATCH_UP
                && !open.isEmpty();
        String busy = now.former == null || replaces ? null : now.former.what;
        while (!open.isEmpty()) {
            Instant slot = open.getFirst();
            boolean late = isLate(slot, now);
            if (busy == null || !apart) {
                plan.add(new Decision(slot, Outcome.RAN, late ? lateness(slot, now) : null));
                busy = "the run of an earlier slot has only just begun";
            } else if (policy.misfire == Misfire.CATCH_UP) {
                // One after another: this one waits for its turn.
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

    /** How many open slots there may be before the oldest, if it is late, is passed over. */
    private static int kept(Policy policy, Instant latest, Situation now) {
        return switch (policy.misfire) {
            case SKIP -> 0;
            case FIRE_ONCE, DEFAULT -> 1;
            // Those that are not late do not count.
            case CATCH_UP -> isLate(latest, now) ? policy.catchUpLimit : Integer.MAX_VALUE;
        };
    }

    private static Decision passedOver(Instant slot, Policy policy, Situation now) {
        String why = switch (policy.misfire) {
            case CATCH_UP -> "catch-up limit %d".formatted(policy.catchUpLimit);
            case SKIP -> "misfire skip";
            case FIRE_ONCE, DEFAULT -> "a later slot runs for it";
        };
        return new Decision(slot, Outcome.MISSED, lateness(slot, now) + "; " + why);
    }

    private static String lateness(Instant slot, Situation now) {
        return "%d s late".formatted(Duration.between(slot, now.now).toSeconds());
    }
}
