// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Pause;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipLossAction;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Holds a node of mode leader to leading the scheduler role: its start fails if it is not elected, and it reacts as configured
 * when it has lost the role for longer than a lease. A leader that lost only its session leads again by then.
 */
public final class RequiredLeadership {

    private static final Logger log = GuardedLogger.of(Node.class);
    private static final Duration POLL = Duration.ofMillis(100);

    private final Node.Resources resources;
    private final Elector elector;
    private final Duration lease;
    private final LongSupplier nanos;
    private volatile LeadershipLossAction reaction = LeadershipLossAction.NOT_READY;
    private volatile Runnable exit = () -> {};
    private volatile boolean elected;
    private volatile @Nullable Long lostSince;
    private volatile boolean lost;

    RequiredLeadership(Node.Resources resources, Elector elector, Duration lease, LongSupplier nanos) {
        this.resources = resources;
        this.elector = elector;
        this.lease = lease;
        this.nanos = nanos;
    }

    /**
     * Sets the reaction to a lost leadership.
     *
     * @param exit closes the application and ends the process
     */
    public void onLost(LeadershipLossAction reaction, Runnable exit) {
        this.reaction = reaction;
        this.exit = exit;
    }

    /** Called before the node joins: nothing is lost until it has been elected. */
    void reset() {
        elected = false;
    }

    /**
     * Waits for the election of this node.
     *
     * @throws ClusterStartupException if it was not elected in time
     */
    void await() throws InterruptedException {
        Duration patience = lease.multipliedBy(3);
        long deadline = nanos.getAsLong() + patience.toNanos();
        while (!elector.isLeader(Leadership.SCHEDULER)) {
            if (nanos.getAsLong() - deadline >= 0) {
                throw notElected(patience, nameOfLeader());
            }
            Pause.of(POLL);
        }
        // Not only with the next watch: a leadership that is lost before it would go unnoticed.
        elected = true;
    }

    private static ClusterStartupException notElected(Duration patience, Optional<String> leader) {
        return new ClusterStartupException(
                "forge.cluster.node.mode (leader): this node was not elected within %d s%s"
                        .formatted(
                                patience.toSeconds(),
                                leader.map("; node %s leads"::formatted).orElse("")),
                leader.isPresent()
                        ? "Stop that node, or set forge.cluster.node.mode=auto to stand by."
                        : "See \"No leader is elected\" in docs/reference/troubleshooting.md.");
    }

    /** Returns name and id of the node that leads the scheduler role; empty if none does, or the database does not respond. */
    private Optional<String> nameOfLeader() {
        try {
            for (LeaderStore.Leader leader : new LeaderStore(resources.schema(), resources.control()).leaders()) {
                UUID leading = leader.node();
                if (leader.role().equals(Leadership.SCHEDULER) && leading != null) {
                    return Optional.of("'%s' (%s)"
                            .formatted(resources.nodes().nameOf(leading).orElse("?"), leading));
                }
            }
        } catch (DataAccessException e) {
            log.debug("Could not read which node leads", e);
        }
        return Optional.empty();
    }

    /** Finds out several times a second whether the node still leads. */
    void watch(@Nullable UUID node) {
        if (elector.isLeader(Leadership.SCHEDULER)) {
            elected = true;
            lostSince = null;
            if (lost) {
                lost = false;
                log.info("Node {}: leads again", node);
            }
            return;
        }
        if (!elected) {
            // The start of the node fails by itself.
            return;
        }
        Long since = lostSince;
        if (since == null) {
            lostSince = nanos.getAsLong();
        } else if (!lost && nanos.getAsLong() - since > lease.toNanos()) {
            lost = true;
            report(node);
            if (reaction == LeadershipLossAction.EXIT) {
                exit.run();
            }
        }
    }

    private void report(@Nullable UUID node) {
        log.warn(
                "Node {}: forge.cluster.node.mode (leader), but another node leads, or none can."
                        + " forge.cluster.node.on-lost-leadership ({}): {}",
                node,
                EnumText.hyphenated(reaction),
                switch (reaction) {
                    case NOT_READY -> "this node is not ready until it leads again";
                    case STAND_BY -> "this node stands by";
                    case EXIT -> "this process ends";
                });
    }

    /** Called while the node does not have to lead: it drains, or it is not a member. */
    void suspend() {
        lostSince = null;
        lost = false;
    }

    /** Returns whether this node must lead to be ready, and has not led for longer than an election takes. */
    public boolean isUnready() {
        return lost && reaction == LeadershipLossAction.NOT_READY;
    }
}
