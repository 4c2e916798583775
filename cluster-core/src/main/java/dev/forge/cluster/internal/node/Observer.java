// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.database.DatabaseFailure;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.ObservationStore.Observation;
import dev.forge.cluster.internal.node.ObservationStore.ObservedNode;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.node.NodeJoined;
import dev.forge.cluster.node.NodeLeft;
import dev.forge.cluster.node.NodeStatus;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Watches the other nodes and declares them stale and dead.
 *
 * <p>A node is dead when its heartbeat counter has stood still for as long as the node itself declared, on this observer's own
 * monotonic clock: clocks of different machines are never compared. After an outage, in which all nodes were silent, silence is
 * counted again from its end. A node whose liveness lock is missing is suspect much sooner, but dead only if it sends no
 * heartbeats either; locks do not count while they may be missing for all nodes.
 */
final class Observer {

    private static final Logger log = GuardedLogger.of(Observer.class);

    /** How long other nodes have to take their locks again after this node's session was lost or the server restarted. */
    private static final Duration LOCKS_UNRELIABLE = Duration.ofSeconds(15);
    /** After a gap of this length between two looks, the silence of other nodes cannot be told from this node's own. */
    private static final Duration GAP = Duration.ofSeconds(2);

    private final NodeStore nodes;
    private final ObservationStore observations;
    private final Pace pace;
    private final Mode mode;
    private final Listener listener;
    private final Map<UUID, WatchedNode> watched = new HashMap<>();
    private volatile @Nullable OffsetDateTime serverStart;
    private long lastLook;
    private boolean looked;
    private volatile long locksReliableFrom;
    /** Since when this node's own heartbeats fail; null if they do not. */
    private volatile @Nullable Long beatsFailSince;

    /**
     * How to watch.
     *
     * @param interval between two looks, before it is stretched
     * @param declares whether to declare nodes stale and dead; a node of mode observer only looks
     */
    record Mode(Duration interval, boolean declares) {}

    /** Receives the results of an observer. */
    interface Listener {

        /** Called when another node has joined, left or died. */
        void published(ClusterEvent event);

        /** Called when another node is dead, whichever node declared it; before the event. */
        void died(UUID node);

        /**
         * Releases what a dead node holds, in the transaction that declares it dead.
         *
         * @return an action for the time after the commit
         */
        Runnable releaseHeldBy(UUID node);
    }

    /**
     * The result of a look.
     *
     * @param changed whether a node joined, left or died since the last look
     * @param suspicious whether a node is without its lock, so that the next look should come soon
     * @param live how many nodes live
     * @param candidateLive whether one of them can lead
     * @param workers how many of them have the role worker
     * @param own this node's row; null if it is gone
     */
    record View(
            boolean changed,
            boolean suspicious,
            int live,
            boolean candidateLive,
            int workers,
            @Nullable ObservedNode own) {

        /** Before the first look. */
        static final View NONE = new View(false, false, 0, true, 0, null);
    }

    Observer(NodeStore nodes, ObservationStore observations, Pace pace, Mode mode, Listener listener) {
        this.nodes = nodes;
        this.observations = observations;
        this.pace = pace;
        this.mode = mode;
        this.listener = listener;
        this.locksReliableFrom = pace.nanos();
    }

    /** Called when this node's session was lost: other nodes may have lost theirs, too. */
    void sessionLost() {
        locksReliableFrom = pace.nanos() + LOCKS_UNRELIABLE.toNanos();
    }

    /** Called when a heartbeat of this node failed. If that continues, those of other nodes fail, too. */
    void ownBeatFailed() {
        if (beatsFailSince == null) {
            beatsFailSince = pace.nanos();
        }
    }

    /** Called when a heartbeat of this node was recorded. */
    void ownBeatArrived() {
        Long since = beatsFailSince;
        if (since != null) {
            if (pace.nanos() - since > GAP.toNanos()) {
                // Other nodes may have lost their sessions meanwhile, which cannot be opened without a write.
                sessionLost();
            }
            beatsFailSince = null;
        }
    }

    @Nullable
    OffsetDateTime serverStart() {
        return serverStart;
    }

    /** Looks at all nodes once. */
    View pass(UUID self) {
        Observation observation = observations.observe();
        long now = pace.nanos();
        boolean restarted = serverStart != null && !serverStart.equals(observation.serverStart());
        if (restarted) {
            sessionLost();
        }
        serverStart = observation.serverStart();
        boolean gap = now - lastLook > longestPause().toNanos();
        if (looked && gap) {
            sessionLost();
        }
        // A single failed heartbeat is repeated at once, and must not restart the count of a silent node.
        Long since = beatsFailSince;
        boolean beatsFail = since != null && now - since > GAP.toNanos();
        if (restarted || gap || beatsFail) {
            startAgain(now);
        }
        lastLook = now;
        boolean changed = compare(observation.nodes(), self, now);
        if (!beatsFail) {
            for (ObservedNode node : observation.nodes()) {
                if (!node.id().equals(self) && node.status() != NodeStatus.DEAD) {
                    changed |= judgeOrStartAgain(node, now);
                }
            }
        }
        return view(observation.nodes(), self, changed);
    }

