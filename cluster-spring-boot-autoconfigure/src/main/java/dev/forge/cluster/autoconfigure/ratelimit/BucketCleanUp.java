// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.ratelimit.RateLimitStore;
import dev.forge.cluster.internal.runtime.PurgeBatch;
import java.time.Duration;
import java.util.List;
import java.util.function.LongSupplier;

/** Deletes buckets of rate limits that have been full for five minutes. */
public final class BucketCleanUp implements NodeComponent {

    private static final Duration RETENTION = Duration.ofMinutes(5);
    private static final int LARGEST_BATCH = 5_000;

    private final RateLimitStore limits;
    private final PurgeBatch purge;

    public BucketCleanUp(RateLimitStore limits, LongSupplier nanos) {
        this.limits = limits;
        this.purge = new PurgeBatch("full buckets", LARGEST_BATCH, nanos);
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(NodeLoop.cleanUp("clean-up-rate-limits", this::cleanUp));
    }

    void cleanUp() {
        purge.deleteAll(limit -> limits.purge(RETENTION, limit));
    }
}
