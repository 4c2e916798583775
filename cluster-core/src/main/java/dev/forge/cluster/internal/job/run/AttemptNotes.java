// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.Uninterrupted;
import java.lang.reflect.Type;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The progress and the checkpoint of an attempt, as its handler has reported them. */
final class AttemptNotes {

    private final Claimed claimed;
    private final UUID node;
    private final boolean transactional;
    private final PayloadJson json;
    private final HeldJobStore held;
    private volatile @Nullable String progress;
    private volatile @Nullable String checkpoint;

    private record Progress(int percent, String message) {}

    AttemptNotes(Claimed claimed, UUID node, boolean transactional, PayloadJson json, HeldJobStore held) {
        this.claimed = claimed;
        this.node = node;
        this.transactional = transactional;
        this.json = json;
        this.held = held;
        this.checkpoint = claimed.checkpoint();
    }

    void progress(int percent, String message) {
        if (percent < 0 || percent > 100) {
            throw new IllegalArgumentException("progress of %d percent; it must be 0 to 100".formatted(percent));
        }
        String text = json.write(new Progress(percent, message));
        synchronized (this) {
            progress = text;
        }
    }

    /** Returns whether there is progress to be written while the attempt runs. */
    boolean hasProgress() {
        return progress != null && !transactional;
    }

    /** Removes and returns the progress that is not written yet; null if there is none. */
    @Nullable
    String takeProgress() {
        if (progress == null) {
            return null;
        }
        synchronized (this) {
            String taken = progress;
            progress = null;
            return taken;
        }
    }

    /** Restores progress that could not be written, unless the handler has reported newer progress. */
    void keepProgress(String unwritten) {
        synchronized (this) {
            if (progress == null) {
                progress = unwritten;
            }
        }
    }

    /** Stores a checkpoint; false if this node no longer holds the job. */
    boolean checkpoint(Object value) {
        String text = json.write(value);
        // The row of a transactional handler must not change: its completion would conflict with the change.
        // A handler that is interrupted to stop can store its last checkpoint.
        if (!transactional
                && !Uninterrupted.call(
                        () -> held.writeCheckpoint(node, new ClaimKey(claimed.id(), claimed.epoch()), null, text))) {
            return false;
        }
        checkpoint = text;
        return true;
    }

    <T> Optional<T> checkpointAs(Type type) {
        String text = checkpoint;
        return text == null ? Optional.empty() : Optional.ofNullable(json.readAs(text, type));
    }

    /** Returns the checkpoint to write with a failure: that of a transactional handler is not written before. */
    @Nullable
    String lateCheckpoint() {
        String current = checkpoint;
        return transactional && current != null && !current.equals(claimed.checkpoint()) ? current : null;
    }
}
