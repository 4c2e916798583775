// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeStore.Deadlines;
import dev.forge.cluster.internal.node.NodeStore.HeartbeatResult;
import dev.forge.cluster.internal.node.NodeStore.KeyHolder;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.internal.node.NodeStore.NewNode;
import dev.forge.cluster.internal.node.NodeStore.SeenNode;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.internal.runtime.Pause;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeIdentityProvider;
import java.time.Duration;
import java.util.HashMap;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/**
 * This node's row in {@code forge_nodes}: registers it, sends heartbeats and deletes it.
 *
 * <p>The id lasts as long as the membership. A node that joins again gets a new id, so that nothing which the former id held
 * can be mistaken for held.
 */
public final class Membership {

    private static final Logger log = GuardedLogger.of(Node.class);
    private static final Duration CONNECT_PATIENCE = Duration.ofSeconds(15);
    private static final Duration KEY_POLL = Duration.ofMillis(500);

    private final NodeSettings settings;
    private final Node.Resources resources;
    private final NodeComponents components;
    private final DeadNodes deadNodes;
    private final DatabaseContact contact;
    private final Pace pace;
    private final @Nullable NodeSession session;
    private final HeartbeatSchedule schedule;
    private volatile @Nullable UUID id;
    private volatile NodeIdentity identity;
    private volatile Runnable writableAgain = () -> {};
    /** Whether the last heartbeat failed because the database, or this session, is read-only. */
    private volatile boolean readOnly;
    /** Whether a heartbeat failed for that reason since the last one that was recorded. */
    private volatile boolean wasReadOnly;

    /** @param session holds the liveness lock; null behind a transaction pooler */
    Membership(
            NodeSettings settings,
            Node.Resources resources,
            NodeComponents components,
            DeadNodes deadNodes,
            DatabaseContact contact,
            Pace pace,
            @Nullable NodeSession session) {
        this.settings = settings;
        this.resources = resources;
        this.components = components;
        this.deadNodes = deadNodes;
        this.contact = contact;
        this.pace = pace;
        this.session = session;
        this.schedule = new HeartbeatSchedule(settings.heartbeat());
        this.identity = identity(resources.identities());
    }

    // Identity ------------------------------------------------------------------------------------------------

    @Nullable
    UUID id() {
        return id;
    }

    UUID requireId() {
        UUID current = id;
        if (current == null) {
            throw new ClusterNotReadyException(
                    "This node is not a member of the cluster: it has not joined yet, or it has left. It joins after all beans"
                            + " were created: call this from an ApplicationRunner or a method with"
                            + " @EventListener(ApplicationReadyEvent.class), not from a constructor or a @PostConstruct"
                            + " method.");
        }
        return current;
    }

    NodeIdentity identity() {
        return identity;
    }

    private static NodeIdentity identity(NodeIdentityProvider identities) {
        NodeIdentity identity = identities.identity();
        try {
            Names.require("node id", identity.id());
            Names.require("node name", identity.name());
        } catch (IllegalArgumentException e) {
            throw new ClusterStartupException(
                    String.valueOf(e.getMessage()),
                    "Change forge.cluster.node.id and forge.cluster.node.name, or the result of the NodeIdentityProvider.",
                    e);
        }
        return identity;
    }

    // Joining and leaving -------------------------------------------------------------------------------------

    /** Registers this node under a new id; waits for the end of a dead node that has the same key. */
    void join() throws InterruptedException {
        identity = identity(resources.identities());
        @Nullable FormerHolder former = null;
        while (true) {
            UUID joining = UUID.randomUUID();
            Mdc.put(joining, identity);
            // The lock comes before the row: other nodes must not see a row whose lock is missing.
            if (session != null && !session.begin(joining, CONNECT_PATIENCE)) {
                throw new IllegalStateException("No session connection within " + CONNECT_PATIENCE);
            }
            NewNode node = describe(joining);
            Deadlines deadlines = schedule.deadlines();
            resources.nodes().overdueHoldersOf(identity.id()).forEach(deadNodes::endUnwatched);
            if (resources.nodes().register(node, deadlines)) {
                correctLivenessKey(node);
                id = joining;
                contact.beatRecorded(pace.nanos(), deadlines.dead());
                return;
            }
            former = waitFor(former);
            Pause.of(KEY_POLL);
        }
    }

    /**
     * The live node that had this node's key when the wait for the key began. It may be this node's own former process, killed a
     * moment ago, which is dead when its own deadline has passed.
     */
    private record FormerHolder(KeyHolder holder, long seenAt) {}

    private @Nullable FormerHolder waitFor(@Nullable FormerHolder former) {
        KeyHolder holder = resources.nodes().holderOf(identity.id()).orElse(null);
        if (holder != null && former == null) {
            log.info(
                    "forge.cluster.node.id {} belongs to a live node; waiting until that node leaves or dies",
                    identity.id());
            return new FormerHolder(holder, pace.nanos());
        }
        if (holder != null && former != null) {
            declareDeadOrReject(former, holder);
        }
        return former;
    }

