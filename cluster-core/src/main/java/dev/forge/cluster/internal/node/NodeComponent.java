// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.runtime.ReservedPrefix;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * A capability of a node: jobs, crons, daemons, workflows, locks. The node starts, drains and stops its components in the order
 * of their registration, and calls them when a node leaves or dies.
 */
public interface NodeComponent {

    /** Returns the names of the handlers of this node, which other nodes see in its row. */
    default Collection<String> handlers() {
        return List.of();
    }

    /** Returns what this node publishes in its row about its executors, one text for each fact. */
    default List<String> executorFacts() {
        return List.of();
    }

    /** Returns further facts for the {@code info} of the node's row. */
    default Map<String, String> facts() {
        return Map.of();
    }

    /** Returns the beginnings of names that applications may not use. */
    default List<ReservedPrefix> reservedPrefixes() {
        return List.of();
    }

    /** Returns the loops that the node runs for this component; called once, at registration. */
    default List<NodeLoop> loops() {
        return List.of();
    }

    /** Returns how many executions are under way. */
    default int load() {
        return 0;
    }

    /** Returns whether the component holds something that other nodes would wait for. */
    default boolean isBusy() {
        return load() > 0;
    }

    /** Returns how many executions may be under way at once. */
    default int slots() {
        return 0;
    }

    /** Returns the names of threads of this component that should have made progress long ago. */
    default List<String> stuck() {
        return List.of();
    }

    /** Returns lines for the log that describe the work of this node; called after the start. */
    default List<String> summary() {
        return List.of();
    }

    /** Called before the node joins, when all handlers are registered. */
    default void prepare() {}

    /** Called when the node has joined and is active. */
    default void begin() {}

    /** Called when the node drains: nothing new may begin. */
    default void quiesce() {}

    /** Waits for executions that are under way; returns false if some are left after that time. */
    default boolean awaitIdle(Duration patience) throws InterruptedException {
        return true;
    }

    /** Interrupts executions that are left, and returns their work to the cluster. */
    default void release() {}

    /** Called when the node is no longer a member. */
    default void end() throws InterruptedException {}

    /** Called when another node has declared this one dead: all that it held belongs to other nodes now. */
    default void lost() {}

    /** Called after another node was declared dead. */
    default void died(UUID node) {}

    /**
     * Releases rows that a dead node holds, inside of the transaction that declares it dead. Implementations use {@link
     * NodeStore#source} only, skip rows that others have locked, and leave those to their own sweeps.
     *
     * @return an action for the time after the commit
     */
    default Runnable releaseHeldByDead(UUID node) {
        return () -> {};
    }

    /** Releases rows of dead nodes that were skipped before, inside of the transaction that deletes the nodes' rows. */
    default void forgetDead(List<UUID> nodes) {}

    /** Releases rows that this node still holds, inside of the transaction that deletes its row. */
    default void releaseHeldByLeaving(UUID node) {}

    /** Called after a test has moved the time: what holds as long as this node lives still holds, and what is overdue ends. */
    default void timeMoved() {}

    /** Called with each notification from another node that is not about leadership. Must not block. */
    default void heard(String notification) {}
}
