// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.turbo.TurboFilter;
import ch.qos.logback.core.spi.FilterReply;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import org.slf4j.LoggerFactory;
import org.slf4j.Marker;

/** Makes lines that the cluster logs at INFO or above throw, as an appender does whose disk is full. */
public final class ThrowingLoggers extends TurboFilter implements AutoCloseable {

    /** Simple names of the classes whose loggers have thrown. */
    public final Set<String> thrown = ConcurrentHashMap.newKeySet();

    private final Predicate<String> broken;
    private final LoggerContext all = (LoggerContext) LoggerFactory.getILoggerFactory();

    public ThrowingLoggers() {
        this(name -> true);
    }

    /** Makes the loggers throw that a predicate selects by the simple name of their class. */
    public ThrowingLoggers(Predicate<String> broken) {
        this.broken = broken;
        start();
        all.addTurboFilter(this);
    }

    @Override
    public FilterReply decide(
            Marker marker, Logger logger, Level level, String format, Object[] params, Throwable failure) {
        String name = logger.getName().substring(logger.getName().lastIndexOf('.') + 1);
        if (logger.getName().startsWith("dev.forge.cluster.internal")
                && level.isGreaterOrEqual(Level.INFO)
                && broken.test(name)) {
            thrown.add(name);
            throw new IllegalStateException("no space left on device");
        }
        return FilterReply.NEUTRAL;
    }

    @Override
    public void close() {
        all.getTurboFilterList().remove(this);
    }
}
