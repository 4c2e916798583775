// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.runtime;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;

/**
 * Logs lines about single rows, so that thousands of bad rows do not fill the log. The first ten lines of a kind are logged as they
 * are, further ones at DEBUG, and their number whenever it has doubled. A kind begins anew after a minute without such lines. May be
 * used by several threads.
 */
public final class RowLog {

    static final int FIRST = 10;
    static final Duration QUIET = Duration.ofMinutes(1);

    /** Names come from rows, and anybody who may insert rows chooses them. */
    static final int MOST_KINDS = 1_000;

    private final LongSupplier nanos;
    private final Map<String, Kind> kinds = new LinkedHashMap<>();

    public RowLog() {
        this(System::nanoTime);
    }

    RowLog(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /** Logs a line at level WARN if it is one of the first of its kind. See {@link #log}. */
    public void warn(Logger log, String kind, String message, @Nullable Object... arguments) {
        log(log, Level.WARN, kind, message, arguments);
    }

    /**
     * Logs a line.
     *
     * @param kind what the line says of one more row, and of which name, for the line with the number of further rows
     * @param arguments those of the message; the last one may be an exception
     */
    public void log(Logger log, Level level, String kind, String message, @Nullable Object... arguments) {
        Line line = next(kind);
        if (line.former > 0) {
            logCount(log, level, kind, line.former);
        }
        write(log, line.first ? level : Level.DEBUG, message, arguments);
        if (line.further > 0) {
            logCount(log, level, kind, line.further);
        }
    }

    private static void logCount(Logger log, Level level, String kind, long number) {
        write(log, level, "{}: {} more times. The level DEBUG has these lines.", kind, number);
    }

    private static void write(Logger log, Level level, String message, @Nullable Object... arguments) {
        switch (level) {
            case ERROR -> log.error(message, arguments);
            case WARN -> log.warn(message, arguments);
            case INFO -> log.info(message, arguments);
            case DEBUG, TRACE -> log.debug(message, arguments);
        }
    }

    /**
     * What to log for one more row.
     *
     * @param former the number of lines that were not counted before the kind began anew
     * @param first whether the line is one of the first
     * @param further the number of lines to count now
     */
    record Line(long former, boolean first, long further) {}

    synchronized Line next(String name) {
        long now = nanos.getAsLong();
        Kind kind = kinds.get(name);
        long former = 0;
        if (kind == null || now - kind.last >= QUIET.toNanos()) {
            former = kind == null ? 0 : kind.uncounted;
            if (kind == null && kinds.size() >= MOST_KINDS) {
                kinds.remove(kinds.keySet().iterator().next());
            }
            kind = new Kind();
            kinds.put(name, kind);
        }
        kind.last = now;
        kind.lines++;
        if (kind.lines <= FIRST) {
            return new Line(former, true, 0);
        }
        kind.uncounted++;
        long further = 0;
        if (2 * kind.uncounted >= kind.lines) {
            further = kind.uncounted;
            kind.uncounted = 0;
        }
        return new Line(former, false, further);
    }

    private static final class Kind {
        private long last;
        private long lines;
        private long uncounted;
    }
}
