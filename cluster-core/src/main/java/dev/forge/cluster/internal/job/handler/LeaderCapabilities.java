// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

/** The capabilities of jobs that only nodes which lead, or may lead, claim: the runs of crons. */
public final class LeaderCapabilities {

    /** The capability of the node that leads the scheduler role. */
    public static final String LEADER = "@leader";

    /** The capability of all nodes that may lead the scheduler role. */
    public static final String SCHEDULER = "@scheduler";

    private LeaderCapabilities() {}
}
