// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.AppenderBase;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.slf4j.LoggerFactory;

/** Captures log lines: those of one class from level INFO, all others as configured for the tests. */
public final class LogLines extends AppenderBase<ILoggingEvent> implements AutoCloseable {

    private final List<ILoggingEvent> events = new CopyOnWriteArrayList<>();
    private final Logger root = (Logger) LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);
    private final Logger watched;

    public LogLines(Class<?> type) {
        watched = (Logger) LoggerFactory.getLogger(type);
        watched.setLevel(Level.INFO);
        root.addAppender(this);
        start();
    }

    @Override
    protected void append(ILoggingEvent event) {
        events.add(event);
    }

    public void clear() {
        events.clear();
    }

    /** Returns the lines of the watched class at a level. */
    public List<String> own(Level level) {
        return events.stream()
                .filter(event -> event.getLoggerName().equals(watched.getName()) && event.getLevel() == level)
                .map(ILoggingEvent::getFormattedMessage)
                .toList();
    }

    /** Returns the errors of all classes. */
    public List<String> errors() {
        return events.stream()
                .filter(event -> event.getLevel() == Level.ERROR)
                .map(event -> event.getLoggerName() + ": " + event.getFormattedMessage())
                .toList();
    }

    /** Returns the warnings of all other classes. */
    List<String> othersWarnings() {
        return events.stream()
                .filter(event ->
                        event.getLevel() == Level.WARN && !event.getLoggerName().equals(watched.getName()))
                .map(event -> event.getLoggerName() + ": " + event.getFormattedMessage())
                .toList();
    }

    @Override
    public void close() {
        root.detachAppender(this);
        watched.setLevel(null);
        stop();
    }
}
