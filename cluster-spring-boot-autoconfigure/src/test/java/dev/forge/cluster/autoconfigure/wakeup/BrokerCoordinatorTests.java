// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.turbo.TurboFilter;
import ch.qos.logback.core.spi.FilterReply;
import dev.forge.cluster.autoconfigure.LogLines;
import dev.forge.cluster.job.JobPriority;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.LoggerFactory;
import org.slf4j.Marker;

/** Failures of a fake broker: those of a real broker take longer or cannot be provoked. */
@Timeout(180)
class BrokerCoordinatorTests {

    private static final BrokerTiming QUICK = new BrokerTiming(
            Duration.ofMillis(50), Duration.ofSeconds(2), Duration.ofMillis(10), Duration.ofMillis(100));

    private final FakeBroker broker = new FakeBroker();
    private final AtomicInteger woken = new AtomicInteger();
    private final BrokerCoordinator node = new BrokerCoordinator(broker, Duration.ofSeconds(5), QUICK);
    private LogLines log;

    @BeforeEach
    void listen() {
        log = new LogLines(BrokerCoordinator.class);
        node.registerWakeupListener(woken::incrementAndGet);
    }

    @AfterEach
    void stop() {
        broker.mend();
        node.stop();
        log.close();
    }

    /** A broker that delivers at once and can be made to fail in several ways. */
    private static final class FakeBroker implements Broker {

        final List<Receiver> receivers = new CopyOnWriteArrayList<>();
        final List<String> sent = new CopyOnWriteArrayList<>();
        final AtomicInteger opened = new AtomicInteger();
        volatile boolean unreachable;
        volatile boolean dropsProbes;
        volatile CountDownLatch opening = new CountDownLatch(0);
        volatile CountDownLatch sending = new CountDownLatch(0);

        void mend() {
            unreachable = false;
            dropsProbes = false;
            opening.countDown();
            sending.countDown();
        }

        @Override
        public String type() {
            return "fake";
        }

        @Override
        public String destination() {
            return "channel";
        }

        @Override
        public Link open(Receiver receiver) throws Exception {
            opened.incrementAndGet();
            opening.await();
            if (unreachable) {
                throw new IllegalStateException("refused");
            }
            receivers.add(receiver);
            return new Link() {
                @Override
                public void publish(String text) throws Exception {
                    sending.await();
                    sent.add(text);
                    // The sender receives the message, too: not every broker can exclude it.
                    receivers.forEach(one -> one.receive(text));
                }

                @Override
                public void sendToSelf(String text) throws Exception {
                    sending.await();
                    if (!dropsProbes && !unreachable) {
                        receiver.receive(text);
                    }
                }

                @Override
                public void close() {
                    receivers.remove(receiver);
                }
            };
        }
    }

    private void startConnected() {
        woken.set(0);
        node.start();
        awaitConnected();
    }

    /** Waits for the connection and the wake-up that follows it and its log line. */
    private void awaitConnected() {
        await().until(() -> node.isConnected() && woken.get() > 0);
    }

    @Test
    void node_is_woken_by_other_nodes_and_not_by_itself() {
        startConnected();
        woken.set(0);
        node.notifyNewWork(JobPriority.NORMAL);
        await().until(() -> broker.sent.size() == 1);
        assertThat(woken).hasValue(0);
        broker.receivers.get(0).receive(UUID.randomUUID() + " work");
        assertThat(woken).hasValue(1);
    }

    @Test
    void malformed_message_is_ignored() {
        startConnected();
        woken.set(0);
        var receiver = broker.receivers.get(0);
        for (String text :
                List.of("", " ", " work", "work", "x work", UUID.randomUUID() + " worked", "1-1-1-1-1 work")) {
            receiver.receive(text);
        }
        assertThat(woken).hasValue(0);
        assertThat(node.isConnected()).isTrue();
        broker.dropsProbes = true;
        await().until(() -> {
            // A probe of another node does not count as a response.
            receiver.receive(UUID.randomUUID() + " probe");
            return !node.isConnected();
        });
        assertThat(woken).hasValue(0);
    }

    @Test
    void outage_is_logged_once_and_its_end_wakes_the_workers() {
        startConnected();
        assertThat(log.own(Level.INFO)).containsExactly("Wake-ups: fake, channel");
        broker.unreachable = true;
        broker.receivers.get(0).lost(new IllegalStateException("disconnected"));
        assertThat(node.isConnected()).isFalse();
        await().until(() -> broker.opened.get() > 4);
        assertThat(log.own(Level.WARN))
                .containsExactly(
                        "Wake-ups: fake is unreachable (disconnected). Workers poll every 5s until it is back.");
        woken.set(0);
        broker.unreachable = false;
        awaitConnected();
        assertThat(woken).hasValue(1);
        assertThat(log.own(Level.INFO)).containsExactly("Wake-ups: fake, channel", "Wake-ups: fake is back");
        broker.unreachable = true;
        await().until(() -> log.own(Level.WARN).size() == 2);
    }

