// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/** Handlers and steps that ignore the request to stop. */
class IgnoredTimeoutTests extends AbstractExecutionTests {

    IgnoredTimeoutTests(TestDatabase database) {
        super(database);
    }

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
        assertThat(job.lastError()).contains("200 ms");
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
        var timedOut = new CountDownLatch(2);
        work.monitor = new JobMonitor() {
            @Override
            public void timedOut(String name) {
                timedOut.countDown();
            }
        };
        work.on(job("last").attempts(1).timeout(Duration.ofMillis(100)), (payload, context) -> {
            ignoreInterrupts();
            return null;
        });
        work.on(job("retried").attempts(2).timeout(Duration.ofMillis(100)), (payload, context) -> {
            ignoreInterrupts();
            return null;
        });
        Member member = cluster.start("one", work, AbstractExecutionTests::impatient);
        UUID last = member.jobs().enqueueNamed("last", null).id();
        UUID retried = member.jobs().enqueueNamed("retried", null).id();
        // Otherwise the drain might interrupt the handlers first.
        until(timedOut);
        member.node().stop();
        assertThat(column(last, "status || attempts")).isEqualTo("failed1");
        assertThat(column(last, "last_error")).contains("100 ms");
        assertThat(column(retried, "status || attempts")).isEqualTo("pending1");
        assertThat(column(retried, "last_error")).contains("100 ms");
    }

    @Test
    void shutdown_fails_no_job_of_a_common_attempt_that_ignores_its_timeout() throws Exception {
        var timedOut = new CountDownLatch(2);
        work.monitor = new JobMonitor() {
            @Override
            public void timedOut(String name) {
                timedOut.countDown();
            }
        };
        work.slots = 1;
        work.onMany(
                job("many").attempts(1).timeout(Duration.ofMillis(100)),
                2,
                Duration.ofSeconds(20),
                (payloads, contexts) -> {
                    ignoreInterrupts();
                    return null;
                });
        Member member = cluster.start("one", work, AbstractExecutionTests::impatient);
        UUID first = member.jobs().enqueueNamed("many", null).id();
        UUID second = member.jobs().enqueueNamed("many", null).id();
        until(timedOut);
        member.node().stop();
        for (UUID id : List.of(first, second)) {
            // Its next attempt is the second one, so it runs alone.
            assertThat(column(id, "status || attempts")).isEqualTo("pending1");
            assertThat(column(id, "last_error")).contains("100 ms");
        }
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
        // Long enough for the second attempt on a busy machine.
        work.on(job("deaf").attempts(2).timeout(Duration.ofSeconds(3)), (payload, context) -> {
            if (context.attempt() == 1) {
                started.countDown();
                ignoreInterrupts();
            }
            return context.attempt();
        });
        Member member = start();
        Member enqueuer = cluster.start("enqueuer", copyWithoutMonitor(), IgnoredTimeoutTests::functionOnly);
        UUID id = member.jobs().enqueueNamed("deaf", null).id();
        until(started);
        await().untilAsserted(() -> assertThat(logged(Level.WARN, id.toString()))
                .singleElement()
                .satisfies(event -> assertThat(event.getFormattedMessage())
                        .contains("Job deaf", "attempt 1 of 2", "timeout of 3 s", "ignoreInterrupts")));
        assertThat(member.engine().stuckHandlers())
                .singleElement()
                .satisfies(stuck -> assertThat(stuck.id()).isEqualTo(id));
        assertThat(member.operations().explain(id).reason()).isEqualTo(Reason.RUNNING_PAST_TIMEOUT);
        await().until(() -> enqueuer.operations().explain(id).reason() == Reason.RUNNING_PAST_TIMEOUT);
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
        return TestNodes.withRoles(settings, NodeRole.FUNCTION);
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
        assertThat(info.lastError()).contains("100 ms");
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
        TestWorkflows.Member one = flows.start("one", AbstractExecutionTests::impatient);
        UUID run = one.workflows().start("deaf", null);
        until(started);
        await().untilAsserted(() -> assertThat(logged(Level.WARN, run.toString()))
                .singleElement()
                .satisfies(event -> assertThat(event.getFormattedMessage())
                        .contains("step 'hang'", "timeout of 100 ms", "ignoreInterrupts")));
        assertThat(one.member().operations().explain(run).reason()).isEqualTo(Reason.RUNNING_PAST_TIMEOUT);
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
        TestWorkflows.Member one = flows.start("one", AbstractExecutionTests::impatient);
        UUID run = one.workflows().start("poor", null);
        until(waiting);
        // The stop takes longer than the timeout, because the node waits for its jobs first.
        one.member().node().stop();
        assertThat(jdbc.sql("SELECT status FROM forge_workflow_steps WHERE run_id = ?")
                        .param(run)
                        .query(String.class)
                        .list())
                .isEmpty();
        assertThat(column(run, "status")).isEqualTo("pending");
    }
}
