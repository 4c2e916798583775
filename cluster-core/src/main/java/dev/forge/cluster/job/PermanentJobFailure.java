package dev.forge.cluster.job;

import org.jspecify.annotations.Nullable;

/** Thrown by a handler whose job no further attempt can save. */
public class PermanentJobFailure extends RuntimeException {

    private static final long serialVersionUID = 1L;

    public PermanentJobFailure(String message) {
        super(message);
    }

    public PermanentJobFailure(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
