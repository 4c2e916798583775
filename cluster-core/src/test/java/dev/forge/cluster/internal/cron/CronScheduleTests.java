// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.cron.CronOracle.Expression;
import dev.forge.cluster.internal.cron.CronOracle.Moment;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.EdgeCasesMode;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CronScheduleTests {

    private static final int MANY = 1_000_000;

    private static List<Instant> slots(CronSchedule schedule, Instant from, Instant to, int limit) {
        var slots = new ArrayList<Instant>();
        Instant last = from;
        while (slots.size() < limit) {
            Instant slot = schedule.next(last);
            if (slot == null || slot.isAfter(to)) {
                break;
            }
            if (!slot.isAfter(last)) {
                throw new AssertionError("%s after %s".formatted(slot, last));
            }
            slots.add(slot);
            last = slot;
        }
        return slots;
    }

    /** Returns the local times of slots. */
    private static List<String> shown(String expression, String zone, String from, int days) {
        ZoneId id = ZoneId.of(zone);
        Instant begin = LocalDateTime.parse(from).atZone(id).toInstant();
        return slots(CronSchedule.of(expression, zone), begin, begin.plus(Duration.ofDays(days)), MANY).stream()
                .map(slot -> LocalDateTime.ofInstant(slot, id).toString())
                .toList();
    }

    // Against the oracle ------------------------------------------------------------------------------------

    @Provide
    Arbitrary<Expression> fiveFields() {
        return CronOracle.fiveFields().filter(Expression::everFires);
    }

    @Provide
    Arbitrary<Expression> sixFields() {
        return CronOracle.sixFields();
    }

    @Provide
    Arbitrary<Expression> sparse() {
        return CronOracle.sparse();
    }

    @Provide
    Arbitrary<Moment> moments() {
        return CronOracle.moments();
    }

    @Provide
    Arbitrary<Moment> anyTimes() {
        return CronOracle.anyTimes();
    }

    @Property(seed = "1", tries = 300, edgeCases = EdgeCasesMode.NONE)
    void schedule_of_minutes_fires_at_the_first_occurrence_of_each_matching_local_time(
            @ForAll("fiveFields") Expression expression, @ForAll("moments") Moment moment) {
        Instant from = moment.time().minus(Duration.ofHours(30));
        Instant to = moment.time().plus(Duration.ofHours(30));
        assertThat(slots(CronSchedule.of(expression.text(), moment.zone()), from, to, MANY))
                .isEqualTo(CronOracle.walk(expression, moment.rules(), from, to, Duration.ofMinutes(1)));
    }

    @Property(seed = "1", tries = 60, edgeCases = EdgeCasesMode.NONE)
    void schedule_of_seconds_fires_at_the_first_occurrence_of_each_matching_local_time(
            @ForAll("sixFields") Expression expression, @ForAll("moments") Moment moment) {
        Instant from = moment.time().minus(Duration.ofMinutes(70));
        Instant to = moment.time().plus(Duration.ofMinutes(70));
        assertThat(slots(CronSchedule.of(expression.text(), moment.zone()), from, to, MANY))
                .isEqualTo(CronOracle.walk(expression, moment.rules(), from, to, Duration.ofSeconds(1)));
    }

    @Property(seed = "1", tries = 300, edgeCases = EdgeCasesMode.NONE)
    void schedule_of_days_fires_on_all_matching_days_and_no_others(
            @ForAll("sparse") Expression expression, @ForAll("anyTimes") Moment moment) {
        if (!expression.everFires()) {
            assertThatExceptionOfType(IllegalArgumentException.class)
                    .isThrownBy(() -> CronSchedule.of(expression.text(), moment.zone()))
                    .withMessage("'%s' never fires", expression.text());
            return;
        }
        CronSchedule schedule = CronSchedule.of(expression.text(), moment.zone());
        Instant end = Instant.parse("2079-12-31T00:00:00Z");
        assertThat(slots(schedule, moment.time(), end, 20))
                .isEqualTo(CronOracle.walkDays(expression, moment.rules(), moment.time(), end, 20));
    }

    @Property(seed = "1", tries = 200, edgeCases = EdgeCasesMode.NONE)
    void next_slot_does_not_depend_on_the_start_of_the_search(
            @ForAll("fiveFields") Expression expression, @ForAll("moments") Moment moment, @ForAll double when) {
        CronSchedule schedule = CronSchedule.of(expression.text(), moment.zone());
        Instant first = schedule.next(moment.time());
        Instant second = schedule.next(first);
        long between = Duration.between(first, second).toNanos();
        long part = (long) (Math.abs(when % 1) * between);
        assertThat(schedule.next(first.plusNanos(Math.min(part, between - 1)))).isEqualTo(second);
        assertThat(schedule.next(second.minusNanos(1))).isEqualTo(second);
    }

    @Property(seed = "1", tries = 200, edgeCases = EdgeCasesMode.NONE)
    void intervals_are_multiples_since_1970(@ForAll("moments") Moment moment, @ForAll("seconds") int seconds) {
        CronSchedule schedule = CronSchedule.of("@every " + seconds + "s", moment.zone());
        Instant next = schedule.next(moment.time());
        assertThat(next.getEpochSecond() % seconds).isZero();
        assertThat(next).isAfter(moment.time()).isBeforeOrEqualTo(moment.time().plusSeconds(seconds));
        assertThat(schedule.next(next)).isEqualTo(next.plusSeconds(seconds));
        assertThat(schedule.next(next.plusNanos(1))).isEqualTo(next.plusSeconds(seconds));
    }

    @Provide
    Arbitrary<Integer> seconds() {
        return Arbitraries.integers().between(1, 10_000_000);
    }

    // Examples ----------------------------------------------------------------------------------------------

    @Test
    void skipped_local_time_has_no_slot() {
        assertThat(shown("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", 3))
                .containsExactly("2026-03-28T02:30", "2026-03-30T02:30");
        assertThat(shown("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", 3))
                .containsExactly("2026-10-03T02:15", "2026-10-05T02:15");
        assertThat(shown("30 1 * * *", "Antarctica/Troll", "2026-03-28T00:00", 2))
                .containsExactly("2026-03-28T01:30", "2026-03-30T01:30");
        assertThat(shown("0 0 * * *", "America/Santiago", "2026-09-05T12:00", 3))
                .containsExactly("2026-09-07T00:00", "2026-09-08T00:00");
    }

    @Test
    void skipped_day_has_no_slot() {
        assertThat(shown("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00", 3))
                .containsExactly("2011-12-29T12:00", "2011-12-31T12:00", "2012-01-01T12:00");
        Instant end = Instant.parse("2011-12-30T09:59:59Z");
        assertThat(CronSchedule.of("* * * * * *", "Pacific/Apia").next(end)).isEqualTo(end.plusSeconds(1));
    }

    @Test
    void repeated_local_time_has_one_slot_the_first() {
        assertThat(shown("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00", 3))
                .containsExactly("2026-10-24T02:30", "2026-10-25T02:30", "2026-10-26T02:30");
        assertThat(slots(
                        CronSchedule.of("30 2 25 10 *", "Europe/Berlin"),
                        Instant.parse("2026-10-01T00:00:00Z"),
                        Instant.parse("2026-11-01T00:00:00Z"),
                        MANY))
                .containsExactly(Instant.parse("2026-10-25T00:30:00Z"));
        assertThat(shown("30 2 * * *", "Africa/Casablanca", "2026-02-14T00:00", 3))
                .containsExactly("2026-02-14T02:30", "2026-02-15T02:30", "2026-02-16T02:30");
    }

    @Test
    void repeated_hour_has_no_slots_and_the_next_hour_has() {
        CronSchedule everyTenMinutes = CronSchedule.of("*/10 * * * *", "Europe/Berlin");
        assertThat(slots(
                        everyTenMinutes,
                        Instant.parse("2026-10-25T00:35:00Z"),
                        Instant.parse("2026-10-25T02:15:00Z"),
                        MANY))
                .containsExactly(
                        Instant.parse("2026-10-25T00:40:00Z"),
                        Instant.parse("2026-10-25T00:50:00Z"),
                        Instant.parse("2026-10-25T02:00:00Z"),
                        Instant.parse("2026-10-25T02:10:00Z"));
    }

    @Test
    void interval_ignores_clock_changes() {
        assertThat(slots(
                        CronSchedule.of("@every 30m", "Europe/Berlin"),
                        Instant.parse("2026-10-25T00:00:00Z"),
                        Instant.parse("2026-10-25T02:00:00Z"),
                        MANY))
                .hasSize(4);
    }

    @ParameterizedTest
    @CsvSource({
        "@hourly, 2026-01-01T01:00:00Z",
        "@daily, 2026-01-02T00:00:00Z",
        "@midnight, 2026-01-02T00:00:00Z",
        "@weekly, 2026-01-04T00:00:00Z",
        "@monthly, 2026-02-01T00:00:00Z",
        "@yearly, 2027-01-01T00:00:00Z",
        "@annually, 2027-01-01T00:00:00Z",
        "@every PT90S, 2026-01-01T00:01:30Z",
        "@every 12h, 2026-01-01T12:00:00Z",
        "' 5   4 * * * ', 2026-01-01T04:05:00Z",
        "'7 5 4 * * *', 2026-01-01T04:05:07Z",
        "'0 12 * * MON-FRI', 2026-01-01T12:00:00Z",
        "'0 12 13 * FRI', 2026-02-13T12:00:00Z",
    })
    void expression_may_be_a_macro_an_interval_or_five_or_six_fields(String expression, Instant next) {
        assertThat(CronSchedule.of(expression, "UTC").next(Instant.parse("2026-01-01T00:00:00Z")))
                .isEqualTo(next);
    }

    @ParameterizedTest
    @ValueSource(strings = {"-", " - "})
    void dash_never_fires(String dash) {
        assertThat(CronSchedule.of(dash, "UTC").next(Instant.EPOCH)).isNull();
    }

    @Test
    void expression_that_fires_once_in_decades_is_accepted() {
        CronSchedule leapMonday = CronSchedule.of("0 0 29 2 MON", "UTC");
        assertThat(leapMonday.next(Instant.parse("2017-01-01T00:00:00Z")))
                .isEqualTo(Instant.parse("2044-02-29T00:00:00Z"));
    }

    // Invalid expressions -----------------------------------------------------------------------------------

    private static void assertRejected(String expression, String zone, String message) {
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(() -> CronSchedule.of(expression, zone))
                .withMessageContaining(message);
    }

    @ParameterizedTest
    @ValueSource(strings = {"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 1 * MON#3", "0 0 * * TUE#6"})
    void expression_that_never_fires_is_rejected(String expression) {
        assertRejected(expression, "UTC", "'" + expression + "' never fires");
    }

    /** The clock skips the hour of these expressions every year, on exactly their day. */
    @ParameterizedTest
    @CsvSource({"30 2 25-31 3 SUN, Europe/Berlin", "30 2 8-14 3 SUN, America/New_York"})
    @Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void expression_whose_times_are_all_skipped_by_clock_changes_never_fires(String expression, String zone) {
        assertRejected(expression, zone, "'" + expression + "' never fires");
        assertThat(CronSchedule.of(expression, "UTC").next(Instant.EPOCH)).isNotNull();
    }

    @Test
    void leap_day_on_a_weekday_is_found_across_a_century_without_a_leap_day() {
        assertThat(CronSchedule.of("0 0 29 2 SAT", "Europe/Berlin").next(Instant.parse("2076-03-01T00:00:00Z")))
                .isEqualTo(Instant.parse("2116-02-28T23:00:00Z"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "*",
                "* * * *",
                "* * * * * * *",
                "60 * * * *",
                "a b c d e",
                "@fortnightly",
                "@every",
                "*/0 * * * *",
                "5-1 * * * *"
            })
    void invalid_expression_is_rejected(String expression) {
        assertRejected(expression, "UTC", "'" + expression + "' is not a cron expression: ");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "0 6 * *|it has 4 fields, expected 5, or 6 with seconds first",
                "0 0 12 * * ? 2027|it has 7 fields, expected 5, or 6 with seconds first; a field for years is not supported"
            })
    void wrong_number_of_fields_is_reported(String expression, String message) {
        assertRejected(expression, "UTC", "'" + expression + "' is not a cron expression: " + message);
    }

    @ParameterizedTest
    @ValueSource(strings = {"Mars/Olympus", "GMT+25", "", "europe/berlin"})
    void invalid_zone_is_rejected(String zone) {
        assertRejected("* * * * *", zone, "'" + zone + "' is not a time zone: ");
    }

    @ParameterizedTest
    @CsvSource({
        "@every soon, is not a duration",
        "@every 0s, must be whole seconds",
        "@every -5s, must be whole seconds",
        "@every 500ms, must be whole seconds",
        "@every 1500ms, must be whole seconds",
        "@every PT0.5S, must be whole seconds",
        "@every 1001d, must be whole seconds",
        "@every 100000000000000d, must be whole seconds",
        "@every 10000000000000000000d, is not a duration",
    })
    void interval_must_be_whole_seconds(String expression, String message) {
        assertRejected(expression, "UTC", "'%s' %s".formatted(expression.substring(7), message));
    }

    @ParameterizedTest
    @ValueSource(strings = {"0 0 L-28 * *", "0 0 0 L-30 * *", "0 0 L-31 * ?"})
    void offset_from_the_last_day_that_short_months_lack_is_rejected(String expression) {
        assertRejected(
                expression, "UTC", "'" + expression + "' is not a cron expression: not every month has a day 'L-");
    }
}
