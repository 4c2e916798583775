// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.classic.spi.ThrowableProxyUtil;
import ch.qos.logback.core.read.ListAppender;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobExplanation.Reason;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** How attempts end: futures, timeouts that a handler ignores, and the history of failed attempts. */
@ClusterPostgres
@SuppressWarnings("FutureReturnValueIgnored") // The engine waits for them: that is what is tested.
class HandlerExecutionTests {

    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestJobs work;
    private final TestWorkflows flows;
    private final ListAppender<ILoggingEvent> logged = new ListAppender<>();
    private final Logger engine = (Logger) LoggerFactory.getLogger("dev.forge.cluster.internal");
    /** Releases handlers that ignore interrupts. */
    private final CountDownLatch release = new CountDownLatch(1);

    HandlerExecutionTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = new TestJobs(database.dataSource());
        this.flows = new TestWorkflows(cluster);
        jdbc.sql("CREATE TABLE IF NOT EXISTS effects (job uuid)").update();
        jdbc.sql("TRUNCATE effects").update();
    }

    @BeforeEach
    void listen() {
        logged.start();
        engine.addAppender(logged);
    }

    @AfterEach
    void close() {
        release.countDown();
        cluster.close();
        engine.detachAppender(logged);
    }

    private Member start() {
        return cluster.start("one", work, UnaryOperator.identity());
    }

    private static NodeSettings impatient(NodeSettings settings) {
        return new NodeSettings(
                settings.presence(),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                Duration.ofMillis(300));
    }

    private static void until(CountDownLatch latch) throws InterruptedException {
        assertThat(latch.await(20, TimeUnit.SECONDS)).isTrue();
    }

    /** Ignores interrupts until the test releases the handler. */
    private void ignoreInterrupts() {
        while (release.getCount() > 0) {
            try {
                release.await();
            } catch (InterruptedException e) {
                // Ignores the interrupt on purpose.
            }
        }
    }

    @Test
    void mdc_entry_of_one_job_is_not_seen_by_the_next_one_on_its_thread() {
        var seen = new CopyOnWriteArrayList<String>();
        work.slots = 1;
        work.on("job", context -> {
            seen.add(Thread.currentThread().getId() + " " + MDC.get("customer"));
            MDC.put("customer", "4711");
            assertThat(MDC.get(Mdc.NODE_NAME)).isEqualTo("one");
        });
        Member member = start();
        member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(member.ended(member.jobs().enqueueNamed("job", null).id()).status())
                .isEqualTo(JobStatus.COMPLETED);
        assertThat(seen).hasSize(2).allSatisfy(entry -> assertThat(entry).endsWith(" null"));
        assertThat(seen.get(0)).as("the same thread").isEqualTo(seen.get(1));
    }

    private List<ILoggingEvent> logged(Level level, String text) {
        return List.copyOf(logged.list).stream()
                .filter(event ->
                        event.getLevel() == level && event.getFormattedMessage().contains(text))
                .toList();
    }

    private static String text(ILoggingEvent event) {
        return event.getFormattedMessage()
                + (event.getThrowableProxy() == null ? "" : ThrowableProxyUtil.asString(event.getThrowableProxy()));
    }

    private String column(UUID job, String expression) {
        return jdbc.sql("SELECT (%s)::text FROM forge_jobs WHERE id = ?".formatted(expression))
                .param(job)
                .query(String.class)
                .single();
    }

    // Futures

    @Test
    void failing_future_is_a_failed_attempt() {
        work.on(
                job("job").attempts(2),
                (payload, context) -> CompletableFuture.supplyAsync(() -> {
                    throw new IllegalStateException("mail server is down");
                }));
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.attempts()).isEqualTo(2);
        assertThat(job.lastError()).startsWith("java.lang.IllegalStateException: mail server is down");
    }

    @Test
    void result_of_a_future_is_the_result_of_the_job() {
        var pending = new CompletableFuture<Object>();
        work.on(job("value"), (payload, context) -> pending);
        work.on(
                job("outcome").attempts(1),
                (payload, context) -> CompletableFuture.supplyAsync(() ->
                        context.epoch() == 1 ? Outcome.snooze(Duration.ofMillis(1)) : Outcome.complete("second")));
        work.on(job("task"), (payload, context) -> {
            var task = new FutureTask<>(() -> List.of(1, 2));
            new Thread(task).start();
            return task;
        });
        Member member = start();
        UUID value = member.jobs().enqueueNamed("value", null).id();
        await().until(() -> member.jobs().find(value).orElseThrow().status() == JobStatus.RUNNING);
        pending.complete("first");
        assertThat(member.ended(value).result()).isEqualTo("\"first\"");
        assertThat(member.ended(member.jobs().enqueueNamed("outcome", null).id())
                        .result())
                .isEqualTo("\"second\"");
        assertThat(member.ended(member.jobs().enqueueNamed("task", null).id()).result())
                .isEqualTo("[1, 2]");
    }

    @Test
    void timeout_cancels_the_future() {
        var future = new CompletableFuture<Object>();
        work.on(job("job").attempts(1).timeout(Duration.ofMillis(200)), (payload, context) -> future);
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.lastError()).contains("PT0.2S");
        assertThat(future).isCancelled();
    }

    @Test
    void cancelled_job_cancels_its_future() {
        var future = new CompletableFuture<Object>();
        work.on(job("job"), (payload, context) -> future);
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null).id();
        await().until(() -> member.jobs().find(id).orElseThrow().status() == JobStatus.RUNNING);
        assertThat(member.jobs().cancel(id)).isTrue();
        await().until(future::isCancelled);
        assertThat(member.jobs().find(id).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
    }

    @Test
    void drain_cancels_the_future_and_returns_the_job() {
        var future = new CompletableFuture<Object>();
        work.on(job("job").attempts(1), (payload, context) -> future);
        Member member = cluster.start("one", work, HandlerExecutionTests::impatient);
        UUID id = member.jobs().enqueueNamed("job", null).id();
        await().until(() -> member.jobs().find(id).orElseThrow().status() == JobStatus.RUNNING);
        member.node().stop();
        assertThat(future).isCancelled();
        assertThat(column(id, "status || attempts")).isEqualTo("pending0");
    }

    @Test
    void transactional_handler_must_not_return_an_unfinished_future() {
        var future = new CompletableFuture<Object>();
        work.on(job("unfinished").in(work.transaction()), (payload, context) -> {
            jdbc.sql("SELECT 1").query(Integer.class).single();
            return future;
        });
        work.on(
                job("finished").in(work.transaction()),
                (payload, context) -> CompletableFuture.completedFuture("done"));
        Member member = start();
        JobInfo unfinished =
                member.ended(member.jobs().enqueueNamed("unfinished", null).id());
        assertThat(unfinished.status()).isEqualTo(JobStatus.FAILED);
        assertThat(unfinished.attempts()).isOne();
        assertThat(unfinished.lastError()).contains("@Transactional", "future");
        assertThat(future).isCancelled();
        assertThat(member.ended(member.jobs().enqueueNamed("finished", null).id())
                        .result())
                .isEqualTo("\"done\"");
    }

    @Test
    void step_waits_for_its_future() {
        flows.on("waits", wf -> wf.step("call", Object.class, () -> CompletableFuture.supplyAsync(() -> "called")));
        flows.on(
                "fails",
                wf -> wf.step(
                        "call",
                        Object.class,
                        () -> CompletableFuture.failedFuture(new IllegalStateException("bank is closed")),
                        step -> step.withMaxAttempts(1)));
        flows.on(
                "declares",
                wf -> wf.step(Step.of(
                        "call",
                        new ParameterizedTypeReference<CompletableFuture<String>>() {},
                        () -> CompletableFuture.completedFuture("no"))));
        flows.on("returns", wf -> CompletableFuture.completedFuture("no"));
        TestWorkflows.Member one = flows.start("one");
        UUID waits = one.workflows().start("waits", null);
        assertThat(one.ended(waits).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(waits, String.class)).contains("called");
        assertThat(one.ended(one.workflows().start("fails", null)).lastError()).contains("bank is closed");
        WorkflowInfo declares = one.ended(one.workflows().start("declares", null));
        assertThat(declares.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(declares.lastError()).contains("Step 'call'", "CompletableFuture", "join()");
        WorkflowInfo returns = one.ended(one.workflows().start("returns", null));
        assertThat(returns.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(returns.lastError()).contains("future");
    }

    @Test
    void fenced_work_must_not_return_an_unfinished_future() {
        Member member = start();
        await().until(() -> member.leadership().isLeader(Leadership.SCHEDULER));
        var future = new CompletableFuture<String>();
        assertThatIllegalStateException()
                .isThrownBy(() -> member.leadership().fenced(Leadership.SCHEDULER, () -> {
                    JdbcClient.create(cluster.database.dataSource())
                            .sql("INSERT INTO effects VALUES (gen_random_uuid())")
                            .update();
                    return future;
                }))
                .withMessageContaining("future");
        assertThat(future).isCancelled();
        assertThat(jdbc.sql("SELECT count(*) FROM effects").query(Long.class).single())
                .isZero();
    }

    // Timeouts that a handler ignores

    @Test
    void result_that_comes_after_the_timeout_is_discarded() {
        work.on(job("job").attempts(1).timeout(Duration.ofMillis(200)), (payload, context) -> {
            await().until(context::stopRequested);
            return "too late";
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(job.result()).isNull();
        assertThat(job.lastError()).contains("PT0.2S");
    }

    @Test
    void transaction_that_ends_after_the_timeout_is_rolled_back() {
        work.on(job("job").attempts(1).timeout(Duration.ofMillis(200)).in(work.transaction()), (payload, context) -> {
            JdbcClient.create(cluster.database.dataSource())
                    .sql("INSERT INTO effects VALUES (?)")
                    .param(context.id())
                    .update();
            await().until(context::stopRequested);
            return null;
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(job.status()).isEqualTo(JobStatus.FAILED);
        assertThat(jdbc.sql("SELECT count(*) FROM effects").query(Long.class).single())
                .isZero();
    }

    @Test
    void shutdown_spends_the_attempt_of_a_handler_that_ignores_its_timeout() throws Exception {
        var started = new CountDownLatch(2);
        work.on(job("last").attempts(1).timeout(Duration.ofMillis(100)), (payload, context) -> {
            started.countDown();
            ignoreInterrupts();
            return null;
        });
        work.on(job("retried").attempts(2).timeout(Duration.ofMillis(100)), (payload, context) -> {
            started.countDown();
            ignoreInterrupts();
            return null;
        });
        Member member = cluster.start("one", work, HandlerExecutionTests::impatient);
        UUID last = member.jobs().enqueueNamed("last", null).id();
        UUID retried = member.jobs().enqueueNamed("retried", null).id();
        until(started);
        member.node().stop();
        assertThat(column(last, "status || attempts")).isEqualTo("failed1");
        assertThat(column(last, "last_error")).contains("PT0.1S");
        assertThat(column(retried, "status || attempts")).isEqualTo("pending1");
        assertThat(column(retried, "last_error")).contains("PT0.1S");
    }

    @Test
    void handler_that_ignores_its_timeout_is_reported_and_not_run_twice() throws Exception {
        var started = new CountDownLatch(1);
        var timeouts = new CopyOnWriteArrayList<String>();
        work.monitor = new JobMonitor() {
            @Override
            public void timedOut(String name) {
                timeouts.add(name);
            }
        };
        work.on(job("deaf").attempts(2).timeout(Duration.ofMillis(100)), (payload, context) -> {
            if (context.attempt() == 1) {
                started.countDown();
                ignoreInterrupts();
            }
            return context.attempt();
        });
        Member member = start();
        Member enqueuer = cluster.start("enqueuer", copyWithoutMonitor(), HandlerExecutionTests::functionOnly);
        UUID id = member.jobs().enqueueNamed("deaf", null).id();
        until(started);
        await().untilAsserted(() -> assertThat(logged(Level.WARN, id.toString()))
                .singleElement()
                .satisfies(event -> assertThat(event.getFormattedMessage())
                        .contains("Job deaf", "attempt 1 of 2", "timeout of PT0.1S", "ignoreInterrupts")));
        assertThat(member.engine().stuckHandlers())
                .singleElement()
                .satisfies(stuck -> assertThat(stuck.id()).isEqualTo(id));
        assertThat(member.jobs().explain(id).reason()).isEqualTo(Reason.RUNNING_PAST_TIMEOUT);
        await().until(() -> enqueuer.jobs().explain(id).reason() == Reason.RUNNING_PAST_TIMEOUT);
        assertThat(timeouts).containsExactly("deaf");
        assertThat(column(id, "status || claim_epoch")).isEqualTo("running1");
        release.countDown();
        JobInfo job = member.ended(id);
        assertThat(job.result()).isEqualTo("2");
        assertThat(member.engine().stuckHandlers()).isEmpty();
        assertThat(job.attemptHistory())
                .singleElement()
                .satisfies(attempt -> assertThat(attempt.result()).isEqualTo(JobAttempt.Result.TIMED_OUT));
    }

    private static NodeSettings functionOnly(NodeSettings settings) {
        NodeSettings.Presence usual = settings.presence();
        return new NodeSettings(
                new NodeSettings.Presence(
                        usual.hostname(),
                        usual.mode(),
                        Set.of(NodeRole.FUNCTION),
                        usual.capabilities(),
                        usual.version(),
                        usual.info(),
                        usual.load()),
                settings.heartbeat(),
                settings.detection(),
                settings.election(),
                settings.drainTimeout());
    }

    private TestJobs copyWithoutMonitor() {
        var copy = new TestJobs(cluster.database.dataSource());
        work.handlers().all().forEach(copy.handlers()::add);
        return copy;
    }

    @Test
    void step_that_returns_after_its_timeout_has_failed() {
        var attempts = new AtomicInteger();
        flows.on(
                "late",
                wf -> wf.transactionalStep(
                        "write",
                        String.class,
                        () -> {
                            attempts.incrementAndGet();
                            JdbcClient.create(flows.source)
                                    .sql("INSERT INTO effects VALUES (?)")
                                    .param(wf.id())
                                    .update();
                            long deadline =
                                    System.nanoTime() + Duration.ofMillis(400).toNanos();
                            await().pollDelay(Duration.ZERO).until(() -> System.nanoTime() > deadline);
                            return "too late";
                        },
                        step -> step.withMaxAttempts(2).withTimeout(Duration.ofMillis(100))));
        TestWorkflows.Member one = flows.start("one");
        WorkflowInfo info = one.ended(one.workflows().start("late", null));
        assertThat(info.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(info.lastError()).contains("PT0.1S");
        assertThat(attempts).hasValue(2);
        assertThat(jdbc.sql("SELECT count(*) FROM effects").query(Long.class).single())
                .isZero();
    }

    @Test
    void shutdown_spends_the_attempt_of_a_step_that_ignores_its_timeout() throws Exception {
        var started = new CountDownLatch(1);
        flows.on(
                "deaf",
                wf -> wf.step(
                        "hang",
                        String.class,
                        () -> {
                            started.countDown();
                            ignoreInterrupts();
                            return "";
                        },
                        step -> step.withMaxAttempts(2).withTimeout(Duration.ofMillis(100))));
        TestWorkflows.Member one = flows.start("one", HandlerExecutionTests::impatient);
        UUID run = one.workflows().start("deaf", null);
        until(started);
        await().untilAsserted(() -> assertThat(logged(Level.WARN, run.toString()))
                .singleElement()
                .satisfies(event -> assertThat(event.getFormattedMessage())
                        .contains("step 'hang'", "timeout of PT0.1S", "ignoreInterrupts")));
        assertThat(one.member().jobs().explain(run).reason()).isEqualTo(Reason.RUNNING_PAST_TIMEOUT);
        one.member().node().stop();
        assertThat(jdbc.sql("SELECT status || attempts FROM forge_workflow_steps WHERE run_id = ?")
                        .param(run)
                        .query(String.class)
                        .optional())
                .contains("retrying1");
        assertThat(column(run, "status")).isEqualTo("pending");
    }

    @Test
    void shutdown_does_not_count_a_step_that_waits_for_a_connection() throws Exception {
        var waiting = new CountDownLatch(1);
        var method = new AtomicReference<Thread>();
        DataSource real = flows.source;
        flows.source = new DelegatingDataSource(real) {
            @Override
            public Connection getConnection() throws SQLException {
                if (Thread.currentThread() == method.get()) {
                    waiting.countDown();
                    ignoreInterrupts();
                }
                return super.getConnection();
            }
        };
        flows.on("poor", wf -> {
            method.set(Thread.currentThread());
            return wf.transactionalStep(
                    "write",
                    String.class,
                    () -> "",
                    step -> step.withMaxAttempts(1).withTimeout(Duration.ofMillis(100)));
        });
        TestWorkflows.Member one = flows.start("one", HandlerExecutionTests::impatient);
        UUID run = one.workflows().start("poor", null);
        until(waiting);
        // Longer than the timeout: the node waits for its jobs first.
        one.member().node().stop();
        assertThat(jdbc.sql("SELECT status FROM forge_workflow_steps WHERE run_id = ?")
                        .param(run)
                        .query(String.class)
                        .list())
                .isEmpty();
        assertThat(column(run, "status")).isEqualTo("pending");
    }

    // History of failed attempts

    @Test
    void failed_attempts_of_a_step_are_kept_with_it() {
        flows.attempts = 30;
        var attempts = new AtomicInteger();
        var undone = new AtomicInteger();
        flows.on("flaky", wf -> {
            wf.step(
                    "pay",
                    String.class,
                    () -> {
                        if (attempts.incrementAndGet() < 25) {
                            throw new IllegalStateException("attempt " + attempts + " " + "x".repeat(5_000));
                        }
                        return "paid";
                    },
                    step -> step.withCompensation(paid -> {
                        if (undone.incrementAndGet() == 1) {
                            throw new IllegalStateException("cannot be undone yet");
                        }
                    }));
            throw new IllegalArgumentException("no stock");
        });
        flows.on("fine", wf -> wf.step("pay", String.class, () -> "paid"));
        TestWorkflows.Member one = flows.start("one");
        WorkflowInfo flaky = one.ended(one.workflows().start("flaky", null));
        assertThat(flaky.status()).isEqualTo(WorkflowStatus.COMPENSATED);
        List<WorkflowInfo.Attempt> history = flaky.steps().get(0).attemptHistory();
        assertThat(history)
                .hasSize(20)
                .allSatisfy(attempt -> assertThat(attempt.error()).hasSizeLessThan(2_100));
        assertThat(history.get(0).duration()).isNotNull();
        assertThat(history.get(0).attempt()).isEqualTo(6);
        assertThat(history.get(18).error()).contains("attempt 24");
        assertThat(history.get(18).compensation()).isFalse();
        assertThat(history.get(19).error()).contains("cannot be undone yet");
        assertThat(history.get(19).compensation()).isTrue();
        WorkflowInfo fine = one.ended(one.workflows().start("fine", null));
        assertThat(fine.steps().get(0).attemptHistory()).isEmpty();
        assertThat(jdbc.sql("SELECT attempt_history IS NULL FROM forge_workflow_steps WHERE run_id = ?")
                        .param(fine.id())
                        .query(Boolean.class)
                        .single())
                .isTrue();
        for (String edited : List.of("{}", "3", "[{}, 4, {\"attempt\": \"x\"}]", "null")) {
            jdbc.sql("UPDATE forge_workflow_steps SET attempt_history = ?::jsonb WHERE run_id = ?")
                    .params(edited, fine.id())
                    .update();
            assertThat(one.workflows()
                            .find(fine.id())
                            .orElseThrow()
                            .steps()
                            .get(0)
                            .attemptHistory())
                    .as(edited)
                    .isEmpty();
        }
    }

    @Test
    void final_failure_is_logged_once_with_its_stack_trace() {
        work.on(job("job").attempts(2), (payload, context) -> {
            throw new IllegalStateException("disk is full");
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        List<ILoggingEvent> finals = logged(Level.ERROR, job.id().toString());
        assertThat(finals).hasSize(1);
        assertThat(text(finals.get(0)))
                .contains("job", "2 of 2", "IllegalStateException: disk is full", "at dev.forge.cluster.internal");
    }

    @Test
    void error_texts_are_bounded_in_the_log_and_in_the_table() {
        work.on(job("job").attempts(2), (payload, context) -> {
            throw new IllegalStateException("x".repeat(100_000), new IllegalArgumentException("y".repeat(100_000)));
        });
        Member member = start();
        JobInfo job = member.ended(member.jobs().enqueueNamed("job", null).id());
        assertThat(List.copyOf(logged.list))
                .allSatisfy(event -> assertThat(text(event)).hasSizeLessThan(30_000));
        assertThat(List.copyOf(logged.list))
                .allSatisfy(event -> assertThat(event.getFormattedMessage()).hasSizeLessThan(5_000));
        assertThat(job.lastError())
                .hasSizeLessThan(21_000)
                .contains("at dev.forge.cluster", "Caused by: java.lang.IllegalArgumentException");
    }

    @Test
    void failed_attempts_are_kept_with_the_job() {
        work.on(job("flaky").attempts(30), (payload, context) -> {
            if (context.attempt() < 25) {
                throw new IllegalStateException("attempt " + context.attempt() + " " + "x".repeat(50_000));
            }
            return null;
        });
        work.on("fine", context -> {});
        Member member = start();
        UUID flaky =
                member.ended(member.jobs().enqueueNamed("flaky", null).id()).id();
        UUID fine = member.ended(member.jobs().enqueueNamed("fine", null).id()).id();
        assertThat(column(fine, "attempt_history IS NULL")).isEqualTo("true");
        assertThat(column(flaky, "jsonb_array_length(attempt_history)")).isEqualTo("20");
        assertThat(column(flaky, "attempt_history -> 0 ->> 'attempt'")).isEqualTo("5");
        assertThat(column(flaky, "attempt_history -> 19 ->> 'error'"))
                .contains("attempt 24")
                .hasSizeLessThan(2_100);
        assertThat(member.jobs().find(fine).orElseThrow().attemptHistory()).isEmpty();
        List<JobAttempt> history = member.jobs().find(flaky).orElseThrow().attemptHistory();
        assertThat(history).hasSize(20).allSatisfy(attempt -> {
            assertThat(attempt.result()).isEqualTo(JobAttempt.Result.FAILED);
            assertThat(attempt.nodeId()).isEqualTo(member.node().id());
            assertThat(attempt.duration()).isNotNull();
        });
        assertThat(history.get(19).attempt()).isEqualTo(24);
    }

    @Test
    void history_that_was_edited_by_hand_breaks_nothing() {
        var failing = new AtomicBoolean(true);
        work.on(job("job").attempts(1), (payload, context) -> {
            if (failing.get()) {
                throw new IllegalStateException("not yet");
            }
            return null;
        });
        Member member = start();
        UUID id = member.ended(member.jobs().enqueueNamed("job", null).id()).id();
        for (String edited : List.of("{}", "3", "[{}, 4, {\"attempt\": \"x\"}]", "null")) {
            jdbc.sql("UPDATE forge_jobs SET attempt_history = ?::jsonb WHERE id = ?")
                    .params(edited, id)
                    .update();
            assertThat(member.jobs().find(id).orElseThrow().attemptHistory()).isEmpty();
            assertThat(member.jobs().retry(id)).isTrue();
            assertThat(member.ended(id).attemptHistory()).as(edited).hasSize(1);
        }
    }

    @Test
    void lost_node_is_part_of_the_history() throws Exception {
        var started = new CountDownLatch(1);
        work.on(job("job"), (payload, context) -> {
            if (context.epoch() == 1) {
                started.countDown();
                new CountDownLatch(1).await();
            }
            return null;
        });
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(started);
        await().until(() -> member.jobs().find(id).orElseThrow().status() == JobStatus.RUNNING);
        UUID node = member.node().id();
        NodeStore nodes = member.node().resources().nodes();
        await().until(() -> nodes.declareDead(
                        node,
                        jdbc.sql("SELECT beats FROM forge_nodes WHERE id = ?")
                                .param(node)
                                .query(Long.class)
                                .single(),
                        () -> member.engine().releaseHeldByDead(node))
                .isPresent());
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attemptHistory()).singleElement().satisfies(attempt -> {
            assertThat(attempt.result()).isEqualTo(JobAttempt.Result.NODE_LOST);
            assertThat(attempt.nodeId()).isEqualTo(node);
            assertThat(attempt.epoch()).isOne();
        });
    }
}
