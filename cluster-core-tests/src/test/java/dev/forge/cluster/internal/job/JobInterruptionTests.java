// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Jobs whose handler is interrupted: cancelled, lost, drained. */
@ClusterPostgres
class JobInterruptionTests extends JobFixture {

    JobInterruptionTests(TestDatabase database) {
        super(database);
    }

    @Test
    void cancelled_job_is_interrupted_on_any_node() throws Exception {
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on("job", context -> {
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                assertThat(context.stopRequested()).isTrue();
                interrupted.countDown();
            }
        });
        Member runner = cluster.start("runner", work, UnaryOperator.identity());
        Member other = cluster.start("other", new TestJobs(database.dataSource()), UnaryOperator.identity());
        UUID id = other.jobs().enqueueNamed("job", null).id();
        until(started);
        assertThat(other.jobs().cancel(id)).isTrue();
        until(interrupted);
        assertThat(other.jobs().cancel(id)).isFalse();
        await().until(() -> runner.engine().load() == 0);
        assertThat(runner.jobs().find(id).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
    }

    @Test
    void handler_with_a_lost_claim_is_interrupted_and_its_result_discarded() throws Exception {
        work.heartbeat = Duration.ofMillis(100);
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on(job("job"), (payload, context) -> {
            if (context.epoch() > 1) {
                return "second";
            }
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                interrupted.countDown();
            }
            return "first";
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(started);
        jdbc.sql("UPDATE forge_jobs SET status = 'pending', worker_id = NULL WHERE id = ?")
                .param(id)
                .update();
        until(interrupted);
        assertThat(member.ended(id).result()).isEqualTo("\"second\"");
    }

    @Test
    void long_job_keeps_its_lease_while_its_node_lives() throws Exception {
        // Long enough for a machine that pauses for seconds.
        work.lease = Duration.ofSeconds(20);
        work.heartbeat = Duration.ofMillis(100);
        work.sweep = Duration.ofMillis(50);
        work.grace = Duration.ZERO;
        var go = new CountDownLatch(1);
        work.on("job", context -> until(go));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        await().until(() -> member.leadership().isLeader("scheduler"));
        UUID id = member.jobs().enqueueNamed("job", null).id();
        renewedFor(id, Duration.ofSeconds(2));
        go.countDown();
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.epoch()).isOne();
        assertThat(job.recoveries()).isZero();
    }

