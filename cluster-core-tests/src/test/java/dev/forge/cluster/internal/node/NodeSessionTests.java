// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.URI;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

@ClusterPostgres
class NodeSessionTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    NodeSessionTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    @BeforeEach
    void create() {
        cluster = new TestCluster(database);
    }

    @AfterEach
    void stop() {
        cluster.close();
    }

    @Test
    void nodes_whose_sessions_are_terminated_are_not_declared_dead() {
        terminateSessions(5);
    }

    @Test
    @Tag("soak")
    void nodes_survive_forty_terminated_sessions() {
        terminateSessions(20);
    }

    private void terminateSessions(int rounds) {
        for (int attempt = 1; !nodesSurvive(rounds, attempt); attempt++) {
            cluster.close();
            cluster = new TestCluster(database);
        }
    }

    /** Writes more often than a node without a session, and measures the longest time between two writes. */
    private final class Metronome implements AutoCloseable {
        private final ScheduledExecutorService thread = Executors.newSingleThreadScheduledExecutor();
        private final AtomicLong longest = new AtomicLong();
        private final AtomicLong last = new AtomicLong(System.nanoTime());
        private final Future<?> beats;

        Metronome() {
            jdbc.sql("CREATE TABLE IF NOT EXISTS metronome (beat timestamptz)").update();
            beats = thread.scheduleWithFixedDelay(this::beat, 0, 50, TimeUnit.MILLISECONDS);
        }

        private void beat() {
            jdbc.sql("INSERT INTO metronome VALUES (now())").update();
            long now = System.nanoTime();
            longest.accumulateAndGet(now - last.getAndSet(now), Math::max);
        }

        boolean stoodStill() {
            return Math.max(longest.get(), System.nanoTime() - last.get()) > 300_000_000;
        }

        @Override
        public void close() {
            beats.cancel(false);
            thread.shutdown();
            await().until(thread::isTerminated);
        }
    }

    /** Returns false if the machine stood still, so that a live node could not be told from a dead one. */
    private boolean nodesSurvive(int rounds, int attempt) {
        try (var metronome = new Metronome()) {
            return nodesSurvive(rounds, () -> attempt < 10 && metronome.stoodStill());
        }
    }

    private boolean nodesSurvive(int rounds, BooleanSupplier isDisturbed) {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.start("two", s -> s);
        // The witness keeps its own session, so that it always counts missing locks.
        Member witness = cluster.start("witness", s -> s);
        UUID first = one.node().id();
        UUID second = two.node().id();
        List<Integer> untouched = sessions("witness");
        for (int round = 0; round < rounds; round++) {
            List<Integer> sessions = await().until(() -> sessions("one", "two"), held -> held.size() == 2);
            sessions.forEach(this::terminate);
            await().until(() -> {
                List<Integer> now = sessions("one", "two");
                return now.size() == 2 && Collections.disjoint(now, sessions);
            });
        }
        long deaths =
                witness.events().stream().filter(NodeDied.class::isInstance).count();
        boolean same = first.equals(one.node().id()) && second.equals(two.node().id());
        if ((deaths > 0 || !same || !sessions("witness").equals(untouched)) && isDisturbed.getAsBoolean()) {
            return false;
        }
        assertThat(one.node().id()).isEqualTo(first);
        assertThat(two.node().id()).isEqualTo(second);
        assertThat(sessions("witness")).isEqualTo(untouched);
        System.out.printf("%d terminated sessions: nodes declared dead by a witness: %d%n", 2 * rounds, deaths);
        assertThat(deaths).isZero();
        return true;
    }

    private void terminate(int pid) {
        jdbc.sql("SELECT pg_terminate_backend(?)").param(pid).query().listOfRows();
    }

    /** Returns the process ids of the sessions that hold the liveness locks of these nodes. */
    private List<Integer> sessions(String... names) {
        return jdbc.sql("""
                SELECT l.pid FROM pg_locks l
                JOIN forge_nodes n ON l.objid = (n.liveness_key::bigint & 4294967295)::oid
                WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND n.name = ANY (:names)
                """)
                .param("names", names)
                .query((row, n) -> row.getInt(1))
                .list();
    }

    private boolean hasAnotherSession(String name, List<Integer> former) {
        List<Integer> now = sessions(name);
        return !now.isEmpty() && Collections.disjoint(now, former);
    }

    @Test
    void node_without_a_role_has_its_lock_back_soon_after_its_session_was_terminated() {
        Member worker = cluster.start(
                "worker", s -> TestNodes.withRoles(TestNodes.withMode(s, NodeMode.WORKER), NodeRole.WORKER));
        List<Integer> session = sessions("worker");
        session.forEach(this::terminate);
        await().until(() -> hasAnotherSession("worker", session));
        assertThat(worker.node().elector().applicationRolesHeld()).isEmpty();
    }

    @Test
    void node_whose_liveness_lock_another_session_took_opens_a_new_session_and_keeps_its_id() throws Exception {
        Member worker = cluster.start(
                "worker", s -> TestNodes.withRoles(TestNodes.withMode(s, NodeMode.WORKER), NodeRole.WORKER));
        UUID id = worker.node().id();
        List<Integer> session = sessions("worker");
        int key = jdbc.sql("SELECT liveness_key FROM forge_nodes WHERE name = 'worker'")
                .query(Integer.class)
                .single();
        try (Connection squatter = database.dataSource().getConnection()) {
            // Waits in the queue of the lock, and gets it next.
            var queued = CompletableFuture.runAsync(() -> {
                try (var statement = squatter.createStatement()) {
                    statement.execute("SELECT pg_advisory_lock(%d, %d)".formatted(0x464F5247, key));
                } catch (SQLException e) {
                    throw new IllegalStateException(e);
                }
            });
            await().until(() -> jdbc.sql("""
                            SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                            """).query(Long.class).single() == 1);
            session.forEach(this::terminate);
            queued.get(60, TimeUnit.SECONDS);
            // The node may not have noticed yet that its session has ended.
            await().until(() -> jdbc.sql("SELECT liveness_key FROM forge_nodes WHERE name = 'worker'")
                            .query(Integer.class)
                            .single()
                    != key);
            await().until(() -> worker.node().isListening());
        }
        // The foreign session has ended: if the row still had its key, the node would be declared dead now.
        await().during(Duration.ofSeconds(2))
                .until(() -> id.equals(worker.node().id()));
        assertThat(cluster.status("worker")).isEqualTo("active");
    }

    @Test
    void node_without_a_role_notices_by_itself_that_its_session_is_gone() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        try (TcpProxy network = TcpProxy.to(server.getHost(), server.getPort())) {
            var through = new DriverManagerDataSource(
                    database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"),
                    database.username(),
                    database.password());
            // The first connection is the session; all others bypass the proxy.
            var connections = new AtomicInteger();
            var direct = new AbstractDataSource() {
                @Override
                public Connection getConnection() throws SQLException {
                    return (connections.getAndIncrement() == 0 ? through : database.newSessions()).getConnection();
                }

                @Override
                public Connection getConnection(String username, String password) throws SQLException {
                    return getConnection();
                }
            };
            Member worker = cluster.start(
                    "worker",
                    direct,
                    s -> TestNodes.withRoles(TestNodes.withMode(s, NodeMode.WORKER), NodeRole.WORKER));
            List<Integer> session = sessions("worker");
            network.cut();
            session.forEach(this::terminate);
            // The session makes a round trip once a second, which fails after two seconds.
            await().until(() -> hasAnotherSession("worker", session));
            assertThat(cluster.status("worker")).isEqualTo("active");
            worker.stop();
        }
    }

    /** Rejects the first two statements of a kind, as a failing server might. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "BEFORE INSERT ON forge_nodes FOR EACH ROW",
                "BEFORE UPDATE ON forge_nodes FOR EACH ROW WHEN (old.status = 'joining' AND new.status = 'active')"
            })
    void rejoin_that_fails_half_way_is_completed_later(String refused) {
        Member one = cluster.start("one", s -> TestNodes.withHeartbeat(s, TestNodes.everyTwentyMillis()));
        await().until(() -> one.leadership().isLeader("scheduler"));
        UUID former = one.node().id();
        jdbc.sql("CREATE SEQUENCE refusals").update();
        try {
            jdbc.sql("""
                    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN
                        IF nextval('refusals') <= 2 THEN RAISE EXCEPTION 'not now'; END IF;
                        RETURN new;
                    END $$
                    """).update();
            jdbc.sql("CREATE TRIGGER refuse " + refused + " EXECUTE FUNCTION refuse()")
                    .update();
            jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE id = ?")
                    .param(former)
                    .update();
            await().until(() -> cluster.status("one").equals("active"));
            assertThat(jdbc.sql("SELECT last_value FROM refusals")
                            .query(Long.class)
                            .single())
                    .isEqualTo(3);
            assertThat(one.node().id()).isNotEqualTo(former);
            await().until(() -> one.leadership().isLeader("scheduler"));
            // The server may not have noticed yet that the former session has ended.
            await().until(() -> sessions("one").size() == 1);
            assertThat(jdbc.sql("SELECT count(*) FROM forge_nodes WHERE status <> 'dead'")
                            .query(Long.class)
                            .single())
                    .isOne();
        } finally {
            jdbc.sql("DROP FUNCTION IF EXISTS refuse() CASCADE").update();
            jdbc.sql("DROP SEQUENCE refusals").update();
        }
    }
}
