// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** The jobs that a worker claims, and the times at which it searches for them. */
@ClusterPostgres
class WorkerClaimTests extends WorkerFixture {

    WorkerClaimTests(TestDatabase database) {
        super(database);
    }

    private static NodeSettings enqueuing(NodeSettings settings) {
        return TestNodes.withRoles(settings, NodeRole.FUNCTION);
    }

    private static UUID enqueueDuty(Member member) {
        return member.jobs()
                .enqueueNamed("duty", null, JobOptions.defaults().withCapability("leader"))
                .id();
    }

    private static WorkerSettings.LaneSettings lane(String name) {
        return new WorkerSettings.LaneSettings(name, 1, null, false);
    }

    @Test
    void lane_claims_while_its_condition_holds_on_a_node_that_is_no_worker() {
        work.on("duty", context -> {});
        work.on("other", context -> {});
        Member member = cluster.start("one", work, WorkerClaimTests::enqueuing);
        var leads = new AtomicBoolean();
        Worker worker = worker(
                member,
                List.of(
                        new Lane.Selection(lane("leader"), () -> List.of("duty"), List.of("leader"), leads::get),
                        new Lane.Selection(lane("open"), () -> List.of("duty", "other"), List.of(""), () -> true)));
        worker.begin();
        try {
            UUID first = enqueueDuty(member);
            worker.wake();
            // This job is enqueued later and completes: the duty could have been claimed before.
            UUID other = member.jobs().enqueueNamed("other", null).id();
            worker.wake();
            assertThat(member.ended(other).status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(member.jobs().find(first).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            leads.set(true);
            worker.wake();
            assertThat(member.ended(first).status()).isEqualTo(JobStatus.COMPLETED);
            // The claiming thread has seen that there is no further duty.
            UUID between = member.jobs().enqueueNamed("other", null).id();
            worker.wake();
            member.ended(between);
            leads.set(false);
            UUID second = enqueueDuty(member);
            UUID last = member.jobs().enqueueNamed("other", null).id();
            worker.wake();
            member.ended(last);
            assertThat(member.jobs().find(second).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            assertThat(worker.lanes()).containsOnlyKeys("leader", "open");
        } finally {
            stop(worker);
        }
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    @Test
    void job_that_was_locked_runs_although_there_are_always_more_jobs() throws Exception {
        var first = new AtomicReference<UUID>();
        var ran = new CountDownLatch(1);
        var others = new AtomicInteger();
        Member member = cluster.start("one", work, WorkerClaimTests::enqueuing);
        work.on("job", context -> {
            if (context.id().equals(first.get())) {
                ran.countDown();
            } else if (ran.getCount() > 0) {
                member.jobs().enqueueNamed("job", null);
                others.incrementAndGet();
            }
        });
        first.set(member.jobs().enqueueNamed("job", null).id());
        jdbc.sql("INSERT INTO forge_jobs (id, name) SELECT gen_random_uuid(), 'job' FROM generate_series(1, 400)")
                .update();
        Worker worker = worker(
                member, List.of(new Lane.Selection(lane("open"), () -> List.of("job"), List.of(""), () -> true)));
        try (Connection oldest = database.dataSource().getConnection();
                Connection locking = database.dataSource().getConnection()) {
            oldest.setAutoCommit(false);
            // As long as it lasts, claims that follow a full one leave out every row that was locked.
            execute(oldest, "SELECT pg_current_xact_id()");
            locking.setAutoCommit(false);
            execute(locking, "SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(first));
            worker.begin();
            await().until(() -> others.get() > 200);
            locking.rollback();
            until(ran);
        } finally {
            ran.countDown();
            stop(worker);
        }
    }

    @Test
    void job_that_a_quick_claim_left_out_does_not_wait_for_the_next_poll() throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            started.countDown();
            until(go);
        });
        Member member = cluster.start("one", work, WorkerClaimTests::enqueuing);
        Worker worker = worker(
                member, List.of(new Lane.Selection(lane("open"), () -> List.of("job"), List.of(""), () -> true)));
        try (Connection oldest = database.dataSource().getConnection();
                Connection locking = database.dataSource().getConnection()) {
            member.jobs().enqueueNamed("job", null);
            worker.begin();
            until(started);
            oldest.setAutoCommit(false);
            execute(oldest, "SELECT pg_current_xact_id()");
            UUID second = member.jobs().enqueueNamed("job", null).id();
            locking.setAutoCommit(false);
            execute(locking, "SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(second));
            locking.rollback();
            worker.wake();
            go.countDown();
            await().atMost(SOON)
                    .until(() -> member.jobs().find(second).orElseThrow().status() == JobStatus.COMPLETED);
        } finally {
            go.countDown();
            stop(worker);
        }
    }

    @Test
    void wake_up_survives_a_failed_search() {
        work.on("job", context -> {});
        Member member = start();
        member.ended(member.jobs().enqueueNamed("job", null).id());
        jdbc.sql("CREATE SEQUENCE searches").update();
        jdbc.sql("""
                CREATE FUNCTION broken() RETURNS text LANGUAGE plpgsql AS $$
                BEGIN
                    -- A rollback does not reset a sequence.
                    PERFORM nextval('searches');
                    RAISE EXCEPTION 'broken';
                END $$
                """).update();
        jdbc.sql("ALTER TABLE forge_job_pauses RENAME TO hidden").update();
        UUID id;
        try {
            jdbc.sql("CREATE VIEW forge_job_pauses AS SELECT broken() AS name").update();
            id = member.jobs().enqueueNamed("job", null).id();
            await().until(() -> jdbc.sql("SELECT is_called FROM searches")
                    .query(Boolean.class)
                    .single());
        } finally {
            jdbc.sql("DROP VIEW IF EXISTS forge_job_pauses").update();
            jdbc.sql("ALTER TABLE hidden RENAME TO forge_job_pauses").update();
            jdbc.sql("DROP FUNCTION broken").update();
            jdbc.sql("DROP SEQUENCE searches").update();
        }
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void jobs_run_although_another_job_of_their_claim_could_not_be_read() {
        work.on("job", context -> {});
        List<UUID> ids = Stream.of("{}", "repeat", "{}")
                .map(kind -> jdbc.sql("""
                                INSERT INTO forge_jobs (id, name, payload)
                                VALUES (gen_random_uuid(), 'job', CASE WHEN ? = '{}' THEN '{}'
                                    ELSE jsonb_build_object('text', repeat('x', 1500000)) END)
                                RETURNING id
                                """).param(kind).query(UUID.class).single())
                .toList();
        var reads = new AtomicInteger();
        // Simulates a connection that is lost while the large job is read.
        var source = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                return (Connection) Proxy.newProxyInstance(
                        WorkerClaimTests.class.getClassLoader(),
                        new Class<?>[] {Connection.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("prepareStatement")
                                    && arguments[0].toString().contains("AS measured")
                                    && reads.getAndIncrement() == 0) {
                                throw new SQLException("the connection has died", "08006");
                            }
                            try {
                                return method.invoke(connection, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getTargetException();
                            }
                        });
            }
        };
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        ids.forEach(id -> assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED));
        assertThat(reads).hasPositiveValue();
    }

    @Test
    void claim_that_its_node_does_not_know_is_released_and_runs_without_a_poll() {
        work.heartbeat = Duration.ofMillis(100);
        work.poll = Duration.ofHours(1);
        work.on("job", context -> {});
        Member member = start();
        member.ended(member.jobs().enqueueNamed("job", null).id());
        await().until(() -> member.engine().load() == 0);
        // As after a claim whose response was lost.
        UUID id = jdbc.sql("""
                        INSERT INTO forge_jobs (id, name, status, worker_id, claim_epoch, attempts, claimed_at)
                        VALUES (gen_random_uuid(), 'job', 'running', ?, 1, 1, now() - interval '1 minute')
                        RETURNING id
                        """).param(member.node().id()).query(UUID.class).single();
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.epoch()).isEqualTo(2);
    }

