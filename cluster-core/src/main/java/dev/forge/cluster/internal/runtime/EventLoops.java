// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.lang.StackWalker.StackFrame;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.util.ClassUtils;

/** Warns of calls that block an event loop, whose other requests wait for the database meanwhile: once for each call site. */
public final class EventLoops {

    private static final Logger log = GuardedLogger.of(EventLoops.class);

    /** Generated code could have any number of call sites. */
    static final int MOST_CALL_SITES = 100;

    /** The packages between the application and the place that warns. */
    private static final List<String> BETWEEN = List.of(
            "dev.forge.cluster.internal.",
            "dev.forge.cluster.job.",
            "dev.forge.cluster.workflow.",
            "java.",
            "jdk.",
            "org.springframework.");

    private static final @Nullable Class<?> EVENT_LOOP = eventLoop();

    private final Set<String> warned = ConcurrentHashMap.newKeySet();

    private static @Nullable Class<?> eventLoop() {
        try {
            return ClassUtils.forName("reactor.core.scheduler.NonBlocking", EventLoops.class.getClassLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            return null;
        }
    }

    /** Warns if the current thread is an event loop of Reactor. */
    public void warn(String call) {
        if (EVENT_LOOP == null || !EVENT_LOOP.isInstance(Thread.currentThread()) || warned.size() >= MOST_CALL_SITES) {
            return;
        }
        String place = StackWalker.getInstance()
                .walk(frames -> frames.filter(EventLoops::isOfApplication)
                        .findFirst()
                        .map(StackFrame::toString)
                        .orElse("unknown"));
        if (warned.add(place)) {
            log.warn(
                    "{} blocks the event loop {} at {}: all requests of that thread wait for the database. Call it on"
                            + " Schedulers.boundedElastic().",
                    call,
                    Thread.currentThread().getName(),
                    place);
        }
    }

    private static boolean isOfApplication(StackFrame frame) {
        return BETWEEN.stream().noneMatch(frame.getClassName()::startsWith);
    }
}
