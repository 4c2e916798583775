// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.ElectionStore.BeginResult;
import dev.forge.cluster.internal.leader.ElectionStore.Term;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.node.NodeStore.SeenNode;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** Terms, and their disputes with former leaders that may still act as leader. */
@ClusterPostgres
class LeaderStoreTests {

    private static final String ROLE = "own";
    private static final Duration LEASE = Duration.ofSeconds(30);

    private final TestDatabase database;
    private final Schema schema;
    private final JdbcClient jdbc;
    private final ElectionStore store;
    private final LeaderStore leaders;
    private final NodeStore nodes;
    private UUID one;
    private UUID two;
    private UUID three;

    LeaderStoreTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.store = new ElectionStore(schema, database.dataSource());
        this.leaders = new LeaderStore(schema, database.dataSource());
        this.nodes = new NodeStore(schema, database.dataSource());
    }

    @BeforeEach
    void join() {
        database.clear();
        one = node("one");
        two = node("two");
        three = node("three");
    }

    private UUID node(String name) {
        UUID id = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at)
                VALUES (:id, :name, :name, 'host', '{scheduler}', 'active', '1', now() + interval '1 hour',
                        now() + interval '1 hour')
                """).param("id", id).param("name", name).update();
        return id;
    }

    private Term begin(UUID node) {
        return store.begin(ROLE, node, LEASE, LeadershipBasis.LOCK, Duration.ofSeconds(5))
                        instanceof BeginResult.Begun begun
                ? begun.term()
                : null;
    }

    private void age(Duration by) {
        jdbc.sql("""
                UPDATE forge_leader_leases SET lease_until = lease_until - :by * interval '1 millisecond',
                    disputed_until = disputed_until - :by * interval '1 millisecond'
                """).param("by", by.toMillis()).update();
    }

    @Test
    void first_term_is_undisputed() {
        assertThat(begin(one)).isEqualTo(new Term(ROLE, 1, null, Duration.ZERO));
    }

    @Test
    void successor_of_a_leader_that_did_not_release_is_disputed_for_the_rest_of_its_lease() {
        begin(one);
        age(Duration.ofSeconds(10));
        Term second = begin(two);
        assertThat(second.disputed()).isBetween(Duration.ofSeconds(15), Duration.ofSeconds(20));
        assertThat(second.predecessor()).isEqualTo(one);
    }

    @ParameterizedTest
    @ValueSource(strings = {"infinity", "-infinity", "294276-12-31 12:00+00", "4713-01-02 BC"})
    void lease_edited_by_hand_does_not_prevent_the_next_term(String time) {
        begin(one);
        jdbc.sql("UPDATE forge_leader_leases SET lease_until = ?::timestamptz, disputed_until = ?::timestamptz")
                .params(time, time)
                .update();
        assertThat(begin(two).disputed()).isLessThanOrEqualTo(Duration.ofDays(1));
    }

    @Test
    void successor_after_a_release_is_undisputed() {
        begin(one);
        store.release(ROLE, one, false);
        assertThat(begin(two)).isEqualTo(new Term(ROLE, 2, null, Duration.ZERO));
    }

    @Test
    void undisputed_leader_leaves_no_dispute_behind_when_it_releases() {
        begin(one);
        assertThat(begin(two).disputed()).isPositive();
        // The second leader knows by now that the first one is dead.
        store.release(ROLE, two, true);
        assertThat(begin(three)).isEqualTo(new Term(ROLE, 3, null, Duration.ZERO));
    }

    @Test
    void release_ends_the_lease_even_while_a_fenced_write_is_under_way() throws SQLException {
        long term = begin(one).number();
        try (Connection writing = database.dataSource().getConnection()) {
            writing.setAutoCommit(false);
            assertThat(new LeaderStore(schema, new SingleConnectionDataSource(writing, true)).fence(ROLE, one, term))
                    .isTrue();
            store.release(ROLE, one, false);
            assertThat(store.rolesWithoutLease(Set.of(ROLE))).containsExactly(ROLE);
            assertThat(store.begin(ROLE, two, LEASE, LeadershipBasis.LOCK, Duration.ofMillis(100)))
                    .isInstanceOf(BeginResult.FenceBusy.class);
            writing.rollback();
        }
        assertThat(begin(two)).isEqualTo(new Term(ROLE, term + 1, null, Duration.ZERO));
    }

    @Test
    void wait_for_overlapping_fenced_writes_is_bounded_as_a_whole() throws Exception {
        long term = begin(one).number();
        var thread = Executors.newSingleThreadExecutor();
        try (Connection first = database.dataSource().getConnection();
                Connection second = database.dataSource().getConnection()) {
            var writes = List.of(first, second);
            share(first, term);
            Future<BeginResult> beginning =
                    thread.submit(() -> store.begin(ROLE, two, LEASE, LeadershipBasis.LOCK, Duration.ofSeconds(1)));
            // Each write holds the fence for a moment, but at any time one of them does.
            long giveUp = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            for (int i = 1; !beginning.isDone() && System.nanoTime() - giveUp < 0; i++) {
                share(writes.get(i % 2), term);
                isDoneWithin(beginning, Duration.ofMillis(5));
                writes.get((i + 1) % 2).rollback();
            }
            assertThat(beginning).as("begin during writes").isDone();
            assertThat(beginning.get()).isInstanceOf(BeginResult.FenceBusy.class);
        } finally {
            thread.shutdown();
        }
    }

    private void share(Connection connection, long term) throws SQLException {
        connection.setAutoCommit(false);
        assertThat(new LeaderStore(schema, new SingleConnectionDataSource(connection, true)).fence(ROLE, one, term))
                .isTrue();
    }

    private static boolean isDoneWithin(Future<?> future, Duration patience) throws Exception {
        try {
            future.get(patience.toMillis(), TimeUnit.MILLISECONDS);
            return true;
        } catch (TimeoutException e) {
            return false;
        }
    }

    @Test
    void first_term_that_several_candidates_begin_at_once_goes_to_one() throws Exception {
        var threads = Executors.newFixedThreadPool(3);
        try {
            for (int round = 0; round < 10; round++) {
                String role = "role " + round;
                List<Callable<Boolean>> candidates = Stream.of(one, two, three)
                        .map(node -> (Callable<Boolean>)
                                () -> store.begin(role, node, LEASE, LeadershipBasis.LEASE, Duration.ofSeconds(5))
                                        instanceof BeginResult.Begun)
                        .toList();
                int winners = 0;
                for (var won : threads.invokeAll(candidates)) {
                    winners += won.get() ? 1 : 0;
                }
                assertThat(winners).isOne();
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void failed_start_of_a_term_leaves_no_row_of_a_role_that_was_never_led() {
        assertThat(store.begin("unled", UUID.randomUUID(), LEASE, LeadershipBasis.LEASE, Duration.ofSeconds(5)))
                .isInstanceOf(BeginResult.Refused.class);
        assertThat(leaders.leaders()).isEmpty();
    }

    @Test
    void successor_after_an_expired_lease_is_undisputed() {
        begin(one);
        age(LEASE.plusSeconds(1));
        assertThat(begin(two).disputed()).isZero();
    }

    @Test
    void leader_that_follows_itself_is_undisputed() {
        begin(one);
        assertThat(begin(one).disputed()).isZero();
    }

    @Test
    void successor_of_a_dead_node_is_undisputed() {
        begin(one);
        assertThat(nodes.inShortTransaction(() -> nodes.declareDead(new SeenNode(one, 0))))
                .isTrue();
        assertThat(begin(two).disputed()).isZero();
    }

    @Test
    void dispute_outlives_the_leader_that_had_it() {
        begin(one);
        age(Duration.ofSeconds(10));
        begin(two);
        // The second leader releases, but the first one may still act as leader.
        store.release(ROLE, two, false);
        Term third = begin(three);
        assertThat(third.disputed()).isBetween(Duration.ofSeconds(15), Duration.ofSeconds(20));
        // No death ends the dispute: the node that disputes is no longer recorded.
        assertThat(third.predecessor()).isNull();
    }

    @Test
    void dispute_with_two_former_leaders_lasts_as_long_as_the_longer_one_and_no_single_death_ends_it() {
        begin(one);
        age(Duration.ofSeconds(10));
        begin(two);
        Term third = begin(three);
        assertThat(third.disputed()).isBetween(Duration.ofSeconds(25), LEASE);
        // The second leader may die while the first one still acts as leader.
        assertThat(third.predecessor()).isNull();
    }

    @Test
    void leader_that_leads_again_is_disputed_by_the_leader_in_between() {
        begin(one);
        age(LEASE.plusSeconds(1));
        begin(two);
        Term third = begin(one);
        assertThat(third.disputed()).isBetween(Duration.ofSeconds(25), LEASE);
        assertThat(third.predecessor()).isEqualTo(two);
    }

    @ParameterizedTest
    @ValueSource(longs = {9223372036854775807L, 1000000000000000000L, 999999999999999999L})
    void row_near_the_last_term_fails_no_statement(long term) {
        try {
            jdbc.sql("INSERT INTO forge_leaders (role, current_term) VALUES (?, ?)")
                    .params(ROLE, term)
                    .update();
        } catch (DataIntegrityViolationException e) {
            assertThat(term).as("a term that cannot be written").isGreaterThan(1000000000000000000L);
            return;
        }
        BeginResult result = store.begin(ROLE, one, LEASE, LeadershipBasis.LOCK, Duration.ofSeconds(5));
        if (term == 1000000000000000000L) {
            assertThat(result).isInstanceOf(BeginResult.NoTermLeft.class);
            assertThat(leaders.fence(ROLE, one, term)).isFalse();
        } else {
            assertThat(result).isInstanceOf(BeginResult.Begun.class);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {9223372036854775807L, 1000000000000000000L, 999999999999999999L, 0})
    void heartbeat_changes_every_counter_that_a_row_can_have(long beats) {
        try {
            jdbc.sql("UPDATE forge_nodes SET beats = ? WHERE id = ?")
                    .params(beats, one)
                    .update();
        } catch (DataIntegrityViolationException e) {
            assertThat(beats).as("a counter that cannot be written").isGreaterThan(1000000000000000000L);
            return;
        }
        var deadlines = new NodeStore.Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(15));
        var load = new NodeStore.Load(0, 0, null, null);
        assertThat(nodes.beat(one, load, deadlines)).isEqualTo(NodeStore.HeartbeatResult.RECORDED);
        long next = nodes.holderOf("one").orElseThrow().beats();
        assertThat(next).isNotEqualTo(beats).isNotNegative();
        assertThat(nodes.beat(one, load, deadlines)).isEqualTo(NodeStore.HeartbeatResult.RECORDED);
        assertThat(nodes.holderOf("one").orElseThrow().beats()).isNotEqualTo(next);
        assertThat(nodes.holderOf("nobody")).isEmpty();
    }
}
