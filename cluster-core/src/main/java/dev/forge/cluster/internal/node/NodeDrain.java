// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node.State;
import dev.forge.cluster.internal.runtime.Mdc;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.UUID;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.dao.DataAccessException;

/** Has a node end its work: it takes nothing new, and what does not end in time is interrupted and given back. */
final class NodeDrain {

    private static final Logger log = GuardedLogger.of(Node.class);

    private final Duration timeout;
    private final NodeLifecycle.Environment environment;
    private final Participants participants;
    private final AtomicReference<State> state;
    private final ReentrantLock lock = new ReentrantLock();
    private volatile @Nullable Future<?> requested;

    /** The parts of the node that take part in a drain. */
    record Participants(
            NodeStore nodes,
            Membership membership,
            NodeComponents components,
            Elector elector,
            DeferredInterrupts interrupts) {}

    /** @param state the state of the node, which changes from RUNNING to DRAINING here */
    NodeDrain(
            Duration timeout,
            NodeLifecycle.Environment environment,
            Participants participants,
            AtomicReference<State> state) {
        this.timeout = timeout;
        this.environment = environment;
        this.participants = participants;
        this.state = state;
    }

    /** Drains the node, once: returns false if it does not run, for example because it is drained already. */
    boolean run() {
        // Held until the drain has ended: a node that leaves during a requested drain waits for it here.
        lock.lock();
        try {
            if (!state.compareAndSet(State.RUNNING, State.DRAINING)) {
                return false;
            }
            drainComponents();
            return true;
        } finally {
            lock.unlock();
        }
    }

    private void drainComponents() {
        participants.elector.compete(false);
        UUID current = participants.membership.id();
        try {
            if (current != null) {
                participants.nodes.drain(current);
            }
        } catch (DataAccessException e) {
            log.debug("Node {}: could not record that it drains", current, e);
        }
        participants.components.forEach(NodeComponent::quiesce);
        // A test that drives a node lets it leave before each test.
        Level level = environment.drive().stepped() ? Level.DEBUG : Level.INFO;
        log.atLevel(level)
                .log(
                        "Node {}: draining. Running jobs: {}; they may take {} to end (forge.cluster.shutdown.drain-timeout).",
                        current,
                        participants.components.load(),
                        timeout);
        long begin = environment.pace().nanos();
        int interrupted = participants.components.awaitIdleOrRelease(begin + timeout.toNanos());
        log.atLevel(level)
                .log(
                        "Node {}: drained in {}. Interrupted jobs: {}.",
                        current,
                        Duration.ofNanos(environment.pace().nanos() - begin).truncatedTo(ChronoUnit.MILLIS),
                        interrupted);
    }

    /** Drains the node soon, on another thread, as an operator has requested. */
    void request() {
        Future<?> underWay = requested;
        if (state.get() == State.RUNNING && (underWay == null || underWay.isDone())) {
            // On another thread: a drain takes as long as the work takes, and heartbeats must continue.
            requested = environment
                    .drive()
                    .scheduler()
                    .schedule(
                            () -> {
                                Mdc.put(participants.membership.id(), participants.membership.identity());
                                if (participants.interrupts.run(this::run)) {
                                    log.info(
                                            "Node {}: drained by request of an operator", participants.membership.id());
                                    participants.elector.resignSoon();
                                }
                            },
                            environment.drive().scheduler().getClock().instant());
        }
    }
}
