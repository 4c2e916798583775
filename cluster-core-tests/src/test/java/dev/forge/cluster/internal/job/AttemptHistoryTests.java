// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.spi.ILoggingEvent;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;

/** History and log lines of failed attempts, and the separation of one job from the next on its thread. */
class AttemptHistoryTests extends AbstractExecutionTests {

    AttemptHistoryTests(TestDatabase database) {
        super(database);
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
    void job_that_is_cancelled_between_attempts_has_no_start_and_keeps_the_attempt() {
        work.backoff = (attempts, failure) -> Duration.ofHours(1);
        work.on("failing", context -> {
            throw new IllegalStateException("not yet");
        });
        Member member = start();
        JobBatch batch = member.jobs().batch(JobBatchOptions.named("batch"));
        JobOptions options = JobOptions.defaults();
        List<UUID> jobs = Stream.of(options, options, options.withBatch(batch.id()))
                .map(with -> member.jobs().enqueueNamed("failing", null, with).id())
                .toList();
        await().untilAsserted(() -> assertThat(jobs)
                .allSatisfy(
                        id -> assertThat(member.jobs().find(id).orElseThrow().attemptHistory())
                                .hasSize(1)));
        assertThat(member.jobs().find(jobs.get(0)).orElseThrow().startedAt()).isNotNull();
        assertThat(member.jobs().cancel(jobs.get(0))).isTrue();
        assertThat(member.operations()
                        .cancelAll(JobFilter.all().withIds(Set.of(jobs.get(1))))
                        .changed())
                .isOne();
        assertThat(batch.cancel()).isTrue();
        for (UUID id : jobs) {
            JobInfo job = member.ended(id);
            assertThat(job.status()).isEqualTo(JobStatus.CANCELLED);
            // Otherwise it would seem to have run until now.
            assertThat(job.startedAt()).isNull();
            assertThat(job.attemptHistory()).singleElement().satisfies(attempt -> {
                assertThat(attempt.duration()).isLessThan(Duration.ofMinutes(5));
                assertThat(attempt.error()).contains("not yet", "\tat ");
            });
        }
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
        await().until(() -> member.node().declareDead(node));
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attemptHistory()).singleElement().satisfies(attempt -> {
            assertThat(attempt.result()).isEqualTo(JobAttempt.Result.NODE_LOST);
            assertThat(attempt.nodeId()).isEqualTo(node);
            assertThat(attempt.epoch()).isOne();
        });
    }
}
