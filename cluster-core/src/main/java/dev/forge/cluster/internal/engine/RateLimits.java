package dev.forge.cluster.internal.engine;

import dev.forge.cluster.RateLimit;
import dev.forge.cluster.RateLimitDecision;
import dev.forge.cluster.RateLimiter;
import dev.forge.cluster.RateLimiterBackend;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.ConnectionLoss;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** Decides which bucket a call is for and who keeps it, and what happens while that one is out of reach. */
public final class RateLimits implements RateLimiter {

    private static final Logger log = GuardedLogger.of(RateLimits.class);

    /** Longer ones are kept by their hash: an entry of an index has no more than 2,700 bytes. */
    private static final int LONGEST_TEXT = 200;

    /** Plain keys that begin with it are hashed, too: otherwise a caller could name the bucket of a hashed key. */
    private static final String HASHED = "sha256:";

    private static final Duration LEAVE_ALONE = Duration.ofSeconds(1);
    private static final long STANDS = Long.MIN_VALUE;

    private final Settings settings;
    private final RateLimiterBackend shared;
    private final LocalBuckets local;
    private final Consumer<String> rejected;
    private final LongSupplier nanos;

    /** Until when nobody asks for shared buckets, or that they stand. */
    private final AtomicLong lostUntil = new AtomicLong(STANDS);

    /** What was last wrong with a single bucket: said once, since whoever calls may repeat it at will. */
    private final AtomicReference<@Nullable Class<?>> strange = new AtomicReference<>();

    /** What to do without the shared buckets. */
    public enum Loss {
        LOCAL,
        DENY,
        ALLOW
    }

    /**
     * How buckets are kept.
     *
     * @param strict whether buckets of keys are shared, too
     * @param mostLocal how many buckets this node keeps
     */
    public record Settings(boolean strict, Loss onLoss, int mostLocal) {}

    /** @param rejected is told the name of the limit */
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
        String bucket = name + "[" + (isPlain(key) && !key.startsWith(HASHED) ? key : HASHED + hash(key)) + "]";
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
        if (!mayAsk()) {
            return withoutDatabase(bucket, limit, permits);
        }
        try {
            RateLimitDecision decision = shared.tryAcquire(bucket, limit, permits);
            // A bucket that is empty must not be full only because it has to be kept here.
            local.learn(bucket, limit, Tokens.spent(decision));
            if (lostUntil.getAndSet(STANDS) != STANDS) {
                log.info("Rate limits: shared buckets are within reach again");
            }
            return decision;
        } catch (RuntimeException e) {
            if (Thread.currentThread().isInterrupted()) {
                // Nothing is wrong with the database.
                throw e;
            }
            if (SharedBuckets.isLost(e)) {
                lost(e);
            } else if (strange.getAndSet(e.getClass()) != e.getClass()) {
                log.warn("Rate limits: bucket {} could not be asked for, others can", bucket, ErrorText.loggable(e));
            }
            return withoutDatabase(bucket, limit, permits);
        }
    }

    /** While they are out of reach one caller a second finds out whether they still are. */
    private boolean mayAsk() {
        long until = lostUntil.get();
        return until == STANDS || (nanos.getAsLong() - until >= 0 && lostUntil.compareAndSet(until, later()));
    }

    private long later() {
        long later = nanos.getAsLong() + LEAVE_ALONE.toNanos();
        return later == STANDS ? later + 1 : later;
    }

    private void lost(RuntimeException e) {
        if (lostUntil.getAndSet(later()) == STANDS) {
            log.warn(
                    "Rate limits: shared buckets are out of reach; until they are back,"
                            + " forge.cluster.rate-limit.on-database-loss ({}) decides: {}",
                    settings.onLoss.name().toLowerCase(Locale.ROOT),
                    ErrorText.brief(e),
                    ConnectionLoss.caused(e) ? null : ErrorText.loggable(e));
        }
    }

    private RateLimitDecision withoutDatabase(String bucket, RateLimit limit, int permits) {
        return switch (settings.onLoss) {
            case LOCAL -> local.tryAcquire(bucket, limit, permits);
            case ALLOW -> Tokens.decision(true, limit, permits, permits);
            case DENY -> new RateLimitDecision(false, limit, 0, LEAVE_ALONE, LEAVE_ALONE);
        };
    }

    private static void require(String name, RateLimit limit, int permits) {
        Arguments.required("RateLimiter.tryAcquire", "name", name);
        Arguments.required("RateLimiter.tryAcquire", "limit", limit);
        // The bracket begins the key.
        if (name.isBlank() || name.length() > LONGEST_TEXT || name.indexOf('[') >= 0 || !isPlain(name)) {
            throw new IllegalArgumentException(
                    "name (%s): must have 1 to %d printable characters of ASCII, none of them ["
                            .formatted(Names.printable(name), LONGEST_TEXT));
        }
        if (permits < 1 || permits > limit.burst()) {
            throw new IllegalArgumentException(
                    "permits (%d): must lie between 1 and the limit's burst (%d)".formatted(permits, limit.burst()));
        }
    }

    private static boolean isPlain(String key) {
        return key.length() <= LONGEST_TEXT
                // Others have no place in every database's encoding.
                && key.chars().allMatch(c -> c >= ' ' && c <= '~');
    }

    private static String hash(String key) {
        try {
            // Of its characters as they are: lone surrogates, which no charset keeps, are different, too.
            ByteBuffer bytes = ByteBuffer.allocate(key.length() * Character.BYTES);
            key.chars().forEach(c -> bytes.putChar((char) c));
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes.array());
            return HexFormat.of().formatHex(digest);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