    /** Declares the holder dead if it sends no heartbeats, whatever the clock of the database says; rejects the key otherwise. */
    private void declareDeadOrReject(FormerHolder former, KeyHolder now) {
        long waited = pace.nanos() - former.seenAt;
        boolean silent = now.id().equals(former.holder.id()) && now.beats() == former.holder.beats();
        if (silent && waited > now.deadAfter().toNanos()) {
            deadNodes.endUnwatched(new SeenNode(now.id(), now.beats()));
        } else if (!silent
                && now.beats() > 0
                && waited > settings.heartbeat().dead().plusSeconds(2).toNanos()) {
            throw new ClusterStartupException(
                    "forge.cluster.node.id (%s) belongs to a live node of this cluster%s"
                            .formatted(
                                    identity.id(),
                                    resources
                                            .nodes()
                                            .describeHolderOf(identity.id())
                                            .map(", "::concat)
                                            .orElse("")),
                    "Give each instance an id of its own, or remove the property: the id is then generated.");
        }
    }

    /** Records the key of a session that was replaced while the row was being inserted. */
    private void correctLivenessKey(NewNode written) {
        Integer former = written.livenessKey();
        if (session != null && former != null && session.livenessKey() != former) {
            resources.nodes().renewLiveness(written.id(), former, session.livenessKey());
        }
    }

    private NewNode describe(UUID joining) {
        NodeSettings.Presence presence = settings.presence();
        var info = new HashMap<>(presence.info());
        info.put("mode", EnumText.hyphenated(presence.mode()));
        info.putAll(components.facts());
        return new NewNode(
                joining,
                identity,
                presence.hostname(),
                presence.effectiveRoles(),
                presence.capabilities(),
                presence.version(),
                session != null && settings.detection().livenessLock() ? session.livenessKey() : null,
                components.handlers(),
                components.executorFacts(),
                info);
    }

    void activate() {
        resources.nodes().activate(requireId());
    }

    /** Records that this node drains, if it is a member and the database responds. */
    void recordDrain() {
        UUID draining = id;
        try {
            if (draining != null) {
                resources.nodes().drain(draining);
            }
        } catch (DataAccessException e) {
            log.debug("Node {}: could not record that it drains", draining, e);
        }
    }

    /** Ends the membership; returns the id that it had, null if there was none. */
    @Nullable
    UUID end() {
        UUID left = id;
        id = null;
        return left;
    }

    /** Deletes the row of this node, so that other nodes see at once that it has left. */
    void deregister(UUID left) {
        // Also without contact: a node that takes long to stop sends no heartbeats meanwhile, and a try is over soon.
        try {
            resources
                    .nodes()
                    .remove(left, leaving -> components.forEach(component -> component.releaseHeldByLeaving(leaving)));
        } catch (DataAccessException | TransactionException e) {
            if (DatabaseFailure.kind(e) == Kind.CONNECTION_LOST) {
                log.warn("Could not deregister node {}: database unreachable. Other nodes will declare it dead.", left);
            } else {
                log.warn("Could not deregister node {}. Other nodes will declare it dead.", left, e);
            }
        }
    }

    // Heartbeats ----------------------------------------------------------------------------------------------

    /** Sends a heartbeat. */
    HeartbeatResult beat(UUID beating, boolean busy) {
        Deadlines declared = schedule.beating(busy);
        long sent = pace.nanos();
        HeartbeatResult result = send(beating, declared);
        schedule.answered(hasSession());
        if (result != HeartbeatResult.DECLARED_DEAD) {
            contact.beatRecorded(sent, declared.dead());
        }
        return result;
    }

    private HeartbeatResult send(UUID beating, Deadlines declared) {
        HeartbeatResult result;
        try {
            result = resources.nodes().beat(beating, load(), declared);
        } catch (DataAccessException e) {
            readOnly = DatabaseFailure.kind(e) == Kind.READ_ONLY;
            wasReadOnly |= readOnly;
            // Perhaps only these connections fail: they may lead to a former primary, or be read-only for good.
            ControlConnections.replace(resources.control());
            throw e;
        }
        readOnly = false;
        if (wasReadOnly) {
            wasReadOnly = false;
            try {
                writableAgain.run();
            } catch (RuntimeException e) {
                // A reaction of the application; the heartbeat itself is recorded.
                log.warn(
                        "Node {}: could not replace connections that were opened while the database was read-only",
                        id,
                        e);
            }
        }
        return result;
    }

    private Load load() {
        Load load = settings.presence().load().get();
        return new Load(load.connections(), components.load(), load.cpu(), load.memory());
    }

    /**
     * Records that a look at the other nodes has succeeded: the database can be read. Other nodes count heartbeats: while these
     * fail, there is no contact.
     */
    void looked(long sent) {
        if (!schedule.isUnanswered()) {
            contact.answered(sent);
        }
    }

    HeartbeatSchedule schedule() {
        return schedule;
    }

    Duration pauseBetweenBeats() {
        return schedule.pause(hasSession());
    }

    private boolean hasSession() {
        return session == null || session.isConnected();
    }

    /**
     * Sets the reaction to the first heartbeat that is recorded after others have failed because the database was read-only. To
     * be called before the node starts.
     */
    public void onWritableAgain(Runnable reaction) {
        writableAgain = reaction;
    }

    /** Returns whether the last heartbeat failed because the database, or the session of this node, is read-only. */
    public boolean isReadOnly() {
        return readOnly;
    }

    /** Returns whether no other node can have declared this one dead yet, and taken over what it holds. */
    public boolean isTrusted() {
        return id != null && contact.isTrusted();
    }
}
