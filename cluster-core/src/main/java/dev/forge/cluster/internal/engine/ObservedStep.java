package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.WorkflowStore.Version;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** An attempt of a step, made where those who want to know of steps see it; it is made once, whatever they do. */
final class ObservedStep implements JobMonitor.StepAttempt, Runnable {

    private static final Logger log = GuardedLogger.of(ObservedStep.class);

    /** What a step does. */
    interface Action<E extends Exception> {
        @Nullable
        Object run() throws E;
    }

    private final Version version;
    private final String step;
    private final UUID run;
    private final boolean undoing;
    private final Action<?> work;
    private boolean made;
    private @Nullable Object result;
    private @Nullable Throwable thrown;

    private ObservedStep(Version version, String step, UUID run, boolean undoing, Action<?> work) {
        this.version = version;
        this.step = step;
        this.run = run;
        this.undoing = undoing;
        this.work = work;
    }

    /** Does what a step does, or what undoes it; answers what it returns, throws what it throws. */
    @SuppressWarnings("unchecked")
    static <E extends Exception> @Nullable Object observe(
            JobMonitor monitor, Version version, String step, UUID run, boolean undoing, Action<E> work) throws E {
        var attempt = new ObservedStep(version, step, run, undoing, work);
        try {
            monitor.observe(attempt, attempt);
        } catch (RuntimeException | Error e) {
            // Whoever watches a step does not decide what becomes of it.
            log.warn(
                    "workflow {} run {}: step '{}' could not be observed",
                    version.label(),
                    run,
                    step,
                    ErrorText.loggable(e));
        }
        if (!attempt.made) {
            attempt.run();
        }
        if (attempt.thrown instanceof Error error) {
            throw error;
        } else if (attempt.thrown instanceof RuntimeException bug) {
            throw bug;
        } else if (attempt.thrown != null) {
            throw (E) attempt.thrown;
        }
        return attempt.result;
    }

    @Override
    public void run() {
        made = true;
        try {
            result = work.run();
        } catch (Throwable e) {
            thrown = e;
        }
    }

    @Override
    public String workflow() {
        return version.workflow();
    }

    @Override
    public String version() {
        return version.version();
    }

    @Override
    public String step() {
        return step;
    }

    @Override
    public UUID workflowRun() {
        return run;
    }

    @Override
    public boolean undoing() {
        return undoing;
    }

    @Override
    public JobMonitor.StepEnding outcome() {
        return thrown == null
                ? JobMonitor.StepEnding.COMPLETED
                : thrown instanceof Unwinding ? JobMonitor.StepEnding.INTERRUPTED : JobMonitor.StepEnding.FAILED;
    }

    @Override
    public @Nullable Throwable failure() {
        // What the step has thrown is within what says that it has failed.
        return thrown == null || thrown instanceof Unwinding ? null : thrown.getCause();
    }
}
