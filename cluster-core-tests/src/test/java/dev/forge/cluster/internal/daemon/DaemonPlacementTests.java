// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static dev.forge.cluster.internal.daemon.TestDaemons.daemon;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.daemon.TestDaemons.DaemonNode;
import dev.forge.cluster.internal.daemon.TestDaemons.Feed;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Distribution of instances over nodes. */
@ClusterPostgres
class DaemonPlacementTests extends AbstractDaemonTests {

    DaemonPlacementTests(TestDatabase database) {
        super(database);
    }

    @Test
    void candidacy_matches_the_elector_under_concurrency() throws Exception {
        DaemonNode member = nodes.create("a", database.newSessions(), s -> s, feed());
        DaemonCandidacy candidacy = member.engine().candidacy();
        member.engine().begin();
        var together = new CyclicBarrier(2);
        var other = new Thread(() -> {
            try {
                for (int round = 0; round < 20_000; round++) {
                    together.await();
                    candidacy.withdraw("daemon:feed");
                    together.await();
                }
            } catch (InterruptedException | BrokenBarrierException e) {
                Thread.currentThread().interrupt();
            }
        });
        other.start();
        try {
            for (int round = 0; round < 20_000; round++) {
                together.await();
                candidacy.stand("daemon:feed");
                together.await();
                assertThat(member.node().elector().isCandidate("daemon:feed"))
                        .as("candidate in round %d", round)
                        .isEqualTo(candidacy.contains("daemon:feed"));
            }
        } finally {
            other.interrupt();
            other.join();
        }
    }

    @Test
    void draining_node_is_a_candidate_for_no_role() {
        DaemonNode member = nodes.create("a", database.newSessions(), s -> s, feed());
        member.engine().begin();
        member.engine().candidacy().stand("daemon:feed");
        member.engine().quiesce();
        // A pass that began before the drain ends now.
        member.engine().candidacy().stand("daemon:feed");
        assertThat(member.engine().candidacy().contains("daemon:feed")).isFalse();
        assertThat(member.node().elector().isCandidate("daemon:feed")).isFalse();
    }

    @Test
    void instances_spread_over_all_nodes_and_move_to_new_ones() {
        DaemonHandler three = daemon("feed").instances(3).running(feed);
        DaemonNode a = nodes.start("a", three);
        // The only node runs all instances.
        await().until(() -> feed.running.get() == 3);
        nodes.start("b", three);
        DaemonNode c = nodes.start("c", three);
        long joined = System.nanoTime();
        await().until(() -> perNode(feed).equals(Map.of("a", 1L, "b", 1L, "c", 1L)));
        System.out.printf(
                "two nodes join one that has three daemons: one each after %d ms%n",
                (System.nanoTime() - joined) / 1_000_000);
        assertThat(feed.most.get()).isEqualTo(3);
        // Two instances were moved, one of them twice if the second node did not know the third one yet. A node that is
        // slow may act on an outdated view and move one more.
        assertThat(feed.calls).hasSizeBetween(5, 9);
        assertThat(feed.calls).extracting(Feed.Call::instance).containsOnly(0, 1, 2);
        // The instance of the third node moves to another node, and may move once more for the same reason.
        c.stop();
        await().until(
                        () -> perNode(feed),
                        running ->
                                running.equals(Map.of("a", 2L, "b", 1L)) || running.equals(Map.of("a", 1L, "b", 2L)));
        a.stop();
        await().until(() -> perNode(feed).equals(Map.of("b", 3L)));
    }

    @Test
    void instance_that_is_given_up_does_not_start_again_in_the_same_term() {
        nodes.timing = new DaemonEngine.Timing(
                Duration.ofMillis(20),
                new DaemonPlacement.Delays(Duration.ofMillis(100), Duration.ofMillis(50), Duration.ofMillis(500)),
                nodes.timing.recoveredAfter());
        DaemonHandler twenty = daemon("feed").instances(20).running(feed);
        nodes.start("a", twenty);
        await().until(() -> feed.running.get() == 20);
        // Half of the instances move, one after another.
        nodes.start("b", twenty);
        await().until(() -> perNode(feed).equals(Map.of("a", 10L, "b", 10L)));
        assertThat(feed.calls)
                .extracting(call -> "instance %d, term %d".formatted(call.instance(), call.term()))
                .doesNotHaveDuplicates();
    }

    @Test
    void instances_of_one_daemon_run_on_different_nodes() {
        DaemonHandler[] pairs = {
            daemon("alpha").instances(2).running(feed),
            daemon("beta").instances(2).running(feed)
        };
        nodes.start("a", pairs);
        await().until(() -> feed.running.get() == 4);
        nodes.start("b", pairs);
        await().until(() ->
                jdbc.sql("""
                        SELECT d.name || '@' || n.name FROM forge_daemons d JOIN forge_nodes n ON n.id = d.node_id
                        WHERE d.status = 'running' ORDER BY 1
                        """).query(String.class).list().equals(List.of("alpha@a", "alpha@b", "beta@a", "beta@b")));
        // Two moves suffice. A node that is slow may act on an outdated view and move one more.
        System.out.printf(
                "two daemons with two instances each, spread over two nodes after %d moves%n", feed.calls.size() - 4);
    }

    @Test
    void instances_that_only_a_newer_build_declares_stay_on_its_nodes() {
        nodes.start("newer", daemon("feed").instances(3).running(feed));
        await().until(() -> feed.running.get() == 3);
        nodes.start("older", daemon("feed").running(feed));
        await().until(() -> perNode(feed).equals(Map.of("newer", 2L, "older", 1L)));
        // No other instance is moved over several passes.
        await().during(Duration.ofSeconds(4)).until(() -> perNode(feed).equals(Map.of("newer", 2L, "older", 1L)));
        assertThat(feed.calls)
                .filteredOn(call -> call.node().equals("older"))
                .extracting(Feed.Call::instance)
                .containsOnly(0);
    }

    @Test
    void daemons_of_nodes_that_start_together_are_spread() {
        var handlers =
                Stream.of("x", "y", "z").map(name -> daemon(name).running(feed)).toArray(DaemonHandler[]::new);
        List<DaemonNode> members = Stream.of("a", "b", "c")
                .map(name -> nodes.create(name, database.newSessions(), s -> s, handlers))
                .toList();
        // The daemons are paused until all nodes are active.
        jdbc.sql("INSERT INTO forge_daemons (name, instance) VALUES ('x', 0), ('y', 0), ('z', 0)")
                .update();
        jdbc.sql("INSERT INTO forge_daemon_pauses (name) VALUES ('x'), ('y'), ('z')")
                .update();
        members.forEach(member -> member.node().start());
        Stream.of("x", "y", "z").forEach(name -> members.get(0).daemons().resume(name));
        await().until(() -> perNode(feed).equals(Map.of("a", 1L, "b", 1L, "c", 1L)));
    }
}
