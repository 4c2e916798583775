// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

/** The status of a batch of jobs. */
public enum JobBatchStatus {
    /** Jobs can be added. */
    OPEN,
    /** The batch is closed, and not all of its jobs have ended. Also after a retry of failed jobs. */
    RUNNING,
    /** All jobs have completed. */
    SUCCEEDED,
    /** All jobs have ended, and some of them did not complete. */
    FAILED,
    /** The batch was cancelled, and not all of its jobs have ended. */
    CANCELLING,
    /** The batch was cancelled, and all of its jobs have ended. */
    CANCELLED
}
