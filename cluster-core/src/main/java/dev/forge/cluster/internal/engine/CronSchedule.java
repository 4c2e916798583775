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
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.format.datetime.standard.DurationFormatterUtils;
import org.springframework.scheduling.support.CronExpression;

/**
 * The slots of a cron. An expression speaks of local times: they are found without a zone and only then become instants. So
 * a local time that does not exist has no slot, and one that the clocks show twice has one, the first.
 */
sealed interface CronSchedule {

    /** The expression of a cron that never fires. */
    String NEVER = "-";

    /** The first slot after that time; null: there is none. */
    @Nullable
    Instant next(Instant after);

    /**
     * Reads an expression.
     *
     * @throws IllegalArgumentException saying what is wrong with it
     */
    static CronSchedule of(String expression, String zone) {
        if (expression.equals(NEVER)) {
            return new Never();
        }
        if (expression.startsWith(CronDefinition.EVERY)) {
            return new Every(
                    interval(expression.substring(CronDefinition.EVERY.length()).trim()));
        }
        // Years have at most 53 weeks and seconds at most 60: only five fields leave the seconds out.
        String fields = expression.trim();
        String whole = !fields.startsWith("@") && fields.split("\\s+").length == 5 ? "0 " + fields : fields;
        CronExpression parsed;
        try {
            parsed = CronExpression.parse(whole);
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

    private static Duration interval(String text) {
        Duration interval;
        try {
            interval = DurationFormatterUtils.detectAndParse(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("'%s' is no duration".formatted(text), e);
        }
        if (interval.compareTo(Duration.ofSeconds(1)) < 0
                || !interval.equals(Duration.ofSeconds(interval.toSeconds()))) {
            throw new IllegalArgumentException("'%s' is not a number of whole seconds, one at least".formatted(text));
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
