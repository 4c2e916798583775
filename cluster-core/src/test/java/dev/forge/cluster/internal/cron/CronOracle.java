// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import java.time.DayOfWeek;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.zone.ZoneRules;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.Tuple;

/**
 * Finds the slots of an expression by brute force, without a parser: each expression is generated together with the meaning
 * of its fields, and the search compares the local time of every step with that meaning.
 */
final class CronOracle {

    private static final Instant FIRST = Instant.parse("1990-01-01T00:00:00Z");
    private static final Instant LAST = Instant.parse("2040-01-01T00:00:00Z");
    /** The largest change of an offset: Vostok, February 1994. */
    private static final Duration LONGEST_REPETITION = Duration.ofHours(7);

    private static final List<String> ZONES =
            ZoneId.getAvailableZoneIds().stream().sorted().toList();
    /** Zones with unusual clock changes: half an hour, a skipped day, two hours, Ramadan, quarter hours, midnight, seven hours. */
    private static final List<String> ODD_ZONES = List.of(
            "Australia/Lord_Howe",
            "Pacific/Apia",
            "Pacific/Kwajalein",
            "Antarctica/Troll",
            "Africa/Casablanca",
            "Asia/Kathmandu",
            "Pacific/Chatham",
            "America/Santiago",
            "Asia/Gaza",
            "Antarctica/Casey",
            "Antarctica/Vostok",
            "Europe/Berlin");

    private CronOracle() {}

    // Fields ------------------------------------------------------------------------------------------------

    /** A field of numbers. */
    record Numbers(String text, Set<Integer> values) {}

    /** A field that matches dates. */
    record Days(String text, Predicate<LocalDate> rule) {}

    private static Numbers each(String text, int from, int to, int step) {
        return new Numbers(
                text,
                IntStream.iterate(from, i -> i <= to, i -> i + step)
                        .boxed()
                        .collect(Collectors.toCollection(TreeSet::new)));
    }

    private static Arbitrary<Numbers> item(int from, int to) {
        Arbitrary<Integer> values = Arbitraries.integers().between(from, to);
        Arbitrary<Integer> steps = Arbitraries.integers().between(1, to);
        Arbitrary<List<Integer>> ranges =
                values.list().ofSize(2).map(ends -> ends.stream().sorted().toList());
        return Arbitraries.frequencyOf(
                Tuple.of(4, values.map(value -> each("" + value, value, value, 1))),
                Tuple.of(2, ranges.map(ends -> each(ends.get(0) + "-" + ends.get(1), ends.get(0), ends.get(1), 1))),
                Tuple.of(1, steps.map(step -> each("*/" + step, from, to, step))),
                Tuple.of(
                        1,
                        Combinators.combine(values, steps)
                                .as((start, step) -> each(start + "/" + step, start, to, step))),
                Tuple.of(
                        1,
                        Combinators.combine(ranges, steps)
                                .as((ends, step) -> each(
                                        ends.get(0) + "-" + ends.get(1) + "/" + step,
                                        ends.get(0),
                                        ends.get(1),
                                        step))));
    }

    private static Arbitrary<Numbers> listed(Arbitrary<Numbers> item) {
        return item.list()
                .ofMinSize(1)
                .ofMaxSize(3)
                .map(items -> new Numbers(
                        items.stream().map(Numbers::text).collect(Collectors.joining(",")),
                        items.stream()
                                .flatMap(one -> one.values.stream())
                                .collect(Collectors.toCollection(TreeSet::new))));
    }

    private static Arbitrary<Numbers> numbers(int from, int to) {
        return Arbitraries.frequencyOf(
                Tuple.of(1, Arbitraries.just(each("*", from, to, 1))), Tuple.of(2, listed(item(from, to))));
    }

