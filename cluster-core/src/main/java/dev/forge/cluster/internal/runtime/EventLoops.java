// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.internal.log.CallSites;
import dev.forge.cluster.internal.log.GuardedLogger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.util.ClassUtils;

/** Warns of calls that block an event loop, whose other requests wait for the database meanwhile: once for each call site. */
public final class EventLoops {

    private static final Logger log = GuardedLogger.of(EventLoops.class);

    private static final @Nullable Class<?> EVENT_LOOP = eventLoop();

    private final CallSites callSites = new CallSites();

    private static @Nullable Class<?> eventLoop() {
        try {
            return ClassUtils.forName("reactor.core.scheduler.NonBlocking", EventLoops.class.getClassLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            return null;
        }
    }

    /** Warns if the current thread is an event loop of Reactor. */
    public void warn(String call) {
        if (EVENT_LOOP == null || !EVENT_LOOP.isInstance(Thread.currentThread())) {
            return;
        }
        String place = callSites.first();
        if (place != null) {
            log.warn(
                    "{} blocks the event loop {} at {}: all requests of that thread wait for the database. Call it on"
                            + " Schedulers.boundedElastic().",
                    call,
                    Thread.currentThread().getName(),
                    place);
        }
    }
}
