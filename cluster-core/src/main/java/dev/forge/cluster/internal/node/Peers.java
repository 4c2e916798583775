// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeStore.SeenNode;
import dev.forge.cluster.internal.node.observation.ObservationStore;
import dev.forge.cluster.internal.node.observation.ObservationStore.Observation;
import dev.forge.cluster.internal.node.observation.ObservationStore.ObservedNode;
import dev.forge.cluster.internal.node.observation.Observer;
import dev.forge.cluster.internal.node.observation.Observer.Verdict;
import dev.forge.cluster.internal.node.observation.Observer.View;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.node.NodeDied;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.UUID;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;

/** The other nodes of the cluster: reads their rows, has the {@link Observer} decide, and does what it has decided. */
public final class Peers {

    private static final Logger log = GuardedLogger.of(Observer.class);
    /** How soon to look again while a node is without its liveness lock. */
    private static final Duration SECOND_LOOK = Duration.ofMillis(350);

    private final NodeStore nodes;
    private final ObservationStore observations;
    private final Observer observer;
    private final DeadNodes deadNodes;
    private final Pace pace;
    private final Consumer<ClusterEvent> events;
    private volatile View view = View.NONE;

    Peers(
            NodeStore nodes,
            ObservationStore observations,
            Observer observer,
            DeadNodes deadNodes,
            Pace pace,
            Consumer<ClusterEvent> events) {
        this.nodes = nodes;
        this.observations = observations;
        this.observer = observer;
        this.deadNodes = deadNodes;
        this.pace = pace;
        this.events = events;
    }

    /** Looks at all nodes once. */
    View look(UUID self) {
        Observation seen = observations.observe();
        Observer.Look look = observer.look(seen, self);
        look.events().forEach(this::tell);
        boolean changed = look.changed();
        for (Verdict verdict : look.verdicts()) {
            changed |= execute(verdict);
        }
        view = observer.view(seen, self, changed);
        pace.liveNodes(view.live());
        return view;
    }

    /** Returns the pause before the next look. */
    Duration pause(Duration interval) {
        Duration usual = pace.stretched(interval);
        return view.suspicious() && usual.compareTo(SECOND_LOOK) > 0 ? SECOND_LOOK : usual;
    }

    private void tell(ClusterEvent event) {
        if (event instanceof NodeDied died) {
            deadNodes.tell(died.id(), died.name());
        } else {
            events.accept(event);
        }
    }

    /** Returns whether a node died by it. */
    private boolean execute(Verdict verdict) {
        ObservedNode node = verdict.node();
        try {
            return switch (verdict.finding()) {
                case STALE -> {
                    if (nodes.declareStale(node.id(), node.beats())) {
                        log.info("Node {} '{}': stale, {}", node.id(), Names.printable(node.name()), verdict.reason());
                    }
                    yield false;
                }
                case DEAD -> {
                    boolean ended = deadNodes.end(new SeenNode(node.id(), node.beats()), node.name(), verdict.reason());
                    if (ended) {
                        observer.declaredDead(node.id());
                    }
                    yield ended;
                }
                case PRESUMED_DEAD -> {
                    log.warn(
                            "Node {} '{}': presumed dead, {}. This node has mode observer and declares no node dead; another node"
                                    + " must.",
                            node.id(),
                            Names.printable(node.name()),
                            verdict.reason());
                    yield true;
                }
            };
        } catch (DataAccessException | TransactionException e) {
            if (DatabaseFailure.kind(e).refusesWrites()) {
                // It refuses the heartbeats of other nodes, too.
                observer.writesRefused();
            }
            throw e;
        }
    }

    /** Returns whether any live node can lead. */
    public boolean hasLiveCandidate() {
        return view.candidateLive();
    }

    /** Returns how many live nodes have the role worker. */
    public int liveWorkers() {
        return view.workers();
    }

    /** Returns whether the last look has shown no other node, not even a silent one. */
    public boolean isAlone() {
        View seen = view;
        return seen.own() != null && seen.live() == 1;
    }

    /** Returns when the server was started, as of the last look; null before the first one. */
    @Nullable
    public OffsetDateTime serverStart() {
        return observer.serverStart();
    }
}
