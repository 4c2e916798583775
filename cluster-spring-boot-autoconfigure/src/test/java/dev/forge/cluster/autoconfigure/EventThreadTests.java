// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.node.NodeJoined;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

class EventThreadTests {

    private static final UUID NODE = UUID.randomUUID();

    private final Logger logger = (Logger) LoggerFactory.getLogger(EventThread.class);
    private final ListAppender<ILoggingEvent> log = new ListAppender<>();
    private final CountDownLatch begun = new CountDownLatch(1);
    private final CountDownLatch listening = new CountDownLatch(1);
    private final List<String> received = new CopyOnWriteArrayList<>();
    private final EventThread events = new EventThread(event -> {
        begun.countDown();
        try {
            listening.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        received.add(((NodeJoined) event).name());
    });

    @BeforeEach
    void start() {
        log.start();
        logger.addAppender(log);
        events.start();
    }

    @AfterEach
    void stop() {
        listening.countDown();
        events.stop();
        logger.detachAppender(log);
    }

    private void send(int first, int last) {
        IntStream.rangeClosed(first, last)
                .forEach(number -> events.accept(new NodeJoined(NODE, Integer.toString(number))));
    }

    @Test
    void slow_listener_loses_the_oldest_waiting_events_and_one_warning_says_so() throws Exception {
        send(0, 0);
        begun.await();
        // The listener blocks in the first event. A thousand events wait, and each of ten more replaces the oldest one.
        send(1, 1_010);
        listening.countDown();
        await().until(() -> received.contains("1010"));
        assertThat(received)
                .containsExactlyElementsOf(IntStream.concat(IntStream.of(0), IntStream.rangeClosed(11, 1_010))
                        .mapToObj(Integer::toString)
                        .toList());
        assertThat(log.list)
                .singleElement()
                .satisfies(line -> assertThat(line.getFormattedMessage()).contains("1000 events wait"));
    }
}
