// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

/**
 * The pending jobs of one name, capability and priority that have a group, or those that have none. An index leads directly to the
 * oldest job of a queue.
 *
 * @param capability what a node must offer; {@code ""}: nothing
 */
public record Queue(String name, String capability, int priority, boolean grouped) {

    /** The expression by which the index sorts queues of one name and capability; see {@link #rank()}. */
    public static final String RANK = "(priority * 2 + CASE WHEN job_group IS NULL THEN 1 ELSE 0 END)";

    public static final int LARGEST_RANK = 2 * 100 + 1;

    /** Returns a queue of jobs without a group. */
    public static Queue ungrouped(String name, String capability, int priority) {
        return new Queue(name, capability, priority, false);
    }

    public static Queue ranked(String name, String capability, int rank) {
        return new Queue(name, capability, rank >> 1, (rank & 1) == 0);
    }

    /** Returns the place among the queues of the same name and capability: the most urgent has the largest. */
    public int rank() {
        return priority * 2 + (grouped ? 0 : 1);
    }
}
