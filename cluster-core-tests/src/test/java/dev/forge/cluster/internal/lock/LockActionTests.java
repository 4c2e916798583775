// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.lock;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.lock.ClusterLock;
import dev.forge.cluster.lock.LockLostException;
import dev.forge.cluster.lock.LockNotAcquiredException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.support.TransactionTemplate;

/** Waiting for locks, and actions that run while a lock is held. */
@ClusterPostgres
class LockActionTests {

    private static final Duration MINUTE = Duration.ofMinutes(1);

    private final TestDatabase database;
    private final JdbcClient jdbc;
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private TestCluster cluster;
    private Member one;
    private Member two;

    LockActionTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    @BeforeEach
    void start() {
        cluster = new TestCluster(database);
        one = cluster.start("one", settings -> settings);
        two = cluster.start("two", settings -> settings);
    }

    @AfterEach
    void stop() {
        threads.shutdownNow();
        cluster.close();
    }

    private void expire(String name) {
        jdbc.sql("UPDATE forge_locks SET expires_at = clock_timestamp() - interval '1 second' WHERE lock_name = ?")
                .param(name)
                .update();
    }

    /** Returns locks on connections without a limit or timeouts: many callers wait for these, and the machine may pause. */
    private DefaultClusterLocks patientLocks(Member member) {
        var store = new LockStore(cluster.schema, database.dataSource());
        return new DefaultClusterLocks(
                member.node(),
                store,
                new LockKeeper(store, MINUTE, member.node()::nanos),
                new CallerTransaction(database.dataSource()));
    }

    @Test
    void waiting_node_gets_a_lock_when_it_is_released() throws Exception {
        ClusterLock first = one.locks().tryLock("import").orElseThrow();
        Future<ClusterLock> second = threads.submit(() -> two.locks().lock("import", MINUTE));
        assertThat(second.isDone()).isFalse();
        first.close();
        ClusterLock taken = second.get();
        assertThat(taken.token()).isGreaterThan(first.token());
        assertThat(one.locks().tryLock("import")).isEmpty();
        taken.close();
    }

