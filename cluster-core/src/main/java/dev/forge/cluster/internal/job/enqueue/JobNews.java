// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import java.util.Collection;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** Receives what calls of the API have committed, so that nodes act on it soon. No call waits for that or sees a failure. */
public interface JobNews {

    /** A job was enqueued. */
    void enqueued(NewJob job);

    /** Jobs wait for others from now on. */
    void waiting(Collection<UUID> jobs);

    /** Jobs are pending that may run at once. */
    void pending();

    /**
     * A job was cancelled.
     *
     * @param batch the batch that it belongs to; null: none
     * @param held whether a node holds it, which has to stop its handler
     */
    void cancelled(UUID job, @Nullable UUID batch, boolean held);
}
