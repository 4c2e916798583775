// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.ratelimit.RateLimit;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Limits of the jobs of one name. They hold for the whole cluster and are never exceeded; some apply to each {@linkplain
 * JobOptions#withGroup group} separately.
 *
 * <pre>{@code
 * operations.setLimits("sync-customer", JobLimits.none().withConcurrency(20).withGroupConcurrency(2));
 * }</pre>
 *
 * @param concurrency the number of jobs that run at the same time; null: any number
 * @param groupConcurrency the number of jobs of one group that run at the same time; null: any number
 * @param groupRate how often jobs of one group start; null: at any rate
 */
public record JobLimits(
        @Nullable Integer concurrency,
        @Nullable Integer groupConcurrency,
        @Nullable RateLimit groupRate) {

    private static final JobLimits NONE = new JobLimits(null, null, null);

    /**
     * Creates limits.
     *
     * @throws IllegalArgumentException if a value is out of range
     */
    public JobLimits {
        requirePositive("concurrency", concurrency);
        requirePositive("groupConcurrency", groupConcurrency);
        if (groupRate != null && groupRate.per().toNanos() / 1_000 < groupRate.requests()) {
            throw new IllegalArgumentException(
                    "JobLimits: groupRate (%d per %s) must be at most one start per microsecond"
                            .formatted(groupRate.requests(), groupRate.per()));
        }
    }

    private static void requirePositive(String name, @Nullable Integer value) {
        if (value != null && value < 1) {
            throw new IllegalArgumentException("JobLimits: %s (%d) must be at least 1".formatted(name, value));
        }
    }

    /** Returns no limits. */
    public static JobLimits none() {
        return NONE;
    }

    /** Returns a copy with that number of jobs that run at the same time; null: any number. */
    public JobLimits withConcurrency(@Nullable Integer concurrency) {
        return new JobLimits(concurrency, groupConcurrency, groupRate);
    }

    /** Returns a copy with that number of jobs of one group that run at the same time; null: any number. */
    public JobLimits withGroupConcurrency(@Nullable Integer groupConcurrency) {
        return new JobLimits(concurrency, groupConcurrency, groupRate);
    }

    /**
     * Returns a copy with that rate at which jobs of one group start, spread evenly, without a burst: {@code withGroupRate(10,
     * Duration.ofSeconds(1))} is {@code @ClusterJob(groupRate = "10/s")}.
     */
    public JobLimits withGroupRate(long starts, Duration per) {
        if (per == null) {
            throw new IllegalArgumentException("JobLimits.withGroupRate: per must not be null");
        }
        return withGroupRate(new RateLimit(starts, per, 1));
    }

    /** Returns a copy with that rate and burst at which jobs of one group start; null: any rate. */
    public JobLimits withGroupRate(@Nullable RateLimit groupRate) {
        return new JobLimits(concurrency, groupConcurrency, groupRate);
    }
}
