// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.leader;

import dev.forge.cluster.node.NodeRole;
import java.util.OptionalLong;
import java.util.function.Supplier;

/**
 * Leader roles of the cluster. At most one node leads a role at a time. Terms are numbered and never repeat.
 *
 * <p>{@link #isLeader} is not a proof: the process may be frozen after the call, and another node elected meanwhile. Only {@link
 * #fenced} ties writes to the term in which they were decided.
 */
public interface Leadership {

    /** The role whose leader fires crons and recovers jobs of dead nodes. */
    String SCHEDULER = "scheduler";

    /** The role whose leader publishes the metrics of the cluster as a whole. */
    String METRICS_AGGREGATOR = "metrics_aggregator";

    /** The role whose leader purges rows whose retention has passed. */
    String LOG_COMPACTOR = "log_compactor";

    /**
     * Stands for election to a role until {@link #leave}. Only nodes with the role {@link NodeRole#SCHEDULER} are ever elected.
     * Idempotent.
     */
    void join(String role);

    /**
     * Withdraws from the elections of a role and gives the role up if this node leads: from now on {@link #isLeader} returns
     * false, and fenced work in flight is rolled back. A node that joins again leads in a new term.
     */
    void leave(String role);

    /**
     * Returns whether this node leads as far as it knows. A hint that avoids needless work; it does not protect data. Returns
     * false as soon as the node has not heard from the database for three seconds.
     */
    boolean isLeader(String role);

    /**
     * Returns the term in which this node leads; empty if it does not lead. For systems outside the database use the {@linkplain
     * #fencingToken fencing token}.
     */
    OptionalLong term(String role);

    /**
     * Returns a fencing token for systems outside the database, which reject callers with a smaller token than the largest they
     * have seen. Empty if this node does not lead or if the server does not reveal its timeline.
     *
     * <p>A {@linkplain #term term} alone can repeat: a standby that is promoted without the last transactions of its primary may
     * give the same number to another node. The token has the server's timeline in its upper bits (above 40 bits of term), which
     * every promotion and every recovery to a point in time raises. Tokens of the promoted server are therefore larger than all
     * earlier ones. The token does not protect against two standbys that were promoted side by side, nor against a database that
     * was restored from a dump or moved by logical replication to a new server, which starts with timeline 1.
     */
    OptionalLong fencingToken(String role);

    /**
     * Runs {@code work} in a transaction that commits only if this node leads in the same term at the moment of the commit.
     * Joins the caller's transaction if there is one; it must then be committed within two seconds.
     *
     * <p>The transaction must not pause: the server ends it if no statement arrives for {@code
     * forge.cluster.leader.lease-duration}, so that a process that is frozen inside it does not keep its rows locked against the
     * next leader. Call other systems before or after, not inside.
     *
     * <p>If another session keeps the role's row in {@code forge_leaders} locked for more than two seconds (or the transaction's
     * own {@code lock_timeout}, if that is shorter), the transaction is rolled back with Spring's {@code
     * CannotAcquireLockException}. The node still leads, and the work can be retried.
     *
     * @throws NotLeaderException if this node does not lead any more; nothing was written
     */
    <T> T fenced(String role, Supplier<T> work);

    /** Runs {@code work} without a result; see {@link #fenced(String, Supplier)}. */
    default void fenced(String role, Runnable work) {
        fenced(role, () -> {
            work.run();
            return true;
        });
    }
}
