// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.Page;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UnknownJobException;
import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Searches, explains and changes the jobs of the cluster for its operators. Applications enqueue and control single jobs with {@link
 * Jobs}.
 *
 * <p>Calls from constructors and {@code @PostConstruct} methods that need the handlers throw {@link ClusterNotReadyException}. Changes
 * in a read-only transaction throw {@link ReadOnlyTransactionException}. A null argument throws {@link IllegalArgumentException}
 * unless the parameter allows null.
 */
public interface JobOperations {

    /** Returns the first page of a search; see {@link #search(JobFilter, int, String)}. */
    default Page<JobInfo> search(JobFilter filter, int limit) {
        return search(filter, limit, null);
    }

    /**
     * Searches jobs page by page, without payloads, results, errors and attempts. Each call looks at no more than 10,000 jobs and takes
     * about two seconds at most. If that is not enough, the page has fewer jobs than the limit, or none, and its cursor continues the
     * search.
     *
     * <p>A search follows one index: that of the first tag; else that of the group; else those of the statuses, active jobs first,
     * then those that ended last; else the newest jobs first. A filter with a range of creation times starts at ids of that time:
     * jobs whose ids were not made by the cluster may be missing. Jobs that change their status between two calls may appear twice or
     * not at all.
     *
     * @param limit the largest number of jobs in the page, between 1 and 1,000
     * @param cursor {@link Page#next()} of the previous page of the same filter; null: begins
     * @throws IllegalArgumentException if the cursor does not belong to the filter
     */
    Page<JobInfo> search(JobFilter filter, int limit, @Nullable String cursor);

    /**
     * Counts the jobs that match a filter, up to 10,000. The cost is bounded: the last 10,000 jobs that were enqueued are counted, and of
     * older ones up to 10,000 that are unfinished and 10,000 that have finished; with other conditions than name, statuses and
     * creation, the jobs that one call of {@link #search(JobFilter, int, String)} looks at.
     */
    JobCount count(JobFilter filter);

    /** Returns the newest batches; see {@link #batches(int, String)}. */
    default Page<JobBatchInfo> batches(int limit) {
        return batches(limit, null);
    }

    /**
     * Returns batches page by page, newest first. Their numbers of failed, cancelled and remaining jobs stop at 1,000 each; then {@link
     * JobBatchInfo#exact()} is false and the number of completed jobs is unknown.
     *
     * @param limit the largest number of batches in the page, between 1 and 1,000
     * @param cursor {@link Page#next()} of the previous page; null: begins with the newest
     * @throws IllegalArgumentException if the cursor is not one of this list
     */
    Page<JobBatchInfo> batches(int limit, @Nullable String cursor);

    /**
     * Returns the last lines that the handler has logged for a job, {@link JobContext#log(String)}, the oldest first; at most 500. Lines
     * are deleted with their job, within a minute.
     */
    List<JobLogLine> logs(UUID id);

    /**
     * Retries a failed, cancelled or abandoned job as {@link Jobs#retry(UUID)} does, with another payload: for jobs that failed because of
     * theirs. A group that its handler takes from the payload is taken from the new one. The payload that failed is lost.
     *
     * @param json the payload, as JSON
     * @return whether the job was enqueued again; false in the cases of {@link Jobs#retry(UUID)}
     * @throws JobRejectedException if the handler cannot read the payload, or if the job carries a run of a workflow
     */
    boolean retryWithPayload(UUID id, String json);

    /** Cancels jobs, at most 10,000; see {@link #cancelAll(JobFilter, BulkOptions)}. */
    default BulkResult cancelAll(JobFilter filter) {
        return cancelAll(filter, BulkOptions.defaults());
    }

    /**
     * Cancels the active jobs that match a filter, as {@link Jobs#cancel} does.
     *
     * <p>All bulk operations work in batches, each of which is a short transaction of its own; they do not join a transaction of the
     * caller. They change only jobs that still match the filter, in a status in which the single operation is possible, and skip jobs
     * that another transaction has locked. Jobs that carry runs of workflows are never changed. A call ends after the maximum, or
     * after about a minute; its result says where the next call continues.
     *
     * @throws JobRejectedException if the filter has no condition and the options lack {@link BulkOptions#withEverything}, or in a
     *     transaction
     */
    BulkResult cancelAll(JobFilter filter, BulkOptions options);

    /** Retries jobs, at most 10,000; see {@link #retryAll(JobFilter, BulkOptions)}. */
    default BulkResult retryAll(JobFilter filter) {
        return retryAll(filter, BulkOptions.defaults());
    }

    /**
     * Retries the failed, cancelled and abandoned jobs that match a filter, as {@link Jobs#retry} does; in batches, as {@link
     * #cancelAll(JobFilter, BulkOptions)}.
     */
    BulkResult retryAll(JobFilter filter, BulkOptions options);

