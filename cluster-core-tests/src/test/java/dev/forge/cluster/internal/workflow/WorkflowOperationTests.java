// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepFailedException;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Retries, and changes that operators make by hand. */
@ClusterPostgres
class WorkflowOperationTests extends WorkflowFixture {

    WorkflowOperationTests(TestDatabase database) {
        super(database);
    }

    @Test
    void failed_run_is_retried_from_the_failed_step() {
        var broken = new AtomicBoolean(true);
        flows.attempts = 2;
        flows.on("retried", wf -> {
            wf.step("first", String.class, () -> did("first"));
            return wf.step("second", String.class, () -> {
                did("second");
                if (broken.get()) {
                    throw new IllegalStateException("broken");
                }
                return "done";
            });
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("retried", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        assertThat(one.workflows().retry(run)).isTrue();
        await().until(() -> one.workflows().find(run).orElseThrow().status() == WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("first", "second", "second", "second");
        assertThat(one.workflows().retry(run)).isFalse();
    }

    @Test
    void retry_repeats_only_the_failed_parallel_steps() {
        var broken = new AtomicBoolean(true);
        flows.attempts = 1;
        flows.on("retried", wf -> {
            wf.all(Stream.of("a", "b", "c", "d")
                    .map(name -> Step.of(name, String.class, () -> {
                        if (broken.get() && !name.equals("d")) {
                            throw new IllegalStateException(name + " is broken");
                        }
                        return did(name);
                    }))
                    .toList());
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("retried", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        assertThat(one.workflows().retry(run)).isTrue();
        await().until(() -> one.workflows().find(run).orElseThrow().status() == WorkflowStatus.COMPLETED);
        assertThat(done).hasSize(4).startsWith("d").contains("a", "b", "c");
    }

    @Test
    void retry_does_not_repeat_a_failed_step_whose_exception_was_caught() {
        var broken = new AtomicBoolean(true);
        flows.on("caught", wf -> {
            try {
                wf.step("first", String.class, () -> {
                    did("first");
                    throw new NonRetryableJobException("for good");
                });
            } catch (StepFailedException e) {
                wf.step("instead", String.class, () -> did("instead"));
            }
            if (broken.get()) {
                throw new IllegalStateException("broken");
            }
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("caught", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        assertThat(one.workflows().retry(run)).isTrue();
        await().until(() -> one.workflows().find(run).orElseThrow().status() == WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("first", "instead");
    }

    @ParameterizedTest
    @ValueSource(strings = {"retired_unresumable", "cancelled_by_operator"})
    void run_that_an_operator_has_ended_is_never_executed_again(String status) throws InterruptedException {
        var begun = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        flows.on("ended", wf -> {
            wf.awaitSignal("go", String.class);
            wf.step("work", () -> {
                begun.countDown();
                go.await();
                did("work");
            });
            wf.step("more", () -> did("more"));
            return null;
        });
        Member one = flows.start("one");
        UUID waiting = one.workflows().start("ended", null);
        UUID running = one.workflows().start("ended", null);
        one.workflows().signal(running, "go", "now");
        one.await(waiting, WorkflowStatus.WAITING);
        assertThat(begun.await(60, TimeUnit.SECONDS)).isTrue();
        jdbc.sql("""
                UPDATE forge_workflow_runs SET status = '%s', resolution_reason = 'version 1 is gone'
                WHERE workflow_name = 'ended' AND workflow_version = '1'
                  AND status NOT IN ('completed','compensated','failed','retired_unresumable','cancelled_by_operator')
                """.formatted(status)).update();
        assertThat(one.workflows().signal(waiting, "go", "on")).isFalse();
        assertThat(one.workflows().retry(waiting)).isFalse();
        go.countDown();
        await().until(() -> one.member().engine().load() == 0);
        assertThat(done).doesNotContain("more");
        for (UUID run : List.of(waiting, running)) {
            assertThat(one.workflows().find(run).orElseThrow().status())
                    .isEqualTo(WorkflowStatus.valueOf(status.toUpperCase(java.util.Locale.ROOT)));
            assertThat(one.workflows().find(run).orElseThrow().finishedAt()).isNotNull();
            assertThat(job(run)).containsEntry("status", "cancelled");
        }
    }

    @Test
    void run_whose_job_was_abandoned_fails_and_can_be_retried() {
        flows.on("poison", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("poison", null);
        one.await(run, WorkflowStatus.WAITING);
        jdbc.sql(
                        "UPDATE forge_jobs SET status = 'abandoned', last_error = 'its node died', finished_at = now() WHERE id = ?")
                .param(run)
                .update();
        WorkflowInfo failed = one.ended(run);
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).isEqualTo("its job was abandoned: its node died");
        assertThat(one.workflows().retry(run)).isTrue();
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().signal(run, "go", "on");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void run_whose_job_was_deleted_gets_another_job() {
        flows.on("lost", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("lost", null);
        one.await(run, WorkflowStatus.WAITING);
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?").param(run).update();
        one.workflows().signal(run, "go", "on");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void ended_runs_are_deleted_with_their_history() {
        flows.completed = Duration.ofHours(1);
        flows.on("short", wf -> wf.step("a", String.class, () -> "a") + wf.awaitSignal("s", String.class));
        Member one = flows.start("one");
        UUID old = one.workflows().start("short", null);
        UUID fresh = one.workflows().start("short", null);
        for (UUID run : List.of(old, fresh)) {
            one.workflows().signal(run, "unused", "x");
            one.workflows().signal(run, "s", "x");
        }
        one.ended(old);
        one.ended(fresh);
        jdbc.sql("UPDATE forge_workflow_runs SET finished_at = now() - interval '2 hours' WHERE id = ?")
                .param(old)
                .update();
        await().until(() -> {
            one.engine().cleanUp();
            return one.workflows().find(old).isEmpty();
        });
        assertThat(one.workflows().find(fresh)).isPresent();
        for (String table : List.of("forge_workflow_steps", "forge_workflow_signals")) {
            assertThat(jdbc.sql("SELECT DISTINCT run_id FROM " + table)
                            .query(UUID.class)
                            .list())
                    .containsExactly(fresh);
        }
    }
}