    private static Arbitrary<Numbers> named(List<String> names) {
        Arbitrary<Integer> index = Arbitraries.integers().between(1, names.size());
        // A range from Sunday to Sunday would be a whole week.
        Arbitrary<Numbers> ranges = index.list()
                .ofSize(2)
                .uniqueElements()
                .map(ends -> ends.stream().sorted().toList())
                .map(ends -> each(
                        names.get(ends.get(0) - 1) + "-" + names.get(ends.get(1) - 1), ends.get(0), ends.get(1), 1));
        return Arbitraries.oneOf(index.map(one -> each(names.get(one - 1), one, one, 1)), ranges);
    }

    private static Arbitrary<Numbers> months() {
        return Arbitraries.frequencyOf(
                Tuple.of(5, Arbitraries.just(each("*", 1, 12, 1))),
                Tuple.of(2, listed(item(1, 12))),
                Tuple.of(
                        1,
                        listed(named(List.of(
                                "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")))));
    }

    private static Arbitrary<Days> any() {
        return Arbitraries.of("*", "?").map(text -> new Days(text, day -> true));
    }

    private static Arbitrary<Days> daysOfMonth() {
        return Arbitraries.frequencyOf(
                Tuple.of(5, any()),
                Tuple.of(
                        4,
                        listed(item(1, 31))
                                .map(days -> new Days(days.text, day -> days.values.contains(day.getDayOfMonth())))),
                Tuple.of(1, Arbitraries.just(new Days("L", day -> day.getDayOfMonth() == day.lengthOfMonth()))),
                Tuple.of(1, Arbitraries.just(new Days("LW", CronOracle::isLastWeekday))),
                Tuple.of(
                        1,
                        Arbitraries.integers()
                                .between(1, 27)
                                .map(before -> new Days(
                                        "L-" + before, day -> day.getDayOfMonth() == day.lengthOfMonth() - before))),
                Tuple.of(
                        1,
                        Arbitraries.integers()
                                .between(1, 28)
                                .map(near -> new Days(
                                        near + "W", day -> day.equals(weekdayNear(day.withDayOfMonth(near)))))));
    }

    private static boolean isWeekday(LocalDate day) {
        return day.getDayOfWeek() != DayOfWeek.SATURDAY && day.getDayOfWeek() != DayOfWeek.SUNDAY;
    }

    private static boolean isLastWeekday(LocalDate day) {
        return isWeekday(day)
                && IntStream.rangeClosed(1, day.lengthOfMonth() - day.getDayOfMonth())
                        .noneMatch(later -> isWeekday(day.plusDays(later)));
    }

    private static LocalDate weekdayNear(LocalDate day) {
        return switch (day.getDayOfWeek()) {
            case SATURDAY -> day.getDayOfMonth() == 1 ? day.plusDays(2) : day.minusDays(1);
            case SUNDAY -> day.plusDays(1);
            default -> day;
        };
    }

    private static Arbitrary<Days> daysOfWeek() {
        List<String> names = List.of("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN");
        Arbitrary<Numbers> item = Arbitraries.integers()
                .between(0, 7)
                .list()
                .ofSize(2)
                .map(ends -> ends.stream().sorted().toList())
                .map(ends -> ends.get(0).equals(ends.get(1))
                        ? each("" + ends.get(0), ends.get(0), ends.get(0), 1)
                        : each(ends.get(0) + "-" + ends.get(1), ends.get(0), ends.get(1), 1));
        Arbitrary<Integer> day = Arbitraries.integers().between(1, 7);
        return Arbitraries.frequencyOf(
                Tuple.of(6, any()),
                Tuple.of(2, listed(item).map(CronOracle::ofWeek)),
                // For "*" the first day is Monday, the last Sunday.
                Tuple.of(1, Arbitraries.integers().between(1, 7).map(step -> ofWeek(each("*/" + step, 1, 7, step)))),
                Tuple.of(1, listed(named(names)).map(CronOracle::ofWeek)),
                Tuple.of(
                        1,
                        day.map(last -> new Days(
                                names.get(last - 1) + "L",
                                date -> date.getDayOfWeek().getValue() == last
                                        && date.plusDays(7).getMonth() != date.getMonth()))),
                Tuple.of(
                        1,
                        Combinators.combine(day, Arbitraries.integers().between(1, 5))
                                .as((of, nth) -> new Days(
                                        of + "#" + nth,
                                        date -> date.getDayOfWeek().getValue() == of
                                                && (date.getDayOfMonth() - 1) / 7 + 1 == nth))));
    }

