package dev.forge.cluster;

import org.jspecify.annotations.Nullable;

/**
 * A step of a workflow has failed for good. It is remembered like a result: whenever the method runs again it is thrown
 * again, then without its cause. Uncaught, it makes the run undo what it has done.
 */
public class StepFailedException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    private final String step;

    public StepFailedException(String step, @Nullable String message, @Nullable Throwable cause) {
        super("step '%s' failed: %s".formatted(step, message), cause);
        this.step = step;
    }

    /** The name of the step. */
    public String step() {
        return step;
    }
}
