package dev.forge.cluster.internal.ratelimit;

import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.github.benmanes.caffeine.cache.Expiry;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import java.time.Duration;
import java.util.function.LongSupplier;

/** Buckets of this node alone, the most used ones of a bounded number; one that is full is forgotten. */
final class LocalBuckets {

    private final LongSupplier nanos;
    private final Cache<String, Bucket> buckets;

    /**
     * @param spent what is missing, at that time
     * @param full in how many nanoseconds nothing will be
     */
    private record Bucket(double spent, long at, long full) {}

    LocalBuckets(int most, LongSupplier nanos) {
        this.nanos = nanos;
        this.buckets = Caffeine.newBuilder()
                .maximumSize(most)
                .expireAfter(Expiry.<String, Bucket>writing((key, bucket) -> Duration.ofNanos(bucket.full)))
                .ticker(nanos::getAsLong)
                // Not on a pool that the application may have filled.
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
            boolean allowed = missing + permits <= (double) limit.burst() + TokenBucket.HAIR;
            decision[0] = TokenBucket.decision(allowed, limit, allowed ? missing + permits : missing, permits);
            if (!allowed && bucket != null) {
                // As it was: what a caller with a smaller limit does not see is still spent for the others.
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

    /** How a bucket stands that is kept elsewhere, should it have to be kept here. */
    void learn(String key, RateLimit limit, double spent) {
        buckets.put(
                key,
                new Bucket(
                        spent, nanos.getAsLong(), TokenBucket.flow(spent, limit).toNanos()));
    }

    /** How many there are, for tests. */
    long size() {
        buckets.cleanUp();
        return buckets.estimatedSize();
    }
}
