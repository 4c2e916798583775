package dev.forge.cluster.internal.store;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.store.LeaderStore.Beginning;
import dev.forge.cluster.internal.store.LeaderStore.Ground;
import dev.forge.cluster.internal.store.LeaderStore.Term;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** For how long a term is disputed: who may still believe that it leads. */
@ClusterPostgres
class LeaderStoreTests {

    private static final String ROLE = "own";
    private static final Duration LEASE = Duration.ofSeconds(30);

    private final JdbcClient jdbc;
    private final LeaderStore store;
    /** On a connection of its own, with its transactions. */
    private final LeaderStore fenced;

    private final TransactionTemplate transaction;
    private final NodeStore nodes;
    private UUID one;
    private UUID two;
    private UUID three;

    LeaderStoreTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.store = new LeaderStore(schema, database.dataSource());
        DataSource another = new DriverManagerDataSource(database.url(), database.username(), database.password());
        this.fenced = new LeaderStore(schema, another);
        this.transaction = new TransactionTemplate(new JdbcTransactionManager(another));
        this.nodes = new NodeStore(schema, database.dataSource());
    }

    @BeforeEach
    void join() {
        jdbc.sql("TRUNCATE forge_nodes, forge_leaders, forge_leader_leases").update();
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
        return store.begin(ROLE, node, LEASE, Ground.LOCK, Duration.ofSeconds(5)) instanceof Beginning.Begun begun
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
    void the_first_term_is_nobodys_to_dispute() {
        assertThat(begin(one)).isEqualTo(new Term(ROLE, 1, null, Duration.ZERO));
    }

    @Test
    void who_follows_a_leader_that_did_not_release_is_disputed_for_the_rest_of_its_lease() {
        begin(one);
        age(Duration.ofSeconds(10));
        Term second = begin(two);
        assertThat(second.disputed()).isBetween(Duration.ofSeconds(15), Duration.ofSeconds(20));
        assertThat(second.predecessor()).isEqualTo(one);
    }

    @Test
    void who_follows_a_release_is_not() {
        begin(one);
        store.release(ROLE, one, false);
        assertThat(begin(two)).isEqualTo(new Term(ROLE, 2, null, Duration.ZERO));
    }

    @Test
    void release_frees_the_lease_while_a_fenced_write_is_in_flight() {
        begin(one);
        transaction.executeWithoutResult(status -> {
            assertThat(fenced.fence(ROLE, one, 1)).isTrue();
            store.release(ROLE, one, true);
            assertThat(store.rolesWithoutLease(List.of(ROLE))).containsExactly(ROLE);
        });
        // The name in the other row stays until the next term, which has nobody to wait for.
        assertThat(begin(two)).isEqualTo(new Term(ROLE, 2, null, Duration.ZERO));
    }

    @Test
    void who_releases_and_knows_that_its_own_dispute_is_over_leaves_none_behind() {
        begin(one);
        assertThat(begin(two).disputed()).isPositive();
        // Meanwhile it has learned that the first one is dead.
        store.release(ROLE, two, true);
        assertThat(begin(three)).isEqualTo(new Term(ROLE, 3, null, Duration.ZERO));
    }

    @Test
    void who_follows_an_expired_lease_is_not() {
        begin(one);
        age(LEASE.plusSeconds(1));
        assertThat(begin(two).disputed()).isZero();
    }

    @Test
    void who_follows_itself_is_not() {
        begin(one);
        assertThat(begin(one).disputed()).isZero();
    }

    @Test
    void who_follows_a_dead_node_is_not() {
        begin(one);
        assertThat(nodes.declareDead(one, 0, returned -> {})).isTrue();
        assertThat(begin(two).disputed()).isZero();
    }

    @Test
    void a_dispute_outlives_the_leader_whose_it_was() {
        begin(one);
        age(Duration.ofSeconds(10));
        begin(two);
        // In good order: but the first may still not know that it leads no more.
        store.release(ROLE, two, false);
        Term third = begin(three);
        assertThat(third.disputed()).isBetween(Duration.ofSeconds(15), Duration.ofSeconds(20));
        // Nobody's death settles it: who disputes it is not known any more.
        assertThat(third.predecessor()).isNull();
    }

    @Test
    void a_dispute_with_two_former_leaders_lasts_as_long_as_the_longer_and_no_single_death_settles_it() {
        begin(one);
        age(Duration.ofSeconds(10));
        begin(two);
        Term third = begin(three);
        assertThat(third.disputed()).isBetween(Duration.ofSeconds(25), LEASE);
        // The second may die while the first still believes.
        assertThat(third.predecessor()).isNull();
    }

    @Test
    void who_leads_again_after_another_is_disputed_by_that_one() {
        begin(one);
        age(LEASE.plusSeconds(1));
        begin(two);
        Term third = begin(one);
        assertThat(third.disputed()).isBetween(Duration.ofSeconds(25), LEASE);
        assertThat(third.predecessor()).isEqualTo(two);
    }
}
