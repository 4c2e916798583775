// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.failure;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Lists the causes of a failure. Exceptions of an application may form a circle, or throw from {@code getCause}. */
public final class Causes {

    private static final int MOST = 20;

    private Causes() {}

    /** Returns the failure, its cause, and so on, twenty at most. */
    public static List<Throwable> of(Throwable failure) {
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
            // The method of an application's exception may throw anything, declared or not.
            return null;
        }
    }
}
