// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import dev.forge.cluster.autoconfigure.LogLines;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.actuate.ClusterActuatorAutoConfiguration;
import dev.forge.cluster.autoconfigure.metrics.ClusterMetricsAutoConfiguration;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.TestDatabase;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.health.contributor.CompositeHealthContributor;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.boot.health.contributor.Status;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;

/** What holds for wake-ups whatever broker carries them: two nodes, of which one enqueues and the other works. */
@Timeout(180)
abstract class WakeupContract {

    /** So long that what comes much sooner was not found by polling. */
    private static final Duration SELDOM = Duration.ofMinutes(10);

    private static final Duration OFTEN = Duration.ofSeconds(3);
    private static final int PICKUPS = 200;

    private final TestDatabase database;
    final int port = freePort();

    WakeupContract(TestDatabase database) {
        this.database = database;
    }

    /** On {@link #port}, whether it was there before or not. */
    abstract void startBroker() throws Exception;

    /** Without a word to anybody; nothing if there is none. */
    abstract void killBroker() throws Exception;

    /** The type, and the bean that leads to the broker. */
    abstract ApplicationContextRunner reaching(ApplicationContextRunner runner);

    /** Says something in the place where nodes meet. */
    abstract void say(ApplicationContext context, String destination, String text) throws Exception;

    @AfterEach
    void end() throws Exception {
        killBroker();
    }

    static int freePort() {
        try (var socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    final ApplicationContextRunner node(Duration pollInterval) {
        return reaching(TestApplications.on(database)
                .withConfiguration(AutoConfigurations.of(
                        WakeupAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        ClusterMetricsAutoConfiguration.class))
                .withPropertyValues("forge.cluster.worker.poll-interval=" + pollInterval.toMillis() + "ms"));
    }

    static class Pings {
        final BlockingQueue<Long> begun = new LinkedBlockingQueue<>();

        @ClusterJob
        void ping() {
            begun.add(System.nanoTime());
        }
    }

    /** Two nodes. */
    private record Pair(ApplicationContext enqueuer, ApplicationContext worker) {

        BrokerCoordinator coordinator(ApplicationContext context) {
            return context.getBean(BrokerCoordinator.class);
        }

        void awaitConnected() {
            await().until(() ->
                    coordinator(enqueuer).isConnected() && coordinator(worker).isConnected());
        }

        /** How long after it was enqueued here it has begun there. */
        Duration pickup() throws InterruptedException {
            BlockingQueue<Long> begun = worker.getBean(Pings.class).begun;
            long before = System.nanoTime();
            enqueuer.getBean(Jobs.class).enqueueNamed("ping", null);
            Long began = begun.poll(60, TimeUnit.SECONDS);
            assertThat(began).as("picked up at all").isNotNull();
            return Duration.ofNanos(began - before);
        }
    }

    private interface Story {
        void tell(Pair pair) throws Exception;
    }

    private void withTwoNodes(Duration pollInterval, Story story) {
        node(pollInterval).withBean(Pings.class).run(worker -> {
            assertThat(worker).hasNotFailed();
            node(pollInterval)
                    .withPropertyValues("forge.cluster.node.roles=function")
                    .run(enqueuer -> {
                        assertThat(enqueuer).hasNotFailed();
                        story.tell(new Pair(enqueuer, worker));
                    });
        });
    }

    private static Health wakeup(ApplicationContext context) {
        var contributor = context.getBean("forgeClusterHealthContributor", CompositeHealthContributor.class);
        return ((HealthIndicator) contributor.getContributor("wakeup")).health(true);
    }

    @Test
    void worker_of_another_node_starts_at_once_and_malformed_messages_have_no_effect() throws Exception {
        startBroker();
        try (var log = new LogLines(BrokerCoordinator.class)) {
            withTwoNodes(SELDOM, pair -> {
                pair.awaitConnected();
                // A slow machine may have been warned about meanwhile.
                log.clear();
                String destination =
                        WakeupAutoConfiguration.destination(pair.worker().getBean(Schema.class));
                say(pair.enqueuer(), destination, "");
                say(pair.enqueuer(), destination, "nobody work");
                say(pair.enqueuer(), destination, "\u0000\uffff".repeat(1000));
                // One right after the other: each waits for the 20 ms, too, in which news is gathered.
                long[] took = new long[PICKUPS];
                for (int i = 0; i < PICKUPS; i++) {
                    took[i] = pair.pickup().toNanos();
                }
                Arrays.sort(took);
                System.out.printf(
                        "%s: %d pickups on another node, p50 %.1f ms, p95 %.1f ms, max %.1f ms%n",
                        getClass().getSimpleName(),
                        PICKUPS,
                        took[PICKUPS / 2] / 1e6,
                        took[PICKUPS * 95 / 100] / 1e6,
                        took[PICKUPS - 1] / 1e6);
                // By polling each would take half of the interval on average.
                assertThat(Duration.ofNanos(took[PICKUPS / 2])).isLessThan(SELDOM.dividedBy(4));
                assertThat(wakeup(pair.worker()).getDetails())
                        .containsEntry("type", pair.coordinator(pair.worker()).type())
                        .containsEntry("connected", true);
            });
            // Nor does leaving.
            assertThat(log.own(Level.WARN)).isEmpty();
            assertThat(log.errors()).isEmpty();
        }
    }

    @Test
    void workers_poll_without_a_broker_and_each_node_warns_once() throws Exception {
        startBroker();
        try (var log = new LogLines(BrokerCoordinator.class)) {
            withTwoNodes(OFTEN, pair -> {
                pair.awaitConnected();
                log.clear();
                killBroker();
                await().until(() -> !pair.coordinator(pair.enqueuer()).isConnected()
                        && !pair.coordinator(pair.worker()).isConnected());
                assertThat(wakeup(pair.worker()).getStatus()).isEqualTo(Status.UP);
                assertThat(wakeup(pair.worker()).getDetails())
                        .containsEntry("connected", false)
                        .containsEntry("warning", "no wake-ups: workers poll every 3s");
                assertThat(pair.pickup()).isPositive();
                // One for each node, however many tries there were; the line follows the loss.
                await().untilAsserted(() -> assertThat(log.own(Level.WARN))
                        .hasSize(2)
                        .allSatisfy(line -> assertThat(line).contains("Workers poll every 3s until it is back")));
                startBroker();
                pair.awaitConnected();
                await().until(() -> log.own(Level.INFO).stream()
                                .filter(line -> line.endsWith("is back"))
                                .count()
                        == 2);
            });
            assertThat(log.own(Level.WARN)).hasSize(2);
            assertThat(log.errors()).isEmpty();
        }
    }

    @Test
    void wake_ups_work_again_when_the_broker_is_back() throws Exception {
        startBroker();
        withTwoNodes(SELDOM, pair -> {
            pair.awaitConnected();
            killBroker();
            await().until(() -> !pair.coordinator(pair.enqueuer()).isConnected()
                    && !pair.coordinator(pair.worker()).isConnected());
            startBroker();
            pair.awaitConnected();
            assertThat(pair.pickup()).isLessThan(SELDOM.dividedBy(4));
        });
    }

    @Test
    void broker_that_is_absent_at_the_start_does_not_fail_it() throws Exception {
        try (var log = new LogLines(BrokerCoordinator.class)) {
            node(OFTEN).withBean(Pings.class).run(context -> {
                assertThat(context).hasNotFailed();
                await().until(() -> log.own(Level.WARN).size() == 1);
                startBroker();
                await().until(() -> context.getBean(BrokerCoordinator.class).isConnected());
            });
            assertThat(log.own(Level.WARN)).hasSize(1);
        }
    }
}
