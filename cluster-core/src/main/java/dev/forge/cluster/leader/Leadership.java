package dev.forge.cluster.leader;

import dev.forge.cluster.node.NodeRole;
import java.util.OptionalLong;
import java.util.function.Supplier;

/**
 * Leader roles of the cluster: for each, at most one node leads at a time, in terms that are numbered and never repeat.
 *
 * <p>Knowing that one leads is never proof: by the time the knowledge is used, the process may have been frozen and
 * another node elected. Only {@link #fenced} ties writes to the term under which they were decided.
 */
public interface Leadership {

    /** Leads cron and the recovery of what was lost. */
    String SCHEDULER = "scheduler";

    /** Publishes the metrics that describe the cluster as a whole. */
    String METRICS_AGGREGATOR = "metrics_aggregator";

    /** Removes what is past its retention. */
    String LOG_COMPACTOR = "log_compactor";

    /**
     * Stands for election to a role, for as long as this node lives. Only nodes with the role {@link NodeRole#SCHEDULER}
     * are ever elected. Doing so twice is the same as once.
     */
    void join(String role);

    /**
     * Stands for election to that role no more, and gives it up if it leads: from now on {@link #isLeader} returns false and
     * fenced work in flight is rolled back. A node that joins again leads in a new term.
     */
    void leave(String role);

    /**
     * Whether this node leads, as far as it knows. A hint: use it to avoid needless work, not to protect data. False as
     * soon as the node has not heard from the database for three seconds.
     */
    boolean isLeader(String role);

    /**
     * The term in which this node leads; empty if it does not. For systems outside of the database use the {@linkplain
     * #fencingToken fencing token}.
     */
    OptionalLong term(String role);

    /**
     * A number for systems outside of the database, which refuse whoever comes with a smaller one than they have seen. Empty if
     * this node does not lead, or if the server does not tell its timeline.
     *
     * <p>A {@linkplain #term term} alone can repeat: a standby that was promoted without the last transactions of its primary
     * may give the same number to another node. The token has the server's timeline in its upper bits (above 40 bits of term),
     * which every promotion and every recovery to a point in time raises: tokens of the promoted server are larger than all of
     * the former one. It does not protect against two standbys that were promoted side by side, nor against a database that
     * was restored from a dump or moved by logical replication into a new server, which begins with timeline 1.
     */
    OptionalLong fencingToken(String role);

    /**
     * Runs {@code work} in a transaction that commits only if this node leads in the same term at the moment of the
     * commit. Joins a transaction that is under way, which then must be committed within two seconds.
     *
     * <p>The transaction must not rest: the server ends one that has sent no statement for {@code
     * forge.cluster.leader.lease-duration}, so that a process which is frozen in the middle of it does not keep its
     * rows locked against the next leader. Talk to other systems before or after, not within.
     *
     * <p>Should another session keep the role's row in {@code forge_leaders} locked for more than two seconds (or the
     * transaction's own {@code lock_timeout}, if that is shorter), the transaction is rolled back with Spring's {@code
     * CannotAcquireLockException}. The node still leads, and the work can be retried.
     *
     * @throws LeadershipLostException if it does not; nothing was written then
     */
    <T> T fenced(String role, Supplier<T> work);

    /** See {@link #fenced(String, Supplier)}. */
    default void fenced(String role, Runnable work) {
        fenced(role, () -> {
            work.run();
            return true;
        });
    }
}
