// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.DaemonStore.Change;
import dev.forge.cluster.internal.daemon.DaemonStore.Tenure;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** The values of a daemon's row that are not written yet. Guarded by the lock of its run. */
final class DaemonRowState {

    private int restarts;
    private @Nullable String error;
    private @Nullable String note;
    private boolean startUnwritten;
    private boolean released;
    private int revision;
    private int writtenRevision;

    DaemonRowState(int restarts) {
        this.restarts = restarts;
    }

    /** Marks the row as changed. */
    void touch() {
        revision++;
    }

    /** Sets the time of the start with the next write. */
    void startAgain() {
        startUnwritten = true;
        revision++;
    }

    void countRestart() {
        restarts++;
    }

    void error(String text) {
        error = text;
    }

    void note(String text) {
        note = text;
        revision++;
    }

    void released(boolean isReleased) {
        released = isReleased;
    }

    /** Returns the change to be written; null if everything is written. */
    @Nullable
    Change unwritten(Tenure tenure, DaemonStatus status, Duration ranFor, boolean recovered) {
        if (revision == writtenRevision) {
            return null;
        }
        // Whatever the status is now: a method that fails at once has ended before its start is written.
        return new Change(tenure, status, startUnwritten ? ranFor : null, restarts, error, recovered, note, released);
    }

    int revision() {
        return revision;
    }

    /** Called after a change of that revision was written; later values stay unwritten. */
    void written(Change change, int changeRevision) {
        writtenRevision = changeRevision;
        startUnwritten &= change.ranFor() == null || changeRevision != revision;
        if (change.error() != null && change.error().equals(error)) {
            error = null;
        }
        if (change.note() != null && change.note().equals(note)) {
            note = null;
        }
    }
}
