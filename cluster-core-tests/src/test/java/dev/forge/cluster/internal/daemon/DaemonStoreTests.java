// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.daemon;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.daemon.DaemonStatus;
import dev.forge.cluster.internal.daemon.DaemonStore.Acquisition;
import dev.forge.cluster.internal.daemon.DaemonStore.Change;
import dev.forge.cluster.internal.daemon.DaemonStore.ClusterView;
import dev.forge.cluster.internal.daemon.DaemonStore.Tenure;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.node.NodeStore.SeenNode;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import javax.sql.DataSource;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

@ClusterPostgres
class DaemonStoreTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final Schema schema;
    private final DaemonStore store;
    private final NodeStore nodes;
    private final TransactionTemplate transaction;
    private final UUID one = UUID.randomUUID();
    private final UUID two = UUID.randomUUID();

    DaemonStoreTests(TestDatabase database) {
        this.database = database;
        DataSource source = database.dataSource();
        this.jdbc = JdbcClient.create(source);
        this.transaction = new TransactionTemplate(new JdbcTransactionManager(source));
        this.schema = Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
        this.store = new DaemonStore(schema, database.dataSource());
        this.nodes = new NodeStore(schema, database.dataSource());
    }

    @BeforeEach
    void empty() {
        database.clear();
        node(one, "one", "{daemon:feed,daemon:cache}");
        node(two, "two", "{daemon:feed,import}");
    }

    private void node(UUID id, String name, String handlers) {
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, handlers, status, version, stale_at, dead_at)
                VALUES (:id, :name, :name, 'host', '{worker}', :handlers::text[], 'active', '1', now(), now())
                """)
                .param("id", id)
                .param("name", name)
                .param("handlers", handlers)
                .update();
    }

    private static Change change(Tenure tenure, DaemonStatus status, boolean released) {
        return new Change(tenure, status, null, 1, "error", false, "note", released);
    }

    private DaemonInfo.Instance row(String name) {
        return store.reports().list(name).get(0).instances().get(0);
    }

    @Test
    void node_of_an_earlier_term_changes_nothing() {
        store.register("feed", 1);
        var first = new Tenure("feed", 0, one, 3);
        var second = new Tenure("feed", 0, two, 4);
        assertThat(store.acquire(first)).isEqualTo(new Acquisition.Acquired(0));
        assertThat(store.acquire(second)).isEqualTo(new Acquisition.Acquired(0));
        for (DaemonStatus status : DaemonStatus.values()) {
            assertThat(store.write(List.of(change(first, status, true)))).isEmpty();
        }
        // The right node in the wrong term.
        assertThat(store.write(List.of(change(new Tenure("feed", 0, two, 3), DaemonStatus.FAILED, true))))
                .isEmpty();
        assertThat(store.acquire(first)).isEqualTo(new Acquisition.Outdated());
        assertThat(row("feed").status()).isEqualTo(DaemonStatus.ACQUIRING);
        assertThat(row("feed").nodeName()).isEqualTo("two");
        assertThat(store.write(List.of(change(second, DaemonStatus.RUNNING, false))))
                .containsExactly(second);
        assertThat(row("feed"))
                .isEqualTo(new DaemonInfo.Instance(
                        0, DaemonStatus.RUNNING, two, "two", 4, row("feed").startedAt(), 1, "error", "note"));
    }

    @Test
    void null_values_leave_the_row_unchanged_and_many_rows_are_written_at_once() {
        store.register("feed", 2);
        var zero = new Tenure("feed", 0, one, 1);
        var first = new Tenure("feed", 1, one, 1);
        store.acquire(zero);
        store.acquire(first);
        assertThat(store.write(List.of(
                        new Change(
                                zero,
                                DaemonStatus.RUNNING,
                                Duration.ofSeconds(5),
                                0,
                                "broken",
                                false,
                                "halfway",
                                false),
                        new Change(first, DaemonStatus.RUNNING, null, 0, null, false, null, false))))
                .containsExactlyInAnyOrder(zero, first);
        store.write(List.of(new Change(zero, DaemonStatus.RESTARTING, null, 1, null, false, null, false)));
        DaemonInfo.Instance row = row("feed");
        assertThat(row.lastError()).isEqualTo("broken");
        assertThat(row.note()).isEqualTo("halfway");
        assertThat(jdbc.sql("SELECT extract(epoch FROM now() - started_at)::int FROM forge_daemons WHERE instance = 0")
                        .query(Integer.class)
                        .single())
                .isBetween(5, 10);
        assertThat(store.counts())
                .extracting(count -> count.status() + " " + count.instances())
                .containsExactly("RESTARTING 1", "RUNNING 1");
    }

    @Test
    void stopped_failed_or_paused_instance_cannot_be_acquired() {
        store.register("feed", 1);
        for (DaemonStatus end : List.of(DaemonStatus.STOPPED, DaemonStatus.FAILED)) {
            var tenure = new Tenure("feed", 0, one, 1);
            store.acquire(tenure);
            store.write(List.of(change(tenure, end, true)));
            assertThat(store.acquire(new Tenure("feed", 0, two, 2))).isEqualTo(new Acquisition.NotRunnable());
            assertThat(store.clusterView(two).finished()).containsExactly("daemon:feed");
            store.resume("feed");
            assertThat(row("feed").status()).isEqualTo(DaemonStatus.PENDING);
            assertThat(row("feed").restarts()).isZero();
        }
        assertThat(store.pause("feed")).isTrue();
        assertThat(store.acquire(new Tenure("feed", 0, two, 2))).isEqualTo(new Acquisition.NotRunnable());
        // Also an instance without a row.
        assertThat(store.acquire(new Tenure("feed", 7, two, 2))).isEqualTo(new Acquisition.NotRunnable());
        store.resume("feed");
        assertThat(store.acquire(new Tenure("feed", 0, two, 2))).isInstanceOf(Acquisition.Acquired.class);
    }

    @Test
    void registration_makes_stopped_instances_pending_and_leaves_running_ones() {
        store.register("feed", 2);
        var running = new Tenure("feed", 0, one, 1);
        var done = new Tenure("feed", 1, one, 1);
        store.acquire(running);
        store.acquire(done);
        store.write(List.of(change(running, DaemonStatus.RUNNING, false), change(done, DaemonStatus.STOPPED, true)));
        store.register("feed", 3);
        assertThat(store.reports().list("feed").get(0).instances())
                .extracting(DaemonInfo.Instance::status)
                .containsExactly(DaemonStatus.RUNNING, DaemonStatus.PENDING, DaemonStatus.PENDING);
    }

    @Test
    void nodes_that_register_concurrently_get_numbers_without_gaps() throws Exception {
        List<UUID> registering =
                IntStream.range(0, 8).mapToObj(i -> UUID.randomUUID()).toList();
        registering.forEach(node -> node(node, node.toString(), "{daemon:cache}"));
        var threads = Executors.newFixedThreadPool(8);
        try {
            List<Callable<Integer>> registrations = registering.stream()
                    .map(node -> (Callable<Integer>)
                            () -> store.registerOnNode("cache", node).orElseThrow())
                    .toList();
            var numbers = new TreeSet<Integer>();
            for (Future<Integer> registration : threads.invokeAll(registrations)) {
                numbers.add(registration.get());
            }
            assertThat(numbers).containsExactly(0, 1, 2, 3, 4, 5, 6, 7);
        } finally {
            threads.shutdown();
        }
        // Registration is idempotent.
        assertThat(store.registerOnNode("cache", registering.get(3)))
                .hasValue(jdbc.sql("SELECT instance FROM forge_daemons WHERE node_id = ?")
                        .param(registering.get(3))
                        .query(Integer.class)
                        .single());
        jdbc.sql("DELETE FROM forge_daemons WHERE instance = 2").update();
        assertThat(store.registerOnNode("cache", one)).hasValue(2);
    }

    @Test
    void node_that_is_declared_dead_while_it_registers_leaves_no_row() throws Exception {
        var threads = Executors.newSingleThreadExecutor();
        try {
            Future<OptionalInt> registrations = transaction.execute(status -> {
                jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE name = 'one'")
                        .update();
                Future<OptionalInt> begun = threads.submit(() -> store.registerOnNode("cache", one));
                await().until(() -> begun.isDone()
                        || Boolean.TRUE.equals(
                                jdbc.sql("""
                                SELECT count(*) > 0 FROM pg_stat_activity
                                WHERE datname = current_database() AND wait_event_type = 'Lock'
                                """).query(Boolean.class).single()));
                store.releaseAll(one);
                return begun;
            });
            assertThat(registrations.get(60, TimeUnit.SECONDS)).isEmpty();
        } finally {
            threads.shutdown();
        }
        assertThat(store.reports().list("cache")).isEmpty();
        assertThat(store.registerOnNode("cache", UUID.randomUUID())).isEmpty();
    }

    @Test
    void instances_of_a_node_that_dies_or_leaves_are_released() {
        for (boolean dies : new boolean[] {true, false}) {
            empty();
            store.register("feed", 2);
            store.register("once", 1);
            store.acquire(new Tenure("feed", 0, one, 1));
            store.acquire(new Tenure("feed", 1, two, 1));
            var done = new Tenure("once", 0, one, 1);
            store.acquire(done);
            store.write(List.of(change(done, DaemonStatus.STOPPED, true)));
            store.registerOnNode("cache", one);
            store.registerOnNode("cache", two);
            if (dies) {
                assertThat(nodes.inShortTransaction(() -> {
                            store.releaseAll(one);
                            return nodes.declareDead(new SeenNode(one, 0));
                        }))
                        .isTrue();
            } else {
                nodes.remove(one, store::releaseAll);
            }
            assertThat(store.reports().list("feed").get(0).instances())
                    .extracting(DaemonInfo.Instance::nodeId)
                    .containsExactly(null, two);
            assertThat(row("feed").status()).isEqualTo(DaemonStatus.PENDING);
            assertThat(row("feed").term()).isEqualTo(1);
            // A stopped instance stays stopped.
            assertThat(row("once").status()).isEqualTo(DaemonStatus.STOPPED);
            assertThat(store.reports().list("cache").get(0).instances())
                    .extracting(DaemonInfo.Instance::nodeId)
                    .containsExactly(two);
        }
    }

    @Test
    void cluster_view_has_holders_candidates_and_pauses() {
        store.register("feed", 2);
        store.registerOnNode("cache", one);
        store.pause("cache");
        declares(two, 2);
        jdbc.sql("""
                INSERT INTO forge_leader_leases (role, node_id, lease_until)
                VALUES ('daemon:feed', :one, now() + interval '1 h'), ('daemon:feed#1', :one, now() - interval '1 s'),
                       ('scheduler', :one, now() + interval '5 s')
                """).param("one", one).update();
        assertThat(store.clusterView(one))
                .isEqualTo(new ClusterView(
                        Map.of("daemon:feed", one),
                        Map.of(
                                "daemon:feed", Set.of(one, two),
                                "daemon:feed#1", Set.of(two),
                                "daemon:cache", Set.of(one)),
                        Set.of(),
                        Set.of("cache"),
                        Map.of("cache", DaemonStatus.PENDING)));
        jdbc.sql("UPDATE forge_nodes SET status = 'draining' WHERE name = 'two'")
                .update();
        assertThat(store.clusterView(two).candidates()).containsEntry("daemon:feed", Set.of(one));
        assertThat(store.clusterView(two).ownStatus()).isEmpty();
    }

    @Test
    void daemon_that_no_node_declares_is_purged_unless_it_is_paused() {
        store.register("feed", 3);
        store.register("gone", 1);
        store.register("gone-but-paused", 1);
        store.pause("gone-but-paused");
        store.acquire(new Tenure("feed", 2, two, 1));
        store.acquire(new Tenure("feed", 0, UUID.randomUUID(), 1));
        UUID dead = UUID.randomUUID();
        node(dead, "dead", "{}");
        store.registerOnNode("cache", dead);
        store.registerOnNode("cache", one);
        jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE name = 'dead'").update();
        declares(one, 1);
        declares(two, 1);
        store.purge();
        assertThat(store.reports().list(null))
                .extracting(DaemonInfo::name)
                .containsExactly("cache", "feed", "gone-but-paused");
        // Instance 2 is not declared but held; instance 0 has an unknown holder.
        assertThat(store.reports().list("feed").get(0).instances())
                .extracting(DaemonInfo.Instance::number)
                .containsExactly(0, 2);
        assertThat(row("feed").nodeId()).isNull();
        assertThat(store.reports().list("cache").get(0).instances())
                .extracting(DaemonInfo.Instance::nodeId)
                .containsExactly(one);
    }

    @Test
    void purge_deletes_a_thousand_rows_at_a_time() {
        jdbc.sql("""
                INSERT INTO forge_daemons (name, instance, scope, node_id)
                SELECT kind, i, kind, CASE WHEN kind = 'node' OR i % 2 = 0 THEN gen_random_uuid() END
                FROM unnest('{cluster,node}'::text[]) AS kind, generate_series(1, 1500) AS i
                """).update();
        for (long left : List.of(2_000L, 1_000L, 0L)) {
            store.purge();
            assertThat(jdbc.sql("SELECT count(*) FROM forge_daemons")
                            .query(Long.class)
                            .single())
                    .isEqualTo(left);
        }
    }

    private void declares(UUID node, Object instances) {
        jdbc.sql("UPDATE forge_nodes SET info = jsonb_build_object('daemon:feed', :instances::text) WHERE id = :node")
                .param("instances", String.valueOf(instances))
                .param("node", node)
                .update();
    }

    @Test
    void instance_that_a_live_node_may_declare_keeps_its_row() {
        store.register("feed", 3);
        jdbc.sql("UPDATE forge_daemons SET status = 'failed' WHERE instance > 0")
                .update();
        declares(one, 1);
        for (Object kept : List.of(3, "many", "")) {
            declares(two, kept);
            store.purge();
            assertThat(store.reports().list("feed").get(0).instances())
                    .extracting(DaemonInfo.Instance::status)
                    .as("node two declares %s", kept)
                    .containsExactly(DaemonStatus.PENDING, DaemonStatus.FAILED, DaemonStatus.FAILED);
        }
        declares(two, 2);
        store.purge();
        assertThat(store.reports().list("feed").get(0).instances()).hasSize(2);
        jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE name = 'two'").update();
        store.purge();
        assertThat(store.reports().list("feed").get(0).instances()).hasSize(1);
    }

    @Test
    void paused_daemon_of_scope_node_is_found_without_nodes() {
        store.registerOnNode("cache", one);
        assertThat(store.pause("cache")).isTrue();
        nodes.remove(one, store::releaseAll);
        assertThat(store.reports().list("cache"))
                .containsExactly(new DaemonInfo("cache", DaemonScope.NODE, true, List.of(), List.of()));
        assertThat(store.pause("nobody")).isFalse();
    }

    @Test
    void role_contains_the_name_and_the_instance() {
        assertThat(DaemonStore.role("feed", 0)).isEqualTo("daemon:feed");
        assertThat(DaemonStore.role("feed", 12)).isEqualTo("daemon:feed#12");
        assertThat(List.of("daemon:feed", "daemon:feed#12")).allMatch(DaemonStore::isDaemon);
        assertThat(List.of("daemon:feed", "daemon:feed#12"))
                .extracting(DaemonStore::nameOf)
                .containsOnly("feed");
        assertThat(DaemonStore.isDaemon("scheduler")).isFalse();
    }

    @Test
    void paused_names_that_no_node_knows_neither_hide_others_nor_fill_lists() {
        jdbc.sql("INSERT INTO forge_daemon_pauses (name) SELECT '!' || n FROM generate_series(1, 3000) AS n")
                .update();
        jdbc.sql("INSERT INTO forge_daemon_pauses (name) VALUES ('feed'), ('poll'), ('left')")
                .update();
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('daemon:feed'), ('daemon:left')")
                .update();
        jdbc.sql("INSERT INTO forge_daemons (name) VALUES ('poll')").update();
        assertThat(store.reports().list(null))
                .filteredOn(DaemonInfo::paused)
                .hasSize(1_003)
                .extracting(DaemonInfo::name)
                .contains("feed", "poll", "left");
        assertThat(store.clusterView(one).paused()).containsExactly("feed");
    }
}
