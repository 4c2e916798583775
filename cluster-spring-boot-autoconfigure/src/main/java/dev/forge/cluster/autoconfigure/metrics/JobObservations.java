// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.job.JobContext;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import io.micrometer.observation.transport.Kind;
import io.micrometer.observation.transport.ReceiverContext;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Observes each attempt of jobs and of workflow steps, from the beginning of its transaction to the commit. The observation of a job
 * receives the trace headers that the enqueuer attached, so that a tracer links the two.
 */
public final class JobObservations implements JobMonitor {

    static final String NAME = "forge.cluster.job.execution";
    /** Tags of workflows. */
    static final String STEP = "forge.cluster.workflow.step";
    /** Tags of compensations. */
    static final String COMPENSATION = "forge.cluster.workflow.compensation";

    private static final Logger log = GuardedLogger.of(JobObservations.class);

    /** The number of step names per workflow that become tags. A name that contains an id would create a meter for each run. */
    private static final int MOST_STEPS = 100;

    private final ObservationRegistry registry;
    private final String cluster;
    private final boolean observesJobs;
    private final Map<String, BoundedTag> steps = new ConcurrentHashMap<>();
    private final Set<String> crowded = ConcurrentHashMap.newKeySet();

    /** @param observesJobs whether attempts of jobs are observed, or only those of steps */
    public JobObservations(ObservationRegistry registry, String cluster, boolean observesJobs) {
        this.registry = registry;
        this.cluster = cluster;
        this.observesJobs = observesJobs;
    }

    @Override
    public void observe(Attempt attempt, Runnable run) {
        if (registry.isNoop() || !observesJobs) {
            run.run();
            return;
        }
        observed(started(attempt), run, attempt::outcome, attempt::failure);
    }

    /** Observes each attempt; the code runs in the scope of the first one. */
    @Override
    public void observeTogether(List<? extends Attempt> attempts, Runnable run) {
        if (registry.isNoop() || !observesJobs) {
            run.run();
            return;
        }
        List<Observation> others = attempts.stream().skip(1).map(this::started).toList();
        Attempt first = attempts.get(0);
        try {
            observed(started(first), run, first::outcome, first::failure);
        } finally {
            for (int i = 0; i < others.size(); i++) {
                Attempt attempt = attempts.get(i + 1);
                stop(others.get(i), attempt.outcome(), attempt.failure());
            }
        }
    }

    private Observation started(Attempt attempt) {
        JobContext job = attempt.job();
        var context = new ReceiverContext<Map<String, String>>((texts, key) -> texts.get(key), Kind.CONSUMER);
        context.setCarrier(metadata(job));
        return Observation.createNotStarted(NAME, () -> context, registry)
                .contextualName("job " + job.name())
                .lowCardinalityKeyValue("cluster", cluster)
                .lowCardinalityKeyValue("job", job.name())
                .highCardinalityKeyValue("forge.job.id", job.id().toString())
                .highCardinalityKeyValue("forge.job.attempt", Integer.toString(job.attempt()))
                .highCardinalityKeyValue("forge.node.id", attempt.node().toString())
                .highCardinalityKeyValue("forge.node.name", job.nodeName())
                .start();
    }

    @Override
    public void observe(StepAttempt attempt, Runnable run) {
        if (registry.isNoop()) {
            run.run();
            return;
        }
        boolean undoing = attempt.undoing();
        Observation observation = Observation.createNotStarted(undoing ? COMPENSATION : STEP, registry)
                .contextualName((undoing ? "compensate step " : "step ") + attempt.step())
                .lowCardinalityKeyValue("cluster", cluster)
                .lowCardinalityKeyValue("workflow", attempt.workflow())
                .lowCardinalityKeyValue("version", attempt.version())
                .lowCardinalityKeyValue("step", tag(attempt))
                .highCardinalityKeyValue("forge.workflow.step", attempt.step())
                .highCardinalityKeyValue(
                        "forge.workflow.run", attempt.workflowRun().toString())
                .start();
        observed(observation, run, attempt::outcome, attempt::failure);
    }

    private String tag(StepAttempt attempt) {
        String tag = steps.computeIfAbsent(attempt.workflow(), workflow -> new BoundedTag(MOST_STEPS))
                .of(attempt.step());
        if (!tag.equals(attempt.step()) && crowded.add(attempt.workflow())) {
            log.warn(
                    "Workflow {}: more than {} distinct step names; meters of further names, such as '{}', have the tag step={}."
                            + " Remove ids from step names: steps of the same name are told apart by their position.",
                    attempt.workflow(),
                    MOST_STEPS,
                    attempt.step(),
                    tag);
        }
        return tag;
    }

    private static void observed(
            Observation observation, Runnable run, Supplier<Enum<?>> outcome, Supplier<@Nullable Throwable> thrown) {
        Observation.Scope scope = observation.openScope();
        try {
            run.run();
        } finally {
            scope.close();
            stop(observation, outcome.get(), thrown.get());
        }
    }

    private static void stop(Observation observation, Enum<?> outcome, @Nullable Throwable failure) {
        if (failure != null) {
            observation.error(failure);
        }
        observation
                .lowCardinalityKeyValue("outcome", outcome.name())
                .lowCardinalityKeyValue("exception", exception(failure))
                .stop();
    }

    @Override
    public Runnable carried(Runnable work) {
        Observation current = registry.getCurrentObservation();
        return current == null ? work : () -> current.scoped(work);
    }

    private static Map<String, String> metadata(JobContext job) {
        try {
            return job.metadata();
        } catch (RuntimeException e) {
            log.debug("Job {}: could not read its metadata", job.id(), e);
            return Map.of();
        }
    }

    /** Returns the value of the tag {@code exception}. */
    static String exception(@Nullable Throwable failure) {
        if (failure == null) {
            return "none";
        }
        String simple = failure.getClass().getSimpleName();
        return simple.isEmpty() ? failure.getClass().getName() : simple;
    }
}
