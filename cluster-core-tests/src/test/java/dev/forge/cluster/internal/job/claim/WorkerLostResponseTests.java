// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionSystemException;
import org.springframework.transaction.support.DefaultTransactionStatus;

/** Lost responses, lost claims and cancelled jobs. */
@ClusterPostgres
class WorkerLostResponseTests extends WorkerFixture {

    WorkerLostResponseTests(TestDatabase database) {
        super(database);
    }

    /** Returns a data source that cuts the connection after a statement that contains a text, once for each text. */
    private DataSource losingAnswers(String... statements) {
        Set<String> left = new HashSet<>(List.of(statements));
        return new DelegatingDataSource(database.dataSource()) {
            @Override
            public Connection getConnection() throws SQLException {
                Connection connection = super.getConnection();
                return proxy(Connection.class, connection, (method, arguments, result) -> {
                    if (!(result instanceof PreparedStatement statement)) {
                        return result;
                    }
                    String sql = arguments[0].toString();
                    return proxy(PreparedStatement.class, statement, (executed, ignored, answer) -> {
                        synchronized (left) {
                            if (executed.getName().startsWith("execute") && left.removeIf(sql::contains)) {
                                connection.abort(Runnable::run);
                                throw new SQLException("somebody pulled the cable", "08006");
                            }
                        }
                        return answer;
                    });
                });
            }
        };
    }

    /** Returns a list that collects the names of jobs whose claim is lost or whose attempt fails. */
    private List<String> misjudged() {
        var names = new CopyOnWriteArrayList<String>();
        work.monitor = new JobMonitor() {
            @Override
            public void claimLost(String name) {
                names.add(name);
            }

            @Override
            public void retried(String name) {
                names.add(name);
            }
        };
        return names;
    }

