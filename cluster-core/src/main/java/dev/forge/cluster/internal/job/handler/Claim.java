// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.job.JobContext;
import java.lang.reflect.Type;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** A claimed job as handlers of the cluster itself see it: more than the {@link JobContext} of an application's handler. */
public interface Claim extends JobContext {

    /** Why a handler should stop. */
    enum Stop {
        /** The attempt takes too long. */
        TIMEOUT,
        /** The node leaves the cluster; another node will run the job. */
        DRAIN,
        /** This node no longer holds the job. */
        LOST
    }

    /** Returns the row as it was claimed. */
    Claimed claimed();

    /** Returns the node that holds the job, by the id of its membership at the claim. */
    UUID node();

    /** Returns the payload; empty if the job was enqueued without one. */
    <T> Optional<T> payload(Type type);

    /** Returns why the handler should stop at once; null if it should not. */
    @Nullable
    Stop stopReason();

    /** Removes and returns the progress that is not written yet; null if there is none. */
    @Nullable
    String takeProgress();

    /**
     * The handler is about to write the end of the job itself. From now on nothing interrupts it for this job, and a change of the row
     * may come from this node.
     */
    void ending();

    /** Notes the error that the handler has recorded with the end of the job. */
    void recordedError(@Nullable String text);

    /** Registers an action for the case that the node leaves while the handler still runs. */
    void onRelease(Runnable action);

    /** Removes an action that {@link #onRelease} registered. */
    void forgetRelease(Runnable action);
}
