// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.log;

import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** The places in the application from which the API was called, each reported once. */
public final class CallSites {

    private static final int MOST = 1_000;

    /** The code between the application and the caller of this class. */
    private static final List<String> BETWEEN = List.of(
            "dev.forge.cluster.internal.",
            "dev.forge.cluster.cron.",
            "dev.forge.cluster.job.",
            "dev.forge.cluster.lock.",
            "dev.forge.cluster.workflow.",
            "java.",
            "jdk.",
            "org.springframework.");

    private final Set<String> seen = ConcurrentHashMap.newKeySet();

    /** Returns the place that has called the API on this thread; null if it was returned before. */
    public @Nullable String first() {
        if (seen.size() >= MOST) {
            return null;
        }
        String site = StackWalker.getInstance()
                .walk(frames -> frames.filter(CallSites::isApplication)
                        .findFirst()
                        .map(frame -> frame.toStackTraceElement().toString())
                        .orElse("a thread without code of the application"));
        return seen.add(site) ? site : null;
    }

    private static boolean isApplication(StackWalker.StackFrame frame) {
        return BETWEEN.stream().noneMatch(frame.getClassName()::startsWith)
                && !frame.getClassName().contains("$$");
    }
}
