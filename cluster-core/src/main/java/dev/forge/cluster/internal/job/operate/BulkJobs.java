// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.audit.AuditedChanges;
import dev.forge.cluster.internal.audit.Operation;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.enqueue.JobNews;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobSearchReports.Found;
import dev.forge.cluster.internal.job.row.JobBulkStore;
import dev.forge.cluster.internal.job.row.JobBulkStore.Batch;
import dev.forge.cluster.internal.job.row.JobCancelStore.CancelledJob;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Bisect;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.BulkResult;
import dev.forge.cluster.job.operations.JobFilter;
import java.time.Duration;
import java.time.Instant;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.function.IntConsumer;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/** Operations on all jobs that match a filter, batch by batch. */
public final class BulkJobs {

    private static final Logger log = GuardedLogger.of(BulkJobs.class);

    private static final int BATCH = 500;
    private static final Duration LONGEST = Duration.ofMinutes(1);

    /** How often a batch is repeated that the server has rolled back because of another transaction. */
    private static final int MOST_REPETITIONS = 3;

    private static final Set<JobStatus> ACTIVE = EnumSet.of(JobStatus.PENDING, JobStatus.CLAIMED, JobStatus.RUNNING);
    private static final Set<JobStatus> RETRYABLE =
            EnumSet.of(JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.ABANDONED);
    private static final Set<JobStatus> ENDED =
            EnumSet.of(JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.ABANDONED);

    private final JobSearchReports search;
    private final JobBulkStore store;
    private final AuditedChanges audit;
    private final JobHandlers handlers;
    private final JobNews news;
    private final CallerTransaction caller;
    private final LongSupplier nanos;

    /** What finds, changes and records jobs. */
    public record Stores(JobSearchReports search, JobBulkStore store, AuditedChanges audit) {}

    public BulkJobs(Stores stores, JobHandlers handlers, JobNews news, CallerTransaction caller, LongSupplier nanos) {
        this.search = stores.search;
        this.store = stores.store;
        this.audit = stores.audit;
        this.handlers = handlers;
        this.news = news;
        this.caller = caller;
        this.nanos = nanos;
    }

    public BulkResult cancel(JobFilter filter, BulkOptions options) {
        return run(
                new Command("JobOperations.cancelAll", "jobs.cancel-all", null, ACTIVE, false),
                filter,
                options,
                batch -> {
                    List<CancelledJob> cancelled = store.cancel(batch);
                    cancelled.forEach(job -> news.cancelled(job.id(), job.batch(), job.held()));
                    if (cancelled.stream().anyMatch(CancelledJob::hasKey)) {
                        // Their successors may run.
                        news.pending();
                    }
                    return 0;
                });
    }

    public BulkResult retry(JobFilter filter, BulkOptions options) {
        return run(
                new Command("JobOperations.retryAll", "jobs.retry-all", null, RETRYABLE, true),
                filter,
                options,
                batch -> {
                    store.retry(batch);
                    return 0;
                });
    }

    public BulkResult reschedule(JobFilter filter, Instant at, BulkOptions options) {
        return run(
                new Command(
                        "JobOperations.rescheduleAll",
                        "jobs.reschedule-all",
                        "to " + at,
                        EnumSet.of(JobStatus.PENDING),
                        true),
                filter,
                options,
                batch -> store.reschedule(batch, at).unaffected());
    }

    public BulkResult delete(JobFilter filter, BulkOptions options) {
        String awaited = handlers.owned().stream()
                .map(owned -> "(" + owned.awaitedCondition() + ")")
                .collect(Collectors.joining(" OR "));
        return run(
                new Command("JobOperations.deleteAll", "jobs.delete-all", null, ENDED, false),
                filter,
                options,
                batch -> {
                    store.delete(batch, awaited);
                    return 0;
                });
    }

    /**
     * An operation on many jobs.
     *
     * @param call the method of the API
     * @param action the action in the audit trail, with its detail
     * @param possible the statuses of the jobs that it can change
     * @param announced whether the jobs may run afterwards
     */
    private record Command(
            String call, String action, @Nullable String detail, Set<JobStatus> possible, boolean announced) {}

    /** What changes a batch; returns the number of jobs that need no change. */
    private interface Change {
        int of(Batch batch);
    }

    /** The part of a call that has been committed. A batch has several transactions, may fail after some of them, and is repeated. */
    private final class Committed implements IntConsumer {

        private final boolean announced;
        private long jobs;

        Committed(boolean announced) {
            this.announced = announced;
        }

        @Override
        public void accept(int changed) {
            jobs += changed;
            if (announced && changed > 0) {
                news.pending();
            }
        }
    }