    @Test
    void logger_that_throws_does_not_keep_the_node_from_reconnecting() {
        var thrown = new AtomicInteger();
        var filter = new TurboFilter() {
            @Override
            public FilterReply decide(
                    Marker marker, Logger logger, Level level, String format, Object[] arguments, Throwable failure) {
                if (logger.getName().equals(BrokerCoordinator.class.getName()) && level.isGreaterOrEqual(Level.INFO)) {
                    thrown.incrementAndGet();
                    throw new IllegalStateException("no space left on device");
                }
                return FilterReply.NEUTRAL;
            }
        };
        var logging = (LoggerContext) LoggerFactory.getILoggerFactory();
        logging.addTurboFilter(filter);
        try {
            broker.unreachable = true;
            node.start();
            await().until(() -> thrown.get() > 0 && broker.opened.get() > 1);
            broker.unreachable = false;
            await().until(node::isConnected);
        } finally {
            logging.getTurboFilterList().remove(filter);
        }
    }

    @Test
    void broker_that_is_absent_at_the_start_is_connected_later() {
        broker.unreachable = true;
        node.start();
        await().until(() -> broker.opened.get() > 2);
        node.notifyNewWork(JobPriority.NORMAL);
        assertThat(node.isConnected()).isFalse();
        assertThat(log.own(Level.WARN)).hasSize(1);
        broker.unreachable = false;
        // The pending announcement is sent as soon as the broker is reachable.
        await().until(() -> broker.sent.size() == 1);
        awaitConnected();
        assertThat(log.own(Level.INFO)).containsExactly("Wake-ups: fake is back");
    }

    @Test
    void link_without_responses_is_replaced() {
        startConnected();
        broker.dropsProbes = true;
        await().until(() -> !node.isConnected());
        // The log line is written after the loss and before the next link is opened.
        await().until(() -> broker.opened.get() > 1);
        assertThat(log.own(Level.WARN)).hasSize(1).first().asString().contains("no response within 2s");
        broker.dropsProbes = false;
        await().until(node::isConnected);
        assertThat(broker.receivers).hasSize(1);
    }

    @Test
    void link_that_hangs_while_sending_is_replaced_and_blocks_no_caller() {
        startConnected();
        broker.sending = new CountDownLatch(1);
        node.notifyNewWork(JobPriority.NORMAL);
        await().until(() -> !node.isConnected());
        // Returns although the link still hangs.
        node.notifyNewWork(JobPriority.NORMAL);
        assertThat(broker.sending.getCount()).isOne();
        await().until(() -> broker.opened.get() > 1);
        broker.sending.countDown();
        await().until(node::isConnected);
        assertThat(log.own(Level.WARN)).hasSize(1);
        await().until(() -> !broker.sent.isEmpty());
    }

    @Test
    void opening_that_hangs_is_reported_and_left_to_end_by_itself() {
        broker.opening = new CountDownLatch(1);
        node.start();
        await().until(() -> log.own(Level.WARN).size() == 1);
        assertThat(broker.opened).hasValue(1);
        broker.opening.countDown();
        awaitConnected();
        assertThat(broker.opened).hasValue(1);
        assertThat(log.own(Level.INFO)).containsExactly("Wake-ups: fake is back");
    }

    @Test
    void link_that_breaks_before_it_is_used_is_not_used() {
        var broken = new AtomicInteger();
        var fragile = new BrokerCoordinator(
                new Broker() {
                    @Override
                    public String type() {
                        return "fragile";
                    }

                    @Override
                    public String destination() {
                        return "anywhere";
                    }

                    @Override
                    public Link open(Receiver receiver) throws Exception {
                        if (broken.getAndIncrement() == 0) {
                            receiver.lost(new IllegalStateException("broke"));
                        }
                        return broker.open(receiver);
                    }
                },
                Duration.ofSeconds(5),
                QUICK);
        fragile.start();
        try {
            await().until(fragile::isConnected);
            assertThat(broken).hasValue(2);
        } finally {
            fragile.stop();
        }
    }

    @Test
    void stop_sends_the_pending_announcement_and_leaves_no_thread() {
        startConnected();
        node.notifyNewWork(JobPriority.NORMAL);
        node.stop();
        assertThat(broker.sent).hasSize(1);
        assertThat(broker.receivers).isEmpty();
        assertThat(node.isConnected()).isFalse();
        await().until(() -> threads().isEmpty());
        startConnected();
        assertThat(broker.receivers).hasSize(1);
        assertThat(log.own(Level.WARN)).isEmpty();
    }

    @Test
    void stop_does_not_wait_for_a_broker_that_hangs() {
        broker.opening = new CountDownLatch(1);
        node.start();
        await().until(() -> broker.opened.get() == 1);
        // Returns although the broker does not respond.
        node.stop();
        assertThat(broker.opening.getCount()).isOne();
        await().until(() -> threads().isEmpty());
    }

    private static List<String> threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .map(Thread::getName)
                .filter(name -> name.startsWith("forge-cluster-wakeup"))
                .toList();
    }
}
