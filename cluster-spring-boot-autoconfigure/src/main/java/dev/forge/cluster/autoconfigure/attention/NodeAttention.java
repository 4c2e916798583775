// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import dev.forge.cluster.autoconfigure.attention.Attention.Kind;
import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PlainText;
import java.time.Duration;

/** Finds nodes that need attention, and a clock of the database that was set back. */
final class NodeAttention implements AttentionReports.Source {

    private static final Duration LAST_HOUR = Duration.ofHours(1);
    private static final int LIMIT = AttentionItems.MOST_OF_A_KIND + 1;

    private final NodeReports nodes;
    private final JobScheduleStore clock;

    NodeAttention(NodeReports nodes, JobScheduleStore clock) {
        this.nodes = nodes;
        this.clock = clock;
    }

    @Override
    public void find(AttentionItems items, AttentionThresholds thresholds) {
        Duration behind = clock.read().behind();
        if (!behind.isZero()) {
            items.critical(
                    Kind.CLOCK_SET_BACK,
                    "database",
                    "Database: its clock is %s behind a time that it has shown before. Crons wait until it has caught up."
                            .formatted(PlainText.duration(behind)),
                    "If the clock is wrong now, correct it. Otherwise trigger the crons that cannot wait.");
        }
        for (NodeReports.Flapping name : nodes.flapping(LAST_HOUR, thresholds.deaths(), LIMIT)) {
            items.critical(
                    Kind.FLAPPING_NODE,
                    name.name(),
                    "Node %s: joined and died %s in the last hour."
                            .formatted(Names.printable(name.name()), PlainText.count(name.deaths(), "time", "times")),
                    "Look for crashes, missing memory or failing probes in its log and in that of its platform.");
        }
        for (NodeReports.Draining node : nodes.drainingFor(thresholds.draining(), LIMIT)) {
            items.warning(
                    Kind.DRAINING_NODE,
                    node.name(),
                    "Node %s (%s): it has been draining for %s and takes no new work."
                            .formatted(Names.printable(node.name()), node.id(), PlainText.duration(node.since())),
                    "Stop or restart its process; a node that has drained does not start work again.");
        }
    }
}
