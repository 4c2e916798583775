package dev.forge.cluster.workflow;

import org.jspecify.annotations.Nullable;

/**
 * A step of a workflow has failed for good. It is remembered like a result: whenever the method runs again it is thrown
 * again. Its message names what the step threw; it has no cause, which only the first of them could have. Uncaught, it makes
 * the run undo what it has done.
 */
public class StepFailedException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private final String step;

    public StepFailedException(String step, @Nullable String message) {
        super("step '%s' failed: %s".formatted(step, message));
        this.step = step;
    }

    /** The name of the step. */
    public String step() {
        return step;
    }
}
