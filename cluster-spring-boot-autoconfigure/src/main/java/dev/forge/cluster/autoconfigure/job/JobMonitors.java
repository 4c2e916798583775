// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Combines the monitors that the libraries on the class path provide.
 *
 * @param observing those that observe attempts
 */
public record JobMonitors(List<JobMonitor> all, List<JobMonitor> observing) implements JobMonitor {

    public static JobMonitor of(List<JobMonitor> all) {
        return switch (all.size()) {
            case 0 -> NONE;
            case 1 -> all.get(0);
            default ->
                new JobMonitors(
                        List.copyOf(all),
                        all.stream().filter(JobMonitor::observes).toList());
        };
    }

    @Override
    public void observe(Attempt attempt, Runnable run) {
        Runnable observed = run;
        for (JobMonitor monitor : observing) {
            Runnable inner = observed;
            observed = () -> monitor.observe(attempt, inner);
        }
        observed.run();
    }

    @Override
    public void observeTogether(List<? extends Attempt> attempts, Runnable run) {
        Runnable observed = run;
        for (JobMonitor monitor : observing) {
            Runnable inner = observed;
            observed = () -> monitor.observeTogether(attempts, inner);
        }
        observed.run();
    }

    @Override
    public void observe(StepAttempt attempt, Runnable run) {
        Runnable observed = run;
        for (JobMonitor monitor : observing) {
            Runnable inner = observed;
            observed = () -> monitor.observe(attempt, inner);
        }
        observed.run();
    }

    @Override
    public Runnable carried(Runnable work) {
        Runnable carried = work;
        for (JobMonitor monitor : all) {
            carried = monitor.carried(carried);
        }
        return carried;
    }

    @Override
    public Map<String, String> origin(String name) {
        var origin = new HashMap<String, String>();
        all.forEach(monitor -> origin.putAll(monitor.origin(name)));
        return origin;
    }

    @Override
    public void started(String name, Duration waited) {
        all.forEach(monitor -> monitor.started(name, waited));
    }

    @Override
    public void claimed(Duration took) {
        all.forEach(monitor -> monitor.claimed(took));
    }

    @Override
    public void retried(String name) {
        all.forEach(monitor -> monitor.retried(name));
    }

    @Override
    public void ended(String name, JobAttemptOutcome.Kind outcome, long ranNanos) {
        for (JobMonitor monitor : all) {
            monitor.ended(name, outcome, ranNanos);
        }
    }

    @Override
    public void timedOut(String name) {
        all.forEach(monitor -> monitor.timedOut(name));
    }

    @Override
    public void claimLost(String name) {
        all.forEach(monitor -> monitor.claimLost(name));
    }

    @Override
    public void fired(String cron, CronRun.Outcome result) {
        all.forEach(monitor -> monitor.fired(cron, result));
    }

    @Override
    public void failed(UUID id, String name, JobStatus status, String error) {
        all.forEach(monitor -> monitor.failed(id, name, status, error));
    }

    @Override
    public void recovered(String name) {
        all.forEach(monitor -> monitor.recovered(name));
    }
}
