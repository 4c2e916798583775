// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

/** The status of a job. */
public enum JobStatus {
    /** Waiting for its time, for its predecessor or for a worker. */
    PENDING,
    /** Claimed by a node that will start it. */
    CLAIMED,
    /** The handler runs. */
    RUNNING,
    /** Completed successfully. */
    COMPLETED,
    /** Failed permanently: all attempts failed, or an attempt must not be retried. */
    FAILED,
    /** Cancelled. */
    CANCELLED,
    /** Exceeded {@code forge.cluster.job.max-recoveries}: too many nodes died while they ran the job. */
    ABANDONED;

    /** Returns whether the job has ended. Only a retry can start it again. */
    public boolean isFinal() {
        return switch (this) {
            case PENDING, CLAIMED, RUNNING -> false;
            case COMPLETED, FAILED, CANCELLED, ABANDONED -> true;
        };
    }
}
