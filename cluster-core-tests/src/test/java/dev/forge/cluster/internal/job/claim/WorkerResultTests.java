// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.ThrowingLoggers;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.io.PrintWriter;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.CannotCreateTransactionException;
import org.springframework.transaction.InvalidIsolationLevelException;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionStatus;

/** Ends of jobs whose transaction, handler, monitor or logger fails. */
@ClusterPostgres
class WorkerResultTests extends WorkerFixture {

    WorkerResultTests(TestDatabase database) {
        super(database);
    }

    /** Returns the exception of an exhausted HikariCP pool. */
    private static CannotCreateTransactionException exhausted() {
        return new CannotCreateTransactionException(
                "Could not open JDBC Connection for transaction",
                new SQLTransientConnectionException("HikariPool-1 - Connection is not available, request timed out"));
    }

    @Test
    void job_whose_transaction_could_not_begin_runs_again() throws Exception {
        var refusals = new AtomicInteger(1);
        var asked = new CountDownLatch(1);
        var locked = new CountDownLatch(1);
        var manager = new JdbcTransactionManager(database.dataSource()) {
            private static final long serialVersionUID = 1L;

            @Override
            protected void doBegin(Object transaction, TransactionDefinition definition) {
                if (refusals.getAndDecrement() > 0) {
                    asked.countDown();
                    await().until(() -> locked.getCount() == 0);
                    throw exhausted();
                }
                super.doBegin(transaction, definition);
            }
        };
        work.on(job("job").in(in(manager)), (payload, context) -> null);
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(asked);
        transactions.executeWithoutResult(status -> {
            lock(id);
            locked.countDown();
            // The slot is free, and the worker has searched for more jobs, long before the job is pending again.
            finisherSkipsTwice();
        });
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(job.epoch()).isEqualTo(2);
    }

    /** Returns a transaction manager that throws instead of beginning a transaction as long as there is a failure. */
    private JdbcTransactionManager refusing(Supplier<@Nullable RuntimeException> failure) {
        return new JdbcTransactionManager(database.dataSource()) {
            private static final long serialVersionUID = 1L;

            @Override
            protected void doBegin(Object transaction, TransactionDefinition definition) {
                RuntimeException thrown = failure.get();
                if (thrown != null) {
                    throw thrown;
                }
                super.doBegin(transaction, definition);
            }
        };
    }

    static Stream<RuntimeException> transactionsThatNeverBegin() {
        String hikari = "HikariPool-1 - Connection is not available, request timed out";
        return Stream.of(
                new InvalidIsolationLevelException("this manager supports no isolation levels"),
                new CannotCreateTransactionException("no", new IllegalStateException("the factory is closed")),
                new CannotCreateTransactionException("no", new SQLException("HikariDataSource has been closed")),
                new CannotCreateTransactionException(
                        "no",
                        new SQLTransientConnectionException(
                                hikari, "28P01", new SQLException("password authentication failed", "28P01"))));
    }

