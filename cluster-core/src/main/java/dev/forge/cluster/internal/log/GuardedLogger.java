// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.log;

import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.Marker;
import org.slf4j.event.Level;
import org.slf4j.helpers.AbstractLogger;
import org.slf4j.spi.LocationAwareLogger;

/**
 * A logger that never throws. An appender or a filter of the application may throw, because its disk is full or its queue is
 * closed. That must not end a thread of the cluster, and must not change the result of a job or a leadership.
 */
public final class GuardedLogger extends AbstractLogger {

    private static final long serialVersionUID = 1L;
    /** The class whose frames a logging library skips when it looks for the caller. */
    private static final String CALLED = AbstractLogger.class.getName();

    private final transient Logger logger;

    private GuardedLogger(Logger logger) {
        this.logger = logger;
        this.name = logger.getName();
    }

    /** Returns the logger of a class. */
    public static Logger of(Class<?> type) {
        return new GuardedLogger(LoggerFactory.getLogger(type));
    }

    @Override
    protected String getFullyQualifiedCallerName() {
        return CALLED;
    }

    @Override
    protected void handleNormalizedLoggingCall(
            Level level,
            @Nullable Marker marker,
            @Nullable String message,
            @Nullable Object @Nullable [] arguments,
            @Nullable Throwable throwable) {
        try {
            if (logger instanceof LocationAwareLogger aware) {
                aware.log(marker, CALLED, level.toInt(), message, arguments, throwable);
            } else {
                logger.atLevel(level).setCause(throwable).log(message, arguments);
            }
        } catch (RuntimeException | Error e) {
            // There is no way left to report it.
        }
    }

    private boolean isEnabled(Predicate<Logger> level) {
        try {
            return level.test(logger);
        } catch (RuntimeException | Error e) {
            return false;
        }
    }

    @Override
    public boolean isTraceEnabled() {
        return isEnabled(Logger::isTraceEnabled);
    }

    @Override
    public boolean isTraceEnabled(@Nullable Marker marker) {
        return isEnabled(guarded -> guarded.isTraceEnabled(marker));
    }

    @Override
    public boolean isDebugEnabled() {
        return isEnabled(Logger::isDebugEnabled);
    }

    @Override
    public boolean isDebugEnabled(@Nullable Marker marker) {
        return isEnabled(guarded -> guarded.isDebugEnabled(marker));
    }

    @Override
    public boolean isInfoEnabled() {
        return isEnabled(Logger::isInfoEnabled);
    }

    @Override
    public boolean isInfoEnabled(@Nullable Marker marker) {
        return isEnabled(guarded -> guarded.isInfoEnabled(marker));
    }

    @Override
    public boolean isWarnEnabled() {
        return isEnabled(Logger::isWarnEnabled);
    }

    @Override
    public boolean isWarnEnabled(@Nullable Marker marker) {
        return isEnabled(guarded -> guarded.isWarnEnabled(marker));
    }

    @Override
    public boolean isErrorEnabled() {
        return isEnabled(Logger::isErrorEnabled);
    }

    @Override
    public boolean isErrorEnabled(@Nullable Marker marker) {
        return isEnabled(guarded -> guarded.isErrorEnabled(marker));
    }
}
