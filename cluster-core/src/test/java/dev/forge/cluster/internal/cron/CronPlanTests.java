// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import dev.forge.cluster.cron.CronRun.Outcome;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.cron.CronPlan.Decision;
import dev.forge.cluster.internal.cron.CronPlan.Policy;
import dev.forge.cluster.internal.cron.CronPlan.PreviousRun;
import dev.forge.cluster.internal.cron.CronPlan.Situation;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.EdgeCasesMode;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class CronPlanTests {

    private static final Instant NOON = Instant.parse("2026-05-05T12:00:00Z");
    private static final Duration THRESHOLD = Duration.ofMinutes(1);
    private static final Duration RETENTION = Duration.ofDays(30);
    private static final PreviousRun ACTIVE = new PreviousRun("job 7 runs", false);
    private static final PreviousRun RETRY = new PreviousRun("job 7 retries", true);
    private static final CronSchedule EVERY_SECOND = CronSchedule.of("@every 1s", "UTC");
    private static final CronSchedule HOURLY = CronSchedule.of("@hourly", "UTC");

    private static Situation at(Instant now, Instant next) {
        return new Situation(now, next, false, null, THRESHOLD, now.minus(RETENTION));
    }

    private static Situation running(Situation situation, @Nullable PreviousRun active) {
        return new Situation(
                situation.now(),
                situation.next(),
                situation.paused(),
                active,
                situation.threshold(),
                situation.purged());
    }

    private static Policy policy(Misfire misfire, Overlap overlap) {
        return new Policy(misfire, 10, overlap);
    }

    private static List<Outcome> outcomes(CronPlan plan) {
        return plan.decisions().stream().map(Decision::outcome).toList();
    }

    private static List<Instant> slots(CronPlan plan) {
        return plan.decisions().stream().map(Decision::slot).toList();
    }

    private static List<String> reasons(CronPlan plan) {
        return plan.decisions().stream().map(decision -> "" + decision.reason()).toList();
    }

    // On time -----------------------------------------------------------------------------------------------

    @Test
    void due_slot_runs_and_the_next_one_follows() {
        CronPlan plan = CronPlan.of(HOURLY, policy(Misfire.FIRE_ONCE, Overlap.SKIP), at(NOON, NOON));
        assertThat(plan.decisions()).containsExactly(new Decision(NOON, Outcome.RAN, null));
        assertThat(plan.next()).isEqualTo(NOON.plus(Duration.ofHours(1)));
    }

    @Test
    void future_slot_waits() {
        CronPlan plan = CronPlan.of(HOURLY, policy(Misfire.CATCH_UP, Overlap.SKIP), at(NOON.minusMillis(1), NOON));
        assertThat(plan).isEqualTo(new CronPlan(List.of(), NOON, false));
    }

    @ParameterizedTest
    @EnumSource(Misfire.class)
    void slot_within_the_threshold_is_no_misfire(Misfire misfire) {
        CronPlan plan = CronPlan.of(HOURLY, policy(misfire, Overlap.SKIP), at(NOON.plus(THRESHOLD), NOON));
        assertThat(plan.decisions()).containsExactly(new Decision(NOON, Outcome.RAN, null));
    }

    @Test
    void slot_past_the_threshold_is_a_misfire() {
        Situation late = at(NOON.plus(THRESHOLD).plusNanos(1000), NOON);
        assertThat(CronPlan.of(HOURLY, policy(Misfire.SKIP, Overlap.SKIP), late).decisions())
                .containsExactly(new Decision(NOON, Outcome.MISSED, "60 s late; misfire skip"));
        assertThat(CronPlan.of(HOURLY, policy(Misfire.FIRE_ONCE, Overlap.SKIP), late)
                        .decisions())
                .containsExactly(new Decision(NOON, Outcome.RAN, "60 s late"));
    }

    @Test
    void cron_without_further_slots_has_no_next_slot() {
        var last = new CronSchedule.Never();
        CronPlan plan = CronPlan.of(last, policy(Misfire.SKIP, Overlap.SKIP), at(NOON, NOON));
        assertThat(plan).isEqualTo(new CronPlan(List.of(new Decision(NOON, Outcome.RAN, null)), null, false));
    }

    // After an outage ---------------------------------------------------------------------------------------

    @ParameterizedTest
    @CsvSource({
        "SKIP, SKIP, MISSED MISSED",
        "SKIP, ALLOW, MISSED MISSED",
        "FIRE_ONCE, SKIP, MISSED RAN",
        "FIRE_ONCE, ALLOW, MISSED RAN",
        "CATCH_UP, ALLOW, RAN RAN",
    })
    void outage_over_two_slots_is_decided_by_the_misfire_policy(Misfire misfire, Overlap overlap, String expected) {
        Situation back = at(NOON.plus(Duration.ofMinutes(90)), NOON);
        CronPlan plan = CronPlan.of(HOURLY, policy(misfire, overlap), back);
        assertThat(slots(plan)).containsExactly(NOON, NOON.plus(Duration.ofHours(1)));
        assertThat(outcomes(plan).stream().map(Outcome::name).collect(Collectors.joining(" ")))
                .isEqualTo(expected);
        assertThat(plan.next()).isEqualTo(NOON.plus(Duration.ofHours(2)));
    }

    @Test
    void missed_slot_has_a_reason() {
        Situation back = at(NOON.plus(Duration.ofMinutes(90)), NOON);
        assertThat(reasons(CronPlan.of(HOURLY, policy(Misfire.FIRE_ONCE, Overlap.SKIP), back)))
                .containsExactly("5400 s late; a later slot runs instead", "1800 s late");
        assertThat(reasons(CronPlan.of(HOURLY, new Policy(Misfire.CATCH_UP, 1, Overlap.SKIP), back)))
                .containsExactly("5400 s late; catch-up limit 1", "1800 s late");
    }

    @Test
    void slot_on_time_replaces_late_slots() {
        Situation back = at(NOON.plus(Duration.ofHours(2)), NOON);
        assertThat(outcomes(CronPlan.of(HOURLY, policy(Misfire.FIRE_ONCE, Overlap.SKIP), back)))
                .containsExactly(Outcome.MISSED, Outcome.MISSED, Outcome.RAN);
        assertThat(outcomes(CronPlan.of(HOURLY, policy(Misfire.SKIP, Overlap.SKIP), back)))
                .containsExactly(Outcome.MISSED, Outcome.MISSED, Outcome.RAN);
    }

    @Test
    void catch_up_limit_keeps_the_latest_late_slots_and_ignores_the_slot_on_time() {
        Situation back = at(NOON.plus(Duration.ofHours(4)), NOON);
        CronPlan plan = CronPlan.of(HOURLY, new Policy(Misfire.CATCH_UP, 2, Overlap.ALLOW), back);
        assertThat(outcomes(plan))
                .containsExactly(Outcome.MISSED, Outcome.MISSED, Outcome.RAN, Outcome.RAN, Outcome.RAN);
        assertThat(reasons(plan))
                .containsExactly(
                        "14400 s late; catch-up limit 2",
                        "10800 s late; catch-up limit 2",
                        "7200 s late",
                        "3600 s late",
                        "null");
    }

    @Test
    void catch_up_slots_run_one_by_one() {
        Instant back = NOON.plus(Duration.ofMinutes(90));
        Policy policy = policy(Misfire.CATCH_UP, Overlap.SKIP);
        CronPlan first = CronPlan.of(HOURLY, policy, at(back, NOON));
        Instant second = NOON.plus(Duration.ofHours(1));
        assertThat(slots(first)).containsExactly(NOON);
        assertThat(first.next()).isEqualTo(second);
        CronPlan waiting = CronPlan.of(HOURLY, policy, running(at(back, second), ACTIVE));
        assertThat(waiting).isEqualTo(new CronPlan(List.of(), second, false));
        CronPlan then = CronPlan.of(HOURLY, policy, at(back, second));
        assertThat(then.decisions()).containsExactly(new Decision(second, Outcome.RAN, "1800 s late"));
        assertThat(then.next()).isEqualTo(NOON.plus(Duration.ofHours(2)));
    }

    @Test
    void catch_up_limit_holds_while_slots_wait() {
        Policy policy = new Policy(Misfire.CATCH_UP, 3, Overlap.SKIP);
        CronPlan plan = CronPlan.of(HOURLY, policy, running(at(NOON.plus(Duration.ofMinutes(310)), NOON), ACTIVE));
        assertThat(outcomes(plan)).containsExactly(Outcome.MISSED, Outcome.MISSED, Outcome.MISSED);
        assertThat(plan.next()).isEqualTo(NOON.plus(Duration.ofHours(3)));
    }

    // Overlap -----------------------------------------------------------------------------------------------

    @Test
    void slot_beside_a_running_run_is_skipped_or_overlaps() {
        Situation busy = running(at(NOON, NOON), ACTIVE);
        assertThat(CronPlan.of(HOURLY, policy(Misfire.FIRE_ONCE, Overlap.SKIP), busy)
                        .decisions())
                .containsExactly(new Decision(NOON, Outcome.SKIPPED, "job 7 runs"));
        assertThat(CronPlan.of(HOURLY, policy(Misfire.FIRE_ONCE, Overlap.ALLOW), busy)
                        .decisions())
                .containsExactly(new Decision(NOON, Outcome.RAN, null));
    }

    @ParameterizedTest
    @CsvSource({
        "SKIP, SKIP, RAN, true",
        "FIRE_ONCE, SKIP, RAN, true",
        "FIRE_ONCE, ALLOW, RAN, false",
        "CATCH_UP, SKIP, , false"
    })
    void run_that_waits_for_a_retry_is_replaced(
            Misfire misfire, Overlap overlap, @Nullable Outcome outcome, boolean replaces) {
        CronPlan plan = CronPlan.of(HOURLY, policy(misfire, overlap), running(at(NOON, NOON), RETRY));
        assertThat(outcomes(plan)).isEqualTo(outcome == null ? List.of() : List.of(outcome));
        assertThat(plan.replaces()).isEqualTo(replaces);
    }

    @Test
    void run_that_waits_for_a_retry_stays_if_no_slot_runs() {
        Situation late = running(at(NOON.plus(Duration.ofMinutes(30)), NOON), RETRY);
        assertThat(CronPlan.of(HOURLY, policy(Misfire.SKIP, Overlap.SKIP), late).replaces())
                .isFalse();
    }

    @Test
    void one_of_several_slots_on_time_runs_unless_they_may_overlap() {
        Situation three = at(NOON.plusSeconds(2), NOON);
        CronPlan apart = CronPlan.of(EVERY_SECOND, policy(Misfire.FIRE_ONCE, Overlap.SKIP), three);
        assertThat(outcomes(apart)).containsExactly(Outcome.RAN, Outcome.SKIPPED, Outcome.SKIPPED);
        assertThat(reasons(apart))
                .containsExactly(
                        "null",
                        "the run of an earlier slot was enqueued at the same time",
                        "the run of an earlier slot was enqueued at the same time");
        CronPlan beside = CronPlan.of(EVERY_SECOND, policy(Misfire.FIRE_ONCE, Overlap.ALLOW), three);
        assertThat(outcomes(beside)).containsExactly(Outcome.RAN, Outcome.RAN, Outcome.RAN);
    }

    // Pauses, retention and long outages --------------------------------------------------------------------

    @ParameterizedTest
    @EnumSource(Misfire.class)
    void paused_cron_skips_every_slot(Misfire misfire) {
        Instant now = NOON.plus(Duration.ofMinutes(90));
        var paused = new Situation(now, NOON, true, ACTIVE, THRESHOLD, now.minus(RETENTION));
        CronPlan plan = CronPlan.of(HOURLY, policy(misfire, Overlap.ALLOW), paused);
        assertThat(slots(plan)).containsExactly(NOON, NOON.plus(Duration.ofHours(1)));
        assertThat(outcomes(plan)).containsOnly(Outcome.SKIPPED);
        assertThat(reasons(plan)).containsOnly("paused");
    }

    @Test
    void slot_older_than_the_retention_gets_no_ledger_row() {
        Instant now = NOON.plus(Duration.ofDays(365)).plusSeconds(1);
        CronPlan plan = CronPlan.of(HOURLY, policy(Misfire.SKIP, Overlap.SKIP), at(now, NOON));
        assertThat(plan.decisions()).hasSize(24 * 30);
        assertThat(slots(plan).get(0)).isEqualTo(NOON.plus(Duration.ofDays(335)).plus(Duration.ofHours(1)));
    }

    @ParameterizedTest
    @CsvSource({"SKIP, 0", "FIRE_ONCE, 1", "CATCH_UP, 3"})
    void slot_older_than_the_retention_still_runs(Misfire misfire, int runs) {
        // Slots at noon of earlier days; the ledger is kept for an hour.
        CronSchedule daily = CronSchedule.of("0 12 * * *", "UTC");
        Instant now = NOON.plus(Duration.ofHours(20));
        var back = new Situation(
                now, NOON.minus(Duration.ofDays(365)), false, null, THRESHOLD, now.minus(Duration.ofHours(1)));
        CronPlan plan = CronPlan.of(daily, new Policy(misfire, 3, Overlap.ALLOW), back);
        assertThat(slots(plan))
                .isEqualTo(Stream.of(2, 1, 0)
                        .map(days -> NOON.minus(Duration.ofDays(days)))
                        .skip(3 - runs)
                        .toList());
        assertThat(outcomes(plan)).allMatch(Outcome.RAN::equals);
        assertThat(plan.next()).isEqualTo(NOON.plus(Duration.ofDays(1)));
    }

    @Test
    void short_retention_does_not_suppress_a_slot() {
        Instant now = NOON.plusSeconds(1);
        var kept = new Situation(now, NOON, false, null, THRESHOLD, now.minusMillis(1));
        assertThat(CronPlan.of(HOURLY, policy(Misfire.SKIP, Overlap.SKIP), kept).decisions())
                .containsExactly(new Decision(NOON, Outcome.RAN, null));
    }

    @Test
    void slots_of_two_thousand_years_are_not_enumerated() {
        // Five billion slots: no machine enumerates them within the timeout.
        Instant first = Instant.parse("0001-01-01T00:00:00Z");
        var back = new Situation(NOON, first, false, null, THRESHOLD, NOON.minus(Duration.ofHours(1)));
        CronSchedule everySecondOfJanuary = CronSchedule.of("* * * * 1 *", "UTC");
        CronPlan plan = assertTimeoutPreemptively(
                Duration.ofMinutes(1),
                () -> CronPlan.of(everySecondOfJanuary, new Policy(Misfire.CATCH_UP, 1000, Overlap.ALLOW), back));
        assertThat(plan.decisions()).hasSize(1000);
        assertThat(slots(plan).get(999)).isEqualTo(Instant.parse("2026-01-31T23:59:59Z"));
    }

    @ParameterizedTest
    @CsvSource({"SKIP, 0", "FIRE_ONCE, 1", "CATCH_UP, 1000"})
    void long_outage_is_decided_in_several_plans(Misfire misfire, int runs) {
        Instant now = NOON.plusSeconds(20_000);
        var policy = new Policy(misfire, 1000, Overlap.ALLOW);
        List<CronPlan> plans =
                planAll(EVERY_SECOND, policy, new Situation(now, NOON, false, null, Duration.ZERO, NOON));
        assertThat(plans)
                .hasSizeBetween(4, 6)
                .allSatisfy(plan -> assertThat(plan.decisions()).hasSizeLessThanOrEqualTo(5_000));
        List<Decision> all =
                plans.stream().flatMap(plan -> plan.decisions().stream()).toList();
        assertThat(all).hasSize(20_001);
        // The last slot is on time.
        assertThat(all.stream().filter(one -> one.outcome() == Outcome.RAN))
                .hasSize(misfire == Misfire.FIRE_ONCE ? 1 : runs + 1);
        assertThat(all.get(20_000).outcome()).isEqualTo(Outcome.RAN);
    }

    @ParameterizedTest
    @EnumSource(Overlap.class)
    void slots_on_time_are_decided_in_several_plans(Overlap overlap) {
        var situation = new Situation(NOON.plusSeconds(6_000), NOON, false, null, Duration.ofHours(3), NOON);
        List<CronPlan> plans = planAll(EVERY_SECOND, policy(Misfire.FIRE_ONCE, overlap), situation);
        assertThat(plans).hasSize(2);
        assertThat(plans.get(0).decisions()).hasSize(5_000);
        assertThat(plans.get(1).decisions()).hasSize(1_001);
        assertThat(outcomes(plans.get(1)).stream().filter(Outcome.RAN::equals))
                .hasSize(overlap == Overlap.SKIP ? 1 : 1_001);
    }

    // Properties --------------------------------------------------------------------------------------------

    /** Plans until no slot is due; each run finishes before the next plan. */
    private static List<CronPlan> planAll(CronSchedule schedule, Policy policy, Situation first) {
        var plans = new ArrayList<CronPlan>();
        Situation situation = first;
        while (true) {
            CronPlan plan = CronPlan.of(schedule, policy, situation);
            plans.add(plan);
            Instant next = plan.next();
            if (next == null || next.isAfter(first.now())) {
                return plans;
            }
            if (plan.decisions().isEmpty() && situation.previous() == null) {
                throw new AssertionError("stands still at " + next);
            }
            situation = new Situation(first.now(), next, first.paused(), null, first.threshold(), first.purged());
        }
    }

    @Provide
    Arbitrary<Case> cases() {
        return Arbitraries.oneOf(
                cases(12_000, "@every 1s", "@every 7s", "*/20 * 1-3 * * *"),
                cases(20 * 86_400, "@hourly", "*/5 * * * *", "0 2 * * *", "30 2 * * SUN", "-"));
    }

    record Case(CronSchedule schedule, Policy policy, Situation situation) {}

    private static Arbitrary<Case> cases(int farthest, String... expressions) {
        Arbitrary<CronSchedule> schedules =
                Arbitraries.of(expressions).map(text -> CronSchedule.of(text, "Europe/Berlin"));
        Arbitrary<Duration> behind = Arbitraries.oneOf(
                Arbitraries.longs().between(0, 100).map(Duration::ofSeconds),
                Arbitraries.longs().between(0, farthest).map(Duration::ofSeconds));
        Arbitrary<Policy> policies = Combinators.combine(
                        Arbitraries.of(Misfire.values()),
                        Arbitraries.integers().between(1, 1000),
                        Arbitraries.of(Overlap.values()))
                .as(Policy::new);
        Arbitrary<Duration> thresholds = Arbitraries.oneOf(
                Arbitraries.of(Duration.ZERO, THRESHOLD, Duration.ofHours(3)),
                Arbitraries.longs().between(1, 100_000).map(Duration::ofMillis));
        Arbitrary<Duration> retention = Arbitraries.longs().between(1, 5 * 24).map(Duration::ofHours);
        Arbitrary<PreviousRun> active = Arbitraries.of(ACTIVE, RETRY).injectNull(0.5);
        Instant now = Instant.parse("2026-10-30T12:34:56.789Z");
        return Combinators.combine(
                        schedules, policies, behind, thresholds, retention, active, Arbitraries.of(true, false, false))
                .as((schedule, policy, late, threshold, kept, former, paused) -> {
                    Instant next = schedule.next(now.minus(late));
                    return new Case(
                            schedule,
                            policy,
                            new Situation(
                                    now,
                                    next == null ? now.minusSeconds(1) : next,
                                    paused,
                                    former,
                                    threshold,
                                    now.minus(kept)));
                });
    }

    @Property(seed = "1", tries = 200, edgeCases = EdgeCasesMode.NONE)
    void due_slot_is_decided_once_and_in_order(@ForAll("cases") Case one) {
        Situation situation = one.situation;
        var due = new ArrayList<Instant>();
        var longPast = new ArrayList<Instant>();
        Instant threshold = situation.now().minus(situation.threshold());
        for (Instant slot = situation.next();
                slot != null && !slot.isAfter(situation.now());
                slot = one.schedule.next(slot)) {
            boolean forgotten = slot.isBefore(situation.purged()) && slot.isBefore(threshold);
            (forgotten ? longPast : due).add(slot);
        }
        long late = due.stream().filter(slot -> slot.isBefore(threshold)).count();
        long room = situation.paused()
                ? 0
                : switch (one.policy.misfire()) {
                    case SKIP -> 0;
                    case FIRE_ONCE, DEFAULT -> 1 - due.size();
                    case CATCH_UP -> one.policy.catchUpLimit() - late;
                };
        int first = (int) Math.min(longPast.size(), Math.max(0, longPast.size() - room));
        due.addAll(0, longPast.subList(first, longPast.size()));
        List<CronPlan> plans = planAll(one.schedule, one.policy, situation);
        List<Decision> all =
                plans.stream().flatMap(plan -> plan.decisions().stream()).toList();
        assertThat(all.stream().map(Decision::slot).toList()).isEqualTo(due);
        assertThat(plans).allMatch(plan -> plan.decisions().size() <= 5_000);
        Instant next = plans.get(plans.size() - 1).next();
        assertThat(next)
                .isEqualTo(
                        situation.next().isAfter(situation.now())
                                ? situation.next()
                                : one.schedule.next(situation.now()));

        long lateRuns = all.stream()
                .filter(decision ->
                        decision.outcome() == Outcome.RAN && decision.slot().isBefore(threshold))
                .count();
        assertThat(lateRuns)
                .isLessThanOrEqualTo(
                        situation.paused()
                                ? 0
                                : switch (one.policy.misfire()) {
                                    case SKIP -> 0;
                                    case FIRE_ONCE, DEFAULT -> 1;
                                    case CATCH_UP -> one.policy.catchUpLimit();
                                });
        assertThat(all).allMatch(decision -> decision.outcome() == Outcome.RAN || decision.reason() != null);
        assertThat(all)
                .allMatch(decision ->
                        decision.outcome() != Outcome.MISSED || decision.slot().isBefore(threshold));
        if (one.policy.overlap() == Overlap.SKIP) {
            assertThat(plans)
                    .allMatch(plan ->
                            outcomes(plan).stream().filter(Outcome.RAN::equals).count() <= 1);
            assertThat(situation.previous() == null
                            || plans.get(0).replaces()
                            || !outcomes(plans.get(0)).contains(Outcome.RAN))
                    .isTrue();
        }
        if (one.policy.misfire() == Misfire.CATCH_UP && !situation.paused()) {
            long wanted = due.stream().filter(slot -> slot.isBefore(threshold)).count();
            assertThat(lateRuns).isEqualTo(Math.min(wanted, one.policy.catchUpLimit()));
            assertThat(all).noneMatch(decision -> decision.outcome() == Outcome.SKIPPED);
        }
    }
}
