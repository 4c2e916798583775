// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import dev.forge.cluster.job.JobHistory;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What jobs did in the last hours or days, as the resource {@code history} returns it.
 *
 * @param name the name of the jobs; absent: all jobs
 * @param stepSeconds the length of a step
 * @param since the beginning of what is recorded of the cluster; absent if nothing is. Earlier points are empty
 * @param points one point for each step, the oldest first; the last step is not over yet
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
public record HistoryDescriptor(
        @Nullable String name, long stepSeconds, @Nullable Instant since, List<PointDescriptor> points) {

    /**
     * What happened in one step.
     *
     * @param at the beginning of the step
     * @param completed how many jobs completed
     * @param failed how many jobs failed for good, or were abandoned
     * @param retried how many attempts failed after which the job is tried again
     * @param recovered how many times a job was taken from a dead or silent node
     * @param waiting how long attempts had been due when they started; absent if none started
     * @param running how long attempts ran; absent if none ended
     * @param backlog what waited; absent if that is not known
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record PointDescriptor(
            Instant at,
            long completed,
            long failed,
            long retried,
            long recovered,
            @Nullable TimesDescriptor waiting,
            @Nullable TimesDescriptor running,
            @Nullable BacklogDescriptor backlog) {}

    /**
     * Percentiles of times, off by less than a fifth and rounded to milliseconds.
     *
     * @param p50Millis half of the times are not longer
     * @param p95Millis nineteen of twenty times are not longer
     */
    public record TimesDescriptor(long p50Millis, long p95Millis) {

        static @Nullable TimesDescriptor of(JobHistory.@Nullable Times times) {
            return times == null ? null : new TimesDescriptor(millis(times.p50()), millis(times.p95()));
        }

        // Half a millisecond, which stands for all shorter times, becomes zero.
        private static long millis(Duration time) {
            return time.plusNanos(499_999).toMillis();
        }
    }

    /**
     * The largest of the samples in a step.
     *
     * @param due the number of jobs that were due and had not started
     * @param oldestDueMillis how long the oldest of them had been due
     * @param running the number of running jobs
     */
    public record BacklogDescriptor(long due, long oldestDueMillis, long running) {}
}