    @ParameterizedTest
    @MethodSource("transactionsThatNeverBegin")
    void transaction_that_can_never_begin_is_a_failed_attempt(RuntimeException failure) {
        work.on(job("job").in(in(refusing(() -> failure))), (payload, context) -> null);
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null).id();
        await().atMost(SOON)
                .untilAsserted(
                        () -> assertThat(member.jobs().find(id).orElseThrow().status())
                                .isEqualTo(JobStatus.FAILED));
        JobInfo job = member.ended(id);
        assertThat(job.attempts()).isEqualTo(3);
        assertThat(job.lastError()).contains(failure.getClass().getName());
    }

    @Test
    void job_whose_transaction_cannot_begin_waits_longer_each_time_and_shows_the_reason() {
        var begins = new CopyOnWriteArrayList<Long>();
        var shown = new AtomicBoolean();
        work.on(
                job("job").attempts(1).in(in(refusing(() -> {
                    begins.add(System.nanoTime());
                    return begins.size() <= 3 || !shown.get() ? exhausted() : null;
                }))),
                (payload, context) -> null);
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null).id();
        await().until(() -> count("status = 'pending' AND attempts = 0 AND last_error LIKE '%HikariPool-1%'") == 1);
        shown.set(true);
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(count("attempt_history IS NOT NULL")).isZero();
        assertThat(begins).hasSizeGreaterThanOrEqualTo(4);
        for (int i = 1; i < 4; i++) {
            assertThat((begins.get(i) - begins.get(i - 1)) / 1_000_000)
                    .as("pause %d, ms", i)
                    .isGreaterThanOrEqualTo(200L << (i - 1));
        }
    }

    @Test
    void interrupt_of_a_handler_does_not_reach_its_rollback() {
        var interrupted = new CopyOnWriteArrayList<Boolean>();
        var manager = new JdbcTransactionManager(database.dataSource()) {
            private static final long serialVersionUID = 1L;

            @Override
            protected void doRollback(DefaultTransactionStatus status) {
                interrupted.add(Thread.currentThread().isInterrupted());
                super.doRollback(status);
            }
        };
        work.on(job("job").attempts(1).timeout(Duration.ofMillis(100)).in(in(manager)), (payload, context) -> {
            try {
                new CountDownLatch(1).await();
                return null;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw e;
            }
        });
        Member member = start();
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).lastError())
                .contains("longer than");
        assertThat(interrupted).containsExactly(false);
    }

    @Test
    void backoff_strategy_that_throws_fails_the_job() {
        work.backoff = (attempts, failure) -> {
            throw new IllegalStateException("no idea when");
        };
        work.on("job", context -> {
            throw new IllegalArgumentException("the cause");
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.lastError()).contains("no idea when");
        await().until(() -> member.engine().load() == 0);
    }

    private static final class Unprintable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public void printStackTrace(PrintWriter writer) {
            throw new IllegalStateException("not even that");
        }
    }

    @Test
    void exception_that_cannot_be_printed_is_a_failed_attempt() {
        work.on("job", context -> {
            throw new Unprintable();
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.attempts()).isEqualTo(3);
        assertThat(job.lastError()).contains(Unprintable.class.getName());
    }

    @Test
    void observation_does_not_decide_how_a_job_ends() {
        work.monitor = new JobMonitor() {
            @Override
            public void observe(Attempt attempt, Runnable run) {
                if (attempt.job().attempt() == 1) {
                    throw new IllegalStateException("before");
                }
                run.run();
                throw new IllegalStateException("after");
            }
        };
        var runs = new CopyOnWriteArrayList<Integer>();
        work.on(job("job"), (payload, context) -> {
            runs.add(context.attempt());
            if (context.attempt() == 1) {
                throw new IllegalStateException("again");
            }
            return "done";
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.result()).isEqualTo("\"done\"");
        assertThat(runs).containsExactly(1, 2);
    }

    private void refuse(String condition) {
        refuse("RAISE EXCEPTION 'not like this'", condition);
    }

    private void refuse(String statement, String condition) {
        jdbc.sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; RETURN NEW; END $$"
                        .formatted(statement))
                .update();
        jdbc.sql("CREATE TRIGGER refuse BEFORE UPDATE ON forge_jobs FOR EACH ROW WHEN (%s) EXECUTE FUNCTION refuse()"
                        .formatted(condition))
                .update();
    }

    private void refuseNothing() {
        jdbc.sql("DROP FUNCTION refuse() CASCADE").update();
    }

    @Test
    void result_that_a_trigger_of_the_application_refuses_fails_its_job_only() {
        work.on(job("job").taking(Integer.class), (payload, context) -> payload);
        refuse("NEW.status = 'completed' AND NEW.result = '3'");
        try {
            Member member = start();
            List<UUID> ids = IntStream.range(0, 6)
                    .mapToObj(i -> member.jobs().enqueueNamed("job", i).id())
                    .toList();
            for (int i = 0; i < 6; i++) {
                JobInfo job = member.ended(ids.get(i));
                assertThat(job.status()).isEqualTo(i == 3 ? JobStatus.FAILED : JobStatus.COMPLETED);
            }
            assertThat(member.jobs().find(ids.get(3)).orElseThrow().lastError()).contains("not like this");
        } finally {
            refuseNothing();
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "RAISE EXCEPTION 'not like this'",
                "PERFORM FROM missing_table",
                "RAISE EXCEPTION 'not like this' USING ERRCODE = '55000'"
            })
    void row_that_cannot_be_changed_delays_no_other_result(String statement) {
        work.on(job("job").taking(Integer.class), (payload, context) -> payload);
        refuse(statement, "NEW.status IN ('completed', 'failed') AND NEW.payload = '3'");
        Member member = start();
        UUID held;
        try {
            held = member.jobs().enqueueNamed("job", 3).id();
            await().until(() -> member.engine().load() == 1 && count("status = 'running'") == 1);
            for (int i = 4; i < 10; i++) {
                assertThat(member.ended(member.jobs().enqueueNamed("job", i).id())
                                .status())
                        .isEqualTo(JobStatus.COMPLETED);
            }
            assertThat(member.jobs().find(held).orElseThrow().status()).isEqualTo(JobStatus.RUNNING);
        } finally {
            refuseNothing();
        }
        // Failed if the refusal ends between the two tries: a result that cannot be stored fails its job.
        assertThat(member.ended(held).status()).isIn(JobStatus.COMPLETED, JobStatus.FAILED);
    }

    @Test
    void row_that_cannot_be_changed_ends_the_lease_of_no_other_job() {
        work.heartbeat = Duration.ofMillis(100);
        var go = new CountDownLatch(1);
        work.on(job("bad"), (payload, context) -> {
            until(go);
            return null;
        });
        work.on(job("good"), (payload, context) -> {
            until(go);
            return null;
        });
        Member member = start();
        UUID bad = member.jobs().enqueueNamed("bad", null).id();
        UUID good = member.jobs().enqueueNamed("good", null).id();
        await().until(() -> count("status = 'running'") == 2);
        refuse("NEW.name = 'bad'");
        try {
            for (int renewals = 0; renewals < 2; renewals++) {
                OffsetDateTime last = lastHeartbeat(good);
                await().until(() -> lastHeartbeat(good).isAfter(last));
            }
        } finally {
            refuseNothing();
            go.countDown();
        }
        assertThat(member.ended(good).attempts()).isOne();
        assertThat(member.ended(bad).status()).isEqualTo(JobStatus.COMPLETED);
    }

    private OffsetDateTime lastHeartbeat(UUID job) {
        return jdbc.sql("SELECT last_heartbeat FROM forge_jobs WHERE id = ?")
                .param(job)
                .query(OffsetDateTime.class)
                .single();
    }

    @Test
    void retention_that_is_too_long_fails_its_job_only() {
        work.on("job", context -> {});
        Member member = start();
        UUID bad = UUID.randomUUID();
        jdbc.sql(
                        "INSERT INTO forge_jobs (id, name, metadata) VALUES (?, 'job', '{\"forge.retentionMillis\": \"99999999999999\"}')")
                .param(bad)
                .update();
        member.engine().announce(JobPriority.NORMAL);
        JobInfo failed = member.ended(bad);
        assertThat(failed.status()).isEqualTo(JobStatus.FAILED);
        assertThat(failed.lastError()).contains("the database rejected the result");
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).status())
                .isEqualTo(JobStatus.COMPLETED);
    }

    @Test
    void logger_that_throws_ends_no_thread_and_fails_no_job() throws Exception {
        var source = new Breakable(database.dataSource(), "pass");
        var started = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        work.on(job("again"), (payload, context) -> {
            if (context.attempt() == 1) {
                throw new IllegalStateException("once");
            }
            return null;
        });
        work.on("job", context -> {
            started.countDown();
            until(go);
        });
        Member member = cluster.start("one", source, work, UnaryOperator.identity());
        await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
        try (var loggers = new ThrowingLoggers()) {
            assertThat(member.ended(member.jobs().enqueueNamed("again", null).id())
                            .status())
                    .isEqualTo(JobStatus.COMPLETED);
            UUID running = member.jobs().enqueueNamed("job", null).id();
            until(started);
            source.shut();
            go.countDown();
            member.engine().announce(JobPriority.NORMAL);
            await().until(() -> source.refused.get() > 0);
            await().until(() -> !member.leadership().isLeader(Leadership.SCHEDULER));
            source.open();
            assertThat(member.ended(running).status()).isEqualTo(JobStatus.COMPLETED);
            // A wake-up before the next contact has no effect until the next poll, a minute later.
            await().until(() -> member.node().contact().isRecent()
                    && member.node().membership().isTrusted());
            assertThat(member.ended(member.jobs().enqueueNamed("again", null).id())
                            .status())
                    .isEqualTo(JobStatus.COMPLETED);
            await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
            assertThat(loggers.thrown).isNotEmpty();
        }
    }

    @Test
    void monitor_that_throws_keeps_no_job_from_running_and_fails_none() {
        work.monitor = new JobMonitor() {
            @Override
            public void claimed(Duration took) {
                throw new IllegalStateException("no meter");
            }

            @Override
            public void retried(String name) {
                throw new IllegalStateException("no meter");
            }
        };
        work.on(job("again"), (payload, context) -> {
            if (context.attempt() == 1) {
                throw new IllegalStateException("once");
            }
            return null;
        });
        Member member = start();
        JobInfo ended = member.ended(member.jobs().enqueueNamed("again", null).id());
        assertThat(ended.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(ended.attempts()).isEqualTo(2);
    }
}