    @Test
    void drain_waits_for_running_jobs_and_returns_the_others() throws Exception {
        var started = new CountDownLatch(2);
        var go = new CountDownLatch(1);
        work.slots = 2;
        work.prefetch = 10;
        work.on("job", context -> {
            started.countDown();
            until(go);
        });
        Member first = cluster.start("first", work, UnaryOperator.identity());
        List<UUID> ids = IntStream.range(0, 8)
                .mapToObj(i -> first.jobs().enqueueNamed("job", null))
                .map(EnqueuedJob::id)
                .toList();
        until(started);
        // The worker may not have claimed all jobs: it claims no more while it has enough.
        await().until(() -> first.engine().load() > 2);
        var draining = new Thread(first.node()::stop);
        draining.start();
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'pending' AND attempts = 0")
                        .query(Long.class)
                        .single()
                == 6);
        go.countDown();
        draining.join(20_000);
        Member second = cluster.start("second", copy(), UnaryOperator.identity());
        ids.forEach(id -> {
            JobInfo job = second.ended(id);
            assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
            assertThat(job.attempts()).isOne();
            assertThat(job.recoveries()).isZero();
        });
    }

    @Test
    void drain_that_times_out_interrupts_handlers_and_does_not_count_the_attempt() throws Exception {
        var started = new CountDownLatch(1);
        work.on(job("job").attempts(1), (payload, context) -> {
            if (context.epoch() == 1) {
                started.countDown();
                new CountDownLatch(1).await();
            }
            return context.nodeName();
        });
        Member first = cluster.start("first", work, s -> TestNodes.withDrainTimeout(s, Duration.ofMillis(300)));
        UUID id = first.jobs().enqueueNamed("job", null).id();
        until(started);
        first.node().stop();
        Member second = cluster.start("second", copy(), UnaryOperator.identity());
        JobInfo job = second.ended(id);
        assertThat(job.result()).isEqualTo("\"second\"");
        assertThat(job.attempts()).isOne();
        assertThat(job.recoveries()).isZero();
    }

    @Test
    void handler_that_ignores_the_drain_does_not_delay_the_exit() throws Exception {
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            if (context.epoch() > 1) {
                return;
            }
            started.countDown();
            while (go.getCount() > 0) {
                try {
                    go.await();
                } catch (InterruptedException e) {
                    // Ignores the interrupt on purpose.
                }
            }
        });
        Member first = cluster.start("first", work, s -> TestNodes.withDrainTimeout(s, Duration.ofMillis(300)));
        UUID id = first.jobs().enqueueNamed("job", null).id();
        until(started);
        first.node().stop();
        Member second = cluster.start("second", copy(), UnaryOperator.identity());
        assertThat(second.ended(id).nodeId()).isEqualTo(second.node().id());
        go.countDown();
    }

    @Test
    void node_declared_dead_discards_its_results() throws Exception {
        var started = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        work.on(job("job"), (payload, context) -> {
            if (context.epoch() > 1) {
                return "again";
            }
            started.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                interrupted.countDown();
            }
            return "dropped";
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(started);
        UUID former = member.node().id();
        // Repeated, because a heartbeat may come between.
        await().until(() -> member.node().declareDead(former));
        until(interrupted);
        JobInfo job = member.ended(id);
        assertThat(job.result()).isEqualTo("\"again\"");
        assertThat(job.recoveries()).isOne();
        assertThat(job.nodeId()).isNotEqualTo(former);
    }

    @Test
    void row_locked_by_an_application_keeps_no_other_job_from_ending() throws Exception {
        var started = new CountDownLatch(2);
        var go = new CountDownLatch(1);
        work.on("job", context -> {
            started.countDown();
            until(go);
        });
        work.on("other", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID locked = member.jobs().enqueueNamed("job", null).id();
        UUID free = member.jobs().enqueueNamed("job", null).id();
        until(started);
        var transactions = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transactions.executeWithoutResult(status -> {
            assertThat(member.jobs().cancel(locked)).isTrue();
            go.countDown();
            assertThat(member.ended(free).status()).isEqualTo(JobStatus.COMPLETED);
            UUID later =
                    jdbc.sql("SELECT forge_enqueue('other')").query(UUID.class).single();
            assertThat(later).isNotNull();
            status.setRollbackOnly();
        });
        assertThat(member.ended(locked).status()).isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void handler_that_polls_is_asked_to_stop_when_the_drain_begins_and_continues_elsewhere() {
        var first = new CountDownLatch(1);
        work.on(job("job"), (payload, context) -> {
            int done = context.checkpoint(Integer.class).orElse(0);
            if (done > 0) {
                return "continued at " + done;
            }
            first.countDown();
            await().until(context::stopRequested);
            Thread.currentThread().interrupt();
            context.checkpoint(7);
            assertThat(Thread.interrupted()).isTrue();
            return Outcome.snooze(Duration.ZERO);
        });
        // The drain ends long before this timeout, because the handler returns when it is asked to stop.
        Member one =
                cluster.start("one", work, settings -> TestNodes.withDrainTimeout(settings, Duration.ofMinutes(10)));
        UUID id = one.jobs().enqueueNamed("job", null).id();
        await().until(() -> first.getCount() == 0);
        Member two = cluster.start("two", work, UnaryOperator.identity());
        one.stop();
        JobInfo job = two.ended(id);
        assertThat(job.result()).isEqualTo("\"continued at 7\"");
        assertThat(job.attempts()).isOne();
    }

    @Test
    void only_jobs_that_a_node_holds_are_announced_as_cancelled() throws Exception {
        var running = new CountDownLatch(1);
        work.on("held", context -> {
            running.countDown();
            new CountDownLatch(1).await();
        });
        work.on("paused", context -> {});
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().pause("paused");
        UUID pending = member.jobs().enqueueNamed("paused", null).id();
        UUID held = member.jobs().enqueueNamed("held", null).id();
        until(running);
        try (Connection listener = database.newSessions().getConnection();
                Statement statement = listener.createStatement()) {
            statement.execute("LISTEN "
                    + jdbc.sql("SELECT channel FROM forge_settings")
                            .query(String.class)
                            .single());
            assertThat(member.jobs().cancel(pending)).isTrue();
            assertThat(member.jobs().cancel(held)).isTrue();
            var heard = new ArrayList<String>();
            await().until(() -> {
                PGNotification[] news = listener.unwrap(PGConnection.class).getNotifications(100);
                for (PGNotification one : news == null ? new PGNotification[0] : news) {
                    heard.add(one.getParameter());
                }
                return heard.stream().anyMatch(text -> text.contains(held.toString()));
            });
            assertThat(heard).noneMatch(text -> text.contains(pending.toString()));
        }
    }
}
