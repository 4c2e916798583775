// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.lock;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.TableReads;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLock;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

@ClusterPostgres
class ClusterLockTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private TestCluster cluster;

    ClusterLockTests(TestDatabase database) {
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
    void locks_of_a_dead_node_are_free_at_once_even_while_another_session_has_their_row_locked() throws SQLException {
        Member one = cluster.start("one", s -> s);
        UUID crashed = cluster.insertNode("crashed", null, "700 milliseconds", "1 second");
        jdbc.sql(
                        "INSERT INTO forge_locks (lock_name, owner_node, expires_at) VALUES ('import', ?, now() + interval '1 hour')")
                .param(crashed)
                .update();
        try (Connection poller = database.dataSource().getConnection();
                Statement statement = poller.createStatement()) {
            poller.setAutoCommit(false);
            statement.execute("SELECT 1 FROM forge_locks FOR UPDATE");
            await().until(() -> cluster.status("crashed").equals("dead"));
            poller.rollback();
        }
        long former =
                jdbc.sql("SELECT token FROM forge_locks").query(Long.class).single();
        ClusterLock lock = one.locks().tryLock("import").orElseThrow();
        assertThat(lock.token()).isGreaterThan(former);
        assertThat(lock.extend(Duration.ofMinutes(1))).isTrue();
    }

    @Test
    void names_of_startup_actions_are_reserved() {
        Member one = cluster.start("one", s -> s);
        assertThatExceptionOfType(IllegalArgumentException.class)
                .isThrownBy(() -> one.locks().tryLock("once:seed"))
                .withMessage(
                        "lock name 'once:seed': names that begin with once: are those of start-up actions; use another"
                                + " name");
        assertThat(count()).isZero();
    }

    private long count() {
        return jdbc.sql("SELECT count(*) FROM forge_locks").query(Long.class).single();
    }

    @Test
    void lock_of_a_dead_node_stays_free_when_the_row_of_the_node_is_deleted() throws SQLException {
        Member one = cluster.start("one", s -> s);
        await().until(() -> one.leadership().isLeader(Leadership.LOG_COMPACTOR));
        UUID crashed = cluster.insertNode("crashed", null, "700 milliseconds", "1 second");
        jdbc.sql(
                        "INSERT INTO forge_locks (lock_name, owner_node, expires_at) VALUES ('import', ?, now() + interval '1 day')")
                .param(crashed)
                .update();
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT FROM forge_locks FOR UPDATE");
            await().until(() -> cluster.status("crashed").equals("dead"));
        }
        jdbc.sql("UPDATE forge_nodes SET dead_at = now() - interval '2 hours' WHERE id = ?")
                .param(crashed)
                .update();
        // A node that has just lost its leadership, because the machine was paused, deletes nothing.
        await().until(() -> {
            one.node().cleanUp();
            return jdbc.sql("SELECT count(*) FROM forge_nodes WHERE id = ?")
                            .param(crashed)
                            .query(Long.class)
                            .single()
                    == 0;
        });
        assertThat(one.locks().tryLock("import")).isPresent();
    }

    @Test
    void node_that_was_declared_dead_gets_no_lock_before_it_has_joined_again() {
        var locks = new LockStore(cluster.schema, database.dataSource());
        UUID frozen = cluster.insertNode("frozen", null, "1 hour", "2 hours");
        assertThat(locks.take("import", frozen, Duration.ofMinutes(1))).isPresent();
        jdbc.sql("UPDATE forge_nodes SET status = 'dead' WHERE id = ?")
                .param(frozen)
                .update();
        assertThat(locks.take("import", frozen, Duration.ofMinutes(1)))
                .as("lock of a node that was declared dead")
                .isEmpty();
        assertThat(locks.take("import", UUID.randomUUID(), Duration.ofMinutes(1)))
                .isPresent();
    }

    @Test
    void purge_and_release_read_only_rows_that_they_change() {
        UUID dead = UUID.randomUUID();
        jdbc.sql("""
                INSERT INTO forge_locks (lock_name, owner_node, expires_at)
                SELECT n::text, ?, now() + CASE WHEN n <= 100 THEN interval '-2 days' WHEN n <= 200 THEN interval '1 hour'
                                                ELSE interval '-1 hour' END
                FROM generate_series(1, 20000) AS n
                """).param(dead).update();
        jdbc.sql("VACUUM ANALYZE forge_locks").update();
        var statements = new LinkedHashMap<String, Consumer<LockStore>>();
        statements.put(
                "purge",
                locks -> assertThat(locks.purge(Duration.ofDays(1), "", 1_000)).isEqualTo(100));
        statements.put("release of a dead node", locks -> locks.releaseHeldByDead(dead));
        statements.put("release of deleted nodes", locks -> locks.forgetDead(List.of(dead)));
        statements.put("release of a leaving node", locks -> locks.releaseHeldByLeaving(dead));
        statements.forEach((name, statement) -> {
            long read = TableReads.during(
                    database, "forge_locks", source -> statement.accept(new LockStore(cluster.schema, source)));
            assertThat(read).as(name).isLessThan(1_000);
        });
        assertThat(new LockStore(cluster.schema, database.dataSource()).held(10))
                .isEmpty();
    }

    @Test
    void failed_attempt_to_take_a_lock_does_not_write_its_row() {
        Member one = cluster.start("one", s -> s);
        assertThat(one.locks().tryLock("import")).isPresent();
        String touched = "SELECT xmax::text FROM forge_locks WHERE lock_name = 'import'";
        String before = jdbc.sql(touched).query(String.class).single();
        assertThat(one.locks().tryLock("import")).isEmpty();
        assertThat(jdbc.sql(touched).query(String.class).single()).isEqualTo(before);
    }

    @Test
    void lock_belongs_to_one_holder_until_it_is_closed_or_expires() {
        Member one = cluster.start("one", s -> s);
        Member two = cluster.start("two", s -> s);
        ClusterLock first = one.locks().tryLock("import").orElseThrow();
        assertThat(two.locks().tryLock("import")).isEmpty();
        assertThat(one.locks().tryLock("import")).isEmpty();
        first.close();
        ClusterLock second = two.locks().tryLock("import").orElseThrow();
        assertThat(second.token()).isGreaterThan(first.token());
        // A late close of the former holder changes nothing.
        first.close();
        assertThat(first.extend(Duration.ofMinutes(1))).isFalse();
        assertThat(one.locks().tryLock("import")).isEmpty();
        assertThat(second.extend(Duration.ofMinutes(1))).isTrue();
        jdbc.sql("UPDATE forge_locks SET expires_at = now() - interval '1 second'")
                .update();
        assertThat(second.extend(Duration.ofMinutes(1))).isFalse();
        ClusterLock third = one.locks().tryLock("import", Duration.ofSeconds(1)).orElseThrow();
        assertThat(third.token()).isGreaterThan(second.token());
    }

    @Test
    void locks_taken_in_a_transaction_do_not_keep_control_connections() {
        Member one = cluster.start("one", s -> s);
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transaction.executeWithoutResult(status -> {
            for (int i = 0; i < 5; i++) {
                assertThat(one.locks().tryLock("lock-" + i)).isPresent();
            }
            // There are two control connections: if the locks kept them, the observer would have none.
            await().during(Duration.ofMillis(800))
                    .until(() -> one.node().contact().sinceLastAnswer().toMillis() < 700);
            status.setRollbackOnly();
        });
        assertThat(one.locks().tryLock("lock-0")).isEmpty();
        one.stop();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_locks WHERE expires_at > now()")
                        .query(Long.class)
                        .single())
                .isZero();
    }

    @Test
    void lock_that_many_threads_try_at_once_is_given_to_one() throws Exception {
        Member one = cluster.start("one", s -> s);
        // On connections without a limit or timeouts: eight callers wait for these, and the machine may pause.
        var locks = new DefaultClusterLocks(
                one.node(),
                new LockStore(cluster.schema, database.dataSource()),
                one.keeper(),
                new CallerTransaction(database.dataSource()));
        var threads = Executors.newFixedThreadPool(8);
        try {
            for (int round = 0; round < 20; round++) {
                String name = "round-" + round;
                Callable<Boolean> attempt = () -> locks.tryLock(name).isPresent();
                int won = 0;
                for (var result : threads.invokeAll(Collections.nCopies(8, attempt))) {
                    won += result.get() ? 1 : 0;
                }
                assertThat(won).isOne();
            }
        } finally {
            threads.shutdown();
        }
    }
}
