package dev.forge.cluster.internal.engine;

import dev.forge.cluster.NodeDied;
import dev.forge.cluster.NodeJoined;
import dev.forge.cluster.NodeLeft;
import dev.forge.cluster.NodeStatus;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.JobStore.Recovered;
import dev.forge.cluster.internal.store.NodeStore;
import dev.forge.cluster.internal.store.NodeStore.Sighting;
import dev.forge.cluster.internal.store.NodeStore.Sightings;
import dev.forge.cluster.internal.store.ServerFailure;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Watches the other nodes and says when one is dead.
 *
 * <p>What counts is that a node's counter of heartbeats has stood still for as long as the node itself declared, on this
 * observer's own monotonic clock: clocks of machines never meet, and after an outage, in which everybody was silent,
 * the time begins anew. A node whose liveness lock is gone is suspect much sooner, but dead only if it does not beat
 * either; that path is off while locks may be missing for everybody's sake.
 */
final class Observer {

    private static final Logger log = GuardedLogger.of(Observer.class);

    /** How long a node may be without its lock and without a beat. */
    private static final Duration SUSPICION = Duration.ofMillis(600);
    /**
     * The same for one whose lock we have never seen: we may have joined right after a failover, before it had its
     * session back.
     */
    private static final Duration SUSPICION_OF_A_STRANGER = Duration.ofSeconds(6);
    /**
     * The same for one that gave no sign of life for a while before its lock went: it may be alive and only cut off, and
     * needs the time to find that out and to stop what it does.
     */
    private static final Duration SUSPICION_OF_A_CUT = Duration.ofSeconds(13);

    /**
     * The server takes seven seconds to free the lock of a session that was cut off. So a node whose heartbeat, or a
     * statement of whose session, arrived within the last six was not cut off but has crashed. The session has a statement
     * every other second at least: this does not depend on how often the node beats.
     */
    private static final Duration ALIVE_LATELY = Duration.ofSeconds(6);
    /** After our own session's loss or a restart of the server other nodes get this long to take their locks again. */
    private static final Duration LOCKS_UNRELIABLE = Duration.ofSeconds(15);
    /** Without a look for longer than this, we cannot tell their silence from our own. */
    private static final Duration GAP = Duration.ofSeconds(2);

    private final NodeStore nodes;
    private final Pace pace;
    private final Duration interval;
    private final boolean declares;
    private final Consumer<Object> events;
    private final Map<UUID, Seen> seen = new HashMap<>();
    private volatile @Nullable OffsetDateTime serverStart;
    private long lastLook;
    private boolean looked;
    private volatile long locksReliableFrom;
    /** Since when our own heartbeats do not arrive; null if they do. */
    private volatile @Nullable Long unheardSince;

    private static final class Seen {
        final String name;
        NodeStatus status;
        long beats;
        long since;
        /** When its session last had a statement, as far as this database role may see that. */
        @Nullable
        Long sessionUsedAt;

        boolean lockSeen;
        boolean suspect;
        /** This observer would declare it dead, if it were its business. */
        boolean presumedDead;

        long suspectSince;
        Duration suspicion = SUSPICION;

        Seen(Sighting sighting, long now) {
            this.name = sighting.name();
            this.status = sighting.status();
            this.beats = sighting.beats();
            this.since = now;
        }
    }

    /**
     * What a look has shown.
     *
     * @param changed somebody came, went or died since the last look
     * @param suspicious somebody is without its lock: look again soon
     * @param own this node's row; null if it is gone
     */
    record View(
            boolean changed,
            boolean suspicious,
            int live,
            boolean candidateLive,
            int workers,
            @Nullable Sighting own) {}

    /**
     * @param interval between two looks, before it is stretched
     * @param declares whether it says so itself; an observer by mode only looks
     */
    Observer(NodeStore nodes, Pace pace, Duration interval, boolean declares, Consumer<Object> events) {
        this.nodes = nodes;
        this.pace = pace;
        this.interval = interval;
        this.declares = declares;
        this.events = events;
        this.locksReliableFrom = pace.nanos();
    }

    /** Our own session was lost: so may have been those of others. */
    void sessionLost() {
        locksReliableFrom = pace.nanos() + LOCKS_UNRELIABLE.toNanos();
    }

    /** Our own heartbeat could not be written: if that goes on, those of others cannot, and their silence says nothing. */
    void ownBeatFailed() {
        if (unheardSince == null) {
            unheardSince = pace.nanos();
        }
    }

    /** Our own heartbeat was written: from now on others can be expected to beat again. */
    void ownBeatArrived() {
        Long since = unheardSince;
        if (since != null) {
            if (pace.nanos() - since > GAP.toNanos()) {
                // Time enough for others to lose their sessions, which cannot be opened without a write.
                sessionLost();
            }
            unheardSince = null;
        }
    }

    @Nullable
    OffsetDateTime serverStart() {
        return serverStart;
    }

    /** One look at everybody. */
    View pass(UUID self) {
        Sightings sightings = nodes.observe();
        long now = pace.nanos();
        boolean restarted = serverStart != null && !serverStart.equals(sightings.serverStart());
        if (restarted) {
            sessionLost();
        }
        serverStart = sightings.serverStart();
        boolean gap = now - lastLook > gap().toNanos();
        if (looked && gap) {
            sessionLost();
        }
        // A single beat that got lost is made up for at once, and must not begin the time of a silent node anew.
        Long since = unheardSince;
        boolean unheard = since != null && now - since > GAP.toNanos();
        if (restarted || gap || unheard) {
            beginAnew(now);
        }
        lastLook = now;
        boolean changed = compare(sightings.nodes(), self, now);
        if (!unheard) {
            for (Sighting node : sightings.nodes()) {
                if (!node.id().equals(self) && node.status() != NodeStatus.DEAD) {
                    changed |= judgeUnlessNobodyCanWrite(node, now);
                }
            }
        }
        List<Sighting> live = sightings.nodes().stream()
                .filter(node -> node.status() != NodeStatus.DEAD && !isPresumedDead(node))
                .toList();
        return new View(
                changed,
                declares && seen.values().stream().anyMatch(node -> node.suspect && node.status != NodeStatus.DEAD),
                live.size(),
                live.stream().anyMatch(node -> node.candidate() && node.status() != NodeStatus.DRAINING),
                (int) live.stream().filter(Sighting::worker).count(),
                live.stream().filter(node -> node.id().equals(self)).findFirst().orElse(null));
    }

