package dev.forge.cluster.internal.workflow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static dev.forge.cluster.internal.PatientAwaits.await;

import dev.forge.cluster.internal.job.JobKeeping;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.internal.workflow.WorkflowStore.Version;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepFailedException;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Workflows from their start to their end, on nodes in this JVM. */
@ClusterPostgres
class WorkflowTests {

    record Order(String item, int quantity) {}

    private final JdbcClient jdbc;
    private final TestDatabase database;
    private final TestCluster cluster;
    private final TestWorkflows flows;
    private final List<String> done = new CopyOnWriteArrayList<>();

    WorkflowTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.flows = new TestWorkflows(cluster);
        jdbc.sql("TRUNCATE forge_workflow_runs, forge_workflow_steps, forge_workflow_signals")
                .update();
        jdbc.sql("CREATE TABLE IF NOT EXISTS flow_effects (run uuid, step text)")
                .update();
        jdbc.sql("TRUNCATE flow_effects").update();
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private String did(String what) {
        done.add(what);
        return what;
    }

    private String wrote(UUID run, String step) {
        jdbc.sql("INSERT INTO flow_effects VALUES (?, ?)").params(run, step).update();
        return step;
    }

    private List<String> written(UUID run) {
        return jdbc.sql("SELECT step FROM flow_effects WHERE run = ? ORDER BY ctid")
                .param(run)
                .query(String.class)
                .list();
    }

    private Map<String, Object> job(UUID run) {
        return jdbc.sql("SELECT * FROM forge_jobs WHERE id = ?")
                .param(run)
                .query()
                .singleRow();
    }

    // Steps

    @Test
    void what_is_remembered_may_be_of_a_primitive_type() {
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
    void a_run_takes_its_input_through_its_steps_to_its_result() {
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
                        org.assertj.core.groups.Tuple.tuple("double", "completed", 1),
                        org.assertj.core.groups.Tuple.tuple("nothing", "completed", 1));
        assertThat(job(run)).containsEntry("status", "completed").containsEntry("attempts", 1);
    }