    /** Returns a field that matches the given weekdays; Sunday is both 0 and 7. */
    private static Days ofWeek(Numbers days) {
        return new Days(
                days.text,
                date -> days.values.contains(date.getDayOfWeek().getValue())
                        || (date.getDayOfWeek() == DayOfWeek.SUNDAY && days.values.contains(0)));
    }

    // Expressions -------------------------------------------------------------------------------------------

    /** An expression and its meaning. A day must match both of its fields. */
    record Expression(
            Numbers seconds, Numbers minutes, Numbers hours, Days days, Numbers months, Days weekdays, boolean five) {

        String text() {
            String rest = Stream.of(minutes.text, hours.text, days.text, months.text, weekdays.text)
                    .collect(Collectors.joining(" "));
            return five ? rest : seconds.text + " " + rest;
        }

        boolean hasDay(LocalDate day) {
            return months.values.contains(day.getMonthValue()) && days.rule.test(day) && weekdays.rule.test(day);
        }

        boolean matches(LocalDateTime time) {
            return seconds.values.contains(time.getSecond())
                    && minutes.values.contains(time.getMinute())
                    && hours.values.contains(time.getHour())
                    && hasDay(time.toLocalDate());
        }

        /**
         * Returns whether any day matches. Every combination of date and weekday recurs within 28 years, unless a century
         * lies in between.
         */
        boolean everFires() {
            return LocalDate.of(2000, 1, 1).datesUntil(LocalDate.of(2040, 1, 1)).anyMatch(this::hasDay);
        }

        List<LocalTime> times() {
            var times = new ArrayList<LocalTime>();
            hours.values.forEach(hour -> minutes.values.forEach(
                    minute -> seconds.values.forEach(second -> times.add(LocalTime.of(hour, minute, second)))));
            return times;
        }

        @Override
        public String toString() {
            return text();
        }
    }

    static Arbitrary<Expression> fiveFields() {
        return Combinators.combine(numbers(0, 59), numbers(0, 23), daysOfMonth(), months(), daysOfWeek())
                .as((minutes, hours, days, months, weekdays) ->
                        new Expression(each("0", 0, 0, 1), minutes, hours, days, months, weekdays, true));
    }

    /** Generates expressions that mostly match every hour and day: otherwise a search by seconds would find no slot. */
    static Arbitrary<Expression> sixFields() {
        Arbitrary<Numbers> hours = Arbitraries.oneOf(Arbitraries.just(each("*", 0, 23, 1)), numbers(0, 23));
        return Combinators.combine(numbers(0, 59), numbers(0, 59), hours)
                .as((seconds, minutes, hour) -> new Expression(
                        seconds,
                        minutes,
                        hour,
                        new Days("*", day -> true),
                        each("*", 1, 12, 1),
                        new Days("?", day -> true),
                        false));
    }

    /** Generates expressions that fire a few times a day, on arbitrary days. */
    static Arbitrary<Expression> sparse() {
        Function<Integer, Numbers> one = value -> each("" + value, value, value, 1);
        Arbitrary<Numbers> sixty = Arbitraries.integers().between(0, 59).map(one);
        Arbitrary<Numbers> hours = listed(Arbitraries.integers().between(0, 23).map(one));
        return Combinators.combine(sixty, sixty, hours, daysOfMonth(), months(), daysOfWeek())
                .as((second, minute, hour, days, months, weekdays) ->
                        new Expression(second, minute, hour, days, months, weekdays, false));
    }

