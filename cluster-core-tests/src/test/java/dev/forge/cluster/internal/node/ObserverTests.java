// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.ClusterEvent;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.AdvisoryKeys;
import dev.forge.cluster.internal.database.RecordedStatements;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Single passes of an observer, on a clock that only the test moves. */
@ClusterPostgres
class ObserverTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final NodeStore nodes;
    private final AtomicLong nanos = new AtomicLong();
    private final Pace pace = new Pace(nanos::get, RandomGenerator.getDefault());
    private final List<Object> events = new ArrayList<>();
    private final UUID self = UUID.randomUUID();
    private final ObservationStore observations;
    private final Observer observer;

    ObserverTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.nodes = new NodeStore(schema, database.dataSource());
        this.observations = new ObservationStore(schema, database.dataSource(), nanos::get);
        var mode = new Observer.Mode(Duration.ofMillis(250), true);
        this.observer = new Observer(nodes, observations, pace, mode, new Observer.Listener() {
            @Override
            public void published(ClusterEvent event) {
                events.add(event);
            }

            @Override
            public void died(UUID node) {}

            @Override
            public Runnable releaseHeldBy(UUID node) {
                return () -> {};
            }
        });
    }

    @BeforeEach
    void empty() {
        database.clear();
    }

    private UUID node(Integer livenessKey) {
        UUID id = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, last_heartbeat, stale_at,
                                         dead_at, liveness_key)
                VALUES (:id, :key, 'other', 'host', '{worker}', 'active', '1', now(), now() + interval '10 seconds',
                        now() + interval '15 seconds', :liveness)
                """)
                .param("id", id)
                .param("key", id.toString())
                .param("liveness", livenessKey)
                .update();
        return id;
    }

    /** Gives the node a liveness key whose lock no session holds. */
    private void loseTheLock() {
        jdbc.sql("UPDATE forge_nodes SET liveness_key = 123").update();
    }

    private void pass(Duration after) {
        nanos.addAndGet(after.toNanos());
        observer.pass(self);
    }

    private String status() {
        return jdbc.sql("SELECT status FROM forge_nodes").query(String.class).single();
    }

    private boolean lockMissing(ObservationStore store) {
        return store.observe().nodes().get(0).lockMissing();
    }

    @Test
    void lock_table_is_read_every_other_second_while_all_sessions_last() throws Exception {
        var recorded = new RecordedStatements(database.dataSource());
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        var store = new ObservationStore(schema, recorded, nanos::get);
        node(4711);
        try (Connection session = database.newSessions().getConnection();
                Statement statement = session.createStatement()) {
            statement.execute("SELECT pg_advisory_lock(%d, 4711)".formatted(AdvisoryKeys.CLASS_ID));
            for (int look = 0; look < 8; look++) {
                assertThat(lockMissing(store)).isFalse();
                nanos.addAndGet(Duration.ofMillis(250).toNanos());
            }
            assertThat(recorded.statements()).hasSize(8);
            assertThat(recorded.statements())
                    .filteredOn(sql -> sql.contains("pg_locks"))
                    .hasSize(1);
            statement.execute("SELECT pg_advisory_unlock(%d, 4711)".formatted(AdvisoryKeys.CLASS_ID));
            // The session lasts, so that only the lock table shows it.
            assertThat(lockMissing(store)).isTrue();
        }
    }

    @Test
    void lock_of_a_session_that_has_ended_is_missing_at_once() throws Exception {
        node(4712);
        try (Connection session = database.newSessions().getConnection();
                Statement statement = session.createStatement()) {
            statement.execute("SELECT pg_advisory_lock(%d, 4712)".formatted(AdvisoryKeys.CLASS_ID));
            assertThat(lockMissing(observations)).isFalse();
            assertThat(lockMissing(observations)).isFalse();
        }
        await().until(() -> lockMissing(observations));
        try (Connection session = database.newSessions().getConnection();
                Statement statement = session.createStatement()) {
            statement.execute("SELECT pg_advisory_lock(%d, 4713)".formatted(AdvisoryKeys.CLASS_ID));
            jdbc.sql("UPDATE forge_nodes SET liveness_key = 4713").update();
            assertThat(lockMissing(observations)).isFalse();
        }
    }

    @Test
    void node_is_dead_when_it_was_silent_for_as_long_as_it_declared() {
        UUID silent = node(null);
        observer.pass(self);
        for (int second = 1; second <= 15; second++) {
            pass(Duration.ofSeconds(1));
            assertThat(status()).isEqualTo(second <= 10 ? "active" : "stale");
        }
        pass(Duration.ofSeconds(1));
        assertThat(status()).isEqualTo("dead");
        assertThat(events).containsExactly(new NodeDied(silent, "other"));
        pass(Duration.ofSeconds(1));
        assertThat(events).hasSize(1);
    }

    @Test
    void heartbeat_restarts_the_count_of_silence() {
        UUID id = node(null);
        observer.pass(self);
        for (int second = 1; second <= 40; second++) {
            if (second % 14 == 0) {
                jdbc.sql("UPDATE forge_nodes SET beats = beats + 1, status = 'active' WHERE id = ?")
                        .param(id)
                        .update();
            }
            pass(Duration.ofSeconds(1));
            assertThat(status()).isNotEqualTo("dead");
        }
    }

    @Test
    void gap_between_two_looks_restarts_the_count_of_silence() {
        node(null);
        observer.pass(self);
        pass(Duration.ofMinutes(5));
        assertThat(status()).isEqualTo("active");
        pass(Duration.ofSeconds(1));
        assertThat(status()).isEqualTo("active");
    }

    @Test
    void observer_of_a_large_cluster_looks_less_often_and_still_declares_nodes_dead() {
        pace.liveNodes(400);
        node(null);
        observer.pass(self);
        for (int look = 0; look < 3; look++) {
            pass(Duration.ofSeconds(10));
        }
        assertThat(status()).isEqualTo("dead");
    }

    @Test
    void node_without_lock_and_heartbeats_is_dead_after_a_grace_period() {
        node(null);
        observer.pass(self);
        loseTheLock();
        assertThat(observer.pass(self).suspicious()).isTrue();
        pass(Duration.ofMillis(500));
        assertThat(status()).isEqualTo("active");
        pass(Duration.ofMillis(100));
        assertThat(status()).isEqualTo("dead");
    }

    /** Inserts a node with a heartbeat every 30 s, whose session is that connection. */
    private int sessionPid;

    private UUID slowNode(Statement session) throws SQLException {
        try (ResultSet row =
                session.executeQuery("SELECT pg_backend_pid(), pg_advisory_lock(%d, 456)".formatted(0x464F5247))) {
            row.next();
            sessionPid = row.getInt(1);
        }
        UUID id = node(456);
        jdbc.sql(
                        "UPDATE forge_nodes SET stale_at = now() + interval '60 seconds', dead_at = now() + interval '90 seconds'")
                .update();
        return id;
    }

    private void awaitFreeLock() {
        await().until(() -> jdbc.sql("SELECT count(*) FROM pg_stat_activity WHERE pid = ?")
                        .param(sessionPid)
                        .query(Long.class)
                        .single()
                == 0);
    }

    @Test
    void crashed_node_with_a_slow_heartbeat_is_dead_soon_after_its_session_ended() throws SQLException {
        try (Connection connection = database.newSessions().getConnection();
                Statement session = connection.createStatement()) {
            slowNode(session);
            observer.pass(self);
            for (int second = 0; second < 20; second++) {
                session.execute("SELECT 1");
                pass(Duration.ofSeconds(1));
            }
        }
        awaitFreeLock();
        assertThat(observer.pass(self).suspicious()).isTrue();
        assertThat(status()).isEqualTo("active");
        pass(Duration.ofMillis(600));
        assertThat(status()).isEqualTo("dead");
    }

    @Test
    void node_that_may_only_be_cut_off_gets_time_to_notice() throws SQLException {
        try (Connection connection = database.newSessions().getConnection();
                Statement session = connection.createStatement()) {
            slowNode(session);
            observer.pass(self);
            // Waits as long as the server takes to free the lock of a session that was cut off.
            await().until(() -> jdbc.sql("""
                            SELECT a.state_change < clock_timestamp() - interval '7 seconds' FROM pg_stat_activity a
                            JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'advisory' AND l.objid = 456
                            WHERE a.datname = current_database()
                            """).query(Boolean.class).single());
            for (int second = 0; second < 7; second++) {
                pass(Duration.ofSeconds(1));
            }
        }
        awaitFreeLock();
        for (int second = 0; second < 13; second++) {
            pass(Duration.ofSeconds(1));
            assertThat(status()).isEqualTo("active");
        }
        pass(Duration.ofSeconds(1));
        assertThat(status()).isEqualTo("dead");
    }

    @Test
    void silence_does_not_count_while_the_observers_own_heartbeats_fail() {
        node(null);
        observer.pass(self);
        for (int second = 0; second < 30; second++) {
            observer.ownBeatFailed();
            pass(Duration.ofSeconds(1));
        }
        observer.ownBeatArrived();
        for (int second = 0; second < 14; second++) {
            pass(Duration.ofSeconds(1));
            assertThat(status()).isNotEqualTo("dead");
        }
        pass(Duration.ofSeconds(2));
        assertThat(status()).isEqualTo("dead");
    }

    @Test
    void node_that_lost_its_lock_lives_as_long_as_it_sends_heartbeats() {
        UUID id = node(null);
        observer.pass(self);
        loseTheLock();
        for (int look = 0; look < 8; look++) {
            jdbc.sql("UPDATE forge_nodes SET beats = beats + 1 WHERE id = ?")
                    .param(id)
                    .update();
            pass(Duration.ofMillis(250));
        }
        assertThat(status()).isEqualTo("active");
        assertThat(events).isEmpty();
    }

    @Test
    void node_whose_lock_was_never_seen_gets_time_to_take_it() {
        node(123);
        observer.pass(self);
        for (int look = 0; look < 11; look++) {
            pass(Duration.ofMillis(500));
            assertThat(status()).isEqualTo("active");
        }
        pass(Duration.ofMillis(500));
        assertThat(status()).isEqualTo("dead");
    }

    @Test
    void missing_lock_does_not_count_for_a_while_after_the_observers_own_session_was_lost() {
        node(null);
        observer.pass(self);
        loseTheLock();
        observer.sessionLost();
        for (int i = 0; i < 14; i++) {
            pass(Duration.ofSeconds(1));
            jdbc.sql("UPDATE forge_nodes SET beats = beats + ?")
                    .param(i % 5 == 0 ? 1 : 0)
                    .update();
            assertThat(status()).isEqualTo("active");
        }
        pass(Duration.ofSeconds(1));
        pass(Duration.ofMillis(700));
        assertThat(status()).isEqualTo("dead");
    }

    @Test
    void row_edited_by_hand_does_not_stop_the_observation_of_other_nodes() {
        UUID edited = node(null);
        UUID silent = node(null);
        for (String edit : new String[] {
            "stale_at = 'infinity', dead_at = 'infinity'",
            "last_heartbeat = '-infinity'",
            "last_heartbeat = 'infinity'",
            "stale_at = '294000-01-01', dead_at = '294000-01-01', last_heartbeat = now()",
            "stale_at = 'infinity', dead_at = 'infinity', last_heartbeat = '294276-12-31 12:00+00'",
            "stale_at = '294276-12-31 12:00+00', dead_at = '294276-12-31 12:00+00', last_heartbeat = '4713-01-02 BC'"
        }) {
            jdbc.sql("UPDATE forge_nodes SET %s WHERE id = ?".formatted(edit))
                    .param(edited)
                    .update();
            assertThat(observations.observe().nodes())
                    .as(edit)
                    .filteredOn(node -> node.id().equals(edited))
                    .singleElement()
                    .satisfies(node -> {
                        assertThat(node.staleAfter()).isEqualTo(Duration.ofDays(1));
                        assertThat(node.deadAfter()).isEqualTo(Duration.ofDays(1));
                    });
        }
        observer.pass(self);
        for (int second = 1; second <= 16; second++) {
            pass(Duration.ofSeconds(1));
        }
        assertThat(events).containsExactly(new NodeDied(silent, "other"));
        // Deadlines in the past have passed, however far they are.
        jdbc.sql("UPDATE forge_nodes SET stale_at = '-infinity', dead_at = '-infinity', last_heartbeat = now()")
                .update();
        pass(Duration.ofSeconds(1));
        assertThat(events).contains(new NodeDied(edited, "other"));
    }
}
