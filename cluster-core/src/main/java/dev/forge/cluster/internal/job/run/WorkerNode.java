// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The node as its worker sees it. */
public interface WorkerNode {

    /** Returns the node id under which to claim; null: claim nothing at present. */
    @Nullable
    UUID claimingNode();

    /** Returns whether other nodes still regard this node as alive. */
    boolean isTrusted();

    long nanos();

    /** Returns whether the database has answered something that this node has sent after a time of {@link #nanos()}. */
    boolean hasContactSince(long nanos);

    String nodeName();

    /** Puts the identity of the node into the logging context of the current thread. */
    void setLogContext();

    /** Returns whether a test drives this node: nothing is claimed by itself then. */
    default boolean isStepped() {
        return false;
    }

    /** Called when a job of this node is pending again and no other node has been notified. */
    void jobReturned();

    /** Called when jobs are pending that other nodes may run immediately: successors of a job, or claimed jobs that were returned. */
    default void jobsReleased() {}

    /** Called when a job has ended for good. */
    default void ended(Claimed job) {}
}
