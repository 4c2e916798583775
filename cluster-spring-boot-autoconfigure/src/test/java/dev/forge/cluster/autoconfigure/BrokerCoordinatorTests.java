package dev.forge.cluster.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.turbo.TurboFilter;
import ch.qos.logback.core.spi.FilterReply;
import dev.forge.cluster.JobPriority;
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

/** What a broker may do to a node, without one: each of these takes a real one much longer, or luck. */
@Timeout(180)
class BrokerCoordinatorTests {

    private static final BrokerCoordinator.Timing QUICK = new BrokerCoordinator.Timing(
            Duration.ofMillis(50), Duration.ofMillis(500), Duration.ofMillis(10), Duration.ofMillis(100));

    private final Town town = new Town();
    private final AtomicInteger woken = new AtomicInteger();
    private final BrokerCoordinator node = new BrokerCoordinator(town, Duration.ofSeconds(5), QUICK);
    private LogLines log;

    @BeforeEach
    void listen() {
        log = new LogLines(BrokerCoordinator.class);
        node.registerWakeupListener(woken::incrementAndGet);
    }

    @AfterEach
    void stop() {
        town.mend();
        node.stop();
        log.close();
    }

    /** A broker in which words travel at once, and that can be told to fail in every way. */
    private static final class Town implements Broker {

        final List<Ear> ears = new CopyOnWriteArrayList<>();
        final List<String> said = new CopyOnWriteArrayList<>();
        final AtomicInteger opened = new AtomicInteger();
        volatile boolean gone;
        volatile boolean deaf;
        volatile CountDownLatch opening = new CountDownLatch(0);
        volatile CountDownLatch sending = new CountDownLatch(0);

        void mend() {
            gone = false;
            deaf = false;
            opening.countDown();
            sending.countDown();
        }

        @Override
        public String type() {
            return "town";
        }

        @Override
        public String place() {
            return "market";
        }

        @Override
        public Link open(Ear ear) throws Exception {
            opened.incrementAndGet();
            opening.await();
            if (gone) {
                throw new IllegalStateException("nobody here");
            }
            ears.add(ear);
            return new Link() {
                @Override
                public void tellAll(String text) throws Exception {
                    sending.await();
                    said.add(text);
                    // Also to itself: not every broker can leave that out.
                    ears.forEach(one -> one.hear(text));
                }

                @Override
                public void tellSelf(String text) throws Exception {
                    sending.await();
                    if (!deaf && !gone) {
                        ear.hear(text);
                    }
                }

                @Override
                public void close() {
                    ears.remove(ear);
                }
            };
        }
    }

    private void startConnected() {
        node.start();
        await().until(node::isConnected);
    }

    @Test
    void a_node_hears_the_others_and_not_itself() {
        startConnected();
        woken.set(0);
        node.notifyNewWork(JobPriority.NORMAL);
        await().until(() -> town.said.size() == 1);
        assertThat(woken).hasValue(0);
        town.ears.get(0).hear(UUID.randomUUID() + " work");
        assertThat(woken).hasValue(1);
    }

    @Test
    void what_makes_no_sense_is_ignored() {
        startConnected();
        woken.set(0);
        var ear = town.ears.get(0);
        for (String text :
                List.of("", " ", " work", "work", "x work", UUID.randomUUID() + " worked", "1-1-1-1-1 work")) {
            ear.hear(text);
        }
        // A probe of another node is not an answer to ours.
        town.deaf = true;
        ear.hear(UUID.randomUUID() + " probe");
        assertThat(woken).hasValue(0);
        assertThat(node.isConnected()).isTrue();
        await().until(() -> !node.isConnected());
    }

    @Test
    void a_broker_that_is_gone_costs_one_warning_and_its_return_one_line_and_one_look() {
        startConnected();
        assertThat(log.own(Level.INFO)).containsExactly("Wake-ups: town, market");
        town.gone = true;
        town.ears.get(0).lost(new IllegalStateException("walls fell"));
        assertThat(node.isConnected()).isFalse();
        await().until(() -> town.opened.get() > 4);
        assertThat(log.own(Level.WARN))
                .containsExactly("wake-ups: town is out of reach (walls fell); workers poll every 5s until it is back");
        woken.set(0);
        town.gone = false;
        await().until(node::isConnected);
        await().until(() -> woken.get() == 1);
        assertThat(log.own(Level.INFO)).containsExactly("Wake-ups: town, market", "wake-ups: town is back");
        town.gone = true;
        await().until(() -> log.own(Level.WARN).size() == 2);
    }

