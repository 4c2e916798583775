// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster;

/**
 * Thrown at start-up when the configuration, the handlers or the database do not allow the cluster to start. The message says
 * what was found and where; {@link #action()} says what to do about it.
 */
public class ClusterStartupException extends ClusterException {

    private static final long serialVersionUID = 1L;

    private final String action;

    public ClusterStartupException(String message, String action) {
        super(message);
        this.action = action;
    }

    public ClusterStartupException(String message, String action, Throwable cause) {
        super(message, cause);
        this.action = action;
    }

    /** Returns the next step, ready to be copied where that is possible. */
    public String action() {
        return action;
    }
}