    private View view(List<ObservedNode> all, UUID self, boolean changed) {
        List<ObservedNode> live = all.stream()
                .filter(node -> node.status() != NodeStatus.DEAD && !isPresumedDead(node))
                .toList();
        return new View(
                changed,
                mode.declares && watched.values().stream().anyMatch(WatchedNode::isSuspect),
                live.size(),
                live.stream().anyMatch(node -> node.candidate() && node.status() != NodeStatus.DRAINING),
                (int) live.stream().filter(ObservedNode::worker).count(),
                live.stream().filter(node -> node.id().equals(self)).findFirst().orElse(null));
    }

    private boolean isPresumedDead(ObservedNode node) {
        WatchedNode known = watched.get(node.id());
        return known != null && known.isPresumedDead();
    }

    private void startAgain(long now) {
        watched.values().forEach(node -> node.startAgain(now));
    }

    private Duration longestPause() {
        Duration several = pace.longest(mode.interval).multipliedBy(3);
        return several.compareTo(GAP) > 0 ? several : GAP;
    }

    // Who joined, left and died -------------------------------------------------------------------------------

    private boolean compare(List<ObservedNode> all, UUID self, long now) {
        boolean changed = false;
        var gone = new HashMap<>(watched);
        for (ObservedNode node : all) {
            gone.remove(node.id());
            WatchedNode known = watched.get(node.id());
            if (known == null) {
                watched.put(node.id(), new WatchedNode(node, now));
                if (node.status() != NodeStatus.DEAD && !node.id().equals(self)) {
                    changed = true;
                    publish(new NodeJoined(node.id(), node.name()));
                }
                continue;
            }
            if (node.status() == NodeStatus.DEAD && !known.isDead()) {
                changed = true;
                publishDeath(node);
            }
            known.seen(node, now);
        }
        for (Map.Entry<UUID, WatchedNode> former : gone.entrySet()) {
            watched.remove(former.getKey());
            if (!former.getValue().isDead() && !former.getKey().equals(self)) {
                changed = true;
                publish(new NodeLeft(former.getKey(), former.getValue().name()));
            }
        }
        looked = true;
        return changed;
    }

    // Nodes that are found by the first look did not join just now.
    private void publish(ClusterEvent event) {
        if (looked) {
            listener.published(event);
        }
    }

    private void publishDeath(ObservedNode node) {
        if (looked) {
            listener.died(node.id());
        }
        publish(new NodeDied(node.id(), node.name()));
    }

    // Who is stale and dead -----------------------------------------------------------------------------------

    /** A server that refuses all writes refuses the heartbeats of other nodes, too. */
    private boolean judgeOrStartAgain(ObservedNode node, long now) {
        try {
            return judge(node, now);
        } catch (RuntimeException e) {
            if (DatabaseFailure.kind(e).refusesWrites()) {
                startAgain(now);
                sessionLost();
            }
            throw e;
        }
    }

    private boolean judge(ObservedNode node, long now) {
        WatchedNode known = watched.get(node.id());
        if (known == null) {
            return false;
        }
        Duration silence = known.silence(now);
        if (silence.compareTo(node.deadAfter()) > 0) {
            return declareDead(node, known, "no heartbeat for " + silence.toMillis() + " ms");
        }
        if (mode.declares
                && silence.compareTo(node.staleAfter()) > 0
                && node.status() == NodeStatus.ACTIVE
                && nodes.declareStale(node.id(), node.beats())) {
            log.info(
                    "Node {} '{}': stale, no heartbeat for {} ms",
                    node.id(),
                    Names.printable(node.name()),
                    silence.toMillis());
        }
        return known.isDeadWithoutLock(node, now - locksReliableFrom >= 0, now)
                && declareDead(node, known, "its session has ended, and it sends no heartbeats");
    }

    private boolean declareDead(ObservedNode node, WatchedNode known, String reason) {
        if (!mode.declares) {
            return presumeDead(node, known, reason);
        }
        Optional<Runnable> declared =
                nodes.declareDead(node.id(), node.beats(), () -> listener.releaseHeldBy(node.id()));
        if (declared.isEmpty()) {
            return false;
        }
        log.warn("Node {} '{}': declared dead, {}", node.id(), Names.printable(node.name()), reason);
        known.declaredDead();
        publishDeath(node);
        declared.get().run();
        return true;
    }

    /** A node of mode observer changes nothing, but counts the node as dead. */
    private static boolean presumeDead(ObservedNode node, WatchedNode known, String reason) {
        if (!known.presumeDead()) {
            return false;
        }
        log.warn(
                "Node {} '{}': presumed dead, {}. This node has mode observer and declares no node dead; another node must.",
                node.id(),
                Names.printable(node.name()),
                reason);
        return true;
    }
}