    private BulkResult run(Command command, JobFilter filter, BulkOptions options, Change change) {
        requireDeliberate(command.call, filter, options);
        Set<JobStatus> statuses = EnumSet.copyOf(command.possible);
        if (!filter.statuses().isEmpty()) {
            statuses.retainAll(filter.statuses());
        }
        if (statuses.isEmpty()) {
            return new BulkResult(0, 0, 0, 0, null);
        }
        JobFilter narrowed = filter.withStatuses(statuses.toArray(JobStatus[]::new));
        AuditedChanges.BulkCall recorded = audit.begin(new Operation(command.action, target(filter), command.detail));
        var committed = new Committed(command.announced);
        try {
            return run(command.call, narrowed, options, change, recorded, committed);
        } catch (NotRecorded e) {
            throw e.failure;
        } finally {
            recorded.end(committed.jobs);
        }
    }

    /** Returns the id if the filter selects one job by its id alone, so that the audit trail finds what happened to that job. */
    private static Object target(JobFilter filter) {
        return filter.ids().size() == 1
                        && filter.toString()
                                .equals(JobFilter.all().withIds(filter.ids()).toString())
                ? filter.ids().iterator().next()
                : filter;
    }

    private BulkResult run(
            String call,
            JobFilter narrowed,
            BulkOptions options,
            Change change,
            AuditedChanges.BulkCall recorded,
            Committed committed) {
        List<String> reserved = handlers.ownedPrefixes();
        long began = nanos.getAsLong();
        var result = new BulkResult(0, 0, 0, 0, options.cursor());
        do {
            int most = (int) Math.min(BATCH, options.maximum() - result.matched());
            Found found = search.find(call, narrowed, most, result.next());
            Done done = options.preview() || found.hits().isEmpty()
                    ? Done.NOTHING
                    : isolating(
                            change,
                            new Batch(
                                    found.ids(), narrowed, reserved, changed -> record(recorded, changed), committed));
            result = new BulkResult(
                    result.examined() + found.examined(),
                    // A job that was moved to another time appears there again.
                    result.matched() + found.hits().size() - done.unaffected,
                    committed.jobs,
                    result.rejected() + done.rejected,
                    found.next());
            options.progress().accept(result);
        } while (result.next() != null
                && result.matched() < options.maximum()
                && nanos.getAsLong() - began < LONGEST.toNanos());
        return result;
    }

    /** The audit trail rejects an entry: none of the jobs is at fault. */
    private static final class NotRecorded extends RuntimeException {

        private static final long serialVersionUID = 1L;
        private final DataAccessException failure;

        NotRecorded(DataAccessException failure) {
            super(failure);
            this.failure = failure;
        }
    }

    private static void record(AuditedChanges.BulkCall recorded, int changed) {
        try {
            recorded.changed(changed);
        } catch (DataAccessException e) {
            throw DatabaseFailure.kind(e).isOfRow() ? new NotRecorded(e) : e;
        }
    }

    /** How many jobs of a batch need no change, and how many the database refused to change. */
    private record Done(int unaffected, int rejected) {

        static final Done NOTHING = new Done(0, 0);
    }

    /** Changes a batch except for the jobs that the database refuses to change: they must not keep the others from being changed. */
    private static Done isolating(Change change, Batch batch) {
        int[] unaffected = {0};
        int[] rejected = {0};
        new Bisect<UUID>(
                        ids -> unaffected[0] += repeated(change, batch.of(ids)),
                        failure -> DatabaseFailure.kind(failure).isOfRow(),
                        Integer.MAX_VALUE,
                        (id, failure) -> {
                            if (rejected[0]++ == 0) {
                                log.warn(
                                        "Job {}: the database rejects a bulk operation. It is skipped, and so are others that"
                                                + " are rejected.",
                                        id,
                                        ErrorText.loggable(failure));
                            }
                        })
                .run(batch.ids());
        return new Done(unaffected[0], rejected[0]);
    }

    private static int repeated(Change change, Batch batch) {
        for (int repetition = 0; ; repetition++) {
            try {
                return change.of(batch);
            } catch (DataAccessException e) {
                if (repetition == MOST_REPETITIONS || !DatabaseFailure.kind(e).isConflict()) {
                    throw e;
                }
            }
        }
    }

    private void requireDeliberate(String call, JobFilter filter, BulkOptions options) {
        if (caller.isOpen()) {
            throw new JobRejectedException(
                    "%s does not join a transaction: each of its batches is one. Call it outside of a transaction."
                            .formatted(call));
        }
        if (FilterChecks.selectsAll(filter) && !options.everything()) {
            throw new JobRejectedException(
                    "%s: the filter has no condition. Add one, or pass BulkOptions.withEverything() to change every job."
                            .formatted(call));
        }
    }
}
