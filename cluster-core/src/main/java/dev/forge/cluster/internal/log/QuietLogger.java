package dev.forge.cluster.internal.log;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;
import org.slf4j.spi.LocationAwareLogger;

/**
 * A logger that never throws. An appender may throw because its disk is full or its queue is closed, and a layout because it
 * asks an exception for its message. Neither may end a thread of the cluster, nor keep a node from doing what it was about to
 * do after logging it: so what a logging library throws is discarded, and the line is lost.
 */
public final class QuietLogger {

    private static final String THIS_CLASS = QuietLogger.class.getName();

    private final Logger logger;

    private QuietLogger(Logger logger) {
        this.logger = logger;
    }

    /** The logger of that class. */
    public static QuietLogger of(Class<?> owner) {
        return new QuietLogger(LoggerFactory.getLogger(owner));
    }

    public void debug(String format, @Nullable Object... arguments) {
        log(Level.DEBUG, format, arguments);
    }

    public void info(String format, @Nullable Object... arguments) {
        log(Level.INFO, format, arguments);
    }

    public void warn(String format, @Nullable Object... arguments) {
        log(Level.WARN, format, arguments);
    }

    public void error(String format, @Nullable Object... arguments) {
        log(Level.ERROR, format, arguments);
    }

    /** Logs one line; a last argument that is an exception is logged with its stack trace, as SLF4J does. */
    public void log(Level level, String format, @Nullable Object... arguments) {
        try {
            if (logger.isEnabledForLevel(level)) {
                write(level, format, arguments);
            }
        } catch (RuntimeException | Error e) {
            // There is nowhere left to say so.
        }
    }

    private void write(Level level, String format, @Nullable Object... arguments) {
        int last = arguments.length - 1;
        if (!(logger instanceof LocationAwareLogger aware)) {
            logger.atLevel(level).log(format, arguments);
        } else if (last >= 0 && arguments[last] instanceof Throwable failure) {
            // Lines name the class and the method that called this one.
            aware.log(null, THIS_CLASS, level.toInt(), format, Arrays.copyOf(arguments, last), failure);
        } else {
            aware.log(null, THIS_CLASS, level.toInt(), format, arguments, null);
        }
    }
}
