package dev.forge.cluster.internal.store;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The causes of a failure, however the classes of the application's own exceptions behave. */
final class Causes {

    private static final int MOST = 20;

    private Causes() {}

    /** The failure itself and its causes, at most 20 of them: a chain may be endless. */
    static List<Throwable> of(Throwable failure) {
        var causes = new ArrayList<Throwable>();
        Throwable cause = failure;
        while (cause != null && causes.size() < MOST) {
            causes.add(cause);
            cause = causeOf(cause);
        }
        return causes;
    }

    private static @Nullable Throwable causeOf(Throwable failure) {
        try {
            return failure.getCause();
        } catch (RuntimeException | Error e) {
            // Its own method throws.
            return null;
        }
    }
}
