// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.database.TransientFailure;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.store.JobClockStore;
import dev.forge.cluster.internal.job.store.JobClockStore.DatabaseTime;
import dev.forge.cluster.internal.job.store.JobRecoveryStore;
import dev.forge.cluster.internal.job.store.JobRecoveryStore.Recovered;
import dev.forge.cluster.internal.job.store.JobSuccessorStore;
import dev.forge.cluster.internal.job.store.JobSuccessorStore.Freed;
import dev.forge.cluster.internal.job.store.JobSuccessorStore.Place;
import dev.forge.cluster.internal.job.worker.WorkerSettings;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.dao.DataAccessException;

/**
 * Recovers jobs of dead nodes and jobs whose lease has expired, if this node leads the scheduler role. Expired leases are ignored
 * during a grace period after a start, a gap between sweeps, a restart of the server or a step of its clock: no node could renew
 * leases then.
 */
final class JobSweeper {

    private static final Logger log = GuardedLogger.of(JobSweeper.class);

    private static final int SUSPICIOUS_RECOVERIES = 2;

    /** The largest number of recovered jobs of one node, or of one sweep, that are named in the log. */
    private static final int MOST_LOGGED = 10;

    /** The largest number of failed statements in one sweep; the next sweep continues. */
    private static final int MOST_FAILURES = 100;

    private final Node node;
    private final WorkerSettings settings;
    private final JobMonitor monitor;
    private final JobSuccessorStore successors;
    private final JobRecoveryStore recoveries;
    private final JobClockStore clock;
    private final SetBackClock setBack;

    private volatile long graceUntil;
    private volatile long lastSweep;
    private volatile @Nullable OffsetDateTime serverStart;

    /** How far the database's clock was ahead of this node's monotonic one at the last sweep. */
    private @Nullable Duration clockOffset;

    /** The newest time that the database's clock had shown before it was set back, as far as this node has seen it. */
    private Instant shown = Instant.EPOCH;

    /** The last waiting job that was checked. */
    private @Nullable Place lastSuccessor;

    /** Whether a row that cannot be written has been logged. */
    private volatile boolean failureReported;

    JobSweeper(
            Node node,
            WorkerSettings settings,
            JobMonitor monitor,
            JobSuccessorStore successors,
            JobRecoveryStore recoveries) {
        this.node = node;
        this.settings = settings;
        this.monitor = monitor;
        this.successors = successors;
        this.recoveries = recoveries;
        this.clock =
                new JobClockStore(node.resources().schema(), node.resources().control());
        this.setBack = new SetBackClock(clock, node::nanos);
    }

    void begin() {
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
     */
    void sweep(Runnable onPending) {
        long now = node.nanos();
        OffsetDateTime started = node.serverStart();
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
        if (step.compareTo(JobClockStore.STEP) > 0) {
            log.warn(
                    "The database clock was set forward by more than {} s. Expired job leases are ignored for"
                            + " forge.cluster.sweep.startup-grace.",
                    JobClockStore.STEP.toSeconds());
            extendGrace(now);
        }
        Instant before = time.now().minus(step);
        if (JobClockStore.isBehind(time.now(), before) && before.isAfter(shown)) {
            shown = before;
        }
        if (!node.elector().isLeader(Leadership.SCHEDULER)) {
            return;
        }
        if (setBack.pass(time.now(), time.written().isAfter(shown) ? time.written() : shown)) {
            onPending.run();
        }
        List<Recovered> recovered = sweepJobs(now - graceUntil < 0);
        report(recovered);
        if (!recovered.isEmpty()) {
            onPending.run();
        }
        Freed freed = successors.freeNext(lastSuccessor);
        lastSuccessor = freed.last();
        if (freed.jobs() > 0) {
            onPending.run();
        }
    }

    private void extendGrace(long now) {
        graceUntil = Math.max(graceUntil, now + settings.keeping().grace().toNanos());
    }

    private List<Recovered> sweepJobs(boolean grace) {
        WorkerSettings.Leases leases = settings.leases();
        try {
            List<Recovered> recovered = recoveries.sweep(leases.crash(), leases.claimStart(), grace);
            failureReported = false;
            return recovered;
        } catch (DataAccessException e) {
            if (TransientFailure.caused(e)) {
                throw e;
            }
            // A row that cannot be written must not keep the other jobs on their dead nodes.
            var recovered = new ArrayList<Recovered>();
            sweepApart(recoveries.overdue(leases.claimStart(), grace), grace, recovered, new AtomicInteger());
            return recovered;
        }
    }

    private void sweepApart(List<UUID> overdue, boolean grace, List<Recovered> recovered, AtomicInteger failures) {
        if (overdue.isEmpty() || failures.get() > MOST_FAILURES) {
            return;
        }
        WorkerSettings.Leases leases = settings.leases();
        try {
            recovered.addAll(recoveries.sweep(leases.crash(), leases.claimStart(), grace, overdue));
        } catch (DataAccessException e) {
            failures.incrementAndGet();
            if (TransientFailure.caused(e)) {
                throw e;
            }
            if (overdue.size() > 1) {
                int half = overdue.size() / 2;
                sweepApart(overdue.subList(0, half), grace, recovered, failures);
                sweepApart(overdue.subList(half, overdue.size()), grace, recovered, failures);
            } else if (!failureReported) {
                failureReported = true;
                log.warn(
                        "Job {}: database rejected its recovery from a dead node; retrying. Other jobs are not affected.",
                        overdue.get(0),
                        ErrorText.loggable(e));
            }
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
    void report(List<Recovered> recovered) {
        int taken = 0;
        for (Recovered job : recovered) {
            monitor.recovered(job.name());
            if (job.status() == JobStatus.PENDING) {
                logTaken(job, taken++ < MOST_LOGGED ? Level.WARN : Level.DEBUG);
            } else {
                log.warn(
                        "Job {} ({}): {} after {} node failures",
                        Names.printable(job.name()),
                        job.id(),
                        job.status(),
                        job.recoveries());
                monitor.failed(job.id(), job.name(), job.status(), String.valueOf(job.error()));
            }
        }
        if (taken > MOST_LOGGED) {
            log.warn(
                    "{} more jobs were taken from dead or silent nodes; the level DEBUG names them",
                    taken - MOST_LOGGED);
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
