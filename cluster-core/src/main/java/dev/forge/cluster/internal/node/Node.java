// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.BlockedFences;
import dev.forge.cluster.internal.leader.Candidate;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.node.NodeSettings.Election;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LostLeadership;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeIdentityProvider;
import dev.forge.cluster.node.NodeMode;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * This process as a node of the cluster, as components and the wiring see it. {@link NodeLifecycle} starts and stops it, {@link
 * Membership} keeps its row, {@link Observer} watches the other nodes, and {@link Elector} stands for election.
 */
public final class Node implements Candidate {

    private final NodeSettings settings;
    private final Resources resources;
    private final Drive drive;
    private final Pace pace;
    private final BlockedFences fences;
    private final Elector elector;
    private final NodeLifecycle lifecycle;
    private final NodeComponents components;
    private final Membership membership;

    /** The state of a node. */
    public enum State {
        /** Not a member of the cluster. */
        STOPPED,
        /** A member that takes work. */
        RUNNING,
        /** A member that takes no new work. */
        DRAINING
    }

    /**
     * What drives a node: its loops and the time, or a test.
     *
     * @param scheduler runs the loops
     * @param moved by how many nanoseconds a test has moved the time of the database
     * @param stepped whether no loop runs by itself, no job is claimed by itself, and membership never expires: a test calls {@link
     *     #step()} and the like
     */
    public record Drive(ThreadPoolTaskScheduler scheduler, LongSupplier moved, boolean stepped) {

        /** Creates the drive of a node whose loops run by themselves. */
        public static Drive by(ThreadPoolTaskScheduler scheduler) {
            return new Drive(scheduler, () -> 0, false);
        }
    }

    /**
     * The schema, the connections and the identity that a node works with.
     *
     * @param direct opens the connection of the session
     * @param control serves all other statements of the cluster
     * @param audit records operations
     */
    public record Resources(
            Schema schema,
            DataSource direct,
            DataSource control,
            NodeStore nodes,
            NodeIdentityProvider identities,
            Audit audit) {}

    public Node(NodeSettings settings, Resources resources, Drive drive, Consumer<ClusterEvent> events) {
        this.settings = settings;
        this.resources = resources;
        this.drive = drive;
        this.pace = new Pace(drive.stepped ? () -> 0 : System::nanoTime, RandomGenerator.getDefault());
        Election election = settings.election();
        this.fences = new BlockedFences(drive.scheduler.getClock(), pace::nanos);
        this.elector = new Elector(
                new Elector.Timing(
                        election.checkInterval(), election.lease(), election.renewInterval(), election.localDeadline()),
                election.basis(),
                pace,
                fences,
                events);
        if (settings.presence().isCandidate()) {
            List.of(Leadership.SCHEDULER, Leadership.METRICS_AGGREGATOR, Leadership.LOG_COMPACTOR)
                    .forEach(elector::join);
        }
        this.lifecycle =
                new NodeLifecycle(settings, resources, new NodeLifecycle.Environment(drive, pace, events), elector);
        this.components = lifecycle.components();
        this.membership = lifecycle.membership();
    }

    /** Adds a component. Components start, drain and stop in the order of registration, which ends when the node starts. */
    public void register(NodeComponent component) {
        components.register(component);
    }

    /** Joins the cluster; returns when the other nodes can see this one. */
    public void start() {
        lifecycle.start();
    }

    /**
     * Leaves the cluster: drains, resigns from all roles and deletes the node's row. Other nodes see that at once, unless the
     * database is unreachable: then they declare this node dead when its deadline has passed.
     */
    public void stop() {
        lifecycle.stop();
    }

    /**
     * Takes no new work and waits up to the drain timeout for running work; interrupts and returns what is left. The node stays
     * a member, without leading any role.
     *
     * @return whether the node was running until now
     */
    public boolean drain() {
        return lifecycle.drain();
    }

    // Package-private: a test calls a pass without waiting for the loop.
    void beat() {
        lifecycle.beat();
    }

    /** Runs all clean-ups at once, if this node leads the role log_compactor; for tests, which do not wait for the loops. */
    public void cleanUp() {
        components.pass(NodeLoop.Kind.CLEAN_UP);
    }

