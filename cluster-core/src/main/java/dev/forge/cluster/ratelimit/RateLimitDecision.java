// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.ratelimit;

import java.time.Duration;

/**
 * The result of a request for permits.
 *
 * @param allowed whether the call was admitted; a denied call consumes no tokens
 * @param limit the limit that was applied
 * @param remaining how many more calls would be admitted now
 * @param retryAfter when the same call would be admitted if nobody else called; zero if it was admitted
 * @param reset when the bucket would be full again if nobody called
 */
public record RateLimitDecision(
        boolean allowed, RateLimit limit, long remaining, Duration retryAfter, Duration reset) {}
