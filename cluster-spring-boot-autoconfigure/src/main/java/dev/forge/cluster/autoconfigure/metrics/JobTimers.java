// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import io.micrometer.core.instrument.Clock;
import io.micrometer.core.instrument.LongTaskTimer;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;

/**
 * Records the meters that {@link JobObservations} would create. An observation looks up two meters by their tags for each job, which
 * costs nearly as much as all other work of the node for a small job, so it is left out if nothing but meters would come of it.
 */
final class JobTimers implements JobMonitor {

    /** The name that Micrometer derives from {@link JobObservations#NAME}. */
    private static final String ACTIVE = "forge.cluster.job.execution.active";

    private final MeterRegistry registry;
    private final Clock clock;
    private final String cluster;
    private final boolean active;
    private final ConcurrentMap<String, LongTaskTimer> running = new ConcurrentHashMap<>();
    private final ConcurrentMap<Ended, Timer> ended = new ConcurrentHashMap<>();

    /** The tags of an attempt that has ended. */
    private record Ended(String job, Kind outcome, String exception) {}

    /** @param active false if attempts are observed instead */
    JobTimers(MeterRegistry registry, String cluster, boolean active) {
        this.registry = registry;
        this.clock = registry.config().clock();
        this.cluster = cluster;
        this.active = active;
    }

    boolean isActive() {
        return active;
    }

    @Override
    public void observe(Attempt attempt, Runnable run) {
        if (!active) {
            run.run();
            return;
        }
        LongTaskTimer.Sample sample = running(attempt).start();
        long start = clock.monotonicTime();
        try {
            run.run();
        } finally {
            long took = clock.monotonicTime() - start;
            sample.stop();
            ended(attempt).record(took, TimeUnit.NANOSECONDS);
        }
    }

    @Override
    public void observeTogether(List<? extends Attempt> attempts, Runnable run) {
        if (!active) {
            run.run();
            return;
        }
        List<LongTaskTimer.Sample> samples =
                attempts.stream().map(attempt -> running(attempt).start()).toList();
        long start = clock.monotonicTime();
        try {
            run.run();
        } finally {
            long took = clock.monotonicTime() - start;
            samples.forEach(LongTaskTimer.Sample::stop);
            attempts.forEach(attempt -> ended(attempt).record(took, TimeUnit.NANOSECONDS));
        }
    }

    private LongTaskTimer running(Attempt attempt) {
        return running.computeIfAbsent(
                attempt.job().name(),
                name -> LongTaskTimer.builder(ACTIVE)
                        .tag("cluster", cluster)
                        .tag("job", name)
                        .register(registry));
    }

    private Timer ended(Attempt attempt) {
        return ended.computeIfAbsent(
                new Ended(attempt.job().name(), attempt.outcome(), JobObservations.exception(attempt.failure())),
                tags -> Timer.builder(JobObservations.NAME)
                        .tag("cluster", cluster)
                        .tag("job", tags.job)
                        .tag("outcome", tags.outcome.name())
                        .tag("exception", tags.exception)
                        .register(registry));
    }
}
