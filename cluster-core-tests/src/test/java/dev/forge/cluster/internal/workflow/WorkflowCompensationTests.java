// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Compensation of runs that fail or are cancelled. */
@ClusterPostgres
class WorkflowCompensationTests extends WorkflowFixture {

    WorkflowCompensationTests(TestDatabase database) {
        super(database);
    }

    private TestWorkflows saga(AtomicBoolean shipFails) {
        return flows.on("saga", wf -> {
            wf.transactionalStep(
                    "reserve",
                    String.class,
                    () -> wrote(wf.id(), "reserve"),
                    step -> step.withCompensation(what -> wrote(wf.id(), "undo " + what)));
            wf.step(
                    "charge",
                    String.class,
                    () -> wrote(wf.id(), "charge"),
                    step -> step.withCompensation(what -> wrote(wf.id(), "undo " + what)));
            wf.step("unremarkable", () -> {});
            wf.awaitSignal("approve", String.class, Duration.ofMillis(shipFails.get() ? 20 : 60_000));
            wf.step(
                    "ship",
                    String.class,
                    () -> {
                        if (shipFails.get()) {
                            throw new IllegalStateException("no ship");
                        }
                        return wrote(wf.id(), "ship");
                    },
                    step -> step.withMaxAttempts(2));
            return "shipped";
        });
    }

    @Test
    void failed_run_compensates_its_steps_in_reverse_order() {
        saga(new AtomicBoolean(true));
        Member one = flows.start("one");
        UUID run = one.workflows().start("saga", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(info.lastError()).contains("no ship");
        assertThat(written(run)).containsExactly("reserve", "charge", "undo charge", "undo reserve");
        assertThat(info.steps())
                .extracting(WorkflowInfo.Step::status)
                .containsExactly(
                        StepStatus.COMPENSATED,
                        StepStatus.COMPENSATED,
                        StepStatus.COMPLETED,
                        StepStatus.TIMED_OUT,
                        StepStatus.FAILED);
        WorkflowInfo.Step reserve = info.steps().get(0);
        WorkflowInfo.Step charge = info.steps().get(1);
        assertThat(charge.compensationStartedAt()).isBetween(charge.finishedAt(), charge.compensatedAt());
        assertThat(reserve.compensationStartedAt()).isAfterOrEqualTo(charge.compensationStartedAt());
        assertThat(reserve.compensatedAt()).isBetween(reserve.compensationStartedAt(), info.finishedAt());
        assertThat(info.steps().get(2).compensationStartedAt()).isNull();
    }

    @Test
    void compensation_is_as_long_as_its_code_ran_and_has_one_beginning_however_often_it_is_repeated() {
        var failures = new AtomicInteger(1);
        flows.on("slow", wf -> {
            wf.step(
                    "reserve",
                    String.class,
                    () -> "it",
                    step -> step.withCompensation(what -> {
                                Thread.sleep(200);
                                if (failures.getAndDecrement() > 0) {
                                    throw new IllegalStateException("not yet");
                                }
                            })
                            .withBackoff(Duration.ofMillis(1)));
            throw new IllegalStateException("failed");
        });
        Member one = flows.start("one");
        WorkflowInfo info = one.ended(one.workflows().start("slow", null));
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPENSATED);
        WorkflowInfo.Step step = info.steps().get(0);
        assertThat(step.compensationAttempts()).isEqualTo(2);
        assertThat(Duration.between(step.compensationStartedAt(), step.compensatedAt()))
                .isGreaterThanOrEqualTo(Duration.ofMillis(390));
    }

    @Test
    void cancelled_run_compensates_its_steps() {
        saga(new AtomicBoolean());
        Member one = flows.start("one");
        UUID run = one.workflows().start("saga", null);
        one.await(run, WorkflowStatus.WAITING);
        assertThat(one.workflows().cancel(run, "changed their mind")).isTrue();
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(info.resolutionReason()).isEqualTo("changed their mind");
        assertThat(written(run)).containsExactly("reserve", "charge", "undo charge", "undo reserve");
        assertThat(one.workflows().cancel(run, "again")).isFalse();
    }

