// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Rows that another transaction has locked. */
@ClusterPostgres
class WorkerLockedRowTests extends WorkerFixture {

    WorkerLockedRowTests(TestDatabase database) {
        super(database);
    }

    private List<Instant> lockWaits() {
        return jdbc.sql("""
                        SELECT query_start FROM pg_stat_activity
                        WHERE wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')
                          AND datname = current_database()
                        """)
                .query((row, n) -> row.getObject(1, OffsetDateTime.class).toInstant())
                .list();
    }

    @Test
    void locked_row_of_an_ended_job_slows_down_no_other_completion() throws Exception {
        work.slots = 2;
        var go = new CountDownLatch(1);
        work.on("locked", context -> until(go));
        work.on("job", context -> {});
        Member member = start();
        UUID locked = member.jobs().enqueueNamed("locked", null).id();
        await().until(() -> count("status = 'running'") == 1);
        try (Connection holder = database.dataSource().getConnection()) {
            holder.setAutoCommit(false);
            holder.createStatement()
                    .executeQuery("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(locked));
            var waits = new HashSet<Instant>();
            go.countDown();
            finisherSkipsTwice();
            jdbc.sql(
                            "INSERT INTO forge_jobs (id, name, body_bytes) SELECT gen_random_uuid(), 'job', 4 FROM generate_series(1, 2000)")
                    .update();
            member.engine().announce(JobPriority.NORMAL);
            await().atMost(Duration.ofMinutes(2))
                    .pollInterval(Duration.ofMillis(5))
                    .until(() -> {
                        waits.addAll(lockWaits());
                        return count("name = 'job' AND status = 'completed'") == 2_000;
                    });
            assertThat(waits).as("statements that waited for the locked row").hasSizeLessThanOrEqualTo(2);
            assertThat(count("name = 'locked' AND status = 'running'")).isOne();
        }
        assertThat(member.ended(locked).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void transactional_job_whose_row_is_locked_holds_its_transaction_for_seconds_and_spends_no_attempt()
            throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        var runs = new AtomicInteger();
        jdbc.sql("CREATE TABLE IF NOT EXISTS effects (id uuid)").update();
        work.on(job("job").attempts(1).in(work.transaction()), (payload, context) -> {
            JdbcClient.create(database.dataSource())
                    .sql("INSERT INTO effects VALUES (?)")
                    .param(context.id())
                    .update();
            runs.incrementAndGet();
            started.countDown();
            until(go);
            return null;
        });
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(started);
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(id));
            go.countDown();
            await().until(() -> jdbc.sql("""
                            SELECT count(*) FROM pg_stat_activity
                            WHERE datname = current_database() AND wait_event_type = 'Lock'
                            """).query(Long.class).single() > 0);
            // Neither the slot nor the connection is occupied.
            await().until(() -> member.engine().lanes().get("default").get("jobs") == 0);
        }
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(runs).hasValue(2);
        assertThat(jdbc.sql("SELECT count(*) FROM effects WHERE id = ?")
                        .param(id)
                        .query(Long.class)
                        .single())
                .isOne();
    }

