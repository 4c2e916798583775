// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

/** Returned by handlers of the cluster that have written the end of their claim themselves. */
public enum RecordedOutcome {
    /** The job is completed. */
    COMPLETED,
    /** The job has failed permanently. */
    FAILED,
    /** The job runs again, now or later; no attempt is counted. */
    SNOOZED,
    /** Nothing was written: this node no longer holds the job. */
    LOST
}