    @Test
    void a_method_that_runs_again_is_given_what_it_has_done_before() {
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
    void a_sleeping_run_is_a_pending_job_of_the_future_and_nothing_else() {
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
    void a_failing_step_is_tried_again_without_holding_a_slot_and_its_attempts_are_remembered() {
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
    void a_step_that_has_failed_for_good_is_thrown_and_thrown_again_by_every_replay() {
        flows.on("catches", wf -> {
            String how;
            try {
                how = wf.step("charge", String.class, () -> {
                    did("charge");
                    throw new PermanentJobFailure("no money");
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
    void a_step_that_takes_too_long_is_interrupted_and_has_failed() {
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
                        step -> step.attempts(2).timeout(Duration.ofMillis(100))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("slow", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(info.lastError()).contains("longer than PT0.1S");
        assertThat(done).hasSize(2);
    }

    @Test
    void what_a_transactional_step_writes_is_there_once_or_not_at_all() {
        flows.on("transactional", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                wrote(wf.id(), "write");
                if (done.isEmpty()) {
                    did("failed");
                    throw new IllegalStateException("after the write");
                }
                return "written";
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("transactional", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(written(run)).containsExactly("write");
    }

    @Test
    void steps_run_side_by_side_and_each_is_remembered_by_itself() {
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
    void a_method_that_swallows_what_ends_it_waits_nevertheless() {
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
    void a_context_is_of_no_use_within_a_step_or_a_transaction() {
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

    // Signals

    @Test
    void a_signal_is_taken_whether_it_comes_before_or_after_the_run_waits_for_it() {
        var go = new CountDownLatch(1);
        flows.on("signals", wf -> {
            wf.step("first", () -> assertThat(go.await(60, TimeUnit.SECONDS)).isTrue());
            String early = wf.awaitSignal("early", String.class);
            String late =
                    wf.awaitSignal("late", String.class, Duration.ofMinutes(1)).orElseThrow();
            return early + " " + late;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("signals", null);
        assertThat(one.workflows().signal(run, "early", "e")).isTrue();
        go.countDown();
        // For a moment it may wait for the early one, which came after its memory was read.
        await().until(() ->
                "late".equals(one.workflows().find(run).orElseThrow().awaits()));
        assertThat(one.workflows().signal(run, "late", "l")).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, String.class)).contains("e l");
        assertThat(one.workflows().signal(run, "late", "l")).isFalse();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_workflow_signals WHERE consumed_at IS NULL")
                        .query(Integer.class)
                        .single())
                .isZero();
    }

    @Test
    void a_signal_that_does_not_come_in_time_is_missed_for_good() {
        flows.on("timeout", wf -> {
            Optional<String> missed = wf.awaitSignal("approve", String.class, Duration.ofMillis(100));
            wf.sleep("nap", Duration.ofMillis(100));
            return missed.orElse("nobody");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("timeout", null);
        await().until(() -> one.workflows().find(run).orElseThrow().steps().size() > 1);
        one.workflows().signal(run, "approve", "too late");
        one.ended(run);
        assertThat(one.workflows().result(run, String.class)).contains("nobody");
    }

    @Test
    void a_signal_without_payload_is_seen_or_refused_but_never_taken_for_none() {
        flows.on("bare", wf -> wf.awaitSignal("go", Duration.ofMinutes(1)) ? "came" : "none");
        flows.on("late", wf -> wf.awaitSignal("go", Duration.ofMillis(50)) ? "came" : "none");
        flows.on(
                "typed",
                wf -> wf.awaitSignal("go", String.class, Duration.ofMinutes(1)).orElse("none"));
        flows.on("void", wf -> wf.awaitSignal("go", Void.class, Duration.ofMinutes(1)));
        Member one = flows.start("one");
        UUID bare = one.workflows().start("bare", null);
        UUID late = one.workflows().start("late", null);
        UUID typed = one.workflows().start("typed", null);
        UUID refused = one.workflows().start("void", null);
        assertThat(one.workflows().signal(bare, "go", null)).isTrue();
        assertThat(one.workflows().signal(typed, "go", null)).isTrue();
        assertThat(one.workflows().signal(typed, "go", "payload")).isTrue();
        one.ended(bare);
        one.ended(late);
        one.ended(typed);
        assertThat(one.workflows().result(bare, String.class)).contains("came");
        assertThat(one.workflows().result(late, String.class)).contains("none");
        assertThat(one.workflows().result(typed, String.class)).contains("payload");
        assertThat(one.ended(refused).lastError()).contains("awaitSignal(name, timeout)");
    }

    @Test
    void a_list_of_records_is_one_whether_it_is_remembered_or_not() {
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

    @Test
    void a_signal_of_a_transaction_that_rolls_back_was_never_given() {
        flows.on("signalled", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("signalled", null);
        one.await(run, WorkflowStatus.WAITING);
        var transaction = new TransactionTemplate(new JdbcTransactionManager(database.dataSource()));
        transaction.executeWithoutResult(status -> {
            one.workflows().signal(run, "go", "wrong");
            status.setRollbackOnly();
        });
        transaction.executeWithoutResult(status -> one.workflows().signal(run, "go", "right"));
        one.ended(run);
        assertThat(one.workflows().result(run, String.class)).contains("right");
    }

    // Other jobs and runs

    @Test
    void a_run_waits_for_a_job_and_for_a_child_and_takes_their_results() {
        flows.work = jobs -> jobs.on(TestJobs.job("add").taking(int[].class), (payload, context) -> {
            int[] numbers = (int[]) payload;
            return numbers[0] + numbers[1];
        });
        flows.on("child", Integer.class, (wf, input) -> {
            wf.sleep("nap", Duration.ofMillis(50));
            return (Integer) input * 10;
        });
        flows.on("parent", wf -> {
            int sum = wf.job("add", new int[] {1, 2}, Integer.class);
            return wf.child("child", sum, Integer.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, Integer.class)).contains(30);
    }

    @Test
    void what_a_job_returned_is_kept_until_its_run_has_seen_it() throws InterruptedException {
        var started = new CountDownLatch(1);
        var goOn = new CountDownLatch(1);
        flows.work = jobs -> {
            jobs.retention = Duration.ZERO;
            jobs.on(TestJobs.job("add"), (payload, context) -> {
                started.countDown();
                goOn.await();
                return 3;
            });
        };
        flows.on("parent", wf -> wf.job("add", null, Integer.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        started.await();
        String carrier = new Version("parent", "1").jobName();
        one.member().jobs().pause(carrier);
        goOn.countDown();
        await().until(() -> jdbc.sql("SELECT status FROM forge_jobs WHERE name = 'add'")
                .query(String.class)
                .single()
                .equals("completed"));
        var keeping = new JobKeeping(one.member().node().members().schema(), database.dataSource());
        assertThat(keeping.purge(Duration.ofDays(1), Duration.ofDays(1), new WorkflowJobs().awaitedCondition(), 100))
                .isZero();
        one.member().jobs().resume(carrier);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, Integer.class)).contains(3);
        assertThat(keeping.purge(Duration.ofDays(1), Duration.ofDays(1), new WorkflowJobs().awaitedCondition(), 100))
                .isEqualTo(1);
    }

    @Test
    void a_run_that_is_cancelled_cancels_the_runs_that_it_waits_for() {
        flows.on(
                "grandchild",
                wf -> wf.step("deep", String.class, () -> did("deep"), step -> step.compensate(it -> did("undo deep")))
                        + wf.awaitSignal("never", String.class));
        flows.on("child", wf -> wf.child("grandchild", null, String.class));
        flows.on("parent", wf -> {
            wf.step("own", String.class, () -> did("own"), step -> step.compensate(it -> did("undo own")));
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        await().until(() -> done.contains("deep"));
        await().untilAsserted(() -> assertThat(one.workflows().list("grandchild", null, 1))
                .extracting(WorkflowInfo::awaits)
                .containsExactly("never"));
        assertThat(one.workflows().cancel(run, "enough")).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        await().untilAsserted(() -> assertThat(one.workflows().list(null, null, 10))
                .extracting(WorkflowInfo::status)
                .containsOnly(WorkflowStatus.COMPENSATED)
                .hasSize(3));
        assertThat(done).contains("undo own", "undo deep");
    }

    @Test
    void a_job_or_a_child_that_fails_is_a_step_that_fails() {
        flows.work = jobs -> jobs.on("breaks", context -> {
            throw new PermanentJobFailure("broken");
        });
        flows.on("child", wf -> {
            throw new IllegalStateException("ill-bred");
        });
        flows.on("parent", wf -> {
            var failures = new ArrayList<String>();
            try {
                wf.job("breaks", null, String.class);
            } catch (StepFailedException e) {
                failures.add(e.step());
            }
            try {
                wf.child("child", null, String.class);
            } catch (StepFailedException e) {
                failures.add(e.step());
            }
            return failures;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, List.class)).contains(List.of("breaks", "child"));
    }

    @Test
    void nobody_enqueues_what_carries_a_run() {
        flows.on("order", wf -> null);
        Member one = flows.start("one");
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(() -> one.member().jobs().enqueueNamed("workflow:order@1", null))
                .withMessageContaining("Workflows.start");
    }

    // Failure

    private TestWorkflows saga(AtomicBoolean shipFails) {
        return flows.on("saga", wf -> {
            wf.transactionalStep(
                    "reserve",
                    String.class,
                    () -> wrote(wf.id(), "reserve"),
                    step -> step.compensate(what -> wrote(wf.id(), "undo " + what)));
            wf.step(
                    "charge",
                    String.class,
                    () -> wrote(wf.id(), "charge"),
                    step -> step.compensate(what -> wrote(wf.id(), "undo " + what)));
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
                    step -> step.attempts(2));
            return "shipped";
        });
    }

    @Test
    void a_run_that_fails_undoes_what_it_has_done_in_reverse_order() {
        saga(new AtomicBoolean(true));
        Member one = flows.start("one");
        UUID run = one.workflows().start("saga", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(info.lastError()).contains("no ship");
        assertThat(written(run)).containsExactly("reserve", "charge", "undo charge", "undo reserve");
        assertThat(info.steps())
                .extracting(WorkflowInfo.Step::status)
                .containsExactly("compensated", "compensated", "completed", "timed_out", "failed");
    }

    @Test
    void a_run_that_is_cancelled_undoes_what_it_has_done() {
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
    void a_step_that_is_under_way_when_its_run_is_cancelled_is_undone_too() throws InterruptedException {
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
                    step -> step.compensate(what -> wrote(wf.id(), "undo " + what)));
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
    void steps_side_by_side_come_to_their_end_before_a_broken_one_counts_and_are_undone() throws InterruptedException {
        var slow = new CountDownLatch(1);
        var broke = new CountDownLatch(1);
        flows.on(
                "parallel",
                wf -> wf.all(List.of(
                        Step.of("broken", String.class, () -> {
                                    throw new IllegalStateException("fails");
                                })
                                .retry(5, (failed, failure) -> {
                                    broke.countDown();
                                    throw new IllegalStateException("no pause");
                                }),
                        Step.of("slow", String.class, () -> {
                                    slow.await();
                                    return wrote(wf.id(), "slow");
                                })
                                .compensate(what -> wrote(wf.id(), "undo " + what)))));
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
    void steps_side_by_side_that_are_done_are_undone_if_others_are_not() {
        flows.on(
                "parallel",
                wf -> wf.all(List.of(
                        Step.of("a", String.class, () -> wrote(wf.id(), "a"))
                                .compensate(what -> wrote(wf.id(), "undo " + what)),
                        Step.of("b", String.class, () -> {
                                    throw new IllegalStateException("not now");
                                })
                                .retry(5, Duration.ofMinutes(5)))));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parallel", null);
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().cancel(run, "no");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(written(run)).containsExactly("a", "undo a");
    }

    @Test
    void a_compensation_that_fails_is_tried_again_and_a_failed_run_goes_on_with_it() {
        var broken = new AtomicBoolean(true);
        flows.on("sticky", wf -> {
            wf.step("first", String.class, () -> did("first"), step -> step.compensate(x -> did("undo first")));
            wf.step(
                    "second",
                    String.class,
                    () -> did("second"),
                    step -> step.attempts(1).compensate(x -> {
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
        assertThat(failed.lastError()).contains("'second' cannot be undone", "stuck");
        assertThat(done).containsExactly("first", "second", "undo second", "undo second", "undo second");
        broken.set(false);
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(done.subList(5, done.size())).containsExactly("undo second", "undo first");
    }

    @Test
    void a_failed_run_is_retried_from_the_step_that_has_failed() {
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
    void of_steps_side_by_side_those_that_have_failed_are_retried() {
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
    void a_step_that_has_failed_and_was_caught_is_not_done_again_by_a_retry() {
        var broken = new AtomicBoolean(true);
        flows.on("caught", wf -> {
            try {
                wf.step("first", String.class, () -> {
                    did("first");
                    throw new PermanentJobFailure("for good");
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

    // Operators

    @ParameterizedTest
    @ValueSource(strings = {"retired_unresumable", "cancelled_by_operator"})
    void what_an_operator_ends_never_executes_again(String status) throws InterruptedException {
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
    void a_run_whose_job_is_abandoned_has_failed_and_can_be_retried() {
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
    void a_run_that_has_lost_its_job_gets_another() {
        flows.on("lost", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("lost", null);
        one.await(run, WorkflowStatus.WAITING);
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?").param(run).update();
        one.workflows().signal(run, "go", "on");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void a_signal_that_somebody_has_inserted_by_hand_is_taken() {
        flows.on("signalled", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("signalled", null);
        one.await(run, WorkflowStatus.WAITING);
        jdbc.sql("""
                INSERT INTO forge_workflow_signals (id, run_id, name, payload) VALUES (gen_random_uuid(), ?, 'go', '"on"')
                """).param(run).update();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, String.class)).contains("on");
    }

    @Test
    void ended_runs_are_deleted_with_all_that_is_remembered_of_them() {
        flows.completed = Duration.ofMinutes(1);
        flows.on("short", wf -> wf.step("a", String.class, () -> "a") + wf.awaitSignal("s", String.class));
        Member one = flows.start("one");
        UUID old = one.workflows().start("short", null);
        UUID fresh = one.workflows().start("short", null);
        one.workflows().signal(old, "s", "x");
        one.workflows().signal(fresh, "s", "x");
        one.ended(old);
        one.ended(fresh);
        jdbc.sql("UPDATE forge_workflow_runs SET finished_at = now() - interval '2 minutes' WHERE id = ?")
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

    // Signatures and versions

    @Test
    void a_method_that_does_something_else_than_is_remembered_blocks_its_run_until_it_is_retried() {
        var name = new java.util.concurrent.atomic.AtomicReference<>("charge");
        flows.on("changes", wf -> {
            wf.step("reserve", String.class, () -> did("reserve"));
            wf.step(name.get(), String.class, () -> did(name.get()));
            wf.awaitSignal("go", String.class);
            return "fine";
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("changes", null);
        one.await(run, WorkflowStatus.WAITING);
        name.set("pay");
        one.workflows().signal(run, "go", "on");
        WorkflowInfo blocked = one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH);
        assertThat(blocked.lastError()).contains("number 1", "step 'charge'", "step 'pay'");
        assertThat(job(run)).containsEntry("status", "pending").containsEntry("attempts", 0);
        name.set("charge");
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("reserve", "charge");
    }

    @Test
    void a_method_that_ends_before_what_is_remembered_of_it_is_blocked_too() {
        var shortened = new AtomicBoolean();
        flows.on("shortened", wf -> {
            wf.step("one", String.class, () -> did("one"));
            if (!shortened.get()) {
                wf.step("two", String.class, () -> did("two"));
                wf.awaitSignal("go", String.class);
            }
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("shortened", null);
        one.await(run, WorkflowStatus.WAITING);
        shortened.set(true);
        one.workflows().signal(run, "go", "on");
        assertThat(one.await(run, WorkflowStatus.BLOCKED_SIGNATURE_MISMATCH).lastError())
                .contains("step 'two'", "returned");
    }

    @Test
    void new_runs_take_the_newest_version_and_old_ones_stay_with_theirs() {
        flows.on("deploy", "9", wf -> wf.awaitSignal("go", String.class) + " by 9");
        Member nine = flows.start("nine");
        UUID old = nine.workflows().start("deploy", null);
        var newer = new TestWorkflows(cluster);
        newer.on("deploy", "10", wf -> wf.awaitSignal("go", String.class) + " by 10");
        newer.deprecated("deploy", "11", wf -> "by 11");
        Member ten = newer.start("ten");
        UUID fresh = ten.workflows().start("deploy", null);
        ten.await(fresh, WorkflowStatus.WAITING);
        nine.await(old, WorkflowStatus.WAITING);
        assertThat(ten.workflows().find(fresh).orElseThrow().version()).isEqualTo("10");
        // Each on the node that has it, whoever gives the signal.
        ten.workflows().signal(old, "go", "old");
        nine.workflows().signal(fresh, "go", "fresh");
        nine.ended(old);
        nine.ended(fresh);
        assertThat(ten.workflows().result(old, String.class)).contains("old by 9");
        assertThat(ten.workflows().result(fresh, String.class)).contains("fresh by 10");
    }

    @Test
    void a_node_without_the_workflow_starts_what_live_nodes_have() {
        flows.on("remote", "1.2", wf -> "1.2");
        flows.on("remote", "1.10", wf -> "1.10");
        flows.deprecated("remote", "2", wf -> "2");
        flows.deprecated("gone", "1", wf -> "gone");
        flows.start("has");
        Member lacks = new TestWorkflows(cluster).start("lacks");
        UUID run = lacks.workflows().start("remote", null);
        assertThat(lacks.ended(run).version()).isEqualTo("1.10");
        for (String refused : List.of("gone", "unknown")) {
            assertThatExceptionOfType(WorkflowRejectedException.class)
                    .isThrownBy(() -> lacks.workflows().start(refused, null))
                    .withMessageContaining("'" + refused + "'");
        }
    }

    @Test
    void versions_are_compared_as_numbers_then_as_text() {
        List<String> sorted = Stream.of("10", "2", "beta", "1.10", "1.9.9", "1.9", "alpha", "1.9-rc", "010")
                .sorted(WorkflowVersions.ORDER)
                .toList();
        assertThat(sorted).containsExactly("alpha", "beta", "1.9-rc", "1.9", "1.9.9", "1.10", "2", "010", "10");
    }

    @Test
    void runs_whose_version_no_live_node_has_are_blocked_and_go_on_when_one_appears() {
        flows.on("stranded", wf -> wf.awaitSignal("go", String.class));
        Member has = flows.start("has");
        UUID run = has.workflows().start("stranded", null);
        has.await(run, WorkflowStatus.WAITING);
        Member lacks = new TestWorkflows(cluster).start("lacks");
        has.member().stop();
        lacks.await(run, WorkflowStatus.BLOCKED_MISSING_VERSION);
        assertThat(lacks.workflows().signal(run, "go", "on")).isTrue();
        Member again = flows.start("again");
        assertThat(again.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    // Starting

    @Test
    void a_key_starts_one_run_however_many_ask_at_once() {
        flows.on("keyed", wf -> wf.step("once", String.class, () -> did("once")));
        Member one = flows.start("one");
        List<UUID> runs = IntStream.range(0, 20)
                .parallel()
                .mapToObj(i -> one.workflows().start("keyed", null, "order-1"))
                .distinct()
                .toList();
        assertThat(runs).hasSize(1);
        one.ended(runs.get(0));
        assertThat(one.workflows().start("keyed", null, "order-1")).isEqualTo(runs.get(0));
        assertThat(done).containsExactly("once");
    }

    @Test
    void a_run_that_is_started_in_a_transaction_that_rolls_back_never_was() {
        flows.on("rolled", wf -> did("ran"));
        Member one = flows.start("one");
        UUID run = new TransactionTemplate(new JdbcTransactionManager(database.dataSource())).execute(status -> {
            UUID started = one.workflows().start("rolled", null);
            status.setRollbackOnly();
            return started;
        });
        assertThat(one.workflows().find(run)).isEmpty();
        assertThat(one.workflows().list("rolled", null, 10)).isEmpty();
        UUID real = one.workflows().start("rolled", null);
        one.ended(real);
        assertThat(one.workflows().list("rolled", WorkflowStatus.COMPLETED, 10))
                .extracting(WorkflowInfo::id)
                .containsExactly(real);
    }

    // Nodes

    /** A node that does not wait for its jobs when it leaves. */
    private Member startImpatient(String name) {
        return flows.start(
                name,
                settings -> new NodeSettings(
                        settings.presence(),
                        settings.heartbeat(),
                        settings.detection(),
                        settings.election(),
                        Duration.ofMillis(200)));
    }

    @Test
    void a_run_goes_on_elsewhere_when_its_node_leaves_in_the_middle_of_a_step() throws InterruptedException {
        var begun = new CountDownLatch(1);
        var first = new AtomicBoolean(true);
        flows.on("moves", wf -> {
            wf.step("before", String.class, () -> did("before"));
            return wf.step("middle", String.class, () -> {
                if (first.getAndSet(false)) {
                    begun.countDown();
                    new CountDownLatch(1).await();
                }
                return did("middle");
            });
        });
        Member one = startImpatient("one");
        UUID run = one.workflows().start("moves", null);
        assertThat(begun.await(60, TimeUnit.SECONDS)).isTrue();
        Member two = flows.start("two");
        one.member().stop();
        WorkflowInfo info = two.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("before", "middle");
        // Leaving is no failure of the step.
        assertThat(info.steps().get(1).attempts()).isEqualTo(1);
    }

    @Test
    void steps_side_by_side_all_end_when_their_node_leaves() throws InterruptedException {
        var begun = new CountDownLatch(3);
        var interrupted = new CopyOnWriteArrayList<String>();
        var first = new AtomicBoolean(true);
        flows.on("moves", wf -> {
            boolean waits = first.getAndSet(false);
            return wf.all(Stream.of("a", "b", "c")
                    .map(name -> Step.of(name, String.class, () -> {
                        if (!waits) {
                            return did(name);
                        }
                        begun.countDown();
                        try {
                            new CountDownLatch(1).await();
                        } catch (InterruptedException e) {
                            interrupted.add(name);
                            throw e;
                        }
                        return name;
                    }))
                    .toList());
        });
        Member one = startImpatient("one");
        UUID run = one.workflows().start("moves", null);
        assertThat(begun.await(60, TimeUnit.SECONDS)).isTrue();
        Member two = flows.start("two");
        one.member().stop();
        assertThat(interrupted).containsExactlyInAnyOrder("a", "b", "c");
        assertThat(two.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactlyInAnyOrder("a", "b", "c");
    }

    @Test
    void two_nodes_share_runs_and_every_transactional_step_has_its_effect_once() {
        flows.on("shared", wf -> {
            for (String step : List.of("a", "b", "c")) {
                wf.transactionalStep(step, String.class, () -> wrote(wf.id(), step));
            }
            return null;
        });
        Member one = flows.start("one");
        Member two = flows.start("two");
        List<UUID> runs = IntStream.range(0, 40)
                .mapToObj(i -> (i % 2 == 0 ? one : two).workflows().start("shared", null))
                .toList();
        runs.forEach(run -> assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED));
        runs.forEach(run -> assertThat(written(run)).containsExactly("a", "b", "c"));
    }

    @Test
    void the_name_of_a_job_says_which_version_it_carries() {
        var version = new Version("mail@home", "1.2");
        assertThat(WorkflowStore.Version.of(version.jobName())).contains(version);
        assertThat(WorkflowStore.Version.of("order")).isEmpty();
    }
}