    @Test
    void logger_that_throws_keeps_nobody_from_finding_the_broker() {
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
            town.gone = true;
            node.start();
            await().until(() -> thrown.get() > 0 && town.opened.get() > 1);
            town.gone = false;
            await().until(node::isConnected);
        } finally {
            logging.getTurboFilterList().remove(filter);
        }
    }

    @Test
    void a_broker_that_is_absent_at_the_start_is_found_later() {
        town.gone = true;
        node.start();
        await().until(() -> town.opened.get() > 2);
        node.notifyNewWork(JobPriority.NORMAL);
        assertThat(node.isConnected()).isFalse();
        assertThat(log.own(Level.WARN)).hasSize(1);
        town.gone = false;
        // What could not be said is said then.
        await().until(() -> town.said.size() == 1);
        await().until(node::isConnected);
        assertThat(log.own(Level.INFO)).containsExactly("wake-ups: town is back");
    }

    @Test
    void a_link_that_says_nothing_any_more_is_replaced() {
        startConnected();
        town.deaf = true;
        await().until(() -> !node.isConnected());
        assertThat(log.own(Level.WARN)).hasSize(1).first().asString().contains("no answer within 500ms");
        await().until(() -> town.opened.get() > 1);
        town.deaf = false;
        await().until(node::isConnected);
        assertThat(town.ears).hasSize(1);
    }

    @Test
    void a_link_that_hangs_while_it_sends_is_given_up_and_holds_nobody_up() {
        startConnected();
        town.sending = new CountDownLatch(1);
        node.notifyNewWork(JobPriority.NORMAL);
        await().until(() -> !node.isConnected());
        // Returns although the link still hangs.
        node.notifyNewWork(JobPriority.NORMAL);
        assertThat(town.sending.getCount()).isOne();
        await().until(() -> town.opened.get() > 1);
        town.sending.countDown();
        await().until(node::isConnected);
        assertThat(log.own(Level.WARN)).hasSize(1);
        await().until(() -> !town.said.isEmpty());
    }

    @Test
    void opening_that_hangs_is_reported_and_left_to_end_by_itself() {
        town.opening = new CountDownLatch(1);
        node.start();
        await().until(() -> log.own(Level.WARN).size() == 1);
        assertThat(town.opened).hasValue(1);
        town.opening.countDown();
        await().until(node::isConnected);
        assertThat(town.opened).hasValue(1);
        assertThat(log.own(Level.INFO)).containsExactly("wake-ups: town is back");
    }

    @Test
    void a_link_that_breaks_before_it_is_used_is_not_used() {
        var broken = new AtomicInteger();
        var fragile = new BrokerCoordinator(
                new Broker() {
                    @Override
                    public String type() {
                        return "fragile";
                    }

                    @Override
                    public String place() {
                        return "anywhere";
                    }

                    @Override
                    public Link open(Ear ear) throws Exception {
                        if (broken.getAndIncrement() == 0) {
                            ear.lost(new IllegalStateException("broke"));
                        }
                        return town.open(ear);
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
    void stopping_says_what_is_to_be_said_and_leaves_no_thread() {
        startConnected();
        node.notifyNewWork(JobPriority.NORMAL);
        node.stop();
        assertThat(town.said).hasSize(1);
        assertThat(town.ears).isEmpty();
        assertThat(node.isConnected()).isFalse();
        await().until(() -> threads().isEmpty());
        startConnected();
        assertThat(town.ears).hasSize(1);
        assertThat(log.own(Level.WARN)).isEmpty();
    }

    @Test
    void stopping_does_not_wait_for_a_broker_that_hangs() {
        town.opening = new CountDownLatch(1);
        node.start();
        await().until(() -> town.opened.get() == 1);
        // Returns although nobody lets the broker answer.
        node.stop();
        assertThat(town.opening.getCount()).isOne();
        await().until(() -> threads().isEmpty());
    }

    private static List<String> threads() {
        return Thread.getAllStackTraces().keySet().stream()
                .map(Thread::getName)
                .filter(name -> name.startsWith("forge-cluster-wakeup"))
                .toList();
    }
}