    @Test
    void end_whose_response_was_lost_is_no_lost_claim() {
        List<String> misjudged = misjudged();
        work.on(job("snoozed"), (payload, context) -> Outcome.snooze(Duration.ofHours(1)));
        work.retention = Duration.ZERO;
        work.on("deleted", context -> {});
        Member member = cluster.start(
                "one", losingAnswers("forge_jobs j USING", "SET status = d.status"), work, UnaryOperator.identity());
        UUID deleted = member.jobs().enqueueNamed("deleted", null).id();
        await().until(() ->
                member.jobs().find(deleted).isEmpty() && member.engine().load() == 0);
        UUID snoozed = member.jobs().enqueueNamed("snoozed", null).id();
        await().until(() -> count("status = 'pending' AND claim_epoch = 1") == 1
                && member.engine().load() == 0);
        assertThat(misjudged).isEmpty();
        assertThat(member.jobs().find(snoozed).orElseThrow().attempts()).isZero();
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void returned_job_that_is_claimed_again_after_a_lost_response_is_no_lost_claim() {
        List<String> misjudged = misjudged();
        work.on(job("back"), (payload, context) -> context.epoch() == 1 ? Outcome.snooze(Duration.ZERO) : null);
        Member member = cluster.start("one", losingAnswers("SET status = d.status"), work, UnaryOperator.identity());
        JobInfo back = member.ended(member.jobs().enqueueNamed("back", null).id());
        assertThat(back.epoch()).isEqualTo(2);
        await().until(() -> member.engine().load() == 0);
        assertThat(misjudged).isEmpty();
    }

    @Test
    void claim_that_was_taken_while_its_end_could_not_be_written_is_lost() throws Exception {
        List<String> misjudged = misjudged();
        var go = new CountDownLatch(1);
        work.on("job", context -> until(go));
        var source = new Breakable(database.dataSource(), "finishPart");
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        await().until(() -> count("status = 'running'") == 1);
        source.shut();
        go.countDown();
        await().until(() -> source.refused.get() > 0);
        // The sweep recovers the job, and another node claims it.
        jdbc.sql("""
                UPDATE forge_jobs
                SET claim_epoch = claim_epoch + 1, recoveries = recoveries + 1, worker_id = gen_random_uuid()
                WHERE id = ?
                """).param(id).update();
        source.open();
        await().until(() -> member.engine().load() == 0);
        // The loss is reported after the claim has been removed from memory.
        await().untilAsserted(() -> assertThat(misjudged).containsExactly("job"));
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    private JdbcTransactionManager losingCommits() {
        return new JdbcTransactionManager(database.dataSource()) {
            private static final long serialVersionUID = 1L;

            @Override
            protected void doCommit(DefaultTransactionStatus status) {
                super.doCommit(status);
                throw new TransactionSystemException(
                        "Could not commit JDBC transaction", new SQLException("somebody pulled the cable", "08006"));
            }
        };
    }

    @Test
    void commit_whose_response_was_lost_completes_its_job() {
        List<String> misjudged = misjudged();
        var runs = new AtomicInteger();
        JdbcTransactionManager manager = losingCommits();
        work.on(job("kept").in(in(manager)), (payload, context) -> runs.incrementAndGet());
        work.retention = Duration.ZERO;
        work.on(job("deleted").in(in(manager)), (payload, context) -> runs.incrementAndGet());
        Member member = start();
        JobInfo kept = member.ended(member.jobs().enqueueNamed("kept", null).id());
        assertThat(kept.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(kept.attempts()).isOne();
        UUID deleted = member.jobs().enqueueNamed("deleted", null).id();
        await().until(() ->
                member.jobs().find(deleted).isEmpty() && member.engine().load() == 0);
        assertThat(runs).hasValue(2);
        assertThat(misjudged).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void commit_whose_check_is_lost_too_is_found_later_and_reported_as_no_failure(int together) {
        var reported = new CopyOnWriteArrayList<String>();
        work.monitor = new JobMonitor() {
            @Override
            public void failed(UUID id, String name, JobStatus status, String error) {
                reported.add(name);
            }

            @Override
            public void claimLost(String name) {
                reported.add(name);
            }
        };
        var runs = new AtomicInteger();
        TestJobs.Declared declared = job("job").attempts(1).in(in(losingCommits()));
        if (together == 1) {
            work.on(declared, (payload, context) -> runs.incrementAndGet());
        } else {
            work.onMany(declared, together, Duration.ofSeconds(20), (payloads, contexts) -> {
                runs.addAndGet(contexts.size());
                return null;
            });
        }
        Member member =
                cluster.start("one", losingAnswers("d (id, epoch, recoveries)"), work, UnaryOperator.identity());
        List<UUID> ids = IntStream.range(0, together)
                .mapToObj(i -> member.jobs().enqueueNamed("job", null).id())
                .toList();
        ids.forEach(id -> assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED));
        await().until(() -> member.engine().load() == 0);
        assertThat(reported).isEmpty();
        assertThat(runs).hasValue(together);
    }

    @Test
    void end_that_is_written_before_another_is_rejected_is_no_lost_claim() throws Exception {
        var lost = new CopyOnWriteArrayList<String>();
        work.monitor = new JobMonitor() {
            @Override
            public void claimLost(String name) {
                lost.add(name);
            }
        };
        var go = new CountDownLatch(1);
        work.on(job("again"), (payload, context) -> {
            if (context.attempt() == 1) {
                until(go);
                return Outcome.retryAfter(Duration.ZERO, "not yet");
            }
            return null;
        });
        work.on(job("other"), (payload, context) -> {
            if (context.attempt() == 1) {
                return Outcome.retryAfter(Duration.ZERO, "not yet");
            }
            return null;
        });
        work.retention = Duration.ZERO;
        work.on("deleted", context -> {});
        Member member = start();
        UUID again = member.jobs().enqueueNamed("again", null).id();
        await().until(() -> count("status = 'running'") == 1);
        // Not in a transaction of this thread, which enqueueing would join.
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            connection
                    .createStatement()
                    .executeQuery("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(again));
            go.countDown();
            // The end of this job waits for the lock; the ends of the following jobs are in the same batch.
            finisherSkipsTwice();
            for (int i = 0; i < 4; i++) {
                member.jobs().enqueueNamed("deleted", null);
            }
            UUID other = member.jobs().enqueueNamed("other", null).id();
            assertThat(member.ended(other).status()).isEqualTo(JobStatus.COMPLETED);
            await().atMost(SOON).until(() -> count("name = 'deleted'") == 0);
            connection.rollback();
        }
        assertThat(member.ended(again).attempts()).isEqualTo(2);
        await().until(() -> member.engine().load() == 0);
        assertThat(lost).isEmpty();
    }

    @Test
    void cancelled_job_is_no_lost_claim() throws Exception {
        var lost = new CopyOnWriteArrayList<String>();
        work.monitor = new JobMonitor() {
            @Override
            public void claimLost(String name) {
                lost.add(name);
            }
        };
        work.heartbeat = Duration.ofMillis(100);
        var started = new CountDownLatch(2);
        work.on("job", context -> {
            started.countDown();
            new CountDownLatch(1).await();
        });
        Member member = start();
        UUID cancelled = member.jobs().enqueueNamed("job", null).id();
        UUID taken = member.jobs().enqueueNamed("job", null).id();
        until(started);
        assertThat(member.jobs().cancel(cancelled)).isTrue();
        await().until(() -> member.engine().load() == 1);
        assertThat(lost).isEmpty();
        jdbc.sql("UPDATE forge_jobs SET claim_epoch = claim_epoch + 1 WHERE id = ?")
                .param(taken)
                .update();
        await().until(() -> member.engine().load() == 0);
        // The loss is reported after the claim has been removed from memory.
        await().untilAsserted(() -> assertThat(lost).containsExactly("job"));
        jdbc.sql("DELETE FROM forge_jobs").update();
    }
}
