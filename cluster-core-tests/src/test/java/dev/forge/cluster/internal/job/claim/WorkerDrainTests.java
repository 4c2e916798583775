// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Drain, stop and restart of a worker. */
@ClusterPostgres
class WorkerDrainTests extends WorkerFixture {

    WorkerDrainTests(TestDatabase database) {
        super(database);
    }

    @Test
    void other_nodes_are_notified_of_jobs_that_a_drain_returns() throws Exception {
        var started = new CountDownLatch(2);
        var drained = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on(job("job"), (payload, context) -> {
            if (context.nodeName().equals("one")) {
                started.countDown();
                until(drained);
            }
            return context.nodeName();
        });
        Member first = start();
        List<UUID> ids = IntStream.range(0, 8)
                .mapToObj(i -> first.jobs().enqueueNamed("job", null))
                .map(EnqueuedJob::id)
                .toList();
        until(started);
        await().until(() -> first.engine().load() > 2);
        // The new node claims the jobs that were not claimed yet; it searches once and then not for a minute.
        Member second = cluster.start("two", copy(), UnaryOperator.identity());
        await().until(() -> count("status = 'pending'") == 0 && second.engine().load() == 0);
        long left = count("status = 'claimed'");
        assertThat(left).isPositive();
        var draining = new Thread(first.node()::drain);
        draining.start();
        await().atMost(SOON).until(() -> count("result = '\"two\"'") == 6);
        drained.countDown();
        draining.join();
        ids.forEach(id -> assertThat(second.ended(id).attempts()).isOne());
    }

    @Test
    void locked_row_keeps_no_other_job_from_being_returned_by_a_drain() throws Exception {
        var started = new CountDownLatch(4);
        var go = new CountDownLatch(1);
        work.on("deaf", context -> {
            started.countDown();
            while (go.getCount() > 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    // Ignores the interrupt on purpose.
                }
            }
        });
        Member member =
                cluster.start("one", work, settings -> TestNodes.withDrainTimeout(settings, Duration.ofMillis(100)));
        List<UUID> ids = IntStream.range(0, 4)
                .mapToObj(i -> member.jobs().enqueueNamed("deaf", null))
                .map(EnqueuedJob::id)
                .toList();
        until(started);
        transactions.executeWithoutResult(status -> {
            lock(ids.get(1));
            member.node().stop();
            assertThat(count("status = 'pending' AND attempts = 0 AND recoveries = 0"))
                    .isEqualTo(3);
        });
        go.countDown();
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void drain_is_not_idle_while_a_claim_is_in_progress() throws Exception {
        work.on("job", context -> {});
        Member member = start();
        jdbc.sql("""
                CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    WHILE NOT pg_try_advisory_xact_lock_shared(4711) LOOP PERFORM pg_sleep(0.02); END LOOP;
                    RETURN NEW;
                END $$
                """).update();
        jdbc.sql("CREATE TRIGGER hold BEFORE UPDATE OF worker_id ON forge_jobs"
                        + " FOR EACH ROW WHEN (OLD.status = 'pending') EXECUTE FUNCTION hold()")
                .update();
        UUID id;
        try (Connection holder = database.dataSource().getConnection()) {
            holder.createStatement().execute("SELECT pg_advisory_lock(4711)");
            id = member.jobs().enqueueNamed("job", null).id();
            await().until(() -> jdbc.sql(
                            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database())")
                    .query(Boolean.class)
                    .single());
            member.engine().quiesce();
            assertThat(member.engine().awaitIdle(Duration.ofMillis(100))).isFalse();
        } finally {
            jdbc.sql("DROP TRIGGER hold ON forge_jobs").update();
            jdbc.sql("DROP FUNCTION hold").update();
        }
        assertThat(member.engine().awaitIdle(SOON)).isTrue();
        assertThat(member.jobs().find(id).orElseThrow().status()).isEqualTo(JobStatus.PENDING);
    }

    @Test
    void stop_by_an_interrupted_thread_returns_jobs_and_deregisters_the_node() throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on("deaf", context -> {
            started.countDown();
            while (go.getCount() > 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    interrupted.countDown();
                }
            }
        });
        Member member = start();
        UUID id = member.jobs().enqueueNamed("deaf", null).id();
        until(started);
        try {
            Thread.currentThread().interrupt();
            member.node().stop();
            assertThat(Thread.interrupted()).isTrue();
            until(interrupted);
            assertThat(cluster.status("one")).isEqualTo("absent");
            assertThat(jdbc.sql("SELECT status || ' ' || attempts FROM forge_jobs WHERE id = ?")
                            .param(id)
                            .query(String.class)
                            .single())
                    .isEqualTo("pending 0");
        } finally {
            go.countDown();
        }
    }

    @Test
    void restarted_node_does_not_wait_for_handlers_of_its_former_start() throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.slots = 1;
        work.prefetch = 0;
        work.on("deaf", context -> {
            started.countDown();
            while (go.getCount() > 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    // Ignores the interrupt on purpose.
                }
            }
        });
        work.on("job", context -> {});
        Member member =
                cluster.start("one", work, settings -> TestNodes.withDrainTimeout(settings, Duration.ofMillis(100)));
        UUID deaf = member.jobs().enqueueNamed("deaf", null).id();
        until(started);
        member.node().stop();
        assertThat(member.jobs().cancel(deaf)).isTrue();
        member.node().start();
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).status())
                .isEqualTo(JobStatus.COMPLETED);
        go.countDown();
    }
}
