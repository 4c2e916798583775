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
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Steps of a workflow: executed, recorded, retried and replayed. */
@ClusterPostgres
class WorkflowStepTests extends WorkflowFixture {

    WorkflowStepTests(TestDatabase database) {
        super(database);
    }

    @Test
    void recorded_result_may_have_a_primitive_type() {
        flows.on("primitive", wf -> {
            wf.saveState(7);
            return wf.step("step", int.class, () -> 35) + wf.state(int.class).orElseThrow();
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("primitive", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, int.class)).contains(42);
    }

    @Test
    void run_passes_its_input_through_its_steps_to_its_result() {
        flows.on("order", Order.class, (wf, input) -> {
            Order order = (Order) input;
            int doubled = wf.step("double", Integer.class, () -> order.quantity() * 2);
            wf.step("nothing", () -> did("nothing"));
            return Map.of("item", order.item(), "doubled", doubled);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("order", new Order("anvil", 21));
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, Map.class)).contains(Map.of("item", "anvil", "doubled", 42));
        assertThat(info.steps())
                .extracting(WorkflowInfo.Step::name, WorkflowInfo.Step::status, WorkflowInfo.Step::attempts)
                .containsExactly(
                        org.assertj.core.groups.Tuple.tuple("double", StepStatus.COMPLETED, 1),
                        org.assertj.core.groups.Tuple.tuple("nothing", StepStatus.COMPLETED, 1));
        assertThat(job(run)).containsEntry("status", "completed").containsEntry("attempts", 1);
    }

    @Test
    void replayed_method_receives_the_recorded_values() {
        var runs = new AtomicInteger();
        var seen = new CopyOnWriteArrayList<Object>();
        flows.on("replay", wf -> {
            runs.incrementAndGet();
            String a = wf.step("a", String.class, () -> did("a"));
            Instant now = wf.now();
            UUID random = wf.randomUuid();
            wf.saveState(Map.of("at", "middle"));
            wf.sleep("nap", Duration.ofMillis(200));
            wf.step("b", String.class, () -> did("b"));
            seen.add(List.of(a, now, random, wf.state(Map.class)));
            wf.sleep("another", Duration.ofMillis(100));
            seen.add(List.of(a, now, random, wf.state(Map.class)));
            return now;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("replay", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("a", "b");
        assertThat(runs).hasValue(3);
        assertThat(seen).hasSize(3);
        assertThat(seen).containsOnly(seen.get(0));
        assertThat(job(run)).containsEntry("attempts", 1);
    }

    @Test
    void sleeping_run_is_a_pending_job_with_a_later_time() {
        flows.on("sleeper", wf -> {
            wf.sleep("long", Duration.ofDays(3));
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("sleeper", null);
        WorkflowInfo waiting = one.await(run, WorkflowStatus.WAITING);
        assertThat(Duration.between(Instant.now(), waiting.wakeAt()))
                .isBetween(Duration.ofHours(71), Duration.ofHours(73));
        assertThat(job(run))
                .containsEntry("status", "pending")
                .containsEntry("attempts", 0)
                .containsEntry("worker_id", null)
                .containsEntry("lease_expires_at", null);
        await().until(() -> one.member().engine().load() == 0);
    }

    @Test
    void failing_step_is_retried_without_holding_a_slot_and_its_attempts_are_recorded() {
        flows.on(
                "retries",
                wf -> wf.step("flaky", String.class, () -> {
                    if (done.size() < 2) {
                        did("failed");
                        throw new IllegalStateException("not yet");
                    }
                    return did("worked");
                }));
        Member one = flows.start("one");
        UUID run = one.workflows().start("retries", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(info.steps()).singleElement().satisfies(step -> {
            assertThat(step.attempts()).isEqualTo(3);
            assertThat(step.lastError()).isNull();
        });
        assertThat(job(run)).containsEntry("attempts", 1);
    }

    @Test
    void permanently_failed_step_throws_again_in_every_replay() {
        flows.on("catches", wf -> {
            String how;
            try {
                how = wf.step("charge", String.class, () -> {
                    did("charge");
                    throw new NonRetryableJobException("no money");
                });
            } catch (StepFailedException e) {
                assertThat(e.step()).isEqualTo("charge");
                assertThat(e).hasMessageContaining("no money");
                how = "on credit";
            }
            wf.sleep("nap", Duration.ofMillis(50));
            return how;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("catches", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, String.class)).contains("on credit");
        assertThat(done).containsExactly("charge");
    }

    @Test
    void step_that_exceeds_its_timeout_is_interrupted_and_fails() {
        flows.on(
                "slow",
                wf -> wf.step(
                        "hang",
                        String.class,
                        () -> {
                            did("hang");
                            new CountDownLatch(1).await();
                            return "";
                        },
                        step -> step.withMaxAttempts(2).withTimeout(Duration.ofMillis(100))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("slow", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(info.lastError()).contains("timeout of 100 ms");
        assertThat(done).hasSize(2);
    }

    @Test
    void parallel_steps_are_recorded_one_by_one() {
        var together = new CountDownLatch(2);
        flows.on(
                "parallel",
                wf -> wf.all(List.of(
                        Step.of("a", String.class, () -> {
                            together.countDown();
                            assertThat(together.await(60, TimeUnit.SECONDS)).isTrue();
                            return did("a");
                        }),
                        Step.of("b", String.class, () -> {
                            together.countDown();
                            assertThat(together.await(60, TimeUnit.SECONDS)).isTrue();
                            return did("b");
                        }),
                        Step.of("c", String.class, () -> {
                            if (done.stream().filter("c"::equals).count() < 1) {
                                did("c");
                                throw new IllegalStateException("again");
                            }
                            return did("c");
                        }))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parallel", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, List.class)).contains(List.of("a", "b", "c"));
        assertThat(done).containsExactlyInAnyOrder("a", "b", "c", "c");
    }

    @Test
    void method_that_swallows_the_suspension_error_waits_nevertheless() {
        flows.on("swallows", wf -> {
            try {
                wf.sleep("nap", Duration.ofMillis(300));
            } catch (Throwable e) {
                did("swallowed");
            }
            try {
                return wf.step("after", String.class, () -> did("after"));
            } catch (Throwable e) {
                return "nothing";
            }
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("swallows", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("swallowed", "after");
        assertThat(one.workflows().result(run, String.class)).contains("after");
    }

    @Test
    void context_rejects_calls_within_a_step_or_a_transaction() {
        flows.attempts = 1;
        flows.on("nested", wf -> wf.step("outer", String.class, () -> wf.step("inner", String.class, () -> "")));
        flows.on(
                "enclosed",
                wf -> new TransactionTemplate(new JdbcTransactionManager(database.dataSource()))
                        .execute(status -> wf.step("inner", String.class, () -> "")));
        Member one = flows.start("one");
        assertThat(one.ended(one.workflows().start("nested", null)).lastError()).contains("within a step");
        assertThat(one.ended(one.workflows().start("enclosed", null)).lastError())
                .contains("within a transaction");
    }

    @Test
    void context_rejects_calls_on_another_thread() throws InterruptedException {
        flows.on("threads", wf -> {
            var failures = new CopyOnWriteArrayList<Throwable>();
            var thread = new Thread(() -> {
                try {
                    wf.step("elsewhere", String.class, () -> did("elsewhere"));
                } catch (Throwable e) {
                    failures.add(e);
                }
            });
            thread.start();
            thread.join();
            return failures.isEmpty() ? "nobody minded" : "refused";
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("threads", null);
        one.ended(run);
        assertThat(one.workflows().result(run, String.class)).contains("refused");
    }

    @Test
    void list_of_records_is_the_same_when_it_is_replayed() {
        var seen = new CopyOnWriteArrayList<Object>();
        flows.on("generic", wf -> {
            List<Order> orders = wf.step(
                    "orders", new ParameterizedTypeReference<List<Order>>() {}, () -> List.of(new Order("anvil", 1)));
            seen.add(orders.get(0));
            wf.sleep("nap", Duration.ofMillis(10));
            return orders.get(0).item();
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("generic", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(seen).containsExactly(new Order("anvil", 1), new Order("anvil", 1));
    }

    static final class Receipt {
        private final String id;

        Receipt(String id, int unused) {
            this.id = id + unused;
        }

        public String getId() {
            return id;
        }
    }

    @Test
    void result_of_a_step_is_the_same_when_it_is_replayed() {
        flows.on("types", wf -> {
            Object first = wf.step("list", List.class, () -> List.of(new Order("anvil", 1)));
            did(((List<?>) first).get(0).getClass().getSimpleName());
            wf.sleep("nap", Duration.ofMillis(20));
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("types", null);
        one.ended(run);
        assertThat(done).hasSize(2);
        assertThat(done.get(1)).isEqualTo(done.get(0));
    }

    @Test
    void method_that_looks_at_the_cause_of_a_failure_takes_the_same_branch_again() {
        flows.attempts = 1;
        flows.on("cause", wf -> {
            String way;
            try {
                way = wf.step("charge", String.class, () -> {
                    throw new IllegalStateException("no money");
                });
            } catch (StepFailedException e) {
                way = e.getCause() instanceof IllegalStateException ? "credit" : "give up";
            }
            String taken = way;
            wf.step(taken, String.class, () -> did(taken));
            wf.sleep("nap", Duration.ofMillis(20));
            return way;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("cause", null);
        await().until(() -> {
            WorkflowStatus status = one.workflows().find(run).orElseThrow().status();
            return status.isFinal() || status == WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH;
        });
        WorkflowInfo info = one.workflows().find(run).orElseThrow();
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void last_progress_is_stored() {
        flows.on("progress", wf -> {
            wf.progress(100, "done");
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("progress", null);
        one.ended(run);
        assertThat(jdbc.sql("SELECT coalesce(progress::text, 'none') FROM forge_jobs WHERE id = ?")
                        .param(run)
                        .query(String.class)
                        .single())
                .contains("100");
    }
}