    // Time --------------------------------------------------------------------------------------------------

    /** A time in a zone. */
    record Moment(String zone, Instant time) {
        ZoneRules rules() {
            return ZoneId.of(zone).getRules();
        }
    }

    /** Generates times, about half of which are clock changes. */
    static Arbitrary<Moment> moments() {
        Arbitrary<String> zones = Arbitraries.oneOf(Arbitraries.of(ZONES), Arbitraries.of(ODD_ZONES));
        Arbitrary<Instant> times = Arbitraries.longs()
                .between(FIRST.getEpochSecond(), LAST.getEpochSecond())
                .map(Instant::ofEpochSecond);
        return Combinators.combine(zones, times, Arbitraries.integers().between(0, 9))
                .as((zone, time, chance) -> {
                    var transition = ZoneId.of(zone).getRules().nextTransition(time);
                    boolean near = transition != null && transition.getInstant().isBefore(LAST) && chance > 0;
                    return new Moment(zone, near ? transition.getInstant() : time);
                });
    }

    static Arbitrary<Moment> anyTimes() {
        return moments().map(moment -> new Moment(moment.zone, moment.time.minus(Duration.ofDays(100))));
    }

    /**
     * Returns the slots between two times: all steps whose local time matches and has not occurred before. The search starts
     * earlier, to determine which local times have occurred.
     */
    static List<Instant> walk(Expression expression, ZoneRules rules, Instant from, Instant to, Duration step) {
        var slots = new ArrayList<Instant>();
        var seen = new HashSet<LocalDateTime>();
        long stride = step.toSeconds();
        long begin = Math.floorDiv(from.minus(LONGEST_REPETITION).getEpochSecond(), stride) * stride;
        for (long at = begin; at <= to.getEpochSecond(); at += stride) {
            Instant time = Instant.ofEpochSecond(at);
            LocalDateTime shown = LocalDateTime.ofInstant(time, rules.getOffset(time));
            if (expression.matches(shown) && seen.add(shown) && time.isAfter(from)) {
                slots.add(time);
            }
        }
        return slots;
    }

    /** Returns the first slots between two times, searched day by day because most days have no slot. */
    static List<Instant> walkDays(Expression expression, ZoneRules rules, Instant from, Instant to, int limit) {
        var slots = new ArrayList<Instant>();
        List<LocalTime> times = expression.times();
        // The local date may differ from the UTC date by a day at both ends.
        LocalDate last = LocalDate.ofInstant(to, ZoneOffset.UTC).plusDays(2);
        for (LocalDate day = LocalDate.ofInstant(from, ZoneOffset.UTC).minusDays(2);
                slots.size() < limit && day.isBefore(last);
                day = day.plusDays(1)) {
            if (expression.hasDay(day)) {
                LocalDate one = day;
                times.stream()
                        .map(one::atTime)
                        .map(time -> showings(time, rules))
                        .filter(shown -> !shown.isEmpty())
                        .map(shown -> shown.get(0))
                        .filter(slot -> slot.isAfter(from) && !slot.isAfter(to))
                        .sorted()
                        .forEach(slots::add);
            }
        }
        return slots.stream().limit(limit).toList();
    }

    /** Returns the instants of a local time, found by trying every possible offset. */
    private static List<Instant> showings(LocalDateTime time, ZoneRules rules) {
        return OFFSETS.stream()
                .map(time::toInstant)
                .filter(instant -> LocalDateTime.ofInstant(instant, rules.getOffset(instant))
                        .equals(time))
                .sorted()
                .toList();
    }

    private static final List<ZoneOffset> OFFSETS = IntStream.rangeClosed(-72, 72)
            .mapToObj(quarters -> ZoneOffset.ofTotalSeconds(quarters * 900))
            .toList();
}
