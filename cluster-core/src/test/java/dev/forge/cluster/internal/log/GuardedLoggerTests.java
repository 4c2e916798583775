// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.log;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

class GuardedLoggerTests {

    private final Logger target = (Logger) LoggerFactory.getLogger(GuardedLoggerTests.class);
    private final ListAppender<ILoggingEvent> logged = new ListAppender<>() {
        @Override
        protected void append(ILoggingEvent event) {
            // Caller data must be read while the caller is on the stack.
            event.getCallerData();
            super.append(event);
        }
    };
    private final org.slf4j.Logger log = GuardedLogger.of(GuardedLoggerTests.class);

    @BeforeEach
    void listen() {
        logged.setContext(target.getLoggerContext());
        logged.start();
        target.setLevel(Level.INFO);
        target.addAppender(logged);
    }

    @AfterEach
    void stop() {
        target.detachAppender(logged);
        target.setLevel(null);
    }

    private ILoggingEvent only() {
        assertThat(logged.list).hasSize(1);
        return logged.list.get(0);
    }

    @Test
    void line_has_its_level_arguments_exception_and_caller() {
        var failure = new IllegalStateException("on purpose");
        log.warn("job {} epoch {}: lost", "a", 2, failure);
        assertThat(only().getLevel()).isEqualTo(Level.WARN);
        assertThat(only().getFormattedMessage()).isEqualTo("job a epoch 2: lost");
        assertThat(only().getThrowableProxy().getMessage()).isEqualTo("on purpose");
        assertThat(only().getCallerData()[0].getMethodName())
                .isEqualTo("line_has_its_level_arguments_exception_and_caller");
    }

    @Test
    void line_below_the_level_is_not_logged() {
        log.debug("unseen {}", 1);
        log.info("seen {} {}", 1, null);
        assertThat(only().getFormattedMessage()).isEqualTo("seen 1 null");
    }

    /** An exception whose getMessage throws. */
    private static final class Unprintable extends IllegalStateException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }
    }

    @Test
    void failure_of_the_logging_library_is_discarded() {
        log.error("job {}: failed", "a", new Unprintable());
        log.info("goes on");
        assertThat(only().getFormattedMessage()).isEqualTo("goes on");
    }
}
