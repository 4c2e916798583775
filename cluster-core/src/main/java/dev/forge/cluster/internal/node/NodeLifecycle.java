// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.leader.ElectionStore;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node.Drive;
import dev.forge.cluster.internal.node.Node.Resources;
import dev.forge.cluster.internal.node.Node.State;
import dev.forge.cluster.internal.node.observation.ObservationStore;
import dev.forge.cluster.internal.node.observation.Observer;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeStatus;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/** Decides alone in what order the parts of a node start, drain and stop, and runs them meanwhile. */
final class NodeLifecycle {

    private static final Logger log = GuardedLogger.of(Node.class);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);
    private static final Duration SESSION_PATIENCE = Duration.ofSeconds(15);
    private static final Duration LEADERSHIP_WATCH = Duration.ofMillis(100);

    private final NodeSettings settings;
    private final Resources resources;
    private final boolean stepped;
    private final Pace pace;
    private final Elector elector;
    final DatabaseContact contact;
    final NodeComponents components;
    final Membership membership;
    private final Observer observer;
    final DeadNodes deadNodes;
    final Peers peers;
    private final @Nullable NodeSession session;
    private final NodeDrain drain;
    final Heartbeats heartbeats;
    final RequiredLeadership requiredLeadership;
    private final List<NodeLoop> elections;
    private final NodeState state = new NodeState();
    private final DeferredInterrupts interrupts = new DeferredInterrupts();
    private volatile Duration untilElection = Duration.ofMillis(50);

    /** @param events receives events for the application; must not block */
    NodeLifecycle(
            NodeSettings settings,
            Resources resources,
            Drive drive,
            Pace pace,
            Elector elector,
            Consumer<ClusterEvent> events) {
        this.settings = settings;
        this.resources = resources;
        this.stepped = drive.stepped();
        this.pace = pace;
        this.elector = elector;
        Duration interval = settings.detection().interval();
        this.contact = new DatabaseContact(pace, interval);
        this.components = new NodeComponents(
                new Loop.Environment(drive.scheduler(), pace::nanos, contact::hasAnsweredSince),
                interrupts,
                this::runPass,
                () -> elector.isLeader(Leadership.LOG_COMPACTOR));
        this.observer = new Observer(pace, interval, settings.presence().mode() != NodeMode.OBSERVER);
        NodeStore nodes = resources.nodes();
        this.deadNodes = new DeadNodes(nodes, components, elector, events);
        var observations = new ObservationStore(resources.schema(), nodes.source(), pace::nanos);
        this.peers = new Peers(nodes, observations, observer, deadNodes, pace, events);
        this.session = settings.election().basis() == LeadershipBasis.LOCK
                ? new NodeSession(resources.direct(), resources.schema(), elector, pace::nanos, new SessionListener())
                : null;
        this.membership = new Membership(settings, resources, components, deadNodes, contact, pace, session);
        this.requiredLeadership =
                new RequiredLeadership(resources, elector, settings.election().lease(), pace::nanos);
        this.drain = new NodeDrain(settings.drainTimeout(), drive, state, membership, components, elector, interrupts);
        this.heartbeats = new Heartbeats(
                settings.presence().mayCompete(), state, membership, observer, elector, components, drain);
        this.elections = session != null
                ? List.of()
                : List.of(electionByLease(
                        new ElectionStore(resources.schema(), ControlConnections.urgent(resources.control()))));
        components.add(heartbeats.loop());
        components.add(NodeLoop.upkeep("observe", () -> peers.pause(interval), this::observe));
        components.add(NodeLoop.cleanUp("clean-up-nodes", deadNodes::cleanUp));
        components.add(NodeLoop.upkeep("watch-leadership", () -> LEADERSHIP_WATCH, this::watchLeadership));
        elections.forEach(components::add);
    }

    private NodeLoop electionByLease(ElectionStore store) {
        return NodeLoop.upkeep("elect", () -> untilElection, () -> {
            UUID candidate = membership.id();
            if (candidate != null) {
                untilElection = elector.step(store, () -> {}, candidate);
            }
        });
    }

    // Start and stop ------------------------------------------------------------------------------------------

    void start() {
        boolean started = false;
        try {
            requiredLeadership.reset();
            components.forEach(NodeComponent::prepare);
            elector.compete(false);
            membership.join();
            state.joined();
            // The first look comes before all else: nodes that join later are then seen joining.
            observe();
            membership.activate();
            elector.compete(settings.presence().mayCompete());
            if (stepped) {
                // The only one there is: otherwise a test would have to wait for what needs a leader.
                elections.forEach(NodeLoop::pass);
            } else {
                components.startLoops();
            }
            components.forEach(NodeComponent::begin);
            if (mustLead()) {
                requiredLeadership.await();
            }
            started = true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("Interrupted while joining the cluster", e);
        } finally {
            if (!started) {
                stop();
                interrupts.run(this::endSession);
            }
        }
    }

    private boolean mustLead() {
        return settings.presence().mode() == NodeMode.LEADER;
    }

    void stop() {
        if (membership.id() == null) {
            return;
        }
        state.stopping();
        try {
            interrupts.run(this::leave);
        } finally {
            state.stopped();
        }
    }

    private void leave() {
        drain.run();
        // No rejoin begins after this, so the id that is found when the loops have ended is the last one.
        state.leaving();
        UUID resigning = membership.id();
        if (session == null && resigning != null) {
            try {
                elector.resign(new ElectionStore(resources.schema(), resources.control()), () -> {}, resigning);
            } catch (DataAccessException | TransactionException e) {
                log.debug("Node {}: could not resign; its leases will expire", resigning, e);
            }
        }
        // Others lead before the loops have ended.
        elector.resignSoon();
        components.stopLoops(STOP_PATIENCE);
        components.end();
        // Right before the deregistration: others declare a node dead whose session has ended while its row is there.
        endSession();
        elector.sessionLost();
        UUID left = membership.end();
        state.left();
        if (left != null) {
            membership.deregister(left);
        }
    }

    private void endSession() {
        if (session != null) {
            try {
                session.stop();
            } catch (InterruptedException e) {
                interrupts.defer();
            }
        }
    }

    void die() {
        state.stopping();
        state.leaving();
        try {
            interrupts.run(() -> {
                elector.sessionLost();
                components.stopLoops(STOP_PATIENCE);
                components.forEach(NodeComponent::lost);
                components.end();
                endSession();
                membership.end();
                state.left();
            });
        } finally {
            state.stopped();
        }
    }

    boolean drain() {
        return interrupts.run(drain::run);
    }

    // Passes of the loops -------------------------------------------------------------------------------------

    private void runPass(Runnable pass) {
        Mdc.put(membership.id(), membership.identity());
        try {
            pass.run();
        } catch (DataAccessException | TransactionException e) {
            if (!state.isStopping() || DatabaseFailure.kind(e) != Kind.CONNECTION_LOST) {
                throw e;
            }
            // Deregistration logs the consequence.
            log.debug("Node {}: database unreachable while the node leaves", membership.id(), e);
        }
    }

    private void observe() {
        UUID self = membership.id();
        if (self == null) {
            return;
        }
        boolean couldLead = peers.hasLiveCandidate();
        long sent = pace.nanos();
        Observer.View seen = peers.look(self);
        membership.looked(sent);
        heartbeats.follow(seen);
        // A node that stops would only announce its own end.
        if (couldLead && !seen.candidateLive() && !state.isStopping()) {
            log.warn(
                    "No live node can lead: no active node has the role scheduler. Crons and job recovery stop until such a"
                            + " node joins.");
        }
        if (seen.own() != null && seen.own().status() == NodeStatus.DRAINING) {
            drain.request();
        }
    }

    private void watchLeadership() {
        elector.expireOverdue();
        if (mustLead() && state.isRunning() && !state.isStopping()) {
            requiredLeadership.watch(membership.id());
        } else {
            requiredLeadership.suspend();
        }
    }

    // Parts ---------------------------------------------------------------------------------------------------

    State state() {
        return state.get();
    }

    void electSoon() {
        elections.forEach(NodeLoop::wake);
    }

    boolean isListening() {
        return session != null && session.isConnected();
    }

    List<String> stuckLoops() {
        if (state() == State.STOPPED) {
            return List.of();
        }
        Stream<String> missing =
                session != null && session.isMissing(SESSION_PATIENCE) ? Stream.of("session") : Stream.empty();
        return Stream.concat(missing, components.stuck()).sorted().toList();
    }

    private final class SessionListener implements NodeSession.Listener {

        @Override
        public void opening(UUID node) {
            Mdc.put(node, membership.identity());
        }

        @Override
        public void lost() {
            observer.sessionLost();
            heartbeats.loop().wake();
        }

        @Override
        public void heard(String notification) {
            components.forEach(component -> component.heard(notification));
        }

        @Override
        public boolean isLeaving() {
            return state.isStopping();
        }
    }
}
