// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node.observation;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.node.observation.ObservationStore.Observation;
import dev.forge.cluster.internal.node.observation.ObservationStore.ObservedNode;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.node.NodeJoined;
import dev.forge.cluster.node.NodeLeft;
import dev.forge.cluster.node.NodeStatus;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Decides from each look at the nodes which of them have joined, left or died, and which are stale or dead. Reads and writes nothing.
 *
 * <p>A node is dead when its heartbeat counter has stood still for as long as the node itself declared, on this observer's own
 * monotonic clock: clocks of different machines are never compared. After an outage, in which all nodes were silent, silence is
 * counted again from its end. A node whose liveness lock is missing is suspect much sooner, but dead only if it sends no
 * heartbeats either; locks do not count while they may be missing for all nodes.
 */
public final class Observer {

    /** How long other nodes have to take their locks again after this node's session was lost or the server restarted. */
    private static final Duration LOCKS_UNRELIABLE = Duration.ofSeconds(15);
    /** After a gap of this length between two looks, the silence of other nodes cannot be told from this node's own. */
    private static final Duration GAP = Duration.ofSeconds(2);

    private final Pace pace;
    private final Duration interval;
    private final boolean declares;
    private final Map<UUID, WatchedNode> watched = new HashMap<>();
    private volatile @Nullable OffsetDateTime serverStart;
    private long lastLook;
    private boolean looked;
    private volatile long locksReliableFrom;
    /** Since when this node's own heartbeats fail; null if they do not. */
    private volatile @Nullable Long beatsFailSince;

    /**
     * What a look has shown.
     *
     * @param changed whether a node joined, left or died since the last look
     * @param events what to publish; nothing for nodes that the first look finds, which did not join just now
     */
    public record Look(boolean changed, List<ClusterEvent> events, List<Verdict> verdicts) {}

    /** What a node is found to be. */
    public enum Finding {
        STALE,
        DEAD,
        /** Dead to a node of mode observer, which declares nothing. */
        PRESUMED_DEAD
    }

    /** What the observer has found out about a node, and why. */
    public record Verdict(ObservedNode node, Finding finding, String reason) {}

    /**
     * The nodes after a look.
     *
     * @param changed whether a node joined, left or died since the last look
     * @param suspicious whether a node is without its lock, so that the next look should come soon
     * @param live how many nodes live
     * @param candidateLive whether one of them can lead
     * @param workers how many of them have the role worker
     * @param own this node's row; null if it is gone
     */
    public record View(
            boolean changed,
            boolean suspicious,
            int live,
            boolean candidateLive,
            int workers,
            @Nullable ObservedNode own) {

        /** Before the first look. */
        public static final View NONE = new View(false, false, 0, true, 0, null);
    }

    /**
     * @param interval between two looks, before it is stretched
     * @param declares whether to declare nodes stale and dead; a node of mode observer only looks
     */
    public Observer(Pace pace, Duration interval, boolean declares) {
        this.pace = pace;
        this.interval = interval;
        this.declares = declares;
        this.locksReliableFrom = pace.nanos();
    }

    // What this node knows of itself --------------------------------------------------------------------------

    /** Called when this node's session was lost: other nodes may have lost theirs, too. */
    public void sessionLost() {
        locksReliableFrom = pace.nanos() + LOCKS_UNRELIABLE.toNanos();
    }

    /** Called when a heartbeat of this node failed. If that continues, those of other nodes fail, too. */
    public void ownBeatFailed() {
        if (beatsFailSince == null) {
            beatsFailSince = pace.nanos();
        }
    }

    /** Called when a heartbeat of this node was recorded. */
    public void ownBeatArrived() {
        Long since = beatsFailSince;
        if (since != null) {
            if (pace.nanos() - since > GAP.toNanos()) {
                // Other nodes may have lost their sessions meanwhile, which cannot be opened without a write.
                sessionLost();
            }
            beatsFailSince = null;
        }
    }

    /** Called when the server has refused a verdict: it refuses the heartbeats of other nodes, too. */
    public void writesRefused() {
        startAgain(pace.nanos());
        sessionLost();
    }

    /** Called when a verdict has been executed. */
    public void declaredDead(UUID node) {
        WatchedNode known = watched.get(node);
        if (known != null) {
            known.declaredDead();
        }
    }

    @Nullable
    public OffsetDateTime serverStart() {
        return serverStart;
    }