    @Test
    void wait_for_a_lock_ends_after_its_timeout() {
        try (ClusterLock held = one.locks().tryLock("import").orElseThrow()) {
            assertThatExceptionOfType(LockNotAcquiredException.class)
                    .isThrownBy(() -> two.locks().lock(held.name(), Duration.ofMillis(50)))
                    .withMessageContaining("'import'")
                    .withMessageContaining("PT0.05S");
            assertThatExceptionOfType(LockNotAcquiredException.class)
                    .isThrownBy(() -> two.locks().withLock("import", Duration.ZERO, () -> {
                        throw new AssertionError("ran without the lock");
                    }));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void interrupted_wait_ends(boolean whileItWaits) throws Exception {
        assertThat(one.locks().tryLock("import")).isPresent();
        var ended = new AtomicInteger();
        Thread waiting = new Thread(() -> {
            try {
                two.locks().lock("import", MINUTE);
            } catch (InterruptedException e) {
                ended.incrementAndGet();
            }
        });
        waiting.start();
        if (whileItWaits) {
            await().until(() -> waiting.getState() == Thread.State.TIMED_WAITING);
        }
        waiting.interrupt();
        waiting.join();
        assertThat(ended).hasValue(1);
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void sneaky(Throwable failure) throws E {
        throw (E) failure;
    }

    @Test
    void lock_is_released_after_an_exception_of_any_type() {
        assertThatThrownBy(() -> one.locks().withLock("import", MINUTE, () -> {
                    LockActionTests.<RuntimeException>sneaky(new IOException("checked"));
                }))
                .isInstanceOf(IOException.class);
        assertThat(two.locks().tryLock("import")).isPresent();
    }

    @Test
    void interrupted_action_releases_its_lock_and_keeps_the_interrupt() throws Exception {
        threads.submit(() -> {
                    one.locks()
                            .withLock(
                                    "import",
                                    MINUTE,
                                    () -> Thread.currentThread().interrupt());
                    assertThat(Thread.interrupted()).isTrue();
                    ClusterLock lock = one.locks().tryLock("export").orElseThrow();
                    Thread.currentThread().interrupt();
                    lock.close();
                    assertThat(Thread.interrupted()).isTrue();
                    return null;
                })
                .get();
        assertThat(two.locks().tryLock("import")).isPresent();
        assertThat(two.locks().tryLock("export")).isPresent();
    }

    @Test
    void action_in_a_transaction_is_refused() {
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        assertThatExceptionOfType(IllegalTransactionStateException.class)
                .isThrownBy(() ->
                        transaction.executeWithoutResult(status -> one.locks().tryWithLock("import", () -> {})))
                .withMessageContaining("before the commit");
        assertThat(two.locks().tryLock("import")).isPresent();
        assertThat(one.locks().tryWithLock("export", () -> transaction.executeWithoutResult(status -> {})))
                .isTrue();
    }

    @Test
    void node_that_leaves_waits_for_its_actions() throws Exception {
        var begun = new CountDownLatch(1);
        var release = new CountDownLatch(1);
        Future<String> action = threads.submit(() -> one.locks().withLock("import", MINUTE, () -> {
            begun.countDown();
            try {
                release.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return "done";
        }));
        begun.await();
        Future<?> stopping = threads.submit(one::stop);
        await().until(() -> jdbc.sql("SELECT status = 'draining' FROM forge_nodes WHERE name = 'one'")
                .query(Boolean.class)
                .optional()
                .orElse(false));
        assertThat(two.locks().tryLock("import")).isEmpty();
        release.countDown();
        assertThat(action.get()).isEqualTo("done");
        stopping.get();
        assertThat(two.locks().tryLock("import")).isPresent();
    }

    @Test
    void actions_under_one_lock_never_overlap() throws Exception {
        var inside = new AtomicInteger();
        var most = new AtomicInteger();
        List<Future<Integer>> results = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            DefaultClusterLocks locks = patientLocks(i % 2 == 0 ? one : two);
            results.add(threads.submit(() -> locks.withLock("import", MINUTE, () -> {
                most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                // Takes long enough for other threads to enter.
                jdbc.sql("SELECT 1").query(Integer.class).single();
                return inside.getAndDecrement();
            })));
        }
        for (Future<Integer> result : results) {
            assertThat(result.get()).isOne();
        }
        assertThat(most).hasValue(1);
        assertThat(one.locks().tryLock("import")).isPresent();
    }

    @Test
    void action_runs_only_if_the_lock_is_free() {
        var runs = new AtomicInteger();
        assertThat(one.locks().tryWithLock("import", runs::incrementAndGet)).isTrue();
        ClusterLock held = two.locks().tryLock("import").orElseThrow();
        assertThat(one.locks().tryWithLock("import", runs::incrementAndGet)).isFalse();
        held.close();
        assertThat(runs).hasValue(1);
    }

    @Test
    void lease_is_renewed_while_the_action_runs() {
        assertThat(one.locks().tryWithLock("import", () -> {
                    jdbc.sql("UPDATE forge_locks SET expires_at = clock_timestamp() + interval '20 seconds'")
                            .update();
                    one.keeper().pass();
                    assertThat(jdbc.sql(
                                            "SELECT expires_at > clock_timestamp() + interval '30 seconds' FROM forge_locks")
                                    .query(Boolean.class)
                                    .single())
                            .isTrue();
                }))
                .isTrue();
        assertThat(one.locks().tryLock("import")).isPresent();
    }

    @Test
    void lock_that_expired_during_the_action_is_reported_as_lost() {
        var runs = new AtomicInteger();
        assertThatExceptionOfType(LockLostException.class)
                .isThrownBy(() -> one.locks().withLock("import", MINUTE, () -> {
                    expire("import");
                    one.keeper().pass();
                    try (ClusterLock other = two.locks().tryLock("import").orElseThrow()) {
                        assertThat(other.token()).isPositive();
                    }
                    return runs.incrementAndGet();
                }))
                .withMessageContaining("'import'");
        assertThat(runs).hasValue(1);
    }

    @Test
    void exception_of_the_action_releases_the_lock() {
        assertThatExceptionOfType(IllegalStateException.class)
                .isThrownBy(() -> one.locks().tryWithLock("import", () -> {
                    throw new IllegalStateException("import failed");
                }))
                .withMessage("import failed");
        await().until(() -> two.locks().tryLock("import").isPresent());
    }
}
