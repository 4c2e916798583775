package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.JobContext;
import dev.forge.cluster.internal.engine.JobMonitor;
import dev.forge.cluster.internal.log.GuardedLogger;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import io.micrometer.observation.transport.Kind;
import io.micrometer.observation.transport.ReceiverContext;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * An observation around each attempt, of jobs and of steps of workflows, from the beginning of its transaction to the commit.
 * That of a job receives what the enqueuer attached to it, so that a tracer links the two.
 */
final class JobObservations implements JobMonitor {

    static final String NAME = "forge.cluster.job.execution";
    /** Of workflows. */
    static final String STEP = "forge.cluster.workflow.step";
    /** Of steps that are undone. */
    static final String COMPENSATION = "forge.cluster.workflow.compensation";

    private static final Logger log = GuardedLogger.of(JobObservations.class);

    /** Names of steps per workflow that become tags. A name that holds an id would make a meter for each run. */
    private static final int MOST_STEPS = 100;

    private final ObservationRegistry registry;
    private final String cluster;
    private final Map<String, BoundedTag> steps = new ConcurrentHashMap<>();
    private final Set<String> crowded = ConcurrentHashMap.newKeySet();

    JobObservations(ObservationRegistry registry, String cluster) {
        this.registry = registry;
        this.cluster = cluster;
    }

    @Override
    public void observe(Attempt attempt, Runnable run) {
        if (registry.isNoop()) {
            run.run();
            return;
        }
        JobContext job = attempt.job();
        var context = new ReceiverContext<Map<String, String>>((texts, key) -> texts.get(key), Kind.CONSUMER);
        context.setCarrier(metadata(job));
        Observation observation = Observation.createNotStarted(NAME, () -> context, registry)
                .contextualName("job " + job.name())
                .lowCardinalityKeyValue("cluster", cluster)
                .lowCardinalityKeyValue("job", job.name())
                .highCardinalityKeyValue("forge.job.id", job.id().toString())
                .highCardinalityKeyValue("forge.job.attempt", Integer.toString(job.attempt()))
                .highCardinalityKeyValue("forge.node.id", attempt.node().toString())
                .highCardinalityKeyValue("forge.node.name", job.nodeName())
                .start();
        observed(observation, run, attempt::outcome, attempt::failure);
    }

    @Override
    public void observe(StepAttempt attempt, Runnable run) {
        if (registry.isNoop()) {
            run.run();
            return;
        }
        boolean undoing = attempt.undoing();
        Observation observation = Observation.createNotStarted(undoing ? COMPENSATION : STEP, registry)
                .contextualName((undoing ? "undo step " : "step ") + attempt.step())
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
                    "Workflow {}: more than {} distinct step names; meters of further ones, such as '{}', have the tag step={}."
                            + " Leave ids out of step names: the place in the method tells steps of one name apart.",
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
            Throwable failure = thrown.get();
            if (failure != null) {
                observation.error(failure);
            }
            observation
                    .lowCardinalityKeyValue("outcome", outcome.get().name())
                    .lowCardinalityKeyValue("exception", failure == null ? "none" : name(failure))
                    .stop();
        }
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
            log.debug("job {}: its metadata cannot be read", job.id(), e);
            return Map.of();
        }
    }

    private static String name(Throwable failure) {
        String simple = failure.getClass().getSimpleName();
        return simple.isEmpty() ? failure.getClass().getName() : simple;
    }
}
