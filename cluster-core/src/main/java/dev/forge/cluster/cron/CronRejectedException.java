package dev.forge.cluster.cron;

import org.jspecify.annotations.Nullable;

/** A cron that cannot be made, changed, deleted or triggered as asked; nothing was written. The message says why. */
public class CronRejectedException extends IllegalArgumentException {

    private static final long serialVersionUID = 1L;

    public CronRejectedException(String message) {
        super(message);
    }

    public CronRejectedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
