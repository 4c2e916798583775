// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * A histogram of times: two buckets for each doubling, from one millisecond to 24 days. Histograms of the same kind are merged by
 * adding their buckets, so the percentiles of an hour are those of its minutes.
 *
 * <p>A percentile is the geometric middle of its bucket, which is a factor of 2^(1/4) = 1.19 away from both ends: it is off by less
 * than a fifth, whatever the times in the bucket are. Interpolation would be better for times that are spread evenly, and worse for
 * times that are all alike, as those of many jobs are. Below a millisecond it is half a millisecond, from 24 days on it is 24 days.
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

    /** Returns the time that this percentage of the counted ones does not exceed; null if none was counted. */
    static @Nullable Duration percentile(long[] counts, int percent) {
        long total = 0;
        for (long count : counts) {
            total += count;
        }
        if (total <= 0) {
            return null;
        }
        long rank = Math.max(1, total / 100 * percent + (total % 100 * percent + 99) / 100);
        long before = 0;
        int bucket = 0;
        while (before + counts[bucket] < rank && bucket < counts.length - 1) {
            before += counts[bucket++];
        }
        return Duration.ofNanos((long) (middleMillis(bucket) * NANOS_PER_MILLI));
    }

    private static double middleMillis(int bucket) {
        if (bucket == 0) {
            return 0.5;
        }
        // The last bucket has no end.
        double position = bucket == BUCKETS - 1 ? bucket - 1 : bucket - 0.5;
        return Math.pow(2, position / 2);
    }
}
