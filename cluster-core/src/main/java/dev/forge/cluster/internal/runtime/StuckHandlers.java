// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * Finds handlers that ignore an interrupt after their timeout has passed or their claim was lost. Such a handler occupies a slot,
 * and no other thread can end it. It is reported in the log with its stack, in the health, in a gauge and in {@code
 * JobOperations.explain}.
 */
public final class StuckHandlers {

    private static final Logger log = GuardedLogger.of(StuckHandlers.class);

    /** How long an interrupted handler may take to end before it counts as stuck. */
    public static final Duration GRACE = Duration.ofSeconds(1);

    private static final Duration FIRST_PAUSE = Duration.ofSeconds(30);
    private static final Duration LONGEST_PAUSE = Duration.ofMinutes(30);
    private static final int MOST_FRAMES = 40;

    private final LongSupplier nanos;
    private final Map<Handler, Report> running = new ConcurrentHashMap<>();

    public StuckHandlers(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /** A running handler of the application. */
    public interface Handler {

        /** Returns the name of the job. */
        String name();

        UUID id();

        /** Returns a description of the handler with which a log message begins. */
        String label();

        /** Returns why the handler was interrupted; null if it was not. */
        @Nullable
        String stopCause();

        /** Returns the consequence of a stuck handler, as a sentence of the log. */
        String consequence();

        /** Returns the thread that runs the handler; null once it has returned. */
        @Nullable
        Thread thread();
    }

    private static final class Report {
        private volatile @Nullable Long interruptedAt;
        private long nextAt;
        private Duration pause = FIRST_PAUSE;
    }

    public void began(Handler handler) {
        running.put(handler, new Report());
    }

    public void ended(Handler handler) {
        running.remove(handler);
    }

    /** Logs handlers that have become stuck, and repeats that with growing pauses; called several times a second. */
    public void watch() {
        long now = nanos.getAsLong();
        running.forEach((handler, report) -> {
            String cause = handler.stopCause();
            if (cause == null) {
                return;
            }
            Long interruptedAt = report.interruptedAt;
            if (interruptedAt == null) {
                report.interruptedAt = now;
                report.nextAt = now + GRACE.toNanos();
            } else if (now - report.nextAt >= 0) {
                Thread thread = handler.thread();
                if (thread != null) {
                    log(handler, cause, Duration.ofNanos(now - interruptedAt), thread);
                }
                report.nextAt = now + report.pause.toNanos();
                Duration longer = report.pause.multipliedBy(2);
                report.pause = longer.compareTo(LONGEST_PAUSE) < 0 ? longer : LONGEST_PAUSE;
            }
        });
    }

    private static void log(Handler handler, String cause, Duration since, Thread thread) {
        log.warn(
                "{}: {}, and its handler has ignored the interrupt for {} ms. {} Stack of thread {}:\n{}",
                handler.label(),
                cause,
                since.toMillis(),
                handler.consequence(),
                thread.getName(),
                stack(thread));
    }

    /** Returns the stack of a thread in a bounded number of lines. */
    public static String stack(Thread thread) {
        StackTraceElement[] frames = thread.getStackTrace();
        return Arrays.stream(frames)
                        .limit(MOST_FRAMES)
                        .map(frame -> "\tat " + frame)
                        .collect(Collectors.joining("\n"))
                + (frames.length > MOST_FRAMES ? "\n\t... %d more".formatted(frames.length - MOST_FRAMES) : "");
    }

    /** Returns the handlers that are stuck now, the oldest first. */
    public List<StuckHandler> stuck() {
        long now = nanos.getAsLong();
        return running.entrySet().stream()
                .map(entry -> stuck(entry.getKey(), entry.getValue().interruptedAt, now))
                .flatMap(Optional::stream)
                .sorted(Comparator.comparing(StuckHandler::forTime).reversed())
                .toList();
    }

    public static Optional<StuckHandler> stuck(Handler handler, @Nullable Long interruptedAt, long now) {
        String cause = handler.stopCause();
        return interruptedAt == null
                        || cause == null
                        || handler.thread() == null
                        || now - interruptedAt < GRACE.toNanos()
                ? Optional.empty()
                : Optional.of(new StuckHandler(
                        handler.name(), handler.id(), handler.label(), cause, Duration.ofNanos(now - interruptedAt)));
    }
}
