// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.oauth2;

import dev.forge.cluster.autoconfigure.ClientAddress;
import dev.forge.cluster.autoconfigure.properties.web.OAuth2Properties;
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
 * Decides whether another OAuth2 login may begin. Anyone may begin one, and each is a row until it is completed or expires. So the
 * logins of one address per minute on this node are limited, and the pending logins of the cluster. Pending logins are kept: a flood
 * blocks new logins, but cancels none.
 */
final class LoginAdmission {

    private static final Logger log = LoggerFactory.getLogger(LoginAdmission.class);
    private static final String NAME = "oauth2-logins";
    private static final int MOST_ADDRESSES = 100_000;
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration RETRY_WHEN_FULL = Duration.ofSeconds(30);

    /** How long a full cluster is not counted again: during a flood, counting is the load on the database. */
    private static final Duration REMEMBERED = Duration.ofSeconds(1);

    private final ClientAddress addresses;
    private final @Nullable RateLimit perAddress;
    private final int maxPending;
    private final RateLimits limits;
    private final Monitor monitor;
    private final LongSupplier nanos;

    /** When this node found the cluster full; 0 if it is not. */
    private final AtomicLong fullSince = new AtomicLong();

    /** Receives the reason of a refused login: {@code full} or {@code rate}. */
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

    /** @throws LoginRefusedException if the address has begun too many logins, or the cluster was full a moment ago */
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

    /** Is told that a login was stored, so the cluster is not full. */
    void admitted() {
        if (fullSince.getAndSet(0) != 0) {
            log.info("OAuth2: logins are accepted again");
        }
    }

    /** Is told that the cluster is full; returns the exception to throw. */
    LoginRefusedException refused() {
        long now = nanos.getAsLong();
        if (fullSince.getAndSet(now == 0 ? 1 : now) == 0) {
            log.warn(
                    "OAuth2: {} logins are pending (forge.cluster.oauth2.max-pending). New logins are refused with status 503 until"
                            + " some are completed or expire. If this is not a flood, raise the limit.",
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
