// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeStore.SeenNode;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.node.NodeDied;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;
import org.slf4j.Logger;

/**
 * Ends nodes that have died. The methods stand in the order of the walk: declare a node dead, release what it held in the same
 * transaction, and after the commit tell this node of the death and follow up what was released.
 */
final class DeadNodes {

    private static final Logger log = GuardedLogger.of(DeadNodes.class);

    private static final Duration RETENTION = Duration.ofHours(1);
    private static final Duration FORMER_RETENTION = Duration.ofDays(30);
    private static final int BATCH = 1_000;
    private static final int FORMER_BATCH = 10_000;

    private final NodeStore nodes;
    private final NodeComponents components;
    private final Elector elector;
    private final Consumer<ClusterEvent> events;

    DeadNodes(NodeStore nodes, NodeComponents components, Elector elector, Consumer<ClusterEvent> events) {
        this.nodes = nodes;
        this.components = components;
        this.elector = elector;
        this.events = events;
    }

    /**
     * Ends a node that this node watches. Does nothing if it has sent a heartbeat since it was seen.
     *
     * @return whether this node declared it dead
     */
    boolean end(SeenNode node, String name, String reason) {
        Optional<List<Runnable>> followUps = declareDead(node);
        if (followUps.isEmpty()) {
            return false;
        }
        log.warn("Node {} '{}': declared dead, {}", node.id(), Names.printable(name), reason);
        tell(node.id(), name);
        followUps.get().forEach(Runnable::run);
        return true;
    }

    /** Ends a node before this node watches any, so that nothing here has to be told. */
    boolean endUnwatched(SeenNode node) {
        Optional<List<Runnable>> followUps = declareDead(node);
        followUps.ifPresent(all -> all.forEach(Runnable::run));
        return followUps.isPresent();
    }

    private Optional<List<Runnable>> declareDead(SeenNode node) {
        return nodes.inShortTransaction(
                () -> nodes.declareDead(node) ? Optional.of(releaseHeldBy(node.id())) : Optional.empty());
    }

    /** Returns what the components do after the commit. */
    private List<Runnable> releaseHeldBy(UUID dead) {
        return components.all().stream()
                .map(component -> nodes.releaseApart(dead, () -> component.releaseHeldByDead(dead)))
                .toList();
    }

    /** Deletes rows of nodes that died long ago, with what they still hold, and then their names. */
    void cleanUp() {
        nodes.purgeDead(RETENTION, BATCH, dead -> components.all().forEach(component -> component.forgetDead(dead)));
        nodes.forgetFormer(FORMER_RETENTION, FORMER_BATCH);
    }

    /** Tells this node that another one is dead, whichever node declared it. */
    void tell(UUID dead, String name) {
        elector.died(dead);
        components.all().forEach(component -> component.died(dead));
        events.accept(new NodeDied(dead, name));
    }
}
