// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import java.util.List;

/**
 * What needs the attention of an operator; see {@link AttentionReports}.
 *
 * @param items the most severe first, then by kind and target
 * @param cutOff whether a kind has more items than are returned
 */
public record Attention(List<Item> items, boolean cutOff) {

    /** Creates a list. */
    public Attention {
        items = List.copyOf(items);
    }

    /**
     * Something that needs attention.
     *
     * @param target the name or id of the thing that is affected: a job name, a batch, a workflow with its version, a cron, a daemon or
     *     a node
     * @param text what is the matter, as a sentence
     * @param nextStep what the operator can do, as a sentence
     */
    public record Item(Kind kind, Severity severity, String target, String text, String nextStep) {}

    /** How soon the operator should act. */
    public enum Severity {
        /** Work fails or stands still. */
        CRITICAL,
        /** Work may fail or stand still soon, or does so on purpose. */
        WARNING
    }

    /** What can need attention. */
    public enum Kind {
        /** Many attempts of a job name failed in the last hour. */
        FAILING_JOBS,
        /** Jobs of a name failed for good in the last day, and were not retried since. */
        FAILED_JOBS,
        /** Jobs of a name were abandoned in the last day, because their nodes died too often, and were not retried since. */
        ABANDONED_JOBS,
        /** Jobs of a batch failed in the last day, and were not retried since. */
        FAILED_BATCH,
        /** The oldest due job of a name has not started for a long time. */
        OVERDUE_JOBS,
        /** A paused job name has due jobs. */
        PAUSED_JOBS,
        /** No live node has a handler for pending jobs of that name. */
        UNHANDLED_JOBS,
        /** Runs of a workflow failed in the last day. */
        FAILED_WORKFLOWS,
        /** Runs of a workflow failed in the last day and compensated their steps. */
        COMPENSATED_WORKFLOWS,
        /** Runs of a workflow are blocked. */
        BLOCKED_WORKFLOWS,
        /** Runs of a workflow are in flight, and no live node has their version. */
        STRANDED_WORKFLOWS,
        /** The last slot of a cron was missed. */
        MISSED_CRON,
        /** The last run of a cron failed. */
        FAILED_CRON,
        /** A cron does not fire. */
        STOPPED_CRON,
        /** An instance of a daemon has failed for good. */
        FAILED_DAEMON,
        /** An instance of a daemon was restarted often. */
        RESTARTING_DAEMON,
        /** The clock of the database was set back: what waits for a time waits longer. */
        CLOCK_SET_BACK,
        /** Nodes of one name joined and died repeatedly in the last hour. */
        FLAPPING_NODE,
        /** A node has been draining for a long time. */
        DRAINING_NODE,
        /** Rows of a table cannot be deleted after their retention. */
        UNDELETABLE_ROWS
    }
}
