// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.BlockedFences;
import dev.forge.cluster.internal.leader.Candidate;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.node.NodeSettings.Election;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeIdentityProvider;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.random.RandomGenerator;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * This process as a node of the cluster: its settings, its times, and its parts. {@link NodeLifecycle} starts and stops them, {@link
 * Membership} keeps the row, {@link Peers} watches the other nodes, {@link Elector} stands for election, {@link NodeComponents} do
 * the work.
 */
public final class Node implements Candidate, Member {

    private final NodeSettings settings;
    private final Resources resources;
    private final Drive drive;
    private final Pace pace;
    private final BlockedFences fences;
    private final Elector elector;
    private final NodeLifecycle lifecycle;

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

    /** @param events receives events for the application; must not block */
    public Node(NodeSettings settings, Resources resources, Drive drive, Consumer<ClusterEvent> events) {
        this.settings = settings;
        this.resources = resources;
        this.drive = drive;
        this.pace = new Pace(drive.stepped ? () -> 0 : System::nanoTime, RandomGenerator.getDefault());
        this.fences = new BlockedFences(clock(), pace::nanos);
        Election election = settings.election();
        this.elector = new Elector(
                new Elector.Timing(
                        election.checkInterval(), election.lease(), election.renewInterval(), election.localDeadline()),
                election.basis(),
                pace,
                fences,
                events);
        if (mayLead()) {
            List.of(Leadership.SCHEDULER, Leadership.METRICS_AGGREGATOR, Leadership.LOG_COMPACTOR)
                    .forEach(elector::join);
        }
        this.lifecycle = new NodeLifecycle(settings, resources, drive, pace, elector, events);
    }

    // Start and stop ------------------------------------------------------------------------------------------

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

    public State state() {
        return lifecycle.state();
    }

    // For tests -----------------------------------------------------------------------------------------------

    /** Runs all clean-ups at once, if this node leads the role log_compactor. */
    public void cleanUp() {
        components().pass(NodeLoop.Kind.CLEAN_UP);
    }

    /** Runs one pass of each loop that moves work on, on the caller's thread. */
    public void step() {
        components().pass(NodeLoop.Kind.WORK);
    }

    /** Adapts to a time that a test has moved. */
    public void timeMoved() {
        components().forEach(NodeComponent::timeMoved);
        components().wakeLoops();
    }

    /** Ends this node as a crash would: its row and all that it holds stay behind. */
    public void die() {
        lifecycle.die();
    }

    /** Declares another node dead, as a look does that misses its heartbeats, and releases what it holds. */
    public boolean declareDead(UUID other) {
        return resources
                .nodes
                .seen(other)
                .filter(lifecycle.deadNodes::endUnwatched)
                .isPresent();
    }

    // Parts ---------------------------------------------------------------------------------------------------

    public NodeSettings settings() {
        return settings;
    }

    public Resources resources() {
        return resources;
    }

    public NodeComponents components() {
        return lifecycle.components;
    }

    public Membership membership() {
        return lifecycle.membership;
    }

    public DatabaseContact contact() {
        return lifecycle.contact;
    }

    public Peers peers() {
        return lifecycle.peers;
    }

    public RequiredLeadership requiredLeadership() {
        return lifecycle.requiredLeadership;
    }

    @Override
    public Elector elector() {
        return elector;
    }

    @Override
    public BlockedFences fences() {
        return fences;
    }

    public Pace pace() {
        return pace;
    }

    /** Returns whether notifications reach this node; never behind a transaction pooler, where it has no session. */
    public boolean isListening() {
        return lifecycle.isListening();
    }

    /** Returns the names of loops that have not completed a pass for much longer than their pause. */
    public List<String> stuckLoops() {
        return lifecycle.stuckLoops();
    }

    /** Sends a heartbeat at once. */
    public void beatSoon() {
        lifecycle.heartbeats.loop().wake();
    }

    // Package-private: a test calls a pass without waiting for the loop.
    void beat() {
        lifecycle.heartbeats.beat();
    }

    // What components see -------------------------------------------------------------------------------------

    @Override
    public @Nullable UUID id() {
        return membership().id();
    }

    @Override
    public NodeIdentity identity() {
        return membership().identity();
    }

    @Override
    public UUID requireMutable() {
        requireMayMutate();
        return membership().requireId();
    }

    @Override
    public void requireMayMutate() {
        settings.presence().requireMayMutate();
    }

    @Override
    public InstantSource clock() {
        return drive.scheduler.getClock();
    }

    @Override
    public long nanos() {
        return drive.stepped ? System.nanoTime() + drive.moved.getAsLong() : pace.nanos();
    }

    @Override
    public long databaseNanos() {
        return drive.stepped ? drive.moved.getAsLong() : pace.nanos() + drive.moved.getAsLong();
    }

    @Override
    public boolean isStepped() {
        return drive.stepped;
    }

    @Override
    public boolean isTimeMoved() {
        return drive.moved.getAsLong() != 0;
    }

    @Override
    public boolean mayLead() {
        return settings.presence().isCandidate();
    }

    @Override
    public Duration lease() {
        return settings.election().lease();
    }

    @Override
    public void electSoon() {
        lifecycle.electSoon();
    }

    @Override
    public Optional<ReservedPrefix> reservedPrefix(String name) {
        return components().reservedPrefixes().stream()
                .filter(prefix -> prefix.matches(name))
                .findFirst();
    }
}