    /** Runs one pass of each loop that moves work on, on the caller's thread; for tests. */
    public void step() {
        components.pass(NodeLoop.Kind.WORK);
    }

    /** Adapts to a time that a test has moved. */
    public void timeMoved() {
        components.forEach(NodeComponent::timeMoved);
        components.wakeLoops();
    }

    /** Returns whether a test has moved the time: what is late then is what the test asked for. */
    public boolean isTimeMoved() {
        return drive.moved.getAsLong() != 0;
    }

    /** Returns whether a test drives this node. */
    public boolean isStepped() {
        return drive.stepped;
    }

    /** Ends this node as a crash would: its row and all that it holds stay behind. For tests. */
    public void die() {
        lifecycle.die();
    }

    /** Declares another node dead, as a look does that misses its heartbeats, and releases what it holds. For tests. */
    public void declareDead(UUID other) {
        resources
                .nodes
                .beats(other)
                .ifPresent(beats -> resources
                        .nodes
                        .declareDead(other, beats, () -> components.releaseHeldByDead(resources.nodes, other))
                        .ifPresent(Runnable::run));
    }

    /** Runs an election at once. */
    public void electSoon() {
        lifecycle.electSoon();
    }

    /** Sends a heartbeat at once. */
    public void beatSoon() {
        lifecycle.beatSoon();
    }

    // This node -----------------------------------------------------------------------------------------------

    /** Returns the id of the present membership; null while the node is not a member. */
    @Override
    public @Nullable UUID id() {
        return membership.id();
    }

    public NodeIdentity identity() {
        return membership.identity();
    }

    public State state() {
        return lifecycle.state();
    }

    public NodeSettings settings() {
        return settings;
    }

    public Resources resources() {
        return resources;
    }

    /**
     * Returns the data source on which nodes are declared dead and deleted. Components release rows of such nodes on it, in the
     * same transaction.
     */
    public DataSource membership() {
        return resources.nodes.source();
    }

    /** Returns the clock of this machine, for times that only this node sees. */
    public InstantSource clock() {
        return drive.scheduler.getClock();
    }

    /** Returns the monotonic time of this process, plus what a test that steps this node has moved it by. */
    public long nanos() {
        return drive.stepped ? System.nanoTime() + drive.moved.getAsLong() : pace.nanos();
    }

    /** Returns a monotonic time whose differences are those of the database's time, which a test may stop and move. */
    public long databaseNanos() {
        return drive.stepped ? drive.moved.getAsLong() : pace.nanos() + drive.moved.getAsLong();
    }

    public Pace pace() {
        return pace;
    }

    /** Returns one line for each kind of work that this node does, for the log. */
    public List<String> summary() {
        return components.summary();
    }

    /** Returns the number of loops: with as many threads no loop waits for another. */
    public int loops() {
        return components.loops();
    }

    /** Returns the names of loops that have not completed a pass for much longer than their pause. */
    public List<String> stuckLoops() {
        return lifecycle.stuckLoops();
    }

    /** Returns the reserved prefix that a name begins with, if there is one. */
    @Override
    public Optional<ReservedPrefix> reservedPrefix(String name) {
        return reservedPrefixes().stream()
                .filter(prefix -> prefix.matches(name))
                .findFirst();
    }

    /** Returns the beginnings of names that components of this node use for themselves. */
    public List<ReservedPrefix> reservedPrefixes() {
        return components.reservedPrefixes();
    }

    /**
     * Returns the id under which this node may change the cluster.
     *
     * @throws ClusterNotReadyException if it is not a member
     * @throws MutationRefusedException if its mode or roles forbid changes
     */
    public UUID requireMutable() {
        requireMayMutate();
        UUID current = id();
        if (current == null) {
            throw new ClusterNotReadyException(
                    "This node is not a member of the cluster: it has not joined yet, or it has left. It joins after all beans"
                            + " were created: call this from an ApplicationRunner or a method with"
                            + " @EventListener(ApplicationReadyEvent.class), not from a constructor or a @PostConstruct"
                            + " method.");
        }
        return current;
    }

