// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Locale;

/** Writes times, durations and numbers of things in sentences for operators. */
public final class PlainText {

    private static final Duration LONGEST_WITH_TENTHS = Duration.ofSeconds(10);
    private static final Duration HALF_A_SECOND = Duration.ofMillis(500);

    private PlainText() {}

    /** Returns the time in UTC, without fractions of a second. */
    public static String time(Instant time) {
        return time.truncatedTo(ChronoUnit.SECONDS).toString();
    }

    /** Returns the two largest units of a duration, such as {@code 1 h 57 min}; without a sign. */
    public static String duration(Duration duration) {
        Duration length = duration.abs();
        if (length.compareTo(Duration.ofSeconds(1)) < 0) {
            return length.toMillis() + " ms";
        }
        if (length.compareTo(LONGEST_WITH_TENTHS) < 0 && length.toMillisPart() >= 100) {
            return String.format(Locale.ROOT, "%d.%d s", length.toSeconds(), length.toMillisPart() / 100);
        }
        Duration rounded = length.compareTo(LONGEST_WITH_TENTHS) < 0 ? length : length.plus(HALF_A_SECOND);
        if (rounded.toDays() > 0) {
            return together(rounded.toDays(), "d", rounded.toHoursPart(), "h");
        }
        if (rounded.toHours() > 0) {
            return together(rounded.toHours(), "h", rounded.toMinutesPart(), "min");
        }
        return rounded.toMinutes() > 0
                ? together(rounded.toMinutes(), "min", rounded.toSecondsPart(), "s")
                : rounded.toSeconds() + " s";
    }

    private static String together(long large, String unit, int small, String smallUnit) {
        return small == 0 ? large + " " + unit : "%d %s %d %s".formatted(large, unit, small, smallUnit);
    }

    /** Returns a number with what it counts, such as {@code 1 job} or {@code 2 jobs}. */
    public static String count(long number, String one, String many) {
        return number + " " + (number == 1 ? one : many);
    }
}
