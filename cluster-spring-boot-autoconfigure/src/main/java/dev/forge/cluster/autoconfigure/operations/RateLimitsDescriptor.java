// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.OffsetDateTime;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Shared buckets of rate limits, as the resource {@code rate-limits} returns them.
 *
 * @param rateLimits the buckets, in the order of their keys
 */
public record RateLimitsDescriptor(List<RateLimitDescriptor> rateLimits) {

    /**
     * A bucket. Buckets that are full for some minutes are not listed.
     *
     * @param key the name of the limit, with the key of the caller in brackets if each key has its own bucket; sanitized
     * @param capacity the permits of a full bucket
     * @param perSecond the permits that are refilled each second
     * @param available the permits that can be acquired now
     * @param updatedAt when permits were last acquired
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record RateLimitDescriptor(
            @Nullable Object key, double capacity, double perSecond, double available, OffsetDateTime updatedAt) {}
}
