// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.daemon;

/** The status of an instance of a daemon. */
public enum DaemonStatus {
    /** No node runs the instance: no node can, it is paused, or the next node has not started yet. */
    PENDING,
    /** A node has the instance and waits until the previous node cannot run it any more. */
    ACQUIRING,
    /** The method runs. */
    RUNNING,
    /** The method was asked to stop and has not returned yet. */
    STOPPING,
    /** The method returned. The instance runs again when a node that has it starts or an operator resumes it. */
    STOPPED,
    /** The method threw more often than allowed. The instance runs again as after {@link #STOPPED}. */
    FAILED,
    /** The method threw and will be restarted. */
    RESTARTING
}