    private boolean isPresumedDead(Sighting node) {
        Seen known = seen.get(node.id());
        return known != null && known.presumedDead;
    }

    private void beginAnew(long now) {
        seen.values().forEach(node -> {
            node.presumedDead = false;
            node.since = now;
            node.suspect = false;
        });
    }

    private boolean judgeUnlessNobodyCanWrite(Sighting node, long now) {
        try {
            return judge(node, now);
        } catch (RuntimeException e) {
            if (ServerFailure.refusedWrites(e)) {
                beginAnew(now);
                sessionLost();
            }
            throw e;
        }
    }

    private Duration gap() {
        Duration several = pace.longest(interval).multipliedBy(3);
        return several.compareTo(GAP) > 0 ? several : GAP;
    }

    private boolean compare(List<Sighting> sightings, UUID self, long now) {
        boolean changed = false;
        var gone = new HashMap<>(seen);
        for (Sighting node : sightings) {
            gone.remove(node.id());
            Seen known = seen.get(node.id());
            if (known == null) {
                seen.put(node.id(), new Seen(node, now));
                if (node.status() != NodeStatus.DEAD && !node.id().equals(self)) {
                    changed = true;
                    publish(new NodeJoined(node.id(), node.name()));
                }
                continue;
            }
            if (node.status() == NodeStatus.DEAD && known.status != NodeStatus.DEAD) {
                changed = true;
                publish(new NodeDied(node.id(), node.name()));
            }
            known.status = node.status();
            if (known.beats != node.beats()) {
                known.beats = node.beats();
                known.since = now;
                known.suspect = false;
                known.presumedDead = false;
            }
        }
        for (Map.Entry<UUID, Seen> former : gone.entrySet()) {
            seen.remove(former.getKey());
            if (former.getValue().status != NodeStatus.DEAD && !former.getKey().equals(self)) {
                changed = true;
                publish(new NodeLeft(former.getKey(), former.getValue().name));
            }
        }
        looked = true;
        return changed;
    }

    // Those who were there before us did not join just now.
    private void publish(Object event) {
        if (looked) {
            events.accept(event);
        }
    }

    private boolean judge(Sighting node, long now) {
        Seen known = seen.get(node.id());
        if (known == null) {
            return false;
        }
        Duration silence = Duration.ofNanos(now - known.since);
        if (silence.compareTo(node.deadAfter()) > 0) {
            return declareDead(node, "silent for " + silence.toMillis() + " ms");
        } else if (declares && silence.compareTo(node.staleAfter()) > 0 && node.status() == NodeStatus.ACTIVE) {
            if (nodes.declareStale(node.id(), node.beats())) {
                log.info(
                        "node {} '{}': stale, silent for {} ms",
                        node.id(),
                        Names.printable(node.name()),
                        silence.toMillis());
            }
        }
        known.lockSeen |= !node.lockMissing();
        Duration unused = node.sessionUnused();
        if (unused != null) {
            known.sessionUsedAt = now - unused.toNanos();
        }
        if (!node.lockMissing() || now - locksReliableFrom < 0) {
            known.suspect = false;
        } else if (!known.suspect) {
            known.suspect = true;
            known.suspectSince = now;
            known.suspicion = !isAliveLately(known, silence, now)
                    ? SUSPICION_OF_A_CUT
                    : known.lockSeen ? SUSPICION : SUSPICION_OF_A_STRANGER;
        } else if (now - known.suspectSince >= known.suspicion.toNanos()) {
            return declareDead(node, "its session has ended and it does not beat");
        }
        return false;
    }

    /** What an observer by mode does instead: it changes nothing, but counts the node no more. */
    private boolean presumeDead(Sighting node, String reason) {
        Seen known = seen.get(node.id());
        if (known == null || known.presumedDead) {
            return false;
        }
        known.presumedDead = true;
        log.warn(
                "node {} '{}': presumed dead, {}. An observer declares nobody dead; another node has to.",
                node.id(),
                Names.printable(node.name()),
                reason);
        return true;
    }

    private static boolean isAliveLately(Seen known, Duration silence, long now) {
        Long used = known.sessionUsedAt;
        return silence.compareTo(ALIVE_LATELY) <= 0 || (used != null && now - used <= ALIVE_LATELY.toNanos());
    }

    /** For the works of this node, not for the application. */
    record JobsReturned(List<Recovered> jobs) {}

    private boolean declareDead(Sighting node, String reason) {
        if (!declares) {
            return presumeDead(node, reason);
        }
        var returned = new ArrayList<Recovered>();
        if (!nodes.declareDead(node.id(), node.beats(), returned::addAll)) {
            return false;
        }
        log.warn("node {} '{}': declared dead, {}", node.id(), Names.printable(node.name()), reason);
        Seen known = seen.get(node.id());
        if (known != null) {
            known.status = NodeStatus.DEAD;
        }
        publish(new NodeDied(node.id(), node.name()));
        if (!returned.isEmpty()) {
            publish(new JobsReturned(returned));
        }
        return true;
    }
}
