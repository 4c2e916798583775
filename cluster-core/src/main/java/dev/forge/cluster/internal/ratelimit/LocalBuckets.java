// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Expiry;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import java.time.Duration;
import java.util.function.LongSupplier;

/** Token buckets in memory, for this node alone. Their number is bounded; the least used are dropped first, full ones at once. */
final class LocalBuckets {

    private final LongSupplier nanos;
    private final Cache<String, Bucket> buckets;

    /**
     * A bucket that is not full.
     *
     * @param spent how many tokens were missing at that time
     * @param full after how many nanoseconds the bucket is full again
     */
    private record Bucket(double spent, long at, long full) {}

    LocalBuckets(int most, LongSupplier nanos) {
        this.nanos = nanos;
        this.buckets = Caffeine.newBuilder()
                .maximumSize(most)
                .expireAfter(Expiry.<String, Bucket>writing((key, bucket) -> Duration.ofNanos(bucket.full)))
                .ticker(nanos::getAsLong)
                // The common pool may be busy with tasks of the application.
                .executor(Runnable::run)
                .build();
    }

    RateLimitDecision tryAcquire(String key, RateLimit limit, int permits) {
        var decision = new RateLimitDecision[1];
        buckets.asMap().compute(key, (same, bucket) -> {
            long now = nanos.getAsLong();
            double missing = 0;
            if (bucket != null) {
                missing = Math.max(0, Math.min(bucket.spent, (double) limit.burst()) - flown(bucket, limit, now));
            }
            boolean allowed = missing + permits <= (double) limit.burst() + TokenBucket.TOLERANCE;
            decision[0] = TokenBucket.decision(allowed, limit, allowed ? missing + permits : missing, permits);
            if (!allowed && bucket != null) {
                // Unchanged: tokens beyond the burst of a smaller limit are still spent for callers with a larger one.
                return bucket;
            }
            double back = bucket == null ? 0 : flown(bucket, limit, now);
            double spent = (bucket == null ? 0 : Math.max(0, bucket.spent - back)) + (allowed ? permits : 0);
            return new Bucket(spent, now, TokenBucket.flow(spent, limit).toNanos());
        });
        return decision[0];
    }

    private static double flown(Bucket bucket, RateLimit limit, long now) {
        return TokenBucket.perSecond(limit) * (double) (now - bucket.at) / 1e9;
    }

    /** Stores the state of a shared bucket, in case this node has to decide without the database. */
    void store(String key, RateLimit limit, double spent) {
        buckets.put(
                key,
                new Bucket(
                        spent, nanos.getAsLong(), TokenBucket.flow(spent, limit).toNanos()));
    }

    /** Returns the number of buckets, for tests. */
    long size() {
        buckets.cleanUp();
        return buckets.estimatedSize();
    }
}
