package dev.forge.cluster.ratelimit;

import java.io.Serial;

/** A call of a {@link RateLimited} method that was denied: the method was not entered. Over HTTP this is a 429. */
public final class RateLimitExceededException extends RuntimeException {

    @Serial
    private static final long serialVersionUID = 1L;

    private final String limitName;
    private final transient RateLimitDecision decision;

    /** @param limitName the name of the limit */
    public RateLimitExceededException(String limitName, RateLimitDecision decision) {
        super(
                "%s admits %d calls per %s; the next one in %d ms"
                        .formatted(
                                limitName,
                                decision.limit().requests(),
                                decision.limit().per(),
                                decision.retryAfter().toMillis()),
                null,
                false,
                // Denied calls come in floods, and where they come from is in the name.
                false);
        this.limitName = limitName;
        this.decision = decision;
    }

    /** The name of the limit. */
    public String limitName() {
        return limitName;
    }

    /** How its bucket stood. */
    public RateLimitDecision decision() {
        return decision;
    }
}
