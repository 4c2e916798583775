// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * A histogram of times: two buckets for each doubling, from one millisecond to 24 days. Histograms of the same kind are merged by
 * adding their buckets, so the percentiles of an hour are those of its minutes, and are off by less than a fifth.
 */
final class TimeHistogram {

    static final int BUCKETS = 64;

    private static final double NANOS_PER_MILLI = 1e6;
    private static final long MANTISSA = (1L << 52) - 1;
    private static final int EXPONENT_BIAS = 1023;
    private static final long SQRT_2 = Double.doubleToRawLongBits(Math.sqrt(2)) & MANTISSA;

    private TimeHistogram() {}

    /** Returns the bucket of a time: 0 below one millisecond, n below 2^(n/2) milliseconds, the last one for all longer times. */
    static int bucket(long nanos) {
        double millis = nanos / NANOS_PER_MILLI;
        if (millis < 1) {
            return 0;
        }
        long bits = Double.doubleToRawLongBits(millis);
        int exponent = (int) (bits >> 52) - EXPONENT_BIAS;
        int half = (bits & MANTISSA) >= SQRT_2 ? 1 : 0;
        return Math.min(BUCKETS - 1, 1 + 2 * exponent + half);
    }

    /** Returns the time that this share of the counted ones does not exceed; null if none was counted. */
    static @Nullable Duration percentile(long[] counts, double share) {
        long total = 0;
        for (long count : counts) {
            total += count;
        }
        if (total == 0) {
            return null;
        }
        double rank = Math.max(1, share * total);
        long before = 0;
        int bucket = 0;
        while (before + counts[bucket] < rank && bucket < counts.length - 1) {
            before += counts[bucket++];
        }
        double within = counts[bucket] == 0 ? 0 : Math.min(1, (rank - before) / counts[bucket]);
        return Duration.ofNanos((long) (millis(bucket, within) * NANOS_PER_MILLI));
    }

    /** Times are taken to be spread evenly within a bucket, on the same scale. */
    private static double millis(int bucket, double within) {
        if (bucket == 0) {
            return within;
        }
        double position = bucket == BUCKETS - 1 ? bucket - 1 : bucket - 1 + within;
        return Math.pow(2, position / 2);
    }
}
