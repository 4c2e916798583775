// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.startup;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.MutationRefusedException;
import java.time.Duration;

/**
 * Coordinates start-up work that one node performs for all nodes. A bean of this type replaces the default, which keeps its locks
 * in {@code forge_locks} and completed actions in {@code forge_startup_actions}.
 */
public interface StartupCoordinator {

    /**
     * Tries to reserve an action for this node for {@code forge.cluster.startup.lease-duration}; see {@link #tryAcquire(String,
     * Duration)}.
     */
    boolean tryAcquire(String action);

    /**
     * Tries to reserve an action for this node.
     *
     * @param timeToLive after this time another node may reserve the action even if this node has not finished
     * @return whether this node may perform the action now
     */
    boolean tryAcquire(String action, Duration timeToLive);

    /** Releases an action that this node has finished or given up, so that another node can reserve it. */
    void release(String action);

    /**
     * Runs an action once in the whole cluster. The first node that calls this method runs the action. Nodes that call it
     * meanwhile wait until the action is completed, at most for {@code forge.cluster.startup.wait-timeout}. Nodes that call it
     * later return immediately.
     *
     * <p>Completion is recorded permanently for each name and version. Another version of the same name runs again, never at
     * the same time as an earlier one. An action that throws is not recorded: the exception reaches the caller, and the next
     * node that calls this method, or already waits in it, runs the action.
     *
     * <p>If the node crashes, another node runs the action from the beginning as soon as the first one is declared dead, or
     * after 30 seconds. The same can happen to a node that cannot reach the database for that long while it runs the action. If
     * another node has taken over, the first one records nothing and throws; otherwise its completion is recorded when the
     * database is back, for which the node waits as long as {@code forge.cluster.startup.wait-timeout}. An action may therefore
     * start more than once and must tolerate that; its completion is recorded once.
     *
     * <p>Can be called as soon as beans are created (from an {@code ApplicationRunner}, a {@code SmartInitializingSingleton} or
     * a {@code @PostConstruct} method): the node need not have joined the cluster. Blocks the caller.
     *
     * @param name the name of the action
     * @param version the version of the action, compared by equality
     * @param action the work
     * @return whether this node has run the action
     * @throws ClusterStartupException if another node did not complete the action in time, or took over while this node ran it
     * @throws MutationRefusedException if the action has not been run yet and this node may not change the cluster
     */
    boolean once(String name, String version, Runnable action);

    /**
     * Runs an action once in the whole cluster; see {@link #once(String, String, Runnable)}.
     *
     * @param timeout how long to wait for another node that runs the action
     */
    boolean once(String name, String version, Duration timeout, Runnable action);
}