    @Test
    void step_that_runs_while_its_run_is_cancelled_is_compensated() throws InterruptedException {
        var begun = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        flows.on("busy", wf -> {
            wf.step(
                    "work",
                    String.class,
                    () -> {
                        begun.countDown();
                        go.await();
                        return wrote(wf.id(), "work");
                    },
                    step -> step.withCompensation(what -> wrote(wf.id(), "undo " + what)));
            return wf.step("never", String.class, () -> wrote(wf.id(), "never"));
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("busy", null);
        assertThat(begun.await(60, TimeUnit.SECONDS)).isTrue();
        assertThat(one.workflows().cancel(run, "no")).isTrue();
        go.countDown();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(written(run)).containsExactly("work", "undo work");
    }

    @Test
    void parallel_steps_all_end_before_a_broken_one_counts_and_are_compensated() throws InterruptedException {
        var slow = new CountDownLatch(1);
        var broke = new CountDownLatch(1);
        flows.on(
                "parallel",
                wf -> wf.all(List.of(
                        Step.of("broken", String.class, () -> {
                                    throw new IllegalStateException("fails");
                                })
                                .withMaxAttempts(5)
                                .withBackoff((failed, failure) -> {
                                    broke.countDown();
                                    throw new IllegalStateException("no pause");
                                }),
                        Step.of("slow", String.class, () -> {
                                    slow.await();
                                    return wrote(wf.id(), "slow");
                                })
                                .withCompensation(what -> wrote(wf.id(), "undo " + what)))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parallel", null);
        assertThat(broke.await(60, TimeUnit.SECONDS)).isTrue();
        slow.countDown();
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(info.lastError()).contains("no pause");
        assertThat(written(run)).containsExactly("slow", "undo slow");
    }

    @Test
    void completed_parallel_steps_are_compensated_if_others_did_not_complete() {
        flows.on(
                "parallel",
                wf -> wf.all(List.of(
                        Step.of("a", String.class, () -> wrote(wf.id(), "a"))
                                .withCompensation(what -> wrote(wf.id(), "undo " + what)),
                        Step.of("b", String.class, () -> {
                                    throw new IllegalStateException("not now");
                                })
                                .withMaxAttempts(5)
                                .withBackoff(Duration.ofMinutes(5)))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parallel", null);
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().cancel(run, "no");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(written(run)).containsExactly("a", "undo a");
    }

    @Test
    void failing_compensation_is_retried_and_continued_by_a_retry_of_the_run() {
        var broken = new AtomicBoolean(true);
        flows.on("sticky", wf -> {
            wf.step("first", String.class, () -> did("first"), step -> step.withCompensation(x -> did("undo first")));
            wf.step(
                    "second",
                    String.class,
                    () -> did("second"),
                    step -> step.withMaxAttempts(1).withCompensation(x -> {
                        did("undo second");
                        if (broken.get()) {
                            throw new IllegalStateException("stuck");
                        }
                    }));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("sticky", null);
        WorkflowInfo failed = one.ended(run);
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).contains("'second' could not be compensated", "stuck");
        assertThat(done).containsExactly("first", "second", "undo second", "undo second", "undo second");
        broken.set(false);
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(done.subList(5, done.size())).containsExactly("undo second", "undo first");
    }

    @Test
    void compensation_is_retried_even_if_its_step_has_one_attempt() {
        flows.on("once", wf -> {
            wf.step(
                    "charge",
                    String.class,
                    () -> did("charge"),
                    s -> s.withMaxAttempts(1).withCompensation(x -> {
                        if (!done.contains("refund fails")) {
                            did("refund fails");
                            throw new IllegalStateException("bank is away for a second");
                        }
                        did("refund");
                    }));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("once", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).as(done.toString()).isEqualTo(WorkflowStatus.COMPENSATED);
    }

    @Test
    void cancelled_run_whose_method_ends_early_is_not_compensated_in_part() {
        var shortened = new AtomicBoolean();
        flows.on("shortened", wf -> {
            wf.step(
                    "a",
                    String.class,
                    () -> wrote(wf.id(), "a"),
                    s -> s.withCompensation(x -> wrote(wf.id(), "undo a")));
            if (shortened.get()) {
                throw new IllegalStateException("something between the steps");
            }
            wf.step(
                    "b",
                    String.class,
                    () -> wrote(wf.id(), "b"),
                    s -> s.withCompensation(x -> wrote(wf.id(), "undo b")));
            return wf.awaitSignal("go", String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("shortened", null);
        one.await(run, WorkflowStatus.WAITING);
        shortened.set(true);
        one.workflows().cancel(run, "no");
        await().until(() -> one.workflows().find(run).orElseThrow().status() != WorkflowStatus.COMPENSATING);
        assertThat(one.workflows().find(run).orElseThrow().status() + " " + written(run))
                .satisfiesAnyOf(
                        it -> assertThat(it).doesNotContain("COMPENSATED"),
                        it -> assertThat(it).contains("undo b"));
    }

    @Test
    void cancelled_run_with_a_recorded_result_of_another_type_is_blocked_until_it_is_retried() {
        var type = new AtomicReference<Class<?>>(String.class);
        flows.on("typed", wf -> {
            wf.step(typed("one", type.get(), () -> wrote(wf.id(), "one"))
                    .withCompensation(what -> wrote(wf.id(), "undo " + what)));
            return wf.awaitSignal("go", String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("typed", null);
        one.await(run, WorkflowStatus.WAITING);
        type.set(Integer.class);
        one.workflows().cancel(run, "no");
        assertThat(one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH).lastError())
                .contains("position 0", "step 'one'", "java.lang.Integer");
        type.set(String.class);
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(written(run)).containsExactly("one", "undo one");
    }

    @Test
    void failed_run_whose_compensation_finds_a_result_of_another_type_is_blocked_until_it_is_retried() {
        var type = new AtomicReference<Class<?>>(String.class);
        flows.on("typed", wf -> {
            wf.step(typed("one", type.get(), () -> wrote(wf.id(), "one")).withCompensation(what -> {
                if (type.getAndSet(Integer.class) == String.class
                        && written(wf.id()).size() < 2) {
                    wrote(wf.id(), "not yet");
                    throw new IllegalStateException("later");
                }
                wrote(wf.id(), "undo " + what);
            }));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("typed", null);
        one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH);
        type.set(String.class);
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(written(run)).containsExactly("one", "not yet", "undo one");
    }

    @Test
    void cancelled_run_that_lacks_a_recorded_parallel_step_is_blocked_until_it_is_retried() {
        var names = new AtomicReference<>(List.of("a", "b", "c"));
        flows.on("parallel", wf -> {
            wf.all(names.get().stream()
                    .map(name -> Step.of(name, String.class, () -> {
                                if (name.equals("b")) {
                                    throw new IllegalStateException("not now");
                                }
                                return wrote(wf.id(), name);
                            })
                            .withBackoff(Duration.ofMinutes(5))
                            .withCompensation(what -> wrote(wf.id(), "undo " + what)))
                    .toList());
            return wf.step("next", String.class, () -> wrote(wf.id(), "next"));
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parallel", null);
        one.await(run, WorkflowStatus.WAITING);
        names.set(List.of("a", "b"));
        one.workflows().cancel(run, "no");
        assertThat(one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH).lastError())
                .isEqualTo(
                        "History mismatch at position 2: recorded step 'c', but the method calls step 'b' before it, which has not completed");
        names.set(List.of("a", "b", "c"));
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(written(run)).hasSize(4).endsWith("undo c", "undo a");
    }

    @Test
    void cancelled_run_with_an_unreadable_input_is_not_compensated() {
        flows.on("input", Order.class, (wf, input) -> {
            wf.step("a", String.class, () -> did("a"), s -> s.withCompensation(x -> did("undo a")));
            return wf.awaitSignal("go", String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("input", new Order("anvil", 1));
        one.await(run, WorkflowStatus.WAITING);
        // As if the type of the input had changed with a deployment.
        jdbc.sql("UPDATE forge_workflow_runs SET input = '\"anvil\"' WHERE id = ?")
                .param(run)
                .update();
        one.workflows().cancel(run, "no");
        await().until(() -> one.workflows().find(run).orElseThrow().status() != WorkflowStatus.COMPENSATING);
        assertThat(one.workflows().find(run).orElseThrow().status() + " " + done)
                .satisfiesAnyOf(
                        it -> assertThat(it).doesNotContain("COMPENSATED"),
                        it -> assertThat(it).contains("undo a"));
    }
}
