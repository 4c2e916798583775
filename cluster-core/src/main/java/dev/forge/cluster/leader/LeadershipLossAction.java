// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.leader;

import dev.forge.cluster.node.NodeMode;

/** What a node of mode {@link NodeMode#LEADER} does when it has lost the leadership and does not win it back. */
public enum LeadershipLossAction {
    /** Logs a warning and reports OUT_OF_SERVICE in readiness until it leads again. */
    NOT_READY,
    /** Logs a warning and stands by like a node of mode {@link NodeMode#AUTO}. */
    STAND_BY,
    /** Closes the application and ends the process with exit code 1, so that a supervisor restarts it. */
    EXIT
}
