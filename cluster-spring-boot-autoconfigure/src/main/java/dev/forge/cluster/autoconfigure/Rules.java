package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** What values may be. Every refusal names the key and the value; where two disagree, both. */
final class Rules {

    private static final String PREFIX = "forge.cluster.";

    private Rules() {}

    static void positive(String key, @Nullable Duration value) {
        require(value == null || (!value.isZero() && !value.isNegative()), key, value, "must be longer than zero");
    }

    static void notNegative(String key, @Nullable Duration value) {
        require(value == null || !value.isNegative(), key, value, "must not be negative");
    }

    static void atLeast(int least, String key, @Nullable Integer value) {
        require(value == null || value >= least, key, value, "must be at least " + least);
    }

    static void between(double least, double most, String key, double value) {
        require(value >= least && value <= most, key, value, "must lie between %s and %s".formatted(least, most));
    }

    static void notBlank(String key, @Nullable String value) {
        require(value == null || !value.isBlank(), key, value, "must not be blank");
    }

    static void shorter(String key, Duration value, String otherKey, Duration other) {
        require(value.compareTo(other) < 0, key, value, "must be shorter than " + named(otherKey, other));
    }

    static void notShorter(String key, Duration value, String otherKey, Duration other) {
        require(value.compareTo(other) >= 0, key, value, "must not be shorter than " + named(otherKey, other));
    }

    static void require(boolean holds, String key, @Nullable Object value, String otherwise) {
        if (!holds) {
            throw new ClusterStartupException(
                    named(key, value) + " " + otherwise,
                    "Change %s%s in the application's configuration.".formatted(PREFIX, key));
        }
    }

    static String named(String key, @Nullable Object value) {
        return PREFIX + key + " (" + (value instanceof Duration duration ? text(duration) : value) + ")";
    }

    /** As a person would write it in application.yml. */
    static String text(Duration duration) {
        if (duration.isZero()) {
            return "0s";
        }
        if (duration.toNanos() % 1_000_000 != 0) {
            return duration.toNanos() + "ns";
        }
        long millis = duration.toMillis();
        if (millis % 1_000 != 0) {
            return millis + "ms";
        }
        long seconds = millis / 1_000;
        if (seconds % 60 != 0) {
            return seconds + "s";
        }
        long minutes = seconds / 60;
        if (minutes % 60 != 0) {
            return minutes + "m";
        }
        long hours = minutes / 60;
        return hours % 24 != 0 ? hours + "h" : hours / 24 + "d";
    }
}
