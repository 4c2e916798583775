// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import dev.forge.cluster.ratelimit.RateLimiter;
import dev.forge.cluster.ratelimit.RateLimiterBackend;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** Selects the bucket of a call, local or shared, and decides calls while the shared buckets are unreachable. */
public final class RateLimits implements RateLimiter {

    private static final Logger log = GuardedLogger.of(RateLimits.class);

    /** The longest name and the longest key. Longer keys are hashed, because an index entry has no more than 2,700 bytes. */
    private static final int LONGEST_TEXT = 200;

    /** The prefix of hashed keys. Keys that begin with it are hashed, too: a caller could otherwise name a hashed key's bucket. */
    private static final String HASHED = "sha256:";

    private static final Duration RETRY_PAUSE = Duration.ofSeconds(1);
    private static final long REACHABLE = Long.MIN_VALUE;

    private final Settings settings;
    private final RateLimiterBackend shared;
    private final LocalBuckets local;
    private final Consumer<String> rejected;
    private final LongSupplier nanos;

    /** Until when calls do not try the shared buckets; {@link #REACHABLE} if these are reachable. */
    private final AtomicLong retryAt = new AtomicLong(REACHABLE);

    /** The last kind of failure of a single bucket. It is logged once, because a caller can repeat it at will. */
    private final AtomicReference<@Nullable Class<?>> bucketFailure = new AtomicReference<>();

    /** How calls are decided while the shared buckets are unreachable. */
    public enum Loss {
        LOCAL,
        DENY,
        ALLOW
    }

    /**
     * The settings of rate limits.
     *
     * @param strict whether the buckets of keys are shared, too
     * @param mostLocal how many buckets this node keeps in memory
     */
    public record Settings(boolean strict, Loss onLoss, int mostLocal) {}

    /** @param rejected called with the name of the limit for each denied call */
    public RateLimits(Settings settings, RateLimiterBackend shared, Consumer<String> rejected) {
        this(settings, shared, rejected, System::nanoTime);
    }

    RateLimits(Settings settings, RateLimiterBackend shared, Consumer<String> rejected, LongSupplier nanos) {
        this.settings = settings;
        this.shared = shared;
        this.rejected = rejected;
        this.nanos = nanos;
        this.local = new LocalBuckets(settings.mostLocal, nanos);
    }

    @Override
    public RateLimitDecision tryAcquire(String name, RateLimit limit, int permits) {
        require(name, limit, permits);
        return counted(name, shared(name, limit, permits));
    }

    @Override
    public RateLimitDecision tryAcquire(String name, String key, RateLimit limit, int permits) {
        Arguments.required("RateLimiter.tryAcquire", "key", key);
        require(name, limit, permits);
        String bucket = name + "[" + (isStorable(key) && !key.startsWith(HASHED) ? key : HASHED + hash(key)) + "]";
        return counted(
                name, settings.strict ? shared(bucket, limit, permits) : local.tryAcquire(bucket, limit, permits));
    }

    private RateLimitDecision counted(String name, RateLimitDecision decision) {
        if (!decision.allowed()) {
            rejected.accept(name);
        }
        return decision;
    }

    private RateLimitDecision shared(String bucket, RateLimit limit, int permits) {
        if (!mayTryShared()) {
            return withoutDatabase(bucket, limit, permits);
        }
        try {
            RateLimitDecision decision = shared.tryAcquire(bucket, limit, permits);
            // An empty bucket must not be full when this node has to decide alone.
            local.store(bucket, limit, TokenBucket.spent(decision));
            if (retryAt.getAndSet(REACHABLE) != REACHABLE) {
                log.info("Rate limits: shared buckets are reachable again");
            }
            return decision;
        } catch (RuntimeException e) {
            if (Thread.currentThread().isInterrupted()) {
                // The failure says nothing about the database.
                throw e;
            }
            if (SharedBuckets.isLost(e)) {
                lost(e);
            } else if (bucketFailure.getAndSet(e.getClass()) != e.getClass()) {
                log.warn(
                        "Rate limits: the database rejected bucket {}; on-database-loss decides its calls, other buckets work",
                        bucket,
                        ErrorText.loggable(e));
            }
            return withoutDatabase(bucket, limit, permits);
        }
    }

    /** Returns whether to try the shared buckets. While they are unreachable one call a second tries them. */
    private boolean mayTryShared() {
        long at = retryAt.get();
        return at == REACHABLE || (nanos.getAsLong() - at >= 0 && retryAt.compareAndSet(at, later()));
    }

    private long later() {
        long later = nanos.getAsLong() + RETRY_PAUSE.toNanos();
        return later == REACHABLE ? later + 1 : later;
    }

    private void lost(RuntimeException e) {
        if (retryAt.getAndSet(later()) == REACHABLE) {
            log.warn(
                    "Rate limits: shared buckets are unreachable. Until they are reachable again,"
                            + " forge.cluster.rate-limit.on-database-loss ({}) decides: {}",
                    EnumText.hyphenated(settings.onLoss),
                    ErrorText.brief(e),
                    DatabaseFailure.kind(e) == Kind.CONNECTION_LOST ? null : ErrorText.loggable(e));
        }
    }

    private RateLimitDecision withoutDatabase(String bucket, RateLimit limit, int permits) {
        return switch (settings.onLoss) {
            case LOCAL -> local.tryAcquire(bucket, limit, permits);
            case ALLOW -> TokenBucket.decision(true, limit, permits, permits);
            case DENY -> new RateLimitDecision(false, limit, 0, RETRY_PAUSE, RETRY_PAUSE);
        };
    }

    private static void require(String name, RateLimit limit, int permits) {
        Arguments.required("RateLimiter.tryAcquire", "name", name);
        Arguments.required("RateLimiter.tryAcquire", "limit", limit);
        // In a bucket's name the bracket begins the key.
        if (name.isBlank() || name.length() > LONGEST_TEXT || name.indexOf('[') >= 0 || !isStorable(name)) {
            throw new IllegalArgumentException(
                    "RateLimiter.tryAcquire: name (%s) must have 1 to %d printable ASCII characters other than ["
                            .formatted(Names.printable(name), LONGEST_TEXT));
        }
        if (permits < 1 || permits > limit.burst()) {
            throw new IllegalArgumentException(
                    "RateLimiter.tryAcquire: permits (%d) must be between 1 and the limit's burst (%d)"
                            .formatted(permits, limit.burst()));
        }
    }

    private static boolean isStorable(String key) {
        return key.length() <= LONGEST_TEXT
                // Not every encoding of a database has other characters.
                && key.chars().allMatch(c -> c >= ' ' && c <= '~');
    }

    private static String hash(String key) {
        try {
            // The hash of the UTF-16 units: no charset preserves lone surrogates, which must differ from each other.
            ByteBuffer bytes = ByteBuffer.allocate(key.length() * Character.BYTES);
            key.chars().forEach(c -> bytes.putChar((char) c));
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes.array());
            return HexFormat.of().formatHex(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