    /** Makes pending jobs due at another time, at most 10,000; see {@link #rescheduleAll(JobFilter, Instant, BulkOptions)}. */
    default BulkResult rescheduleAll(JobFilter filter, Instant at) {
        return rescheduleAll(filter, at, BulkOptions.defaults());
    }

    /**
     * Makes the pending jobs that match a filter due at that time, by the database's clock; in batches, as {@link
     * #cancelAll(JobFilter, BulkOptions)}. A time in the past means now: then jobs that are due already stay as they are.
     */
    BulkResult rescheduleAll(JobFilter filter, Instant at, BulkOptions options);

    /** Deletes jobs that have ended, at most 10,000; see {@link #deleteAll(JobFilter, BulkOptions)}. */
    default BulkResult deleteAll(JobFilter filter) {
        return deleteAll(filter, BulkOptions.defaults());
    }

    /**
     * Deletes the jobs that match a filter and have ended, with their logs; in batches, as {@link #cancelAll(JobFilter, BulkOptions)}. A
     * job whose result a run of a workflow still has to read is kept.
     */
    BulkResult deleteAll(JobFilter filter, BulkOptions options);

    /**
     * Exports jobs with their payloads, page by page: a JSON object on one line for each. Without statuses, failed and abandoned jobs
     * are exported. A page has about 8 MB at most; otherwise the bounds are those of {@link #search(JobFilter, int, String)}.
     *
     * @param limit the largest number of lines, between 1 and 1,000
     * @param cursor {@link Page#next()} of the previous page of the same filter; null: begins
     * @throws IllegalArgumentException if the cursor does not belong to the filter
     */
    Page<String> export(JobFilter filter, int limit, @Nullable String cursor);

    /**
     * Enqueues a job from a line that {@link #export} returned: with the same name, payload, priority, capability, unique key, group,
     * tags, number of attempts and metadata, except for reserved ones; due now, and with a new id. Joins the caller's transaction.
     *
     * @throws JobRejectedException if the line is not such an object, or the job cannot be enqueued; the message says why
     */
    EnqueuedJob enqueueExported(String line);

    /**
     * Enqueues a copy of a job, whatever has become of it: with the same properties as {@link #enqueueExported} takes over, due now, and
     * with a new id. Joins the caller's transaction.
     *
     * @param json another payload, as JSON; null: that of the job
     * @return the copy, or the active job that has its unique key; empty if there is no such job
     * @throws JobRejectedException if the job cannot be enqueued; the message says why
     */
    Optional<EnqueuedJob> enqueueCopy(UUID id, @Nullable String json);

    /**
     * Returns the limits that hold for jobs of that name at present: those that were {@linkplain #setLimits set at run time}, otherwise
     * those that its handler declares.
     */
    JobLimits limits(String name);

    /**
     * Sets the limits of jobs of that name, until {@link #resetLimits}. They hold in the whole cluster from the next claim on and
     * survive restarts. Running jobs continue: if there are more than allowed, no further one starts.
     *
     * @throws UnknownJobException if no node has ever had a handler of that name
     */
    void setLimits(String name, JobLimits limits);

    /**
     * Returns to the limits that the handler declares.
     *
     * @return whether limits had been set at run time
     */
    boolean resetLimits(String name);

    /**
     * Sets how many jobs a group may start whenever its turn comes. The default is 1.
     *
     * @param weight between 1 and 1,000
     * @throws UnknownJobException if no node has ever had a handler of that name
     */
    void setGroupWeight(String name, String group, int weight);

    /** Returns the names that are paused: all that a node has had a handler for, and up to 1,000 other ones. */
    Set<String> paused();

    /**
     * Returns how much work waits for workers and how many slots they have, for automatic scaling. Counts up to 10,000 due jobs of
     * each name and capability. The calls of a node follow one after the other.
     */
    JobDemand demand();

    /** Explains why a job is not running. */
    JobExplanation explain(UUID id);

    /**
     * Returns what jobs did in the last hours or days, for charts: numbers, times of waiting and running, and the backlog. Minutes are
     * kept for six hours, steps of ten minutes for {@code forge.cluster.history.retention}. Steps without data have zeros, as all of
     * them if {@code forge.cluster.history.enabled} is false on all nodes.
     */
    JobHistory history(JobHistoryQuery query);

    /**
     * Sums up what the jobs of each name did in the last hours: of the 200 names with the most jobs, in the order of the names.
     *
     * @param range between one minute and one day
     */
    List<JobSummary> summaries(Duration range);

    /**
     * Sums up what the jobs of these names did in the last hours, in the order of the names. Names without jobs in that time are absent,
     * as are names that their node did not count separately, because it had counted 200 others.
     *
     * @param range between one minute and one day
     * @param names at most 200
     */
    List<JobSummary> summaries(Duration range, Collection<String> names);
}
