// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static dev.forge.cluster.internal.daemon.TestDaemons.daemon;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.TestDaemons.DaemonNode;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.NotLeaderException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Methods whose term was lost or whose node leaves. */
@ClusterPostgres
class DaemonLossTests extends AbstractDaemonTests {

    DaemonLossTests(TestDatabase database) {
        super(database);
    }

    private static NodeSettings hasty(NodeSettings settings) {
        return TestNodes.withDrainTimeout(settings, Duration.ofMillis(300));
    }

    /** Returns settings with which a node survives a pause of seconds, and its roles are free ten seconds after its loss. */
    private static NodeSettings tenSeconds(NodeSettings settings) {
        return TestNodes.withLease(settings, Duration.ofSeconds(10), Duration.ofSeconds(1), Duration.ofSeconds(6));
    }

    private void terminateSessionOfHolder(String daemon) {
        jdbc.sql("SELECT pg_terminate_backend(backend_pid) FROM forge_leader_leases WHERE role = 'daemon:' || ?")
                .param(daemon)
                .query()
                .listOfRows();
    }

    @Test
    void daemon_runs_again_in_a_new_term_after_its_session_was_lost() {
        DaemonNode one = nodes.start("one", feed());
        running(one);
        long term = feed.last.term();
        for (int round = 1; round <= 3; round++) {
            int calls = feed.calls.size();
            terminateSessionOfHolder("feed");
            await().until(() -> feed.calls.size() > calls && feed.isRunning());
        }
        assertThat(feed.last.term()).isGreaterThanOrEqualTo(term + 3);
        assertThat(feed.most.get()).isEqualTo(1);
    }

