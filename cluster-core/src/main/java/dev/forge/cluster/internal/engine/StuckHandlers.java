package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.engine.JobEngine.StuckHandler;
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
 * Finds handlers that run on although they were told to stop: their timeout has passed, or their claim is lost, and they
 * ignore the interrupt. Such a handler occupies a slot, and nobody can end it but itself: all that is left is to say so, in
 * the log with its stack, in the health, in a gauge and in {@code Jobs.explain}.
 */
final class StuckHandlers {

    private static final Logger log = GuardedLogger.of(StuckHandlers.class);

    /** How long a handler that was interrupted may take to end before it counts as stuck. */
    static final Duration GRACE = Duration.ofSeconds(1);

    private static final Duration FIRST_PAUSE = Duration.ofSeconds(30);
    private static final Duration LONGEST_PAUSE = Duration.ofMinutes(30);
    private static final int MOST_FRAMES = 40;

    private final LongSupplier nanos;
    private final Map<Handler, Report> running = new ConcurrentHashMap<>();

    StuckHandlers(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /** Code of the application that runs. */
    interface Handler {

        /** The name of the job. */
        String name();

        UUID id();

        /** What runs, for a sentence of the log. */
        String label();

        /** Why it was told to stop; null: it was not. */
        @Nullable
        String stopCause();

        /** What follows from its running on, as a sentence of the log. */
        String consequence();

        /** The thread that runs it; null once it has returned. */
        @Nullable
        Thread thread();
    }

    private static final class Report {
        private volatile @Nullable Long toldAt;
        private long nextAt;
        private Duration pause = FIRST_PAUSE;
    }

    void began(Handler handler) {
        running.put(handler, new Report());
    }

    void ended(Handler handler) {
        running.remove(handler);
    }

    /** Several times a second: logs handlers that have become stuck, and from time to time those that still are. */
    void watch() {
        long now = nanos.getAsLong();
        running.forEach((handler, report) -> {
            String cause = handler.stopCause();
            if (cause == null) {
                return;
            }
            Long toldAt = report.toldAt;
            if (toldAt == null) {
                report.toldAt = now;
                report.nextAt = now + GRACE.toNanos();
            } else if (now - report.nextAt >= 0) {
                Thread thread = handler.thread();
                if (thread != null) {
                    log(handler, cause, Duration.ofNanos(now - toldAt), thread);
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

    /** Where a thread is, in a bounded number of lines. */
    static String stack(Thread thread) {
        StackTraceElement[] frames = thread.getStackTrace();
        return Arrays.stream(frames)
                        .limit(MOST_FRAMES)
                        .map(frame -> "\tat " + frame)
                        .collect(Collectors.joining("\n"))
                + (frames.length > MOST_FRAMES ? "\n\t... %d more".formatted(frames.length - MOST_FRAMES) : "");
    }

    /** Those that are stuck now, the oldest first. */
    List<StuckHandler> stuck() {
        long now = nanos.getAsLong();
        return running.entrySet().stream()
                .map(entry -> stuck(entry.getKey(), entry.getValue().toldAt, now))
                .flatMap(Optional::stream)
                .sorted(Comparator.comparing(StuckHandler::forTime).reversed())
                .toList();
    }

    private static Optional<StuckHandler> stuck(Handler handler, @Nullable Long toldAt, long now) {
        String cause = handler.stopCause();
        return toldAt == null || cause == null || handler.thread() == null || now - toldAt < GRACE.toNanos()
                ? Optional.empty()
                : Optional.of(new StuckHandler(
                        handler.name(), handler.id(), handler.label(), cause, Duration.ofNanos(now - toldAt)));
    }
}
