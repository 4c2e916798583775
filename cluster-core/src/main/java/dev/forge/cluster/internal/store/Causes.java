package dev.forge.cluster.internal.store;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The causes of a failure. An application's own exceptions may form a circle, or throw when they are asked for their cause. */
public final class Causes {

    private static final int MOST = 20;

    private Causes() {}

    /** The failure, its cause, and so on, twenty at most. */
    static List<Throwable> of(Throwable failure) {
        var causes = new ArrayList<Throwable>();
        Throwable cause = failure;
        while (cause != null && causes.size() < MOST) {
            causes.add(cause);
            cause = causeOf(cause);
        }
        return causes;
    }

    /** Returns the last of the causes; the failure itself if it has none. */
    public static Throwable root(Throwable failure) {
        List<Throwable> causes = of(failure);
        return causes.get(causes.size() - 1);
    }

    private static @Nullable Throwable causeOf(Throwable failure) {
        try {
            return failure.getCause();
        } catch (Throwable e) {
            // Its own method may throw anything, declared or not.
            return null;
        }
    }
}
