// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import io.micrometer.core.instrument.Clock;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.config.MeterFilter;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;

/** Timers and counters of the jobs on this node, tagged by the names of its handlers and never by ids. */
public final class JobMeters implements JobMonitor {

    private static final Set<String> OBSERVED =
            Set.of(JobObservations.NAME, JobObservations.STEP, JobObservations.COMPENSATION);

    /** Micrometer adds a tag {@code error}, which has the value of our {@code exception}. */
    public static final MeterFilter WITHOUT_ERROR_TAG = new MeterFilter() {
        @Override
        public Meter.Id map(Meter.Id id) {
            return OBSERVED.contains(id.getName())
                    ? id.replaceTags(id.getTags().stream()
                            .filter(tag -> !tag.getKey().equals("error"))
                            .toList())
                    : id;
        }
    };

    private final MeterRegistry registry;
    private final String cluster;
    private final Timer claims;
    // An application can create crons at run time, for example one per customer.
    private final BoundedTag crons = new BoundedTag(1_000);
    // Cached, because a look-up in the registry builds the id of the meter each time.
    private final ConcurrentMap<String, Timer> waits = new ConcurrentHashMap<>();
    private final ConcurrentMap<Call, Timer> calls = new ConcurrentHashMap<>();
    private final ConcurrentMap<String, DistributionSummary> sizes = new ConcurrentHashMap<>();

    /** The tags of a call for many jobs. */
    private record Call(String job, String result) {}

    public JobMeters(MeterRegistry registry, String cluster) {
        this.registry = registry;
        this.cluster = cluster;
        this.claims = Timer.builder("forge.cluster.job.claim")
                .description("Duration of claims, including those that found no job")
                .tag("cluster", cluster)
                .register(registry);
    }

    @Override
    public void started(String name, Duration waited) {
        waits.computeIfAbsent(
                        name,
                        job -> Timer.builder("forge.cluster.job.wait")
                                .description("Time between the due time of jobs and the start of their handlers")
                                .tag("cluster", cluster)
                                .tag("job", job)
                                .register(registry))
                .record(waited);
    }

    /** Records a call for many jobs once. The meters of attempts have its duration for each of its jobs. */
    @Override
    public void observeTogether(List<? extends Attempt> attempts, Runnable run) {
        Clock clock = registry.config().clock();
        long start = clock.monotonicTime();
        try {
            run.run();
        } finally {
            long took = clock.monotonicTime() - start;
            String name = attempts.get(0).job().name();
            calls.computeIfAbsent(new Call(name, result(attempts)), this::timer).record(took, TimeUnit.NANOSECONDS);
            sizes.computeIfAbsent(
                            name,
                            job -> DistributionSummary.builder("forge.cluster.job.calls.size")
                                    .description("Jobs per call of a handler that takes many at a time")
                                    .tag("cluster", cluster)
                                    .tag("job", job)
                                    .register(registry))
                    .record(attempts.size());
        }
    }

    private static String result(List<? extends Attempt> attempts) {
        if (attempts.stream().anyMatch(attempt -> attempt.outcome() != Kind.RETURNED)) {
            return "ended";
        }
        return attempts.get(0).failure() == null ? "returned" : "split";
    }

    private Timer timer(Call call) {
        return Timer.builder("forge.cluster.job.calls")
                .description(
                        "Duration of calls for two or more jobs; those of a call that was split ran one by one after it")
                .tag("cluster", cluster)
                .tag("job", call.job)
                .tag("result", call.result)
                .register(registry);
    }

    @Override
    public void claimed(Duration took) {
        claims.record(took);
    }

    @Override
    public void retried(String name) {
        count("forge.cluster.job.retries", "Failed attempts that will be retried", name);
    }

    @Override
    public void timedOut(String name) {
        count("forge.cluster.job.timeouts", "Attempts that exceeded their timeout", name);
    }

    @Override
    public void claimLost(String name) {
        count("forge.cluster.job.claims.lost", "Jobs whose claim this node lost while it held them", name);
    }

    @Override
    public void recovered(String name) {
        count("forge.cluster.job.recoveries", "Jobs that this node recovered from dead or unresponsive nodes", name);
    }

    @Override
    public void fired(String cron, CronRun.Outcome result) {
        Counter.builder("forge.cluster.cron.fires")
                .description("Cron slots that this node has decided")
                .tag("cluster", cluster)
                .tag("cron", crons.of(cron))
                .tag("result", result.name())
                .register(registry)
                .increment();
    }

    private void count(String meter, String description, String job) {
        Counter.builder(meter)
                .description(description)
                .tag("cluster", cluster)
                .tag("job", job)
                .register(registry)
                .increment();
    }
}
