// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.upkeep;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.job.row.JobRecoveryStore;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.Overdue;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.Recovered;
import dev.forge.cluster.internal.job.row.JobReleaseStore;
import dev.forge.cluster.internal.job.row.JobReleaseStore.Freed;
import dev.forge.cluster.internal.job.row.JobReleaseStore.Place;
import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.internal.job.row.JobScheduleStore.DatabaseTime;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Bisect;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.Portion;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.dao.DataAccessException;

/**
 * Recovers jobs of dead nodes and jobs whose lease has expired, if this node leads the scheduler role. Expired leases are ignored
 * during a grace period after a start, a gap between sweeps, a restart of the server or a step of its clock: no node could renew
 * leases then.
 */
public final class JobSweeper {

    private static final Logger log = GuardedLogger.of(JobSweeper.class);

    private static final int SUSPICIOUS_RECOVERIES = 2;

    /** The largest number of recovered jobs of one node, or of one sweep, that are named in the log. */
    private static final int MOST_LOGGED = 10;

    /** The largest number of jobs that one statement recovers. */
    public static final int LARGEST_BATCH = 1_000;

    /** After this many failed statements a sweep ends with its batch; the next sweep continues. */
    private static final int MOST_FAILURES = 100;

    /** How long one sweep recovers jobs before it lets the other duties of the loop have a turn. */
    private static final Duration LONGEST_RECOVERY = Duration.ofSeconds(5);

    private final Node node;
    private final WorkerSettings settings;
    private final JobMonitor monitor;
    private final JobReleaseStore successors;
    private final JobRecoveryStore recoveries;
    private final RowLog rows = new RowLog();

    /** How many jobs a statement recovers at present. */
    private final Portion portion = new Portion(LARGEST_BATCH);

    private final JobScheduleStore clock;
    private final SetBackClock setBack;

    private volatile long graceUntil;
    private volatile long lastSweep;
    private volatile @Nullable OffsetDateTime serverStart;

    /** How far the database's clock was ahead of this node's monotonic one at the last sweep. */
    private volatile @Nullable Duration clockOffset;

    /** The newest time that the database's clock had shown before it was set back, as far as this node has seen it. */
    private Instant shown = Instant.EPOCH;

    /** The last waiting job that was checked. */
    private @Nullable Place lastSuccessor;

    /** The last job that the last sweep has examined, if it did not examine all. */
    private volatile @Nullable UUID resumeAfter;

    /** Whether a row that cannot be written has been logged. */
    private volatile boolean failureReported;

    public JobSweeper(
            Node node,
            WorkerSettings settings,
            JobMonitor monitor,
            JobReleaseStore successors,
            JobRecoveryStore recoveries) {
        this.node = node;
        this.settings = settings;
        this.monitor = monitor;
        this.successors = successors;
        this.recoveries = recoveries;
        this.clock =
                new JobScheduleStore(node.resources().schema(), node.resources().control());
        this.setBack = new SetBackClock(clock, node::nanos);
    }

    public void begin() {
        long now = node.nanos();
        graceUntil = now + settings.keeping().grace().toNanos();
        lastSweep = now;
        // What another member of this process has seen tells nothing: tests set the clock between two of them.
        clockOffset = null;
        shown = Instant.EPOCH;
    }

    /**
     * Makes one sweep.
     *
     * @param onPending called if jobs are pending again
     * @param onUnfinished called if there may be more jobs to recover, so that the next sweep should follow at once
     */
    public void sweep(Runnable onPending, Runnable onUnfinished) {
        long now = node.nanos();
        OffsetDateTime started = node.peers().serverStart();
        boolean gap =
                now - lastSweep > settings.keeping().sweep().multipliedBy(3).toNanos();
        if (gap || !Objects.equals(started, serverStart)) {
            extendGrace(now);
        }
        serverStart = started;
        lastSweep = now;
        // Followers observe the clock, too: the next leader has to know of a step before its first term.
        DatabaseTime time = clock.read();
        Duration step = step(time.now());
        if (step.compareTo(JobScheduleStore.STEP) > 0) {
            log.warn(
                    "The database clock was set forward by more than {} s. Expired job leases are ignored for"
                            + " forge.cluster.sweep.startup-grace.",
                    JobScheduleStore.STEP.toSeconds());
            extendGrace(now);
        }
        Instant before = time.now().minus(step);
        if (JobScheduleStore.isBehind(time.now(), before) && before.isAfter(shown)) {
            shown = before;
        }
        if (!node.elector().isLeader(Leadership.SCHEDULER)) {
            return;
        }
        Instant latest = time.written().isAfter(shown) ? time.written() : shown;
        Loop.each(
                () -> moveTimes(time.now(), latest, onPending),
                () -> recover(now - graceUntil < 0, onPending, onUnfinished),
                () -> freeSuccessors(onPending));
    }

    /** Moves what the cluster has scheduled by a clock that was set back. */
    private void moveTimes(Instant now, Instant latest, Runnable onPending) {
        if (setBack.pass(now, latest)) {
            onPending.run();
        }
    }

    private void freeSuccessors(Runnable onPending) {
        Freed freed = successors.freeNext(lastSuccessor);
        lastSuccessor = freed.last();
        if (freed.jobs() > 0) {
            onPending.run();
        }
    }