    // Looks ---------------------------------------------------------------------------------------------------

    /** Decides on what was just read. */
    public Look look(Observation observation, UUID self) {
        long now = pace.nanos();
        boolean restarted = serverStart != null && !serverStart.equals(observation.serverStart());
        serverStart = observation.serverStart();
        boolean gap = now - lastLook > longestPause().toNanos();
        if (restarted || (looked && gap)) {
            sessionLost();
        }
        // A single failed heartbeat is repeated at once, and must not restart the count of a silent node.
        Long since = beatsFailSince;
        boolean beatsFail = since != null && now - since > GAP.toNanos();
        if (restarted || gap || beatsFail) {
            startAgain(now);
        }
        lastLook = now;
        List<ClusterEvent> changes = compare(observation.nodes(), self, now);
        var look = new Look(!changes.isEmpty(), looked ? changes : List.of(), new ArrayList<>());
        looked = true;
        if (!beatsFail) {
            observation.nodes().stream()
                    .filter(node -> !node.id().equals(self) && node.status() != NodeStatus.DEAD)
                    .forEach(node -> judge(node, now, look.verdicts));
        }
        return look;
    }

    private Duration longestPause() {
        Duration several = pace.longest(interval).multipliedBy(3);
        return several.compareTo(GAP) > 0 ? several : GAP;
    }

    private void startAgain(long now) {
        watched.values().forEach(node -> node.startAgain(now));
    }

    private List<ClusterEvent> compare(List<ObservedNode> all, UUID self, long now) {
        var changes = new ArrayList<ClusterEvent>();
        var gone = new HashMap<>(watched);
        for (ObservedNode node : all) {
            gone.remove(node.id());
            WatchedNode known = watched.get(node.id());
            if (known == null) {
                watched.put(node.id(), new WatchedNode(node, now));
                if (node.status() != NodeStatus.DEAD && !node.id().equals(self)) {
                    changes.add(new NodeJoined(node.id(), node.name()));
                }
                continue;
            }
            if (node.status() == NodeStatus.DEAD && !known.isDead()) {
                changes.add(new NodeDied(node.id(), node.name()));
            }
            known.seen(node, now);
        }
        gone.forEach((id, former) -> {
            watched.remove(id);
            if (!former.isDead() && !id.equals(self)) {
                changes.add(new NodeLeft(id, former.name()));
            }
        });
        return changes;
    }

    private void judge(ObservedNode node, long now, List<Verdict> verdicts) {
        WatchedNode known = watched.get(node.id());
        if (known == null) {
            return;
        }
        Duration silence = known.silence(now);
        String silent = "no heartbeat for " + silence.toMillis() + " ms";
        if (silence.compareTo(node.deadAfter()) > 0) {
            condemn(node, known, silent, verdicts);
            return;
        }
        if (declares && silence.compareTo(node.staleAfter()) > 0 && node.status() == NodeStatus.ACTIVE) {
            verdicts.add(new Verdict(node, Finding.STALE, silent));
        }
        if (known.isDeadWithoutLock(node, now - locksReliableFrom >= 0, now)) {
            condemn(node, known, "its session has ended, and it sends no heartbeats", verdicts);
        }
    }

    private void condemn(ObservedNode node, WatchedNode known, String reason, List<Verdict> verdicts) {
        if (declares) {
            verdicts.add(new Verdict(node, Finding.DEAD, reason));
        } else if (known.presumeDead()) {
            verdicts.add(new Verdict(node, Finding.PRESUMED_DEAD, reason));
        }
    }

    /**
     * Returns the nodes after a look.
     *
     * @param changed whether a node joined, left or died
     */
    public View view(Observation observation, UUID self, boolean changed) {
        List<ObservedNode> live = observation.nodes().stream()
                .filter(node -> node.status() != NodeStatus.DEAD && !isPresumedDead(node))
                .toList();
        return new View(
                changed,
                declares && watched.values().stream().anyMatch(WatchedNode::isSuspect),
                live.size(),
                live.stream().anyMatch(node -> node.candidate() && node.status() != NodeStatus.DRAINING),
                (int) live.stream().filter(ObservedNode::worker).count(),
                live.stream().filter(node -> node.id().equals(self)).findFirst().orElse(null));
    }

    private boolean isPresumedDead(ObservedNode node) {
        WatchedNode known = watched.get(node.id());
        return known != null && known.isPresumedDead();
    }
}
