// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.value;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import java.time.Duration;
import java.util.Collection;
import org.jspecify.annotations.Nullable;

/** What values may be. Every refusal names the key and the value; where two disagree, both. */
public final class PropertyRules {

    private static final String PREFIX = "forge.cluster.";

    /** Deadlines are kept in milliseconds. */
    public static final Duration SHORTEST = Duration.ofMillis(1);

    public static final Duration LONGEST = Duration.ofDays(36_525);

    private PropertyRules() {}

    public static void positive(String key, @Nullable Duration value) {
        require(value == null || (!value.isZero() && !value.isNegative()), key, value, "must be longer than zero");
        require(value == null || value.compareTo(SHORTEST) >= 0, key, value, "must not be shorter than 1ms");
        require(value == null || value.compareTo(LONGEST) <= 0, key, value, "must not be longer than a hundred years");
    }

    public static void notNegative(String key, @Nullable Duration value) {
        require(value == null || !value.isNegative(), key, value, "must not be negative");
        require(value == null || value.compareTo(LONGEST) <= 0, key, value, "must not be longer than a hundred years");
    }

    public static void atLeast(int least, String key, @Nullable Integer value) {
        require(value == null || value >= least, key, value, "must be at least " + least);
    }

    public static void atMost(int most, String key, @Nullable Integer value) {
        require(value == null || value <= most, key, value, "must be at most " + most);
    }

    public static void between(double least, double most, String key, double value) {
        require(value >= least && value <= most, key, value, "must be between %s and %s".formatted(least, most));
    }

    public static void notBlank(String key, @Nullable String value) {
        require(value == null || !value.isBlank(), key, value, "must not be blank");
        require(
                value == null || value.chars().noneMatch(Character::isISOControl),
                key,
                value == null ? null : Names.printable(value),
                "must not contain control characters");
    }

    public static void shorter(String key, Duration value, String otherKey, Duration other) {
        require(value.compareTo(other) < 0, key, value, "must be shorter than", otherKey, other);
    }

    public static void notShorter(String key, Duration value, String otherKey, Duration other) {
        require(value.compareTo(other) >= 0, key, value, "must not be shorter than", otherKey, other);
    }

    public static void require(
            boolean holds, String key, Duration value, String otherwise, String otherKey, Duration other) {
        if (!holds) {
            // The user may have set only the other key.
            throw new ClusterStartupException(
                    "%s %s %s".formatted(named(key, value), otherwise, named(otherKey, other)),
                    "Change %s%s or %s%s in the application's configuration.".formatted(PREFIX, key, PREFIX, otherKey));
        }
    }

    public static void require(boolean holds, String key, @Nullable Object value, String otherwise) {
        if (!holds) {
            throw new ClusterStartupException(
                    named(key, value) + " " + otherwise,
                    "Change %s%s in the application's configuration.".formatted(PREFIX, key));
        }
    }

    /** Requires a path below the context path. */
    public static void plainPath(String key, String path) {
        require(
                path.matches("(/(?!\\.{1,2}(/|$))[A-Za-z0-9._~-]+)+"),
                key,
                path,
                "must be a plain path such as /forge/dashboard, without a trailing slash");
    }

    /** Returns the key with its value, {@code forge.cluster.node.mode (leader)}. */
    public static String named(String key, @Nullable Object value) {
        return PREFIX + key + " (" + text(value) + ")";
    }

    private static @Nullable Object text(@Nullable Object value) {
        if (value instanceof Collection<?> collection) {
            return collection.stream().map(PropertyRules::text).toList();
        }
        return value instanceof Duration duration
                ? text(duration)
                : value instanceof Enum<?> constant ? EnumText.hyphenated(constant) : value;
    }

    /** Returns the duration in seconds, rounded up. */
    public static long wholeSeconds(Duration duration) {
        return duration.plusNanos(999_999_999).toSeconds();
    }

    /** Returns the duration as a person would write it in application.yml. */
    public static String text(Duration duration) {
        if (duration.getNano() % 1_000_000 != 0) {
            return duration.toNanos() + "ns";
        }
        if (duration.getNano() != 0) {
            return duration.toMillis() + "ms";
        }
        long seconds = duration.getSeconds();
        if (seconds == 0 || seconds % 60 != 0) {
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
