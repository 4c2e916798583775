// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeStore.HeartbeatResult;
import dev.forge.cluster.internal.node.observation.Observer;
import dev.forge.cluster.internal.runtime.Guard;
import java.util.UUID;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/** The heartbeats of a node, and what follows from their results: a requested drain, or a new membership. */
final class Heartbeats {

    private static final Logger log = GuardedLogger.of(Node.class);

    private final boolean competes;
    private final NodeState state;
    private final Membership membership;
    private final Observer observer;
    private final Elector elector;
    private final NodeComponents components;
    private final NodeDrain drain;
    private final NodeLoop loop;
    private final Guard lock = new Guard();

    /** @param competes whether the node stands for election while it runs */
    Heartbeats(
            boolean competes,
            NodeState state,
            Membership membership,
            Observer observer,
            Elector elector,
            NodeComponents components,
            NodeDrain drain) {
        this.competes = competes;
        this.state = state;
        this.membership = membership;
        this.observer = observer;
        this.elector = elector;
        this.components = components;
        this.drain = drain;
        this.loop = NodeLoop.upkeep("heartbeat", membership::pauseBetweenBeats, this::beat);
    }

    NodeLoop loop() {
        return loop;
    }

    /** Sends a heartbeat, one at a time: two threads that both find the node declared dead would join it twice under one key. */
    void beat() {
        lock.run(() -> {
            UUID beating = membership.id();
            if (beating != null) {
                follow(beating, send(beating));
            }
        });
    }

    private HeartbeatResult send(UUID beating) {
        try {
            HeartbeatResult result = membership.beat(beating, holdsSomething());
            observer.ownBeatArrived();
            return result;
        } catch (DataAccessException e) {
            observer.ownBeatFailed();
            throw e;
        }
    }

    /** Returns whether this node holds something that other nodes could not take over before they declare it dead. */
    private boolean holdsSomething() {
        return !elector.rolesHeld().isEmpty() || components.isBusy();
    }

    private void follow(UUID beating, HeartbeatResult result) {
        switch (result) {
            case RECORDED -> {
                // A rejoin may have failed half-way.
                if (competes && state.isRunning() && !elector.isCompeting()) {
                    elector.compete(true);
                }
            }
            case DRAIN_REQUESTED -> drain.request();
            case DECLARED_DEAD -> {
                if (state.mayRejoin()) {
                    rejoin(beating);
                }
            }
        }
    }

    private void rejoin(UUID former) {
        log.warn("Node {}: another node declared it dead; joining again with a new id", former);
        try {
            elector.sessionLost();
            components.forEach(NodeComponent::lost);
            membership.join();
            log.info("Node {}: joined again as {}", former, membership.id());
            if (state.get() == Node.State.DRAINING) {
                membership.recordDrain();
            } else {
                membership.activate();
                elector.compete(competes);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Sends the next heartbeat at once if what a look has shown demands that. */
    void follow(Observer.View seen) {
        if (membership.schedule().isBeatDue(seen.changed(), holdsSomething()) || seen.own() == null) {
            loop.wake();
        }
    }
}
