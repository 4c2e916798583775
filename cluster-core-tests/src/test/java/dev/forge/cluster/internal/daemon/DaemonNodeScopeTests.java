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
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Daemons of scope NODE. */
@ClusterPostgres
class DaemonNodeScopeTests extends AbstractDaemonTests {

    DaemonNodeScopeTests(TestDatabase database) {
        super(database);
    }

    @Test
    void daemon_of_scope_node_runs_on_every_node_without_a_term() {
        DaemonHandler everywhere = daemon("cache").everywhere().running(feed);
        DaemonNode one = nodes.start("one", everywhere);
        await().until(() -> feed.running.get() == 1);
        DaemonNode two = nodes.start("two", everywhere);
        await().until(() -> perNode(feed).equals(Map.of("one", 1L, "two", 1L)));
        assertThat(feed.running.get()).isEqualTo(2);
        await().until(() -> nodes.info("cache").instances().stream()
                        .filter(row -> row.status() == DaemonStatus.RUNNING)
                        .count()
                == 2);
        DaemonInfo info = nodes.info("cache");
        assertThat(info.scope()).isEqualTo(DaemonScope.NODE);
        assertThat(info.instances()).extracting(DaemonInfo.Instance::number).containsExactly(0, 1);
        assertThat(info.instances()).extracting(DaemonInfo.Instance::nodeName).containsExactly("one", "two");
        assertThat(feed.last.term()).isZero();
        assertThatExceptionOfType(IllegalStateException.class)
                .isThrownBy(() -> feed.last.fenced(() -> true))
                .withMessageContaining("scope NODE");
        one.stop();
        assertThat(nodes.info("cache").instances())
                .extracting(DaemonInfo.Instance::number)
                .containsExactly(1);
        two.daemons().pause("cache");
        await().until(() -> !feed.isRunning() && nodes.instance("cache", 1).status() == DaemonStatus.PENDING);
        nodes.start("three", everywhere);
        await().until(() -> nodes.info("cache").instances().size() == 2);
        assertThat(nodes.instance("cache", 0).nodeName()).isEqualTo("three");
        two.daemons().resume("cache");
        await().until(() -> feed.running.get() == 2);
    }

    @Test
    void daemon_keeps_running_on_a_node_that_was_declared_dead_and_joins_again() {
        DaemonHandler everywhere = daemon("cache").everywhere().running(feed);
        var done = new AtomicInteger();
        DaemonHandler once = daemon("once").everywhere().running(context -> done.incrementAndGet());
        DaemonNode one = nodes.start("one", everywhere, once);
        await().until(() -> feed.isRunning() && status("once") == DaemonStatus.STOPPED);
        var former = new AtomicReference<>(one.node().id());
        // One statement, because the node may join again at any time.
        jdbc.sql("WITH released AS (DELETE FROM forge_daemons) UPDATE forge_nodes SET status = 'dead'")
                .update();
        one.node().beatSoon();
        await().until(() ->
                one.node().id() != null && !former.get().equals(one.node().id()));
        await().until(() -> !nodes.cluster
                .database
                .jdbc()
                .sql("SELECT 1 FROM forge_daemons WHERE name = 'cache' AND status = 'running' AND node_id = ?")
                .param(one.node().id())
                .query()
                .listOfRows()
                .isEmpty());
        assertThat(feed.calls).hasSize(1);
        assertThat(feed.isRunning()).isTrue();
        // The daemon stays stopped, because the process is the same.
        await().until(() -> status("once") == DaemonStatus.STOPPED);
        assertThat(nodes.instance("once", 0).nodeId()).isEqualTo(one.node().id());
        assertThat(done.get()).isEqualTo(1);
    }

    /** Waits until a statement about daemons waits for a lock of the caller. */
    private void awaitBlocked() {
        await().until(() -> jdbc.sql("""
                        SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%forge_daemons%'
                        """).query(Long.class).single() > 0);
    }

    @Test
    void daemon_whose_method_returned_is_stopped_even_if_the_row_is_written_late() throws Exception {
        var calls = new AtomicInteger();
        var release = new CountDownLatch(1);
        DaemonHandler noisy = daemon("noisy").running(context -> {
            for (int i = 0; !context.awaitStop(Duration.ofMillis(5)); i++) {
                context.note("note " + i);
            }
        });
        DaemonHandler once = daemon("once").everywhere().running(context -> {
            calls.incrementAndGet();
            release.await();
        });
        DaemonNode one = nodes.start("one", noisy, once);
        await().until(() -> status("noisy") == DaemonStatus.RUNNING && status("once") == DaemonStatus.RUNNING);
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            connection.createStatement().execute("SELECT FROM forge_daemons WHERE name = 'noisy' FOR UPDATE");
            // The loop has collected its changes and reads all daemons next.
            awaitBlocked();
            release.countDown();
            await().until(() -> Thread.getAllStackTraces().keySet().stream()
                    .noneMatch(thread -> thread.getName().equals("forge-daemon-once-0")));
            connection.commit();
        }
        await().until(() -> status("once") == DaemonStatus.STOPPED);
        await().during(Duration.ofSeconds(1)).until(() -> calls.get() == 1 && status("once") == DaemonStatus.STOPPED);
        one.daemons().resume("once");
        await().until(() -> calls.get() == 2 && status("once") == DaemonStatus.STOPPED);
    }

    @Test
    void dead_node_inserts_no_row_before_it_has_joined_again() throws Exception {
        DaemonNode one = nodes.start("one", daemon("cache").everywhere().running(feed));
        await().until(() -> feed.isRunning() && status("cache") == DaemonStatus.RUNNING);
        UUID former = Objects.requireNonNull(one.node().id());
        jdbc.sql("UPDATE forge_nodes SET status = 'dead'").update();
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            // The node cannot join yet, but it can read all daemons and misses its row.
            connection.createStatement().execute("LOCK TABLE forge_nodes IN SHARE MODE");
            jdbc.sql("DELETE FROM forge_daemons").update();
            await().during(Duration.ofMillis(1_500)).until(() -> rowsOf(former) == 0);
            connection.commit();
        }
        await().until(() -> rowsOf(one.node().id()) == 1);
        assertThat(nodes.info("cache").instances()).hasSize(1);
        assertThat(feed.calls).hasSize(1);
    }

    private long rowsOf(UUID node) {
        return jdbc.sql("SELECT count(*) FROM forge_daemons WHERE node_id = ?")
                .param(node)
                .query(Long.class)
                .single();
    }
}
