// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import java.time.Duration;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Returns what needs the attention of an operator: failing, overdue, paused and unhandled jobs, blocked and stranded workflows, crons
 * that were missed or failed, daemons that fail, nodes that die again and again or drain for long, and rows that cannot be deleted. A call sends about ten statements,
 * each of which reads a bounded number of rows; the result is used again for five seconds.
 */
public final class AttentionReports {

    private final JobAttention jobs;
    private final HandlerAttention handlers;
    private final NodeAttention nodes;
    private final RetentionAttention retention;
    private final Settings settings;
    private @Nullable Attention latest;
    private long readAt;

    /**
     * How items are found.
     *
     * @param lifetime how long a result is used again: several people may look at the same time
     */
    record Settings(AttentionThresholds thresholds, Duration lifetime, LongSupplier nanos) {}

    AttentionReports(
            JobAttention jobs,
            HandlerAttention handlers,
            NodeAttention nodes,
            RetentionAttention retention,
            Settings settings) {
        this.jobs = jobs;
        this.handlers = handlers;
        this.nodes = nodes;
        this.retention = retention;
        this.settings = settings;
    }

    /** Returns what needs attention, as it was at most five seconds ago; at most 20 items of each kind. */
    public synchronized Attention read() {
        Attention known = latest;
        long now = settings.nanos.getAsLong();
        if (known == null || now - readAt > settings.lifetime.toNanos()) {
            var items = new AttentionItems();
            jobs.find(items, settings.thresholds);
            handlers.find(items, settings.thresholds);
            nodes.find(items, settings.thresholds);
            retention.find(items);
            known = items.attention();
            latest = known;
            readAt = now;
        }
        return known;
    }
}
