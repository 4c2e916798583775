// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node.Drive;
import dev.forge.cluster.internal.runtime.Guard;
import dev.forge.cluster.internal.runtime.Mdc;
import java.time.Duration;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;

/** Ends the work of a node: it takes nothing new, and what does not end in time is interrupted and given back. */
final class NodeDrain {

    private static final Logger log = GuardedLogger.of(Node.class);

    private final Duration timeout;
    private final Drive drive;
    private final NodeState state;
    private final Membership membership;
    private final NodeComponents components;
    private final Elector elector;
    private final DeferredInterrupts interrupts;
    private final Guard lock = new Guard();
    private volatile @Nullable Future<?> requested;

    NodeDrain(
            Duration timeout,
            Drive drive,
            NodeState state,
            Membership membership,
            NodeComponents components,
            Elector elector,
            DeferredInterrupts interrupts) {
        this.timeout = timeout;
        this.drive = drive;
        this.state = state;
        this.membership = membership;
        this.components = components;
        this.elector = elector;
        this.interrupts = interrupts;
    }

    /** Drains the node, once: returns false if it does not run, for example because it is drained already. */
    boolean run() {
        // Held until the drain has ended: a node that leaves during a requested drain waits for it here.
        return lock.call(() -> {
            if (!state.beginDrain()) {
                return false;
            }
            elector.compete(false);
            membership.recordDrain();
            // A test that drives a node lets it leave before each test.
            components.drain(membership.id(), timeout, drive.stepped() ? Level.DEBUG : Level.INFO);
            return true;
        });
    }

    /** Drains the node on another thread, as an operator has requested: heartbeats must continue as long as the work takes. */
    void request() {
        Future<?> underWay = requested;
        if (state.isRunning() && (underWay == null || underWay.isDone())) {
            requested = drive.scheduler()
                    .schedule(this::runByRequest, drive.scheduler().getClock().instant());
        }
    }

    private void runByRequest() {
        Mdc.put(membership.id(), membership.identity());
        if (interrupts.run(this::run)) {
            log.info("Node {}: drained by request of an operator", membership.id());
            elector.resignSoon();
        }
    }
}
