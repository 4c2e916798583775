package dev.forge.cluster.job;

import org.jspecify.annotations.Nullable;

/** A job that cannot be enqueued, cancelled or retried as asked; nothing was written. The message says why. */
public class JobRejectedException extends IllegalArgumentException {

    private static final long serialVersionUID = 1L;

    public JobRejectedException(String message) {
        super(message);
    }

    public JobRejectedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
