// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.internal.daemon.DaemonStore.ClusterView;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeTime;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import org.slf4j.Logger;

/**
 * Decides for which roles this node is a candidate, and which instance it gives up because another node runs fewer. Confined
 * to the thread of the keeping loop.
 */
final class DaemonPlacement {

    private static final Logger log = GuardedLogger.of(DaemonPlacement.class);

    /**
     * Delays of the placement.
     *
     * @param deferral how long a free instance is left to less loaded nodes, for each daemon that this node has more
     * @param stable how long the set of nodes must be unchanged before an instance is moved
     * @param avoidance how long this node does not stand for an instance that it has given up
     */
    record Delays(Duration deferral, Duration stable, Duration avoidance) {}

    private final NodeTime time;
    private final DaemonCandidacy candidacy;
    private final DaemonSupervisor supervisor;
    private final Delays delays;

    private final Map<String, Long> freeSince = new HashMap<>();
    private final Map<String, Long> avoidedUntil = new HashMap<>();
    private Set<UUID> activeNodes = Set.of();
    private long activeNodesSince;

    DaemonPlacement(NodeTime time, DaemonCandidacy candidacy, DaemonSupervisor supervisor, Delays delays) {
        this.time = time;
        this.candidacy = candidacy;
        this.supervisor = supervisor;
        this.delays = delays;
    }

    /** Forgets everything; called when the node has joined. */
    void reset() {
        freeSince.clear();
        avoidedUntil.clear();
        activeNodes = Set.of();
    }

    /** Runs one pass: chooses the roles to stand for, then gives an instance up if the load is uneven. */
    void place(List<DaemonHandler> handlers, ClusterView view, UUID self) {
        var spread = new DaemonSpread(view.holders(), view.candidates());
        boolean anyFree = chooseRoles(handlers, view, spread, self);
        if (isStable(view) && !anyFree) {
            rebalance(spread, self);
        }
    }

    /**
     * Stands for the roles for which no less loaded node is a candidate, and for free roles that those nodes have left free
     * for too long. Returns whether a role is free.
     */
    private boolean chooseRoles(List<DaemonHandler> handlers, ClusterView view, DaemonSpread spread, UUID self) {
        long now = time.nanos();
        Set<String> roles = runnableRoles(handlers, view);
        boolean anyFree = roles.stream().anyMatch(spread::isFree);
        avoidedUntil.values().removeIf(until -> now - until >= 0);
        roles.removeAll(avoidedUntil.keySet());
        freeSince.keySet().retainAll(roles);
        freeSince.keySet().removeIf(role -> !spread.isFree(role));
        var taking = new ArrayList<String>();
        for (String role : spread.inOrder(roles, self)) {
            boolean free = spread.isFree(role);
            int surplus = supervisor.has(role) ? 0 : spread.surplus(role, self, free ? taking : List.of());
            long since = free ? freeSince.computeIfAbsent(role, r -> now) : now;
            if (surplus <= 0
                    || (free
                            && now - since
                                    >= delays.deferral.multipliedBy(surplus).toNanos())) {
                candidacy.stand(role);
                if (free) {
                    taking.add(role);
                }
            } else {
                withdrawUnlessRunning(role);
            }
        }
        candidacy.roles().stream().filter(role -> !roles.contains(role)).forEach(this::withdrawUnlessRunning);
        return anyFree;
    }

    private static Set<String> runnableRoles(List<DaemonHandler> handlers, ClusterView view) {
        var roles = new HashSet<String>();
        for (DaemonHandler handler : handlers) {
            if (handler.scope() == DaemonScope.CLUSTER && !view.paused().contains(handler.name())) {
                for (int instance = 0; instance < handler.instances(); instance++) {
                    roles.add(DaemonStore.role(handler.name(), instance));
                }
            }
        }
        roles.removeAll(view.finished());
        return roles;
    }

    private void withdrawUnlessRunning(String role) {
        if (candidacy.contains(role) && !supervisor.has(role)) {
            candidacy.withdraw(role);
        }
    }

    private boolean isStable(ClusterView view) {
        long now = time.nanos();
        var present = new HashSet<UUID>();
        view.candidates().values().forEach(present::addAll);
        if (!present.equals(activeNodes)) {
            activeNodes = present;
            activeNodesSince = now;
        }
        return now - activeNodesSince >= delays.stable.toNanos();
    }

    /** Gives up the newest movable instance, one at a time. */
    private void rebalance(DaemonSpread spread, UUID self) {
        long now = time.nanos();
        if (supervisor.runs().stream().anyMatch(run -> run.stopReason() != null)) {
            return;
        }
        spread.toGiveUp(self).stream()
                .map(supervisor::run)
                .filter(Objects::nonNull)
                .max(Comparator.comparingLong(run -> run.acquiredAt() - now))
                .ifPresent(run -> {
                    log.info(
                            "Daemon {} term {}: giving it up, because another node runs fewer daemons",
                            run.label(),
                            run.term());
                    avoidedUntil.put(run.key(), now + delays.avoidance.toNanos());
                    supervisor.giveUp(run);
                });
    }
}
