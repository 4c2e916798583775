// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.upkeep;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.OwnedJobs;
import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.internal.job.row.JobLimitStore;
import dev.forge.cluster.internal.job.row.JobLogStore;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.job.row.JobPurgeStore;
import dev.forge.cluster.internal.job.row.UniqueJobStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.purge.PurgeBatch;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.Names;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/** Purges finished jobs, vacuums their table, and warns about pending jobs without a handler. */
public final class JobHousekeeping {

    private static final Logger log = GuardedLogger.of(JobHousekeeping.class);

    private static final int PURGE_BATCH = 5_000;

    /** How many jobs a statement looks at that deletes lines of logs. */
    private static final int SWEPT_LOGS = 1_000;

    private static final int IDLE_LOG_SWEEPS = 20;
    private static final int MOST_LOG_SWEEPS = 500;

    /** So many dead rows are worth a vacuum. */
    private static final long DEAD_ROWS = 20_000;

    /** How many names a log message lists. */
    private static final int LISTED_NAMES = 20;

    private final WorkerSettings.Keeping retention;
    private final JobHandlers handlers;
    private final JobPurgeStore keeping;
    private final JobNameStore names;
    private final JobPurgeStore vacuuming;
    private final PurgeBatch purge;
    private final JobLimitStore limits;
    private final PurgeBatch purgeOfRates;
    private final JobBatchStore batches;
    private final PurgeBatch purgeOfBatches;
    private final PurgeBatch.SetAside undeletableJobs;
    private final PurgeBatch.SetAside undeletableBatches;
    private final UniqueJobStore windows;
    private final PurgeBatch purgeOfWindows;
    private final JobLogStore logs;

    /** The job whose lines were looked at last; null: the next sweep begins with the first job. */
    private volatile @Nullable UUID lastSwept;

    /** How many dead rows the last vacuum left behind. */
    private volatile long deadAfterVacuum;

    public JobHousekeeping(Node node, WorkerSettings.Keeping retention, JobHandlers handlers) {
        this.retention = retention;
        this.handlers = handlers;
        Schema schema = node.resources().schema();
        DataSource control = node.resources().control();
        this.keeping = new JobPurgeStore(schema, control);
        this.names = new JobNameStore(schema, control);
        // On a dedicated connection: a vacuum may take long.
        this.vacuuming = new JobPurgeStore(schema, node.resources().direct());
        this.purge = new PurgeBatch("finished jobs", PURGE_BATCH, node::nanos);
        this.limits = new JobLimitStore(schema, control);
        this.logs = new JobLogStore(schema, control);
        this.purgeOfRates = new PurgeBatch("rates of groups", PURGE_BATCH, node::nanos);
        this.batches = new JobBatchStore(schema, control);
        this.purgeOfBatches = new PurgeBatch("batches of jobs", PURGE_BATCH, node::nanos);
        var undeletable = new UndeletableStore(schema, control);
        this.undeletableJobs = new PurgeBatch.SetAside(undeletable, "forge_jobs", JobPurgeStore.FINISHED_JOB);
        this.undeletableBatches = new PurgeBatch.SetAside(undeletable, "forge_job_batches", JobBatchStore.ENDED_BATCH);
        this.windows = new UniqueJobStore(schema, control);
        this.purgeOfWindows = new PurgeBatch("windows of unique keys", PURGE_BATCH, node::nanos);
    }

    /** Deletes finished jobs whose retention has passed, and what belongs to jobs and is no longer needed. */
    public void cleanUp() {
        String awaited = handlers.owned().stream()
                .map(owned -> "(" + owned.awaitedCondition() + ")")
                .collect(Collectors.joining(" OR "));
        var expiry = new JobPurgeStore.Expiry(retention.completed(), retention.failed(), awaited);
        Loop.each(
                () -> purge.deleteAll(
                        new PurgeBatch.Rows(
                                most -> keeping.purge(expiry, most),
                                most -> keeping.expired(expiry, most),
                                jobs -> keeping.purge(expiry, jobs)),
                        undeletableJobs),
                () -> purgeOfRates.deleteAll(limits::purgeRates),
                () -> purgeOfBatches.deleteAll(
                        new PurgeBatch.Rows(
                                most -> batches.purge(retention.failed(), most),
                                most -> batches.expired(retention.failed(), most),
                                ended -> batches.purge(retention.failed(), ended)),
                        undeletableBatches),
                () -> purgeOfWindows.deleteAll(windows::purgeWindows),
                this::sweepLogs);
    }

    /** Vacuums the table of jobs if it has many dead rows. */
    public void vacuum() {
        long dead = keeping.deadRows();
        // A vacuum cannot remove rows that an old snapshot keeps.
        boolean inVain = deadAfterVacuum > DEAD_ROWS && dead < 2 * deadAfterVacuum;
        if (dead > DEAD_ROWS && !inVain) {
            try {
                vacuuming.vacuum();
                deadAfterVacuum = keeping.deadRows();
            } catch (DataAccessException e) {
                log.debug("Could not vacuum forge_jobs; autovacuum will", e);
            }
        }
    }

    /**
     * Deletes lines of jobs that no longer exist. A foreign key would cost the deletion of each job a search, also of those that have
     * logged nothing. A pass looks at 20,000 jobs with lines, more if it finds lines to delete.
     */
    private void sweepLogs() {
        int idle = 0;
        for (int rounds = 0; idle < IDLE_LOG_SWEEPS && rounds < MOST_LOG_SWEEPS; rounds++) {
            JobLogStore.Swept swept = logs.sweep(lastSwept, SWEPT_LOGS);
            lastSwept = swept.last();
            idle += swept.deleted() == 0 ? 1 : 0;
            if (swept.last() == null) {
                return;
            }
        }
    }

    /** Records the limits that the handlers of this node declare. */
    public void declareLimits() {
        var unlimited = new TreeSet<String>();
        for (String name : handlers.names()) {
            JobHandler handler = handlers.named(name);
            if (handler == null || !handler.name().equals(name)) {
                // A former name.
                continue;
            }
            JobHandler.Grouping grouping = handler.grouping();
            if (grouping.isLimited()) {
                limits.declare(name, grouping.limits(), grouping.ordered());
            } else {
                unlimited.add(name);
            }
        }
        limits.declareNone(unlimited);
    }

    /** Warns about pending jobs that no live node has a handler for. */
    public void warnOfOrphans() {
        try {
            // Capabilities with reserved names report their jobs without a handler themselves.
            JobNameStore.FewNames orphans = names.orphanedNames(
                    LISTED_NAMES,
                    handlers.owned().stream().map(OwnedJobs::prefix).toList());
            if (!orphans.first().isEmpty()) {
                var counts = new TreeMap<String, Long>();
                orphans.first().forEach((name, count) -> counts.merge(Names.printable(name), count, Long::sum));
                log.warn(
                        "No live node has a handler for these pending jobs: {}{}. If a job was renamed, add the old name to its"
                                + " handler: @ClusterJob(aliases = \"...\").",
                        counts,
                        orphans.more() == 0 ? "" : " and %d more".formatted(orphans.more()));
            }
        } catch (DataAccessException e) {
            log.debug("Could not search for jobs without a handler", e);
        }
    }
}