    /**
     * Checks that mode and roles of this node allow changes. Needs no membership: requests that run while the node leaves still
     * enqueue jobs.
     *
     * @throws MutationRefusedException if they forbid changes
     */
    public void requireMayMutate() {
        if (settings.presence().mayMutate()) {
            return;
        }
        throw new MutationRefusedException(
                settings.presence().mode() == NodeMode.OBSERVER
                        ? "This node may not change the cluster: forge.cluster.node.mode (observer). Call another node, or set another"
                                + " mode."
                        : "This node may not change the cluster: forge.cluster.node.roles (%s) lacks function. Add it, or call a node"
                                        .formatted(settings.presence().roles().stream()
                                                .map(EnumText::hyphenated)
                                                .sorted()
                                                .collect(Collectors.joining(",")))
                                + " that has it.");
    }

    // The database and the other nodes ------------------------------------------------------------------------

    /** Returns whether no other node can have declared this one dead yet, and taken over what it holds. */
    public boolean isTrusted() {
        return membership.isTrusted();
    }

    /** Returns whether the database has responded lately. */
    public boolean isInContact() {
        return membership.isInContact();
    }

    /** Returns how long ago the database last recorded a heartbeat of this node, or answered a look at the others after one. */
    public Duration sinceLastContact() {
        return membership.sinceLastContact();
    }

    /**
     * Returns whether the database has recorded a heartbeat that was sent after a time of {@link #nanos()}, or answered a look at the
     * other nodes. Looks do not count while heartbeats fail.
     */
    public boolean hasContactSince(long nanos) {
        return membership.hasContactSince(nanos);
    }

    /** Returns whether the last heartbeat failed because the database, or the session of this node, is read-only. */
    public boolean isReadOnly() {
        return membership.isReadOnly();
    }

    /**
     * Sets the reaction to the first heartbeat that is recorded after others have failed because the database was read-only. To
     * be called before the node starts.
     */
    public void onWritableAgain(Runnable reaction) {
        membership.onWritableAgain(reaction);
    }

    /** Returns whether notifications reach this node; never behind a transaction pooler, where it has no session. */
    public boolean isListening() {
        return lifecycle.isListening();
    }

    /** Returns when the server was started, as of the last look; null before the first one. */
    @Nullable
    public OffsetDateTime serverStart() {
        return lifecycle.observer().serverStart();
    }

    /** Returns whether any live node can lead. */
    public boolean hasLiveCandidate() {
        return lifecycle.view().candidateLive();
    }

    /** Returns how many live nodes have the role worker. */
    public int liveWorkers() {
        return lifecycle.view().workers();
    }

    /** Returns whether the last look has shown no other node, not even a silent one. */
    public boolean isAlone() {
        Observer.View seen = lifecycle.view();
        return seen.own() != null && seen.live() == 1;
    }

    // Leadership ----------------------------------------------------------------------------------------------

    @Override
    public Elector elector() {
        return elector;
    }

    @Override
    public BlockedFences fences() {
        return fences;
    }

    @Override
    public boolean mayLead() {
        return settings.presence().isCandidate();
    }

    @Override
    public Duration lease() {
        return settings.election().lease();
    }

    /** Calls the listener with each role that this node stands for, except those of components, now and later. */
    public void onCandidacy(Consumer<String> listener) {
        elector.onJoin(listener);
    }

    /** Returns the roles that this node leads in the order of their names, except those of components. */
    public Set<String> rolesLed() {
        return elector.rolesHeld().stream()
                .filter(elector::isOfApplication)
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** Returns the roles that this node leads without their advisory lock, which another session holds. */
    public Set<String> rolesLedWithoutLock() {
        return elector.rolesWithoutLock();
    }

    /** Returns the roles whose fence another session keeps locked, each with the time since when. */
    public Map<String, Instant> blockedFences() {
        return fences.byRole();
    }

    /**
     * Sets the reaction of a node of mode leader to the loss of its leadership. To be called before the node starts.
     *
     * @param exit closes the application and ends the process
     */
    public void onLostLeadership(LostLeadership reaction, Runnable exit) {
        lifecycle.requiredLeadership().onLost(reaction, exit);
    }

    /** Returns whether this node must lead to be ready, and has not led for longer than an election takes. */
    public boolean isUnreadyWithoutLeadership() {
        return lifecycle.requiredLeadership().isUnready();
    }
}
