// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Handlers that return futures. */
@SuppressWarnings("FutureReturnValueIgnored") // The engine waits for the futures.
class HandlerFutureTests extends AbstractExecutionTests {

    HandlerFutureTests(TestDatabase database) {
        super(database);
    }

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
        assertThat(job.lastError()).contains("200 ms");
        assertThat(future).isCancelled();
    }

    @Test
    void cancelled_job_cancels_its_future() throws Exception {
        var started = new CountDownLatch(1);
        var future = new CompletableFuture<Object>();
        work.on(job("job"), (payload, context) -> {
            started.countDown();
            return future;
        });
        Member member = start();
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(started);
        assertThat(member.jobs().cancel(id)).isTrue();
        await().until(future::isCancelled);
        assertThat(member.jobs().find(id).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
    }

    @Test
    void drain_cancels_the_future_and_returns_the_job() throws Exception {
        var started = new CountDownLatch(1);
        var future = new CompletableFuture<Object>();
        work.on(job("job").attempts(1), (payload, context) -> {
            started.countDown();
            return future;
        });
        Member member = cluster.start("one", work, AbstractExecutionTests::impatient);
        UUID id = member.jobs().enqueueNamed("job", null).id();
        until(started);
        member.node().stop();
        // A slow handler thread responds to the interrupt after the node has left.
        await().until(future::isCancelled);
        await().untilAsserted(() -> assertThat(column(id, "status || attempts")).isEqualTo("pending0"));
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
        // The term outlasts a pause of the machine.
        Member member = cluster.start(
                "one",
                work,
                settings -> TestNodes.withLease(
                        settings, Duration.ofMinutes(1), Duration.ofSeconds(1), Duration.ofSeconds(30)));
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
}
