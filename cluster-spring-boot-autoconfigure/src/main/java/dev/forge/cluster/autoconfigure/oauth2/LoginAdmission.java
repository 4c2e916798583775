package dev.forge.cluster.autoconfigure.oauth2;

import dev.forge.cluster.autoconfigure.ClientAddress;
import dev.forge.cluster.autoconfigure.properties.OAuth2Properties;
import dev.forge.cluster.internal.ratelimit.RateLimits;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.ratelimit.RateLimitDecision;
import jakarta.servlet.http.HttpServletRequest;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.http.HttpStatus;

/**
 * Decides whether another OAuth2 login may begin. Anybody may begin one, and each is a row until it is completed or expires:
 * one address begins so many per minute on this node, and the cluster keeps so many pending ones. Those that are pending
 * stay: a flood closes the login for newcomers, but ends no login under way.
 */
final class LoginAdmission {

    private static final Logger log = LoggerFactory.getLogger(LoginAdmission.class);
    private static final String NAME = "oauth2-logins";
    private static final int MOST_ADDRESSES = 100_000;
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration RETRY_WHEN_FULL = Duration.ofSeconds(30);

    /** While there is no room nobody counts again for so long: counting is what a flood would cost the database. */
    private static final Duration REMEMBERED = Duration.ofSeconds(1);

    private final ClientAddress addresses;
    private final @Nullable RateLimit perAddress;
    private final int maxPending;
    private final RateLimits limits;
    private final Monitor monitor;
    private final LongSupplier nanos;

    /** Since when there has been no room, as far as this node knows; 0: there is. */
    private final AtomicLong fullSince = new AtomicLong();

    /** Hears why a login was refused: {@code full} or {@code rate}. */
    interface Monitor {
        void refused(String reason);
    }

    LoginAdmission(OAuth2Properties oauth2, ClientAddress addresses, Monitor monitor, LongSupplier nanos) {
        this.addresses = addresses;
        this.perAddress = oauth2.maxPerMinute() == 0 ? null : RateLimit.of(oauth2.maxPerMinute(), MINUTE);
        this.maxPending = oauth2.maxPending();
        this.monitor = monitor;
        this.nanos = nanos;
        this.limits = new RateLimits(
                new RateLimits.Settings(false, RateLimits.Loss.LOCAL, MOST_ADDRESSES),
                (bucket, limit, permits) -> {
                    throw new IllegalStateException("addresses have buckets of this node");
                },
                name -> {});
    }

    int maxPending() {
        return maxPending;
    }

    /** @throws LoginRefusedException if the address has begun too many, or there was no room a moment ago */
    void require(HttpServletRequest request) {
        if (perAddress != null) {
            RateLimitDecision decision = limits.tryAcquire(NAME, addresses.of(request), perAddress, 1);
            if (!decision.allowed()) {
                monitor.refused("rate");
                throw new LoginRefusedException(
                        HttpStatus.TOO_MANY_REQUESTS,
                        decision.retryAfter(),
                        "this address has begun more than %d logins in a minute (forge.cluster.oauth2.max-per-minute)"
                                .formatted(perAddress.requests()));
            }
        }
        long since = fullSince.get();
        if (since != 0 && nanos.getAsLong() - since < REMEMBERED.toNanos()) {
            throw full();
        }
    }

    /** A login was stored: there is room. */
    void admitted() {
        if (fullSince.getAndSet(0) != 0) {
            log.info("OAuth2 logins: there is room again");
        }
    }

    /** There was no room for a login; what to throw. */
    LoginRefusedException refused() {
        long now = nanos.getAsLong();
        if (fullSince.getAndSet(now == 0 ? 1 : now) == 0) {
            log.warn(
                    "OAuth2 logins: {} are pending, more than that (forge.cluster.oauth2.max-pending) are refused with 503"
                            + " until some are completed or expire. If this is not a flood, raise the limit",
                    maxPending);
        }
        return full();
    }

    private LoginRefusedException full() {
        monitor.refused("full");
        return new LoginRefusedException(
                HttpStatus.SERVICE_UNAVAILABLE,
                RETRY_WHEN_FULL,
                "%d logins are pending (forge.cluster.oauth2.max-pending)".formatted(maxPending));
    }
}
