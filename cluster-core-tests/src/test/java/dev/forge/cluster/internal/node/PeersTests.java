// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.AdvisoryKeys;
import dev.forge.cluster.internal.database.RecordedStatements;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.BlockedFences;
import dev.forge.cluster.internal.leader.Elector;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.node.observation.ObservationStore;
import dev.forge.cluster.internal.node.observation.Observer;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.Pace;
import dev.forge.cluster.node.NodeDied;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** Single looks at the rows and locks of nodes, on a clock that only the test moves. */
@ClusterPostgres
class PeersTests {

    private static final Duration SECOND = Duration.ofSeconds(1);

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final AtomicLong nanos = new AtomicLong();
    private final Pace pace = new Pace(nanos::get, RandomGenerator.getDefault());
    private final List<Object> events = new ArrayList<>();
    private final UUID self = UUID.randomUUID();
    private final ObservationStore observations;
    private final Peers peers;

    PeersTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.observations = new ObservationStore(schema, database.dataSource(), nanos::get);
        var components = new NodeComponents(
                new Loop.Environment(new ThreadPoolTaskScheduler(), nanos::get, since -> true),
                new DeferredInterrupts(),
                Runnable::run,
                () -> false);
        components.register(new NodeComponent() {
            @Override
            public Runnable releaseHeldByDead(UUID dead) {
                events.add("released, and the node is " + status(dead));
                return () -> events.add("followed up, and the node is " + status(dead));
            }

            @Override
            public void died(UUID dead) {
                events.add("told, and the node is " + status(dead));
            }
        });
        var elector = new Elector(
                new Elector.Timing(SECOND, SECOND, SECOND, SECOND),
                LeadershipBasis.LEASE,
                pace,
                new BlockedFences(InstantSource.system(), nanos::get),
                events::add);
        var nodes = new NodeStore(schema, database.dataSource());
        this.peers = new Peers(
                nodes,
                observations,
                new Observer(pace, Duration.ofMillis(250), true),
                new DeadNodes(nodes, components, elector, events::add),
                pace,
                events::add);
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

    private void pass(Duration after) {
        nanos.addAndGet(after.toNanos());
        peers.look(self);
    }

    private String status() {
        return jdbc.sql("SELECT status FROM forge_nodes").query(String.class).single();
    }

    /** Returns the status as other connections see it. */
    private String status(UUID id) {
        return JdbcClient.create(database.newSessions())
                .sql("SELECT status FROM forge_nodes WHERE id = ?")
                .param(id)
                .query(String.class)
                .single();
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
        peers.look(self);
        for (int second = 1; second <= 15; second++) {
            pass(Duration.ofSeconds(1));
            assertThat(status()).isEqualTo(second <= 10 ? "active" : "stale");
        }
        pass(Duration.ofSeconds(1));
        assertThat(status()).isEqualTo("dead");
        assertThat(events)
                .containsExactly(
                        "released, and the node is stale",
                        "told, and the node is dead",
                        new NodeDied(silent, "other"),
                        "followed up, and the node is dead");
        pass(Duration.ofSeconds(1));
        assertThat(events).hasSize(4);
    }

    @Test
    void last_statement_of_a_session_is_observed() throws Exception {
        node(4714);
        try (Connection session = database.newSessions().getConnection();
                Statement statement = session.createStatement()) {
            statement.execute("SELECT pg_advisory_lock(%d, 4714)".formatted(AdvisoryKeys.CLASS_ID));
            await().until(() -> sessionIdle().compareTo(Duration.ofMillis(100)) > 0);
            await().until(() -> {
                statement.execute("SELECT 1");
                return sessionIdle().compareTo(Duration.ofMillis(100)) < 0;
            });
        }
    }

    private Duration sessionIdle() {
        return Objects.requireNonNull(observations.observe().nodes().get(0).sessionIdle());
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
        peers.look(self);
        for (int second = 1; second <= 16; second++) {
            pass(Duration.ofSeconds(1));
        }
        assertThat(events).contains(new NodeDied(silent, "other")).doesNotContain(new NodeDied(edited, "other"));
        // Deadlines in the past have passed, however far they are.
        jdbc.sql("UPDATE forge_nodes SET stale_at = '-infinity', dead_at = '-infinity', last_heartbeat = now()")
                .update();
        pass(Duration.ofSeconds(1));
        assertThat(events).contains(new NodeDied(edited, "other"));
    }
}