    private void extendGrace(long now) {
        graceUntil = Math.max(graceUntil, now + settings.keeping().grace().toNanos());
    }

    /** Takes all overdue jobs from their nodes, batch by batch. A batch that took too long is repeated with fewer jobs. */
    private void recover(boolean grace, Runnable onPending, Runnable onUnfinished) {
        WorkerSettings.Leases leases = settings.leases();
        long began = node.nanos();
        var report = new Report();
        int[] failures = {0};
        UUID after = resumeAfter;
        resumeAfter = null;
        try {
            while (node.elector().isLeader(Leadership.SCHEDULER)) {
                int limit = portion.size();
                var overdue = new Overdue(leases.claimStart(), grace, after, limit);
                int found;
                try {
                    found = taken(recoveries.sweep(leases.crash(), overdue), report, onPending);
                    // All of them could be recovered.
                    failureReported &= after != null || found == limit;
                    portion.succeeded();
                } catch (DataAccessException e) {
                    boolean slow = DatabaseFailure.kind(e).isTransient();
                    if (slow && limit > 1) {
                        portion.failed(limit);
                        found = limit;
                    } else if (!isOfRow(e)) {
                        throw e;
                    } else {
                        // A row that cannot be written must not keep the other jobs on their dead nodes.
                        List<UUID> ids = recoveries.overdue(overdue);
                        new Bisect<UUID>(
                                        some -> taken(
                                                recoveries.sweep(leases.crash(), overdue, some), report, onPending),
                                        failure -> ++failures[0] > 0 && isOfRow(failure),
                                        Integer.MAX_VALUE,
                                        this::reportFailure)
                                .run(ids);
                        found = ids.size();
                        after = found == 0 ? after : ids.get(found - 1);
                    }
                }
                if (found < limit) {
                    return;
                }
                if (failures[0] > MOST_FAILURES) {
                    // There may be any number of such rows. The next sweep continues behind them.
                    resumeAfter = after;
                    return;
                }
                if (node.nanos() - began > LONGEST_RECOVERY.toNanos()) {
                    resumeAfter = after;
                    onUnfinished.run();
                    return;
                }
            }
        } finally {
            report.end();
        }
    }

    private int taken(List<Recovered> recovered, Report report, Runnable onPending) {
        report.add(recovered);
        if (!recovered.isEmpty()) {
            onPending.run();
        }
        return recovered.size();
    }

    private static boolean isOfRow(DataAccessException failure) {
        return !DatabaseFailure.kind(failure).isTransient()
                || DatabaseFailure.kind(failure).isPerhapsOfRow()
                || DatabaseFailure.kind(failure) == Kind.STATEMENT_TIMEOUT
                || DatabaseFailure.kind(failure) == Kind.LOCK_TIMEOUT;
    }

    private void reportFailure(UUID job, DataAccessException failure) {
        if (!failureReported) {
            failureReported = true;
            log.warn(
                    "Job {}: database rejected its recovery from a dead node; retrying. Other jobs are not affected.",
                    job,
                    ErrorText.loggable(failure));
        }
    }

    /** Returns by how much the database's clock was set since the last sweep; negative if it was set back. */
    private Duration step(Instant database) {
        Duration former = clockOffset;
        Duration offset = Duration.between(Instant.EPOCH, database).minusNanos(node.databaseNanos());
        clockOffset = offset;
        return former == null ? Duration.ZERO : offset.minus(former);
    }

    /** Logs and counts jobs that were recovered. */
    public void report(List<Recovered> recovered) {
        var report = new Report();
        report.add(recovered);
        report.end();
    }

    /** Logs and counts the recovered jobs of one node or one sweep. */
    private final class Report {

        private int taken;

        void add(List<Recovered> recovered) {
            for (Recovered job : recovered) {
                monitor.recovered(job.name());
                if (job.status() == JobStatus.PENDING) {
                    logTaken(job, taken++ < MOST_LOGGED ? Level.WARN : Level.DEBUG);
                } else {
                    rows.warn(
                            log,
                            "Jobs: ended after too many node failures",
                            "Job {} ({}): {} after {} node failures",
                            Names.printable(job.name()),
                            job.id(),
                            job.status(),
                            job.recoveries());
                    monitor.failed(job.id(), job.name(), job.status(), String.valueOf(job.error()));
                }
            }
        }

        void end() {
            if (taken > MOST_LOGGED) {
                log.warn(
                        "{} more jobs were taken from dead or silent nodes; the level DEBUG names them",
                        taken - MOST_LOGGED);
            }
        }
    }

    private void logTaken(Recovered job, Level level) {
        log.atLevel(level)
                .log(
                        "Job {} ({}): taken from node {}, last heartbeat {} ms ago",
                        Names.printable(job.name()),
                        job.id(),
                        job.node(),
                        job.silentMillis());
        if (job.recoveries() >= SUSPICIOUS_RECOVERIES) {
            log.atLevel(level)
                    .log(
                            "Job {} ({}): recovered {} times. Does it make its node crash, is forge.cluster.job.lease-duration ({}) too"
                                    + " short, or are the nodes overloaded?",
                            Names.printable(job.name()),
                            job.id(),
                            job.recoveries(),
                            settings.leases().duration());
        }
    }
}
