// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.ratelimit;

import dev.forge.cluster.ClusterException;
import java.io.Serial;

/** Thrown when a call of a {@link RateLimited} method is denied. The method did not run. Over HTTP the response is 429. */
public final class RateLimitExceededException extends ClusterException {

    @Serial
    private static final long serialVersionUID = 1L;

    private final String limitName;
    private final transient RateLimitDecision decision;

    /** @param limitName the name of the limit */
    public RateLimitExceededException(String limitName, RateLimitDecision decision) {
        super(
                "Rate limit '%s' exceeded: %d calls per %s; retry in %d ms"
                        .formatted(
                                limitName,
                                decision.limit().requests(),
                                decision.limit().per(),
                                decision.retryAfter().toMillis()),
                null,
                // Denied calls come in large numbers, and the name of the limit says where they come from.
                false);
        this.limitName = limitName;
        this.decision = decision;
    }

    /** Returns the name of the limit. */
    public String limitName() {
        return limitName;
    }

    /** Returns the state of the bucket when the call was denied. */
    public RateLimitDecision decision() {
        return decision;
    }
}
