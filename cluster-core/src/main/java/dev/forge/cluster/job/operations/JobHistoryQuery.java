// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Selects what {@link JobOperations#history} returns: the last time of that length, of all jobs or of the jobs of one name. Immutable.
 */
public final class JobHistoryQuery {

    /** The longest time that can be selected. */
    public static final Duration LONGEST = Duration.ofDays(90);

    private static final Duration SHORTEST = Duration.ofMinutes(1);

    private final Duration range;
    private final @Nullable String name;

    private JobHistoryQuery(Duration range, @Nullable String name) {
        this.range = range;
        this.name = name;
    }

    /**
     * Selects the time from then until now.
     *
     * @param range between one minute and {@link #LONGEST}
     * @throws IllegalArgumentException if it is shorter or longer
     */
    public static JobHistoryQuery last(Duration range) {
        if (range == null || range.compareTo(SHORTEST) < 0 || range.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "JobHistoryQuery.last: range (%s) must be between %s and %s".formatted(range, SHORTEST, LONGEST));
        }
        return new JobHistoryQuery(range, null);
    }

    /** Selects the jobs of one name; null: all jobs. */
    public JobHistoryQuery withName(@Nullable String name) {
        return new JobHistoryQuery(range, name);
    }

    /** Returns the length of the time. */
    public Duration range() {
        return range;
    }

    /** Returns the name of the jobs; null: all jobs. */
    public @Nullable String name() {
        return name;
    }

    @Override
    public String toString() {
        return "JobHistoryQuery[range=%s, name=%s]".formatted(range, name);
    }
}
