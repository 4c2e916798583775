// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;

/**
 * A monitor that logs failures of another monitor once and suppresses them: a registry that rejects a meter must neither keep a job
 * from running nor decide how it ends. Failures of {@code observe} propagate; its callers ensure that the attempt is made.
 */
public final class GuardedMonitor implements JobMonitor {

    private static final Logger log = GuardedLogger.of(GuardedMonitor.class);

    private final JobMonitor monitor;
    private final AtomicBoolean reported = new AtomicBoolean();

    private GuardedMonitor(JobMonitor monitor) {
        this.monitor = monitor;
    }

    /** Returns a guarded monitor. */
    public static JobMonitor of(JobMonitor monitor) {
        return monitor == NONE || monitor instanceof GuardedMonitor ? monitor : new GuardedMonitor(monitor);
    }

    private void guard(Runnable call) {
        try {
            call.run();
        } catch (Throwable e) {
            report(e);
        }
    }

    private void report(Throwable failure) {
        if (reported.compareAndSet(false, true)) {
            log.warn(
                    "Could not record metrics or traces of jobs; jobs are not affected. Further failures are logged at DEBUG.",
                    ErrorText.loggable(failure));
        } else {
            log.debug("Could not record metrics or traces of jobs", failure);
        }
    }

    @Override
    public void observe(Attempt attempt, Runnable run) {
        monitor.observe(attempt, run);
    }

    @Override
    public void observeTogether(List<? extends Attempt> attempts, Runnable run) {
        monitor.observeTogether(attempts, run);
    }

    @Override
    public void observe(StepAttempt attempt, Runnable run) {
        monitor.observe(attempt, run);
    }

    @Override
    public Runnable carried(Runnable work) {
        try {
            return monitor.carried(work);
        } catch (Throwable e) {
            report(e);
            return work;
        }
    }

    @Override
    public Map<String, String> origin(String name) {
        try {
            return monitor.origin(name);
        } catch (Throwable e) {
            report(e);
            return Map.of();
        }
    }

    @Override
    public void started(String name, Duration waited) {
        guard(() -> monitor.started(name, waited));
    }

    @Override
    public void claimed(Duration took) {
        guard(() -> monitor.claimed(took));
    }

    @Override
    public void retried(String name) {
        guard(() -> monitor.retried(name));
    }

    @Override
    public void ended(String name, JobAttemptOutcome.Kind outcome, long ranNanos) {
        // Without a lambda: this is called for each job.
        try {
            monitor.ended(name, outcome, ranNanos);
        } catch (Throwable e) {
            report(e);
        }
    }

    @Override
    public boolean observes() {
        return monitor.observes();
    }

    @Override
    public void timedOut(String name) {
        guard(() -> monitor.timedOut(name));
    }

    @Override
    public void claimLost(String name) {
        guard(() -> monitor.claimLost(name));
    }

    @Override
    public void fired(String cron, CronRun.Outcome result) {
        guard(() -> monitor.fired(cron, result));
    }

    @Override
    public void failed(UUID id, String name, JobStatus status, String error) {
        guard(() -> monitor.failed(id, name, status, error));
    }

    @Override
    public void recovered(String name) {
        guard(() -> monitor.recovered(name));
    }
}
