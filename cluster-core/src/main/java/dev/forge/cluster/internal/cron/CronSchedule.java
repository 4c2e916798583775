// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.cron.CronDefinition;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import java.util.ArrayDeque;
import java.util.List;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.springframework.format.datetime.standard.DurationFormatterUtils;
import org.springframework.scheduling.support.CronExpression;
import org.springframework.util.StringUtils;

/**
 * Computes the slots of a cron. An expression describes local times, which are computed without a zone and converted to
 * instants afterwards. So a local time that a clock change skips has no slot, and one that occurs twice has one slot, the first.
 */
public sealed interface CronSchedule {

    /** The expression of a cron that never fires. */
    String NEVER = "-";

    /** A day that lies before the first day of a short month. */
    Pattern BEFORE_THE_FIRST = Pattern.compile("L-(2[89]|[3-9]\\d|\\d{3,})", Pattern.CASE_INSENSITIVE);

    /** The longest interval of {@code @every}. */
    Duration LONGEST = Duration.ofDays(1000);

    /** The longest period whose slots are enumerated one by one. */
    Duration ENUMERATED = Duration.ofHours(1);

    /** Returns the first slot after that time; null if there is none. */
    @Nullable
    Instant next(Instant after);

    /**
     * Returns the last {@code count} slots after {@code after} and up to {@code until}, oldest first. Halves the period, so
     * that years of slots need not be enumerated.
     */
    default List<Instant> latest(int count, Instant after, Instant until) {
        Instant first = count == 0 ? null : next(after);
        if (first == null || first.isAfter(until)) {
            return List.of();
        }
        Duration length = Duration.between(after, until);
        var slots = new ArrayDeque<Instant>();
        if (length.compareTo(ENUMERATED) > 0) {
            Instant middle = after.plus(length.dividedBy(2));
            List<Instant> later = latest(count, middle, until);
            slots.addAll(latest(count - later.size(), after, middle));
            slots.addAll(later);
            return List.copyOf(slots);
        }
        for (Instant slot = first; slot != null && !slot.isAfter(until); slot = next(slot)) {
            slots.add(slot);
            if (slots.size() > count) {
                slots.remove();
            }
        }
        return List.copyOf(slots);
    }

    /**
     * Parses an expression.
     *
     * @throws IllegalArgumentException if the expression or the zone is invalid, or the expression never fires
     */
    static CronSchedule of(String expression, String zone) {
        String text = expression.trim();
        if (text.equals(NEVER)) {
            return new Never();
        }
        if (text.startsWith(CronDefinition.EVERY)) {
            return new Every(
                    interval(text.substring(CronDefinition.EVERY.length()).trim()));
        }
        CronExpression parsed;
        try {
            requireFields(text);
            parsed = CronExpression.parse(sixFields(text));
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(
                    "'%s' is not a cron expression: %s".formatted(expression, e.getMessage()), e);
        }
        var local = new Local(parsed, zone(zone).getRules());
        // In the zone: its clock changes may skip all times. Not earlier, because rules differed then.
        if (local.next(Instant.parse("2026-01-01T00:00:00Z")) == null) {
            throw new IllegalArgumentException("'%s' never fires".formatted(expression));
        }
        return local;
    }

    /** Returns an expression in the form in which it is stored: trimmed, with intervals in ISO 8601. */
    static String normal(String expression) {
        String text = expression.trim();
        return text.startsWith(CronDefinition.EVERY)
                ? CronDefinition.EVERY
                        + interval(text.substring(CronDefinition.EVERY.length()).trim())
                : text;
    }

    /** Checks the number of fields, because the message of Spring mentions only six. */
    private static void requireFields(String text) {
        int fields = StringUtils.tokenizeToStringArray(text, " \t\n").length;
        if (!text.startsWith("@") && fields != 5 && fields != 6) {
            throw new IllegalArgumentException("it has %d fields, expected 5, or 6 with seconds first%s"
                    .formatted(fields, fields == 7 ? "; a field for years is not supported" : ""));
        }
    }

    private static String sixFields(String text) {
        String[] fields = StringUtils.tokenizeToStringArray(text, " \t\n");
        if (text.startsWith("@") || fields.length < 5) {
            return text;
        }
        String day = fields[fields.length - 3];
        if (BEFORE_THE_FIRST.matcher(day).matches()) {
            // Spring would return times before the given one.
            throw new IllegalArgumentException("not every month has a day '%s'".formatted(day));
        }
        return fields.length == 5 ? "0 " + text : text;
    }

    private static Duration interval(String text) {
        Duration interval;
        try {
            interval = DurationFormatterUtils.detectAndParse(text);
        } catch (IllegalArgumentException | ArithmeticException e) {
            throw new IllegalArgumentException("'%s' is not a duration".formatted(text), e);
        }
        if (interval.compareTo(Duration.ofSeconds(1)) < 0
                || interval.compareTo(LONGEST) > 0
                || !interval.equals(Duration.ofSeconds(interval.toSeconds()))) {
            throw new IllegalArgumentException(
                    "'%s' must be whole seconds, between 1 second and %d days".formatted(text, LONGEST.toDays()));
        }
        return interval;
    }

    private static ZoneId zone(String zone) {
        try {
            return ZoneId.of(zone);
        } catch (DateTimeException e) {
            throw new IllegalArgumentException("'%s' is not a time zone: %s".formatted(zone, e.getMessage()), e);
        }
    }

    /** A schedule without slots. */
    record Never() implements CronSchedule {
        @Override
        public @Nullable Instant next(Instant after) {
            return null;
        }
    }

    /** Slots at multiples of an interval since the epoch: the same on every node, and unaffected by clock changes. */
    record Every(Duration interval) implements CronSchedule {
        @Override
        public Instant next(Instant after) {
            long seconds = interval.toSeconds();
            return Instant.ofEpochSecond((Math.floorDiv(after.getEpochSecond(), seconds) + 1) * seconds);
        }
    }

    /**
     * Slots at local times. Spring would shift a {@code ZonedDateTime} out of a gap, and fire twice when a clock change repeats a time.
     */
    record Local(CronExpression expression, ZoneRules rules) implements CronSchedule {

        /** A leap day on a given weekday may be 40 years away. */
        private static final int LONGEST_SEARCH_YEARS = 100;

        @Override
        public @Nullable Instant next(Instant after) {
            LocalDateTime local = LocalDateTime.ofInstant(after, rules.getOffset(after));
            int lastYear = local.getYear() + LONGEST_SEARCH_YEARS;
            while (true) {
                local = expression.next(local);
                if (local == null || local.getYear() > lastYear) {
                    return null;
                }
                List<ZoneOffset> offsets = rules.getValidOffsets(local);
                if (!offsets.isEmpty()) {
                    Instant slot = local.toInstant(offsets.get(0));
                    if (slot.isAfter(after)) {
                        return slot;
                    }
                    // A clock change repeats this local time: continue with the first one that is not repeated.
                    ZoneOffsetTransition repeated = rules.getTransition(local);
                    local = repeated.getDateTimeBefore().minusNanos(1);
                }
            }
        }
    }
}
