// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static dev.forge.cluster.internal.daemon.TestDaemons.daemon;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.TestDaemons.DaemonNode;
import dev.forge.cluster.internal.daemon.TestDaemons.Feed;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipAcquired;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Election of the node that runs a daemon, and handover. */
@ClusterPostgres
class DaemonElectionTests extends AbstractDaemonTests {

    DaemonElectionTests(TestDatabase database) {
        super(database);
    }

    // A machine that is busy for three seconds loses a term, too.
    @Test
    @Tag("soak")
    void two_hundred_daemons_start_over_a_slow_network_without_losing_a_term() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        try (TcpProxy network = TcpProxy.to(server.getHost(), server.getPort())) {
            var slow = new DriverManagerDataSource(
                    database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                    database.username(),
                    database.password());
            network.delay(Duration.ofMillis(1));
            var terms = new ConcurrentHashMap<String, Long>();
            var again = new CopyOnWriteArrayList<String>();
            DaemonHandler[] daemons = IntStream.range(0, 200)
                    .mapToObj(n -> daemon("feed-" + n).running(context -> {
                        Long former = terms.put(context.name(), context.term());
                        if (former != null) {
                            again.add(context.name());
                        }
                        while (!context.awaitStop(Duration.ofSeconds(10))) {
                            assertThat(context.term()).isPositive();
                        }
                    }))
                    .toArray(DaemonHandler[]::new);
            DaemonNode one = nodes.start(
                    "one",
                    slow,
                    s -> TestNodes.withLease(s, Duration.ofSeconds(5), Duration.ofSeconds(1), Duration.ofSeconds(3)),
                    daemons);
            await().until(() -> one.node().elector().applicationRolesHeld().contains(Leadership.SCHEDULER));
            long schedulerTerm = nodes.cluster.term(Leadership.SCHEDULER);
            await().atMost(Duration.ofSeconds(90)).until(() -> terms.size() == 200);
            assertThat(again).isEmpty();
            assertThat(terms.values()).containsOnly(1L);
            assertThat(nodes.cluster.term(Leadership.SCHEDULER)).isEqualTo(schedulerTerm);
            network.delay(Duration.ZERO);
            one.stop();
        }
    }

    @Test
    void one_of_three_nodes_runs_the_daemon_and_the_row_shows_it() {
        List<DaemonNode> members =
                Stream.of("a", "b", "c").map(name -> nodes.start(name, feed())).toList();
        DaemonNode holder = running(members.toArray(DaemonNode[]::new));
        await().until(() -> status("feed") == DaemonStatus.RUNNING);
        DaemonInfo info = nodes.info("feed");
        assertThat(info.scope()).isEqualTo(DaemonScope.CLUSTER);
        assertThat(info.paused()).isFalse();
        assertThat(info.candidates()).containsExactly("a", "b", "c");
        assertThat(info.instances()).singleElement().satisfies(row -> {
            assertThat(row.nodeId()).isEqualTo(holder.node().id());
            assertThat(row.nodeName()).isEqualTo(feed.node());
            assertThat(row.term()).isEqualTo(feed.last.term()).isPositive();
            assertThat(row.startedAt()).isNotNull();
            assertThat(row.restarts()).isZero();
        });
        await().until(() -> "call 1".equals(nodes.instance("feed", 0).note()));
        // The node keeps running the daemon over several passes.
        await().during(Duration.ofMillis(1_500)).until(() -> feed.calls.size() == 1 && feed.most.get() == 1);
        // The application does not see the leadership.
        assertThat(members.stream()
                        .flatMap(member -> member.member().events().stream())
                        .filter(LeadershipAcquired.class::isInstance)
                        .map(Object::toString))
                .isNotEmpty()
                .noneMatch(event -> event.contains("daemon:"));
        assertThat(holder.node().elector().applicationRolesHeld()).noneMatch(role -> role.startsWith("daemon:"));
    }

    @Test
    void successor_of_a_drained_node_starts_at_once() {
        var present = new ArrayList<>(List.of(nodes.start("a", feed()), nodes.start("b", feed())));
        var handovers = new ArrayList<Long>();
        for (String next : List.of("c", "d", "e")) {
            DaemonNode leaving = running(present.toArray(DaemonNode[]::new));
            int calls = feed.calls.size();
            present.remove(leaving);
            leaving.stop();
            await().until(() -> feed.calls.size() > calls);
            handovers.add((feed.calls.get(calls).startedAt() - feed.lastEnd) / 1_000_000);
            present.add(nodes.start(next, feed()));
        }
        System.out.printf("drained: the successor's method begins %s ms after the end of the former%n", handovers);
        assertThat(handovers)
                .isNotEmpty()
                .allSatisfy(millis -> assertThat(millis).isNotNegative());
        assertThat(feed.most.get()).isEqualTo(1);
    }

    @Test
    void daemon_behind_a_pooler_is_elected_by_leases() {
        DaemonNode one = nodes.start("one", TestNodes::byLease, feed());
        DaemonNode two = nodes.start("two", TestNodes::byLease, feed());
        DaemonNode holder = running(one, two);
        long term = feed.last.term();
        holder.stop();
        await().until(() -> feed.calls.size() == 2 && feed.isRunning());
        long handover = (feed.calls.get(1).startedAt() - feed.lastEnd) / 1_000_000;
        System.out.printf("drained, by leases: the successor's method begins after %d ms%n", handover);
        assertThat(handover).isNotNegative();
        assertThat(feed.last.term()).isGreaterThan(term);
    }

    @Test
    void worker_runs_the_daemon_and_observer_and_other_roles_do_not() {
        nodes.start("observer", s -> as(s, NodeMode.OBSERVER, NodeRole.values()), feed());
        nodes.start("scheduler", s -> as(s, NodeMode.AUTO, NodeRole.SCHEDULER), feed());
        nodes.start(
                "plain",
                s -> as(s, NodeMode.AUTO, NodeRole.WORKER),
                daemon("render").needs(NodeRole.WORKER, "gpu").running(new Feed()));
        DaemonNode worker = nodes.start("worker", s -> as(s, NodeMode.WORKER, NodeRole.WORKER), feed());
        await().until(feed::isRunning);
        assertThat(feed.node()).isEqualTo("worker");
        assertThat(worker.node().elector().applicationRolesHeld()).isEmpty();
        assertThat(nodes.info("feed").candidates()).containsExactly("worker");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_daemons WHERE name = 'render'")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    @Test
    void node_becomes_a_candidate_after_the_startup_delay() {
        nodes.start("late", daemon("feed").upFor(Duration.ofHours(1)).running(feed));
        nodes.start("early", daemon("feed").upFor(Duration.ofMillis(200)).running(feed));
        await().until(feed::isRunning);
        assertThat(feed.node()).isEqualTo("early");
    }

    @Test
    void application_cannot_join_the_role_of_a_daemon() {
        DaemonNode one = nodes.start("one", feed());
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(() -> one.member().leadership().join("daemon:feed"))
                .withMessageContaining("daemon:feed");
    }
}
