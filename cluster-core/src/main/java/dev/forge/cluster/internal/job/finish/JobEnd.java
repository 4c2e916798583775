// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.finish;

import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import java.util.UUID;

/** The end of a claim that waits to be written. */
public final class JobEnd {

    private final String name;
    private final UUID node;
    private final int recoveries;
    private final Listener listener;
    private volatile Finish finish;
    private volatile boolean settled;
    private volatile boolean unconfirmed;

    /** Told what became of an end. Its methods do not throw. */
    public interface Listener {

        /** The database rejects the result: the job is marked failed instead. */
        void rejected(String error, Throwable rejection);

        /**
         * Called once.
         *
         * @param written false if the claim was lost
         * @param unconfirmed whether the response to a statement or commit that ends the job was lost: an earlier one may have ended it
         */
        void settled(boolean written, boolean unconfirmed);
    }

    /**
     * Creates an end.
     *
     * @param recoveries how often the job had been recovered when it was claimed
     * @param unconfirmed whether the response to a commit that ends the job was lost
     */
    public JobEnd(String name, UUID node, int recoveries, Finish finish, boolean unconfirmed, Listener listener) {
        this.name = name;
        this.node = node;
        this.recoveries = recoveries;
        this.finish = finish;
        this.unconfirmed = unconfirmed;
        this.listener = listener;
    }

    String name() {
        return name;
    }

    UUID node() {
        return node;
    }

    int recoveries() {
        return recoveries;
    }

    Finish finish() {
        return finish;
    }

    ClaimKey key() {
        return finish.key();
    }

    /** The database refuses to delete the row: the clean-up will. */
    void leaveToCleanUp() {
        finish = finish.leftToCleanUp();
    }

    boolean isUnconfirmed() {
        return unconfirmed;
    }

    /** The response to a statement that ends the job was lost. */
    void markUnconfirmed() {
        unconfirmed = true;
    }

    boolean isSettled() {
        return settled;
    }

    void rejected(String error, Throwable rejection) {
        listener.rejected(error, rejection);
    }

    void settle(boolean written) {
        if (!settled) {
            settled = true;
            listener.settled(written, unconfirmed);
        }
    }
}
