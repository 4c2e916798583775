// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.ratelimit;

import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.ratelimit.RateLimitStore;
import dev.forge.cluster.internal.ratelimit.RateLimitStore.PurgedPage;
import java.time.Duration;
import java.util.List;

/**
 * Deletes buckets of rate limits that have been full for five minutes. Each pass continues where the last one ended, so that
 * millions of buckets, most of them not full, do not make it read them all.
 */
public final class BucketCleanUp implements NodeComponent {

    private static final Duration RETENTION = Duration.ofMinutes(5);
    private static final int PAGE = 1_000;
    private static final int PAGES_PER_PASS = 200;
    /** While most buckets are full, as after a flood of clients. */
    private static final int MOST_PAGES = 5_000;

    private final RateLimitStore limits;
    private String position = "";

    public BucketCleanUp(RateLimitStore limits) {
        this.limits = limits;
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(NodeLoop.cleanUp("clean-up-rate-limits", this::cleanUp));
    }

    void cleanUp() {
        String after = position;
        // If a page fails, the next pass begins again, so that the buckets before it are deleted.
        position = "";
        boolean useful = true;
        for (int i = 0; i < PAGES_PER_PASS || (useful && i < MOST_PAGES); i++) {
            PurgedPage page = limits.purge(RETENTION, after, PAGE);
            if (page.read() < PAGE || page.last() == null) {
                return;
            }
            useful = page.deleted() >= PAGE / 2;
            after = page.last();
        }
        position = after;
    }
}