    @Test
    void node_without_marks_claims_although_a_complete_search_times_out() {
        work.on("job", context -> {});
        UUID old = UUID.randomUUID();
        jdbc.sql(
                        "INSERT INTO forge_jobs (id, name, priority, scheduled_at) VALUES (?, 'job', 33, now() - interval '20 seconds')")
                .param(old)
                .update();
        var searches = new AtomicInteger();
        // Simulates a search that has to read millions of dead entries.
        var source = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                return (Connection) Proxy.newProxyInstance(
                        WorkerClaimTests.class.getClassLoader(),
                        new Class<?>[] {Connection.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("prepareStatement")
                                    && arguments[0].toString().contains("RECURSIVE gap")) {
                                searches.incrementAndGet();
                                throw new SQLException("canceling statement due to user request", "57014");
                            }
                            try {
                                return method.invoke(connection, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getTargetException();
                            }
                        });
            }
        };
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).status())
                .isEqualTo(JobStatus.COMPLETED);
        assertThat(member.ended(old).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(searches).hasPositiveValue();
    }

    private static List<Long> withoutRepetitions(List<Long> reaches) {
        var changes = new ArrayList<Long>();
        for (Long reach : reaches) {
            if (changes.isEmpty() || !changes.get(changes.size() - 1).equals(reach)) {
                changes.add(reach);
            }
        }
        return changes;
    }

    @Test
    void recent_search_that_times_out_reaches_less_far_the_next_time() {
        work.on("job", context -> {});
        UUID old = UUID.randomUUID();
        jdbc.sql("INSERT INTO forge_jobs (id, name, scheduled_at) VALUES (?, 'job', now() - interval '10 minutes')")
                .param(old)
                .update();
        var reaches = new CopyOnWriteArrayList<Long>();
        // As if dead entries began 20 seconds ago: searches that reach further time out.
        var source = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                return proxy(Connection.class, super.getConnection(), (method, arguments, result) -> {
                    if (!(result instanceof PreparedStatement statement)) {
                        return result;
                    }
                    String sql = arguments[0].toString();
                    if (sql.contains("RECURSIVE gap")) {
                        throw new SQLException("canceling statement due to user request", "57014");
                    }
                    return !sql.contains("generate_series(0, ")
                            ? statement
                            : proxy(PreparedStatement.class, statement, (call, values, answer) -> {
                                if (call.getName().equals("setLong")) {
                                    reaches.add((Long) values[1]);
                                    if ((Long) values[1] > 20_000) {
                                        throw new SQLException("canceling statement due to user request", "57014");
                                    }
                                }
                                return answer;
                            });
                });
            }
        };
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        // A search that is slow because the machine is busy is repeated with the same reach.
        await().until(() -> withoutRepetitions(reaches).size() >= 8);
        assertThat(withoutRepetitions(reaches).subList(0, 8))
                .containsExactly(1_000L, 2_000L, 4_000L, 8_000L, 16_000L, 32_000L, 16_000L, 32_000L);
        // Recent jobs are claimed nevertheless.
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).status())
                .isEqualTo(JobStatus.COMPLETED);
        assertThat(member.jobs().find(old).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void complete_search_is_repeated_a_minute_after_a_timeout() {
        work.on("job", context -> {});
        Member member = cluster.start("one", work, WorkerClaimTests::enqueuing);
        var ahead = new AtomicLong();
        var completeSearches = new AtomicInteger();
        var source = new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                return proxy(Connection.class, super.getConnection(), (method, arguments, result) -> {
                    if (result instanceof PreparedStatement
                            && arguments[0].toString().contains("RECURSIVE gap")
                            && completeSearches.incrementAndGet() == 1) {
                        throw new SQLException("canceling statement due to user request", "57014");
                    }
                    return result;
                });
            }
        };
        Worker worker = worker(
                member,
                source,
                ahead::get,
                List.of(new Lane.Selection(lane("open"), () -> List.of("job"), List.of(""), () -> true)));
        UUID old = UUID.randomUUID();
        jdbc.sql("INSERT INTO forge_jobs (id, name, scheduled_at) VALUES (?, 'job', now() - interval '60 days')")
                .param(old)
                .update();
        worker.begin();
        try {
            UUID recent = member.jobs().enqueueNamed("job", null).id();
            worker.wake();
            assertThat(member.ended(recent).status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(completeSearches).hasValue(1);
            assertThat(member.jobs().find(old).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
            ahead.set(Duration.ofSeconds(61).toNanos());
            worker.wake();
            assertThat(member.ended(old).status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(completeSearches).hasValueGreaterThan(1);
        } finally {
            stop(worker);
        }
    }

    @Test
    void job_at_its_last_recovery_starts_after_the_other_end_is_written() throws Exception {
        var running = new AtomicInteger();
        var started = new CopyOnWriteArrayList<UUID>();
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            assertThat(running.incrementAndGet()).isOne();
            started.add(context.id());
            until(go);
            running.decrementAndGet();
        });
        Member member = start();
        member.jobs().pause("job");
        List<UUID> ids = IntStream.range(0, 2)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .map(EnqueuedJob::id)
                .toList();
        jdbc.sql("UPDATE forge_jobs SET recoveries = 3").update();
        member.jobs().resume("job");
        // The other job is claimed and postponed once a second.
        await().until(() -> started.size() == 1 && count("status = 'pending' AND claim_epoch > 0") == 1);
        transactions.executeWithoutResult(status -> {
            lock(started.get(0));
            go.countDown();
            await().until(() -> running.get() == 0);
            long postponed = jdbc.sql("SELECT claim_epoch FROM forge_jobs WHERE id <> ?")
                    .param(started.get(0))
                    .query(Long.class)
                    .single();
            // The handler has ended, but its end cannot be written: the other job is postponed again.
            await().atMost(SOON).until(() -> count("status = 'pending' AND claim_epoch > " + postponed) == 1);
            assertThat(started).hasSize(1);
        });
        ids.forEach(id -> assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED));
    }

    @Test
    void announcement_is_repeated_after_a_failure() {
        var source = new Breakable(database.dataSource(), "sendAnnouncement");
        work.on("job", context -> {});
        Member enqueuer = cluster.start("enqueuer", source, copy(), WorkerClaimTests::enqueuing);
        Member member = start();
        await().until(() -> !enqueuer.node().peers().isAlone());
        member.ended(enqueuer.jobs().enqueueNamed("job", null).id());
        source.shut();
        UUID id = enqueuer.jobs().enqueueNamed("job", null).id();
        await().until(() -> source.refused.get() > 0);
        source.open();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
    }
}
