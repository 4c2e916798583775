package dev.forge.cluster.internal.engine;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.turbo.TurboFilter;
import ch.qos.logback.core.spi.FilterReply;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.LoggerFactory;
import org.slf4j.Marker;

/** Makes each line that the cluster logs at INFO or above throw, as an appender does whose disk is full. */
final class ThrowingLoggers extends TurboFilter implements AutoCloseable {

    final AtomicInteger thrown = new AtomicInteger();
    private final LoggerContext all = (LoggerContext) LoggerFactory.getILoggerFactory();

    ThrowingLoggers() {
        start();
        all.addTurboFilter(this);
    }

    @Override
    public FilterReply decide(
            Marker marker, Logger logger, Level level, String format, Object[] params, Throwable failure) {
        if (logger.getName().startsWith("dev.forge.cluster.internal") && level.isGreaterOrEqual(Level.INFO)) {
            thrown.incrementAndGet();
            throw new IllegalStateException("no space left on device");
        }
        return FilterReply.NEUTRAL;
    }

    @Override
    public void close() {
        all.getTurboFilterList().remove(this);
    }
}
