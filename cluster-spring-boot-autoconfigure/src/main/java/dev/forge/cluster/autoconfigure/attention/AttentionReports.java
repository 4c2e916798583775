// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import java.time.Duration;
import java.util.List;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Returns what needs the attention of an operator: failing, failed, overdue, paused and unhandled jobs, failed batches, failed, blocked
 * and stranded workflows, crons that were missed or failed, daemons that fail, nodes that die again and again or drain for long, and rows that cannot be deleted. A call
 * sends about a dozen statements, each of which reads a bounded number of rows; the result is used again for five seconds.
 */
public final class AttentionReports {

    private final List<Source> sources;
    private final Settings settings;
    private @Nullable Attention latest;
    private long readAt;

    /** Finds items of some kinds. */
    interface Source {

        /** Adds items to those that the sources before this one have found. */
        void find(AttentionItems items, AttentionThresholds thresholds);
    }

    /**
     * How items are found.
     *
     * @param lifetime how long a result is used again: several people may look at the same time
     */
    record Settings(AttentionThresholds thresholds, Duration lifetime, LongSupplier nanos) {}

    AttentionReports(List<Source> sources, Settings settings) {
        this.sources = List.copyOf(sources);
        this.settings = settings;
    }

    /** Returns what needs attention, as it was at most five seconds ago; at most 20 items of each kind. */
    public synchronized Attention read() {
        Attention known = latest;
        long now = settings.nanos.getAsLong();
        if (known == null || now - readAt > settings.lifetime.toNanos()) {
            var items = new AttentionItems();
            sources.forEach(source -> source.find(items, settings.thresholds));
            known = items.attention();
            latest = known;
            readAt = now;
        }
        return known;
    }
}