    private TcpProxy network() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        return TcpProxy.to(server.getHost(), server.getPort());
    }

    private DriverManagerDataSource through(TcpProxy network) {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        return new DriverManagerDataSource(
                database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                database.username(),
                database.password());
    }

    @Test
    void method_on_a_cut_off_node_stops_before_the_successor_starts() {
        try (TcpProxy network = network()) {
            DaemonNode cut = nodes.start("cut", through(network), DaemonLossTests::tenSeconds, feed());
            running(cut);
            nodes.start("safe", DaemonLossTests::tenSeconds, feed());
            // Both nodes are candidates.
            await().until(() -> nodes.info("feed").candidates().size() == 2);
            long start = System.nanoTime();
            network.cut();
            await().until(() -> !feed.isRunning());
            long stopped = (feed.lastEnd - start) / 1_000_000;
            await().until(() -> feed.node().equals("safe"));
            long followed = (feed.calls.get(1).startedAt() - start) / 1_000_000;
            System.out.printf("cut off: stopped after %d ms, followed after %d ms%n", stopped, followed);
            assertThat(feed.most.get()).isEqualTo(1);
            assertThat(stopped).isLessThan(followed);
            network.heal();
            await().until(() -> nodes.cluster.status("cut").equals("active"));
            assertThat(feed.calls).hasSize(2);
            cut.stop();
        }
    }

    @Test
    void daemon_runs_again_when_the_database_is_back() {
        try (TcpProxy network = network()) {
            DaemonNode only = nodes.start("only", through(network), s -> s, feed());
            running(only);
            long term = feed.last.term();
            network.cut();
            await().until(() -> !feed.isRunning());
            network.reset();
            network.heal();
            await().until(feed::isRunning);
            assertThat(feed.last.term()).isGreaterThan(term);
            await().until(() -> status("feed") == DaemonStatus.RUNNING);
            assertThat(nodes.instance("feed", 0).term()).isEqualTo(feed.last.term());
            only.stop();
        }
    }

    @Test
    void method_of_an_earlier_term_cannot_write_in_the_current_one() throws Exception {
        jdbc.sql("CREATE TABLE IF NOT EXISTS daemon_writes (term bigint)").update();
        jdbc.sql("TRUNCATE daemon_writes").update();
        var contexts = new CopyOnWriteArrayList<DaemonContext>();
        var release = new CountDownLatch(1);
        DaemonHandler deaf = daemon("deaf").running(context -> {
            contexts.add(context);
            boolean ended = false;
            while (!ended) {
                try {
                    ended = contexts.size() > 1
                            ? context.awaitStop(Duration.ofMinutes(1))
                            : release.await(1, TimeUnit.MINUTES);
                } catch (InterruptedException e) {
                    // Ignores interrupts.
                }
            }
        });
        DaemonNode one = nodes.start("one", deaf);
        await().until(() -> contexts.size() == 1);
        DaemonContext zombie = contexts.get(0);
        zombie.fenced(() -> jdbc.sql("INSERT INTO daemon_writes VALUES (1)").update());
        terminateSessionOfHolder("deaf");
        await().until(() -> nodes.cluster.term("daemon:deaf") > zombie.term()
                && one.node().elector().isUndisputed("daemon:deaf"));
        assertThat(zombie.stopRequested()).isTrue();
        assertThatExceptionOfType(NotLeaderException.class)
                .isThrownBy(() -> zombie.fenced(
                        () -> jdbc.sql("INSERT INTO daemon_writes VALUES (2)").update()));
        // The node leads again, but does not start a second method beside the first.
        await().during(Duration.ofSeconds(1)).until(() -> contexts.size() == 1);
        release.countDown();
        await().until(() -> contexts.size() == 2);
        contexts.get(1)
                .fenced(() -> jdbc.sql("INSERT INTO daemon_writes VALUES (3)").update());
        assertThat(jdbc.sql("SELECT term FROM daemon_writes ORDER BY 1")
                        .query(Long.class)
                        .list())
                .containsExactly(1L, 3L);
    }

    @Test
    void role_is_kept_until_an_interrupted_method_has_ended() {
        var interrupts = new AtomicInteger();
        var release = new CountDownLatch(1);
        var calls = new AtomicInteger();
        DaemonHandler deaf = daemon("deaf").running(context -> {
            calls.incrementAndGet();
            while (release.getCount() > 0) {
                try {
                    release.await();
                } catch (InterruptedException e) {
                    interrupts.incrementAndGet();
                }
            }
        });
        nodes.start("one", DaemonLossTests::hasty, deaf);
        await().until(() -> calls.get() == 1);
        DaemonNode two = nodes.start("two", DaemonLossTests::hasty, deaf);
        two.daemons().pause("deaf");
        await().until(() -> status("deaf") == DaemonStatus.STOPPING);
        await().until(() -> interrupts.get() > 0);
        long term = nodes.cluster.term("daemon:deaf");
        two.daemons().resume("deaf");
        // The method still runs: no other node may hold the role.
        await().during(Duration.ofSeconds(1))
                .until(() -> calls.get() == 1 && nodes.cluster.term("daemon:deaf") == term);
        release.countDown();
        await().until(() -> calls.get() == 2);
    }

    @Test
    void successor_waits_for_the_lease_if_the_method_outlives_its_node() {
        var release = new CountDownLatch(1);
        var starts = new CopyOnWriteArrayList<Instant>();
        DaemonHandler deaf = daemon("deaf").running(context -> {
            starts.add(databaseTime("clock_timestamp()"));
            while (release.getCount() > 0) {
                try {
                    release.await();
                } catch (InterruptedException e) {
                    // Ignores interrupts.
                }
            }
        });
        DaemonNode one = nodes.start("one", s -> hasty(tenSeconds(s)), deaf);
        await().until(() -> starts.size() == 1);
        nodes.start("two", s -> hasty(tenSeconds(s)), deaf);
        await().until(() -> nodes.info("deaf").candidates().size() == 2);
        // Renewals after this moment only extend the lease.
        Instant leaseEnd = databaseTime("lease_until FROM forge_leader_leases WHERE role = 'daemon:deaf'");
        try {
            one.stop();
            await().until(() -> starts.size() == 2);
            assertThat(starts.get(1)).isAfterOrEqualTo(leaseEnd);
        } finally {
            release.countDown();
        }
    }

    private Instant databaseTime(String expression) {
        return jdbc.sql("SELECT " + expression)
                .query((row, n) -> row.getObject(1, OffsetDateTime.class).toInstant())
                .single();
    }
}
