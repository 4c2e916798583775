// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * What the jobs of one name did in the last hours; see {@link JobOperations#summaries}.
 *
 * @param range the length of the time
 * @param completed how many jobs completed
 * @param failed how many jobs failed for good, or were abandoned
 * @param retried how many attempts failed after which the job is tried again
 * @param recovered how many times a job was taken from a dead or silent node
 * @param waiting how long attempts had been due when they started; null if none started
 * @param running how long attempts ran that completed or failed; null if none ended
 */
public record JobSummary(
        String name,
        Duration range,
        long completed,
        long failed,
        long retried,
        long recovered,
        JobHistory.@Nullable Times waiting,
        JobHistory.@Nullable Times running) {

    private static final double SECONDS_PER_MINUTE = 60;

    /** Returns how many jobs completed in a minute, on average. */
    public double completedPerMinute() {
        return completed * SECONDS_PER_MINUTE / range.toSeconds();
    }

    /** Returns the share of jobs that failed for good among those that completed or failed, from 0 to 1; 0 if there were none. */
    public double failureRatio() {
        return completed + failed == 0 ? 0 : (double) failed / (completed + failed);
    }

    /** Returns the share of attempts that failed, whether or not they were tried again, from 0 to 1; 0 if there were none. */
    public double failedAttemptRatio() {
        long unsuccessful = failed + retried;
        return completed + unsuccessful == 0 ? 0 : (double) unsuccessful / (completed + unsuccessful);
    }
}
