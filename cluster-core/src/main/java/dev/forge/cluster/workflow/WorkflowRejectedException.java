package dev.forge.cluster.workflow;

import org.jspecify.annotations.Nullable;

/** A workflow that cannot be started as asked; nothing was written. The message says why. */
public class WorkflowRejectedException extends IllegalArgumentException {

    private static final long serialVersionUID = 1L;

    public WorkflowRejectedException(String message) {
        super(message);
    }

    public WorkflowRejectedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
