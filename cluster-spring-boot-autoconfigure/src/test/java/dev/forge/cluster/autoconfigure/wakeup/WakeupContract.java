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
import dev.forge.cluster.test.postgres.TestDatabase;
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

/** Tests of wake-ups for any broker, on two nodes: one enqueues jobs, the other runs them. */
@Timeout(180)
abstract class WakeupContract {

    /** A poll interval so long that a job which starts much sooner was not found by polling. */
    private static final Duration SELDOM = Duration.ofMinutes(10);

    private static final Duration OFTEN = Duration.ofSeconds(3);
    private static final int PICKUPS = 200;

    private final TestDatabase database;
    final int port = freePort();

    WakeupContract(TestDatabase database) {
        this.database = database;
    }

    /** Starts a broker on {@link #port}, for the first time or again. */
    abstract void startBroker() throws Exception;

    /** Stops the broker; does nothing if it is not running. */
    abstract void killBroker() throws Exception;

    /** Adds the wake-up type and the connection factory of the broker. */
    abstract ApplicationContextRunner reaching(ApplicationContextRunner runner);

    /** Sends a text to the destination of the nodes. */
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

    /** A node that enqueues jobs and a node that runs them. */
    private record Pair(ApplicationContext enqueuer, ApplicationContext worker) {

        BrokerCoordinator coordinator(ApplicationContext context) {
            return context.getBean(BrokerCoordinator.class);
        }

        void awaitConnected() {
            await().until(() ->
                    coordinator(enqueuer).isConnected() && coordinator(worker).isConnected());
        }

        /** Enqueues a job on one node and returns the time until it starts on the other. */
        Duration pickup() throws InterruptedException {
            BlockingQueue<Long> begun = worker.getBean(Pings.class).begun;
            long before = System.nanoTime();
            enqueuer.getBean(Jobs.class).enqueueNamed("ping", null);
            Long began = begun.poll(60, TimeUnit.SECONDS);
            assertThat(began).as("start of the job").isNotNull();
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
                // A slow machine may have caused warnings meanwhile.
                log.clear();
                String destination =
                        WakeupAutoConfiguration.destination(pair.worker().getBean(Schema.class));
                say(pair.enqueuer(), destination, "");
                say(pair.enqueuer(), destination, "nobody work");
                say(pair.enqueuer(), destination, "\u0000\uffff".repeat(1000));
                // One after another: each time includes the 20 ms in which announcements are coalesced.
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
                // Polling would take half of the interval on average.
                assertThat(Duration.ofNanos(took[PICKUPS / 2])).isLessThan(SELDOM.dividedBy(4));
                assertThat(wakeup(pair.worker()).getDetails())
                        .containsEntry("type", pair.coordinator(pair.worker()).type())
                        .containsEntry("connected", true);
            });
            // Neither malformed messages nor the stop of a node cause a warning.
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
                // One warning per node, however many attempts fail; it is logged after the loss.
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
