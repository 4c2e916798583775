// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.database.ControlConnections;
import dev.forge.cluster.internal.database.DatabaseFailure;
import dev.forge.cluster.internal.database.DatabaseFailure.Kind;
import dev.forge.cluster.internal.leader.ElectionStore;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node.Resources;
import dev.forge.cluster.internal.node.Node.State;
import dev.forge.cluster.internal.node.NodeStore.HeartbeatResult;
import dev.forge.cluster.internal.node.ObservationStore.ObservedNode;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeStatus;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Starts, drains and stops a node, and runs the passes of its own loops: heartbeats, looks at the other nodes, elections and the
 * clean-up of dead nodes. Alone decides in what order all that happens.
 */
final class NodeLifecycle {

    private static final Logger log = GuardedLogger.of(Node.class);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);
    private static final Duration SESSION_PATIENCE = Duration.ofSeconds(15);
    private static final Duration LEADERSHIP_WATCH = Duration.ofMillis(100);

    /** How soon to look again while a node is without its liveness lock. */
    private static final Duration SECOND_LOOK = Duration.ofMillis(350);

    private static final Duration DEAD_RETENTION = Duration.ofHours(1);
    private static final Duration FORMER_RETENTION = Duration.ofDays(30);
    private static final int FORMER_BATCH = 10_000;
    private static final int DEAD_BATCH = 1_000;

    private final NodeSettings settings;
    private final Resources resources;
    private final Consumer<ClusterEvent> events;
    private final Pace pace;
    private final Elector elector;
    private final DeferredInterrupts interrupts = new DeferredInterrupts();
    private final Observer observer;
    private final @Nullable NodeSession session;
    private final NodeComponents components;
    private final Membership membership;
    private final RequiredLeadership requiredLeadership;
    private final NodeDrain drain;
    private final NodeLoop heartbeat;
    private final List<NodeLoop> elections;
    private final boolean stepped;

    private final ReentrantLock beatLock = new ReentrantLock();
    private final AtomicReference<State> state = new AtomicReference<>(State.STOPPED);
    private volatile Observer.View view = Observer.View.NONE;
    private volatile boolean leaving;
    private volatile boolean stopping;
    private volatile Duration untilElection = Duration.ofMillis(50);

    /**
     * The running environment of a node.
     *
     * @param drive runs the loops, unless a test does
     * @param events receives events for the application; must not block
     */
    record Environment(Node.Drive drive, Pace pace, Consumer<ClusterEvent> events) {}

    NodeLifecycle(NodeSettings settings, Resources resources, Environment environment, Elector elector) {
        this.settings = settings;
        this.resources = resources;
        this.pace = environment.pace;
        this.events = environment.events;
        this.elector = elector;
        this.stepped = environment.drive.stepped();
        this.components = new NodeComponents(
                new Loop.Environment(environment.drive.scheduler(), pace::nanos, this::hasContactSince),
                interrupts,
                this::runPass,
                () -> elector.isLeader(Leadership.LOG_COMPACTOR));
        this.observer = new Observer(
                resources.nodes(),
                new ObservationStore(resources.schema(), resources.nodes().source(), pace::nanos),
                pace,
                new Observer.Mode(
                        settings.detection().interval(), settings.presence().mode() != NodeMode.OBSERVER),
                new ObserverListener());
        this.session = settings.election().basis() == LeadershipBasis.LOCK
                ? new NodeSession(resources.direct(), resources.schema(), elector, pace::nanos, new SessionListener())
                : null;
        this.membership = new Membership(settings, resources, components, pace, session);
        this.requiredLeadership =
                new RequiredLeadership(resources, elector, settings.election().lease(), pace::nanos);
        this.drain = new NodeDrain(
                settings.drainTimeout(),
                environment,
                new NodeDrain.Participants(resources.nodes(), membership, components, elector, interrupts),
                state);
        this.heartbeat = NodeLoop.upkeep("heartbeat", membership::pauseBetweenBeats, this::beat);
        components.add(heartbeat);
        components.add(NodeLoop.upkeep("observe", this::observationPause, this::observe));
        components.add(NodeLoop.cleanUp("clean-up-nodes", this::purgeDead));
        components.add(NodeLoop.upkeep("watch-leadership", () -> LEADERSHIP_WATCH, this::watchLeadership));
        if (session == null) {
            var store = new ElectionStore(resources.schema(), ControlConnections.urgent(resources.control()));
            this.elections = List.of(NodeLoop.upkeep("elect", () -> untilElection, () -> elect(store)));
        } else {
            this.elections = List.of();
        }
        elections.forEach(components::add);
    }

    // Start and stop ------------------------------------------------------------------------------------------

    /** See {@link Node#start}. */
    void start() {
        try {
            joinAndRun();
        } catch (RuntimeException e) {
            stop();
            interrupts.run(this::endSession);
            throw e;
        }
    }

    private void joinAndRun() {
        try {
            requiredLeadership.reset();
            components.forEach(NodeComponent::prepare);
            elector.compete(false);
            membership.join();
            state.set(State.RUNNING);
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
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("Interrupted while joining the cluster", e);
        }
    }

    private boolean mustLead() {
        return settings.presence().mode() == NodeMode.LEADER;
    }

    /** See {@link Node#stop}. */
    void stop() {
        if (membership.id() == null) {
            return;
        }
        stopping = true;
        try {
            interrupts.run(this::leave);
        } finally {
            stopping = false;
        }
    }

    private void leave() {
        drain.run();
        // No rejoin begins after this, so the id that is found when the loops have ended is the last one.
        leaving = true;
        UUID resigning = membership.id();
        if (session == null && resigning != null) {
            try {
                elector.resign(new ElectionStore(resources.schema(), resources.control()), () -> {}, resigning);
            } catch (RuntimeException e) {
                log.debug("Node {}: could not resign; its leases will expire", resigning, e);
            }
        }
        // Others lead before the loops have ended.
        elector.resignSoon();
        components.stopLoops(STOP_PATIENCE);
        components.end();
        // Right before the deregistration: other nodes declare a node dead whose session has ended while its row is
        // there.
        endSession();
        elector.sessionLost();
        UUID left = membership.end();
        state.set(State.STOPPED);
        leaving = false;
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

    /** See {@link Node#die}. */
    void die() {
        stopping = true;
        leaving = true;
        try {
            interrupts.run(() -> {
                elector.sessionLost();
                components.stopLoops(STOP_PATIENCE);
                components.forEach(NodeComponent::lost);
                components.end();
                endSession();
                membership.end();
                state.set(State.STOPPED);
            });
        } finally {
            leaving = false;
            stopping = false;
        }
    }

    /** See {@link Node#drain}. */
    boolean drain() {
        return interrupts.run(drain::run);
    }

    // Passes of the loops -------------------------------------------------------------------------------------

    private void runPass(Runnable pass) {
        Mdc.put(membership.id(), membership.identity());
        try {
            pass.run();
        } catch (RuntimeException e) {
            if (!stopping || DatabaseFailure.kind(e) != Kind.CONNECTION_LOST) {
                throw e;
            }
            // Deregistration logs the consequence.
            log.debug("Node {}: database unreachable while the node leaves", membership.id(), e);
        }
    }

    /** Sends a heartbeat, one at a time: two threads that both find the node declared dead would join it twice under one key. */
    void beat() {
        beatLock.lock();
        try {
            beatOnce();
        } finally {
            beatLock.unlock();
        }
    }

    private void beatOnce() {
        UUID beating = membership.id();
        if (beating == null) {
            return;
        }
        HeartbeatResult result;
        try {
            result = membership.beat(beating, holdsSomething());
        } catch (RuntimeException e) {
            observer.ownBeatFailed();
            throw e;
        }
        observer.ownBeatArrived();
        switch (result) {
            case RECORDED -> {
                // A rejoin may have failed half-way.
                if (state.get() == State.RUNNING && settings.presence().mayCompete() && !elector.isCompeting()) {
                    elector.compete(true);
                }
            }
            case DRAIN_REQUESTED -> drain.request();
            case DECLARED_DEAD -> rejoin(beating);
        }
    }

    /** Returns whether this node holds something that other nodes could not take over before they declare it dead. */
    private boolean holdsSomething() {
        return !elector.rolesHeld().isEmpty() || components.isBusy();
    }

    private void rejoin(UUID former) {
        if (leaving || state.get() == State.STOPPED) {
            return;
        }
        log.warn("Node {}: another node declared it dead; joining again with a new id", former);
        try {
            elector.sessionLost();
            components.forEach(NodeComponent::lost);
            membership.join();
            log.info("Node {}: joined again as {}", former, membership.id());
            if (state.get() == State.DRAINING) {
                resources.nodes().drain(membership.requireId());
            } else {
                membership.activate();
                elector.compete(settings.presence().mayCompete());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private Duration observationPause() {
        Duration usual = pace.stretched(settings.detection().interval());
        return view.suspicious() && usual.compareTo(SECOND_LOOK) > 0 ? SECOND_LOOK : usual;
    }

    private void observe() {
        UUID self = membership.id();
        if (self == null) {
            return;
        }
        Observer.View former = view;
        long sent = pace.nanos();
        Observer.View seen = observer.pass(self);
        HeartbeatSchedule schedule = membership.schedule();
        // A look proves that the database can be read. Other nodes count heartbeats: while these fail, there is no
        // contact.
        if (!schedule.isUnanswered()) {
            membership.contact(sent);
        }
        if (schedule.isTooSlowForWork() && holdsSomething()) {
            heartbeat.wake();
        }
        pace.liveNodes(seen.live());
        view = seen;
        if (seen.changed() && schedule.quicken()) {
            heartbeat.wake();
        }
        // A node that stops would only announce its own end.
        if (former.candidateLive() && !seen.candidateLive() && !stopping) {
            log.warn(
                    "No live node can lead: no active node has the role scheduler. Crons and job recovery stop until such a"
                            + " node joins.");
        }
        ObservedNode own = seen.own();
        if (own == null) {
            heartbeat.wake();
        } else if (own.status() == NodeStatus.DRAINING) {
            drain.request();
        }
    }

    private void watchLeadership() {
        elector.expireOverdue();
        if (mustLead() && state.get() == State.RUNNING && !stopping) {
            requiredLeadership.watch(membership.id());
        } else {
            requiredLeadership.suspend();
        }
    }

    private void elect(ElectionStore store) {
        UUID candidate = membership.id();
        if (candidate != null) {
            untilElection = elector.step(store, () -> {}, candidate);
        }
    }

    private void purgeDead() {
        resources
                .nodes()
                .purgeDead(
                        DEAD_RETENTION,
                        DEAD_BATCH,
                        dead -> components.forEach(component -> component.forgetDead(dead)));
        resources.nodes().forgetFormer(FORMER_RETENTION, FORMER_BATCH);
    }

    // State ---------------------------------------------------------------------------------------------------

    State state() {
        return state.get();
    }

    /** Returns what the last look has shown. */
    Observer.View view() {
        return view;
    }

    Observer observer() {
        return observer;
    }

    // The loops are created before the membership, which uses them.
    private boolean hasContactSince(long nanos) {
        return membership.hasContactSince(nanos);
    }

    Membership membership() {
        return membership;
    }

    NodeComponents components() {
        return components;
    }

    RequiredLeadership requiredLeadership() {
        return requiredLeadership;
    }

    boolean isListening() {
        return session != null && session.isConnected();
    }

    List<String> stuckLoops() {
        if (state.get() == State.STOPPED) {
            return List.of();
        }
        Stream<String> missing =
                session != null && session.isMissing(SESSION_PATIENCE) ? Stream.of("session") : Stream.empty();
        return Stream.concat(missing, components.stuck()).sorted().toList();
    }

    void electSoon() {
        elections.forEach(NodeLoop::wake);
    }

    void beatSoon() {
        heartbeat.wake();
    }

    private final class ObserverListener implements Observer.Listener {

        @Override
        public void published(ClusterEvent event) {
            events.accept(event);
        }

        @Override
        public void died(UUID dead) {
            elector.died(dead);
            components.forEach(component -> component.died(dead));
        }

        @Override
        public Runnable releaseHeldBy(UUID dead) {
            return components.releaseHeldByDead(resources.nodes(), dead);
        }
    }

    private final class SessionListener implements NodeSession.Listener {

        @Override
        public void opening(UUID node) {
            Mdc.put(node, membership.identity());
        }

        @Override
        public void lost() {
            observer.sessionLost();
            heartbeat.wake();
        }

        @Override
        public void heard(String notification) {
            components.forEach(component -> component.heard(notification));
        }

        @Override
        public boolean isLeaving() {
            return stopping;
        }
    }
}
