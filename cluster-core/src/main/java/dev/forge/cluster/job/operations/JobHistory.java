// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What jobs did in the last hours or days, by equal steps of time. All nodes return the same, because nodes write what they have ended
 * to the database, about every ten seconds. A node that crashes may lose the last ten seconds. Jobs count in the minute in which their
 * node wrote them.
 *
 * @param name the name of the jobs; null: all jobs
 * @param step the length of a step. It follows from the length of the query, so that there are at most 360 points
 * @param since the beginning of what is recorded of the cluster; null: nothing is recorded. Earlier points are empty
 * @param points one point for each step, the oldest first; the last step is not over yet
 */
public record JobHistory(
        @Nullable String name, Duration step, @Nullable Instant since, List<Point> points) {

    /** Creates a history. */
    public JobHistory {
        points = List.copyOf(points);
    }

    /**
     * What happened in one step.
     *
     * @param at the beginning of the step, by the database's clock
     * @param completed how many jobs completed
     * @param failed how many jobs failed for good, or were abandoned
     * @param retried how many attempts failed after which the job is tried again
     * @param recovered how many times a job was taken from a dead or silent node
     * @param waiting how long attempts had been due when they started; null if none started
     * @param running how long attempts ran that completed or failed; null if none ended
     * @param backlog what waited; null if that is not known, because no node led the role {@code metrics_aggregator}
     */
    public record Point(
            Instant at,
            long completed,
            long failed,
            long retried,
            long recovered,
            @Nullable Times waiting,
            @Nullable Times running,
            @Nullable Backlog backlog) {

        /** Returns the number of jobs that ended. */
        public long ended() {
            return completed + failed;
        }
    }

    /**
     * Percentiles of times. Each is off by less than a fifth of the exact one, whatever the times are; a percentile below a
     * millisecond is given as half of one, and one above 24 days as 24 days.
     *
     * @param p50 half of the times are not longer
     * @param p95 nineteen of twenty times are not longer
     */
    public record Times(Duration p50, Duration p95) {}

    /**
     * The largest of the samples in a step; there is one each minute.
     *
     * @param due the number of jobs that were due and had not started. Counts stop at 10,000 for each name and capability
     * @param oldestDueAge how long the oldest of them had been due; zero if there was none
     * @param running the number of running jobs
     */
    public record Backlog(long due, Duration oldestDueAge, long running) {}
}
