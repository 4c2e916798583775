package dev.forge.cluster.internal.engine;

import dev.forge.cluster.CronDefinition;
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
 * The slots of a cron. An expression speaks of local times: they are found without a zone and only then become instants. So
 * a local time that does not exist has no slot, and one that the clocks show twice has one, the first.
 */
sealed interface CronSchedule {

    /** The expression of a cron that never fires. */
    String NEVER = "-";

    /** A day that lies before the first one of a short month. */
    Pattern BEFORE_THE_FIRST = Pattern.compile("L-(2[89]|[3-9]\\d|\\d{3,})", Pattern.CASE_INSENSITIVE);

    /** An interval may not be longer. */
    Duration LONGEST = Duration.ofDays(1000);

    /** A time whose slots may be counted one by one. */
    Duration COUNTED = Duration.ofHours(1);

    /** The first slot after that time; null: there is none. */
    @Nullable
    Instant next(Instant after);

    /**
     * The last slots after {@code after} and up to {@code until}, at most that many, in their order. By halves, so that years
     * of slots that nobody wants need not be counted one by one.
     */
    default List<Instant> latest(int count, Instant after, Instant until) {
        Instant first = count == 0 ? null : next(after);
        if (first == null || first.isAfter(until)) {
            return List.of();
        }
        Duration length = Duration.between(after, until);
        var slots = new ArrayDeque<Instant>();
        if (length.compareTo(COUNTED) > 0) {
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
     * Reads an expression.
     *
     * @throws IllegalArgumentException saying what is wrong with it
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
                    "'%s' is no cron expression: %s".formatted(expression, e.getMessage()), e);
        }
        var local = new Local(parsed, zone(zone).getRules());
        if (parsed.next(LocalDateTime.of(2000, 1, 1, 0, 0)) == null) {
            throw new IllegalArgumentException("'%s' never fires".formatted(expression));
        }
        return local;
    }

    /** An expression as it is stored: intervals in one form, whatever they were written in. */
    static String normal(String expression) {
        String text = expression.trim();
        return text.startsWith(CronDefinition.EVERY)
                ? CronDefinition.EVERY
                        + interval(text.substring(CronDefinition.EVERY.length()).trim())
                : text;
    }

    /** Spring would ask for six fields. */
    private static void requireFields(String text) {
        int fields = StringUtils.tokenizeToStringArray(text, " \t\n").length;
        if (!text.startsWith("@") && fields != 5 && fields != 6) {
            throw new IllegalArgumentException("it has %d fields instead of five, or six with seconds in front%s"
                    .formatted(fields, fields == 7 ? "; there is none for years" : ""));
        }
    }

    private static String sixFields(String text) {
        String[] fields = StringUtils.tokenizeToStringArray(text, " \t\n");
        if (text.startsWith("@") || fields.length < 5) {
            return text;
        }
        String day = fields[fields.length - 3];
        if (BEFORE_THE_FIRST.matcher(day).matches()) {
            // Spring answers times before the one that it was asked about.
            throw new IllegalArgumentException("not every month has a day '%s'".formatted(day));
        }
        return fields.length == 5 ? "0 " + text : text;
    }

    private static Duration interval(String text) {
        Duration interval;
        try {
            interval = DurationFormatterUtils.detectAndParse(text);
        } catch (IllegalArgumentException | ArithmeticException e) {
            throw new IllegalArgumentException("'%s' is no duration".formatted(text), e);
        }
        if (interval.compareTo(Duration.ofSeconds(1)) < 0
                || interval.compareTo(LONGEST) > 0
                || !interval.equals(Duration.ofSeconds(interval.toSeconds()))) {
            throw new IllegalArgumentException("'%s' is not a number of whole seconds, one at least and %d days at most"
                    .formatted(text, LONGEST.toDays()));
        }
        return interval;
    }

    private static ZoneId zone(String zone) {
        try {
            return ZoneId.of(zone);
        } catch (DateTimeException e) {
            throw new IllegalArgumentException("'%s' is no time zone: %s".formatted(zone, e.getMessage()), e);
        }
    }

    /** Has no slots. */
    record Never() implements CronSchedule {
        @Override
        public @Nullable Instant next(Instant after) {
            return null;
        }
    }

    /** Slots at the multiples of an interval: every node finds the same ones, and no clock change moves them. */
    record Every(Duration interval) implements CronSchedule {
        @Override
        public Instant next(Instant after) {
            long seconds = interval.toSeconds();
            return Instant.ofEpochSecond((Math.floorDiv(after.getEpochSecond(), seconds) + 1) * seconds);
        }
    }

    /** Slots at local times. */
    record Local(CronExpression expression, ZoneRules rules) implements CronSchedule {

        @Override
        public @Nullable Instant next(Instant after) {
            LocalDateTime local = LocalDateTime.ofInstant(after, rules.getOffset(after));
            while (true) {
                local = expression.next(local);
                if (local == null) {
                    return null;
                }
                List<ZoneOffset> offsets = rules.getValidOffsets(local);
                if (!offsets.isEmpty()) {
                    Instant slot = local.toInstant(offsets.get(0));
                    if (slot.isAfter(after)) {
                        return slot;
                    }
                    // The clocks show it for the second time: on with the first local time that they do not.
                    ZoneOffsetTransition repeated = rules.getTransition(local);
                    local = repeated.getDateTimeBefore().minusNanos(1);
                }
            }
        }
    }
}
