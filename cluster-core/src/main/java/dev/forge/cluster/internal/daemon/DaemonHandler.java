// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.internal.node.NodeSettings.Presence;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * The declaration of a daemon.
 *
 * @param instances the number of instances in the cluster; 1 for scope NODE
 */
public record DaemonHandler(
        String name, DaemonScope scope, int instances, Needs needs, Restarts restarts, Target target) {

    /**
     * The requirements of a node that runs the daemon.
     *
     * @param capability null if no capability is required
     * @param up how long the node must have been up
     */
    public record Needs(NodeRole role, @Nullable String capability, Duration up) {}

    /**
     * The conditions of a restart.
     *
     * @param delay the delay of the first restart
     * @param most the largest number of restarts in a row; null if there is no limit
     * @param onReturn whether the method is restarted when it returns
     */
    public record Restarts(Duration delay, @Nullable Integer most, boolean onReturn) {}

    /**
     * The method and its description.
     *
     * @param description class and method, for messages
     */
    public record Target(Code code, String description) {}

    /** The method of the daemon. */
    @FunctionalInterface
    public interface Code {

        /** Runs the method; throws the exception of the method, unwrapped. */
        void run(DaemonContext context) throws Throwable;
    }

    /** Returns whether a node may run the daemon. */
    boolean suits(Presence node) {
        return node.mode() != NodeMode.OBSERVER
                && node.roles().contains(needs.role)
                && (needs.capability == null || node.capabilities().contains(needs.capability));
    }
}