    @Test
    void transactional_job_whose_successor_is_locked_holds_its_transaction_for_seconds() throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        var runs = new AtomicInteger();
        work.on(job("job").in(work.transaction()), (payload, context) -> {
            // The progress is written with the end of the job, which is then no plain completion.
            context.progress(50, "half");
            runs.incrementAndGet();
            started.countDown();
            until(go);
            return null;
        });
        Member member = start();
        JobOptions key = JobOptions.defaults().withUniqueKey("k", UniquePolicy.REPLACE);
        UUID first = member.jobs().enqueueNamed("job", null, key).id();
        until(started);
        UUID second = member.jobs().enqueueNamed("job", null, key).id();
        assertThat(second).isNotEqualTo(first);
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(second));
            go.countDown();
            // The job is rolled back and starts again while the other transaction is still open.
            await().until(() -> runs.get() > 1);
        }
        assertThat(member.ended(first).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.ended(second).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void handler_is_stopped_before_a_lease_expires_that_a_locked_row_kept_from_renewal() throws Exception {
        work.heartbeat = Duration.ofMillis(200);
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on("job", context -> {
            if (context.epoch() == 1) {
                started.countDown();
                try {
                    new CountDownLatch(1).await();
                } catch (InterruptedException e) {
                    interrupted.countDown();
                }
            }
        });
        Member member = cluster.create("one", work, settings -> TestNodes.withRoles(settings, NodeRole.FUNCTION));
        // The test moves the clock of the worker, because a short lease would expire while the machine stands still.
        var ahead = new AtomicLong();
        Worker worker = worker(
                member,
                database.dataSource(),
                ahead::get,
                List.of(new Lane.Selection(
                        new WorkerSettings.LaneSettings("open", 1, null, false),
                        () -> List.of("job"),
                        List.of(""),
                        () -> true)));
        member.node().components().register(worker);
        cluster.members().add(member);
        member.node().start();
        UUID id = member.jobs().enqueueNamed("job", null).id();
        worker.wake();
        until(started);
        transactions.executeWithoutResult(status -> {
            lock(id);
            ahead.set(Duration.ofSeconds(49).toNanos());
            await().atMost(SOON).until(() -> interrupted.getCount() == 0);
            // Not now(): that is the start of this transaction.
            assertThat(jdbc.sql(
                                    "SELECT lease_expires_at > clock_timestamp() + interval '49 seconds' FROM forge_jobs WHERE id = ?")
                            .param(id)
                            .query(Boolean.class)
                            .single())
                    .as("the lease of 60 s is still valid by the clock of the worker")
                    .isTrue();
        });
    }

    @Test
    void progress_that_could_not_be_written_is_written_later() throws Exception {
        jdbc.sql("CREATE SEQUENCE notes").update();
        jdbc.sql("""
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF nextval('notes') <= 2 THEN RAISE EXCEPTION 'refused'; END IF;
                    RETURN NEW;
                END $$
                """).update();
        jdbc.sql("CREATE TRIGGER refuse BEFORE UPDATE OF progress ON forge_jobs"
                        + " FOR EACH ROW WHEN (NEW.progress IS NOT NULL) EXECUTE FUNCTION refuse()")
                .update();
        try {
            var seen = new CountDownLatch(1);
            work.on("job", context -> {
                context.progress(40, "half-way");
                until(seen);
            });
            Member member = start();
            UUID id = member.jobs().enqueueNamed("job", null).id();
            await().atMost(SOON)
                    .untilAsserted(() -> assertThat(
                                    member.jobs().find(id).orElseThrow().progress())
                            .contains("half-way"));
            seen.countDown();
            member.ended(id);
        } finally {
            jdbc.sql("DROP TRIGGER refuse ON forge_jobs").update();
            jdbc.sql("DROP FUNCTION refuse").update();
            jdbc.sql("DROP SEQUENCE notes").update();
        }
    }

    @Test
    void locked_row_keeps_no_other_job_from_being_marked_as_running() throws Exception {
        var begun = new AtomicInteger();
        var first = new CountDownLatch(1);
        var second = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on("job", context -> until(begun.incrementAndGet() <= 2 ? first : second));
        Member member = start();
        member.jobs().pause("job");
        List<UUID> ids = IntStream.range(0, 4)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null))
                .map(EnqueuedJob::id)
                .toList();
        member.jobs().resume("job");
        await().until(() -> count("status = 'running'") == 2 && count("status = 'claimed'") == 2);
        transactions.executeWithoutResult(status -> {
            jdbc.sql("SELECT FROM forge_jobs WHERE status = 'claimed' ORDER BY id LIMIT 1 FOR UPDATE")
                    .query((row, n) -> true)
                    .single();
            first.countDown();
            await().atMost(SOON).until(() -> count("status = 'completed'") == 2 && count("status = 'running'") == 1);
            assertThat(count("status = 'claimed'")).isOne();
        });
        await().until(() -> count("status = 'running'") == 2);
        second.countDown();
        ids.forEach(member::ended);
    }
}
