// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Retries, cancellation and compensation of runs with children and jobs. */
@ClusterPostgres
class WorkflowFamilyTests {

    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestWorkflows flows;
    private final List<String> done = new CopyOnWriteArrayList<>();

    WorkflowFamilyTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.flows = new TestWorkflows(cluster);
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    private String did(String what) {
        done.add(what);
        return what;
    }

    private String step(WorkflowContext wf, String name) {
        return wf.step(name, String.class, () -> did(name), it -> it.withCompensation(result -> did("undo " + result)));
    }

    private List<UUID> jobs(String name) {
        return jdbc.sql("SELECT id FROM forge_jobs WHERE name = ?")
                .param(name)
                .query(UUID.class)
                .list();
    }

    private UUID child(Member one, String name) {
        await().until(() -> !one.operations()
                .search(WorkflowFilter.all().withName(name), 1)
                .items()
                .isEmpty());
        return one.operations()
                .search(WorkflowFilter.all().withName(name), 1)
                .items()
                .get(0)
                .id();
    }

    // Retried ------------------------------------------------------------------------------------------------

    @Test
    void run_that_is_retried_after_its_failed_job_waits_for_that_job() throws InterruptedException {
        var broken = new AtomicBoolean(true);
        var begun = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        flows.work = jobs -> jobs.on(TestJobs.job("import"), (payload, context) -> {
            if (broken.get()) {
                throw new NonRetryableJobException("broken");
            }
            begun.countDown();
            go.await();
            return did("imported");
        });
        flows.on("parent", wf -> wf.job("import", null, String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        UUID job = jobs("import").get(0);
        assertThat(one.engine().jobs().retry(job)).isTrue();
        begun.await();
        assertThat(one.workflows().retry(run)).isTrue();
        one.await(run, WorkflowStatus.WAITING);
        go.countDown();
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(info.result()).isEqualTo("\"imported\"");
        assertThat(jobs("import")).containsExactly(job);
    }

    @Test
    void run_that_is_retried_after_its_job_and_its_child_have_completed_receives_their_results() {
        var broken = new AtomicBoolean(true);
        flows.work = jobs -> jobs.on(TestJobs.job("import"), (payload, context) -> {
            if (broken.get()) {
                throw new NonRetryableJobException("broken");
            }
            return did("imported");
        });
        flows.on("child", wf -> {
            if (broken.get()) {
                throw new IllegalStateException("broken");
            }
            return did("born");
        });
        flows.on("of-job", wf -> wf.job("import", null, String.class));
        flows.on("of-child", wf -> wf.child("child", null, String.class));
        Member one = flows.start("one");
        UUID ofJob = one.workflows().start("of-job", null);
        UUID ofChild = one.workflows().start("of-child", null);
        one.ended(ofJob);
        one.ended(ofChild);
        broken.set(false);
        UUID job = jobs("import").get(0);
        UUID child = child(one, "child");
        one.engine().jobs().retry(job);
        one.workflows().retry(child);
        await().until(() -> done.size() == 2);
        one.await(child, WorkflowStatus.COMPLETED);
        await().until(() -> one.engine().findJob(job).orElseThrow().status().isFinal());
        one.workflows().retry(ofJob);
        one.workflows().retry(ofChild);
        assertThat(one.ended(ofJob).result()).isEqualTo("\"imported\"");
        assertThat(one.ended(ofChild).result()).isEqualTo("\"born\"");
        assertThat(done).containsExactlyInAnyOrder("imported", "born");
    }

    /** Starts a node with a parent, a child and a grandchild that all fail, because the grandchild does. */
    private Member brokenFamily(AtomicBoolean broken, CountDownLatch go) {
        flows.on("grandchild", wf -> {
            if (broken.get()) {
                throw new IllegalStateException("broken");
            }
            return wf.step("work", String.class, () -> {
                go.await();
                return did("worked");
            });
        });
        flows.on("child", wf -> wf.child("grandchild", null, String.class));
        flows.on("parent", wf -> wf.child("child", null, String.class));
        return flows.start("one");
    }

    @Test
    void replaced_child_is_not_retried_while_its_successor_is_active() {
        var broken = new AtomicBoolean(true);
        var go = new CountDownLatch(1);
        Member one = brokenFamily(broken, go);
        UUID parent = one.workflows().start("parent", null);
        assertThat(one.ended(parent).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        UUID child = child(one, "child");
        assertThat(one.workflows().retry(parent)).isTrue();
        // The second child waits for the second grandchild.
        await().until(() ->
                jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'workflow:child@1' AND waits_for IS NOT NULL")
                                .query(Long.class)
                                .single()
                        == 1);
        assertThat(one.workflows().retry(child)).isFalse();
        assertThat(one.workflows().find(child).orElseThrow().status()).isEqualTo(WorkflowStatus.FAILED);
        go.countDown();
        WorkflowInfo info = one.ended(parent);
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("worked");
    }

    @Test
    void replaced_child_continues_its_compensation() {
        var broken = new AtomicBoolean(true);
        var go = new CountDownLatch(1);
        flows.attempts = 1;
        flows.on("child", wf -> {
            wf.step(
                    "first",
                    String.class,
                    () -> "first",
                    it -> it.withCompensation(result -> {
                        if (broken.get()) {
                            throw new IllegalStateException("cannot be undone now");
                        }
                        did("undo " + result);
                    }));
            if (broken.get()) {
                throw new IllegalStateException("broken");
            }
            return wf.step("second", String.class, () -> {
                go.await();
                return did("second");
            });
        });
        flows.on("parent", wf -> wf.child("child", null, String.class));
        Member one = flows.start("one");
        UUID parent = one.workflows().start("parent", null);
        one.ended(parent);
        broken.set(false);
        UUID child = child(one, "child");
        assertThat(one.workflows().retry(parent)).isTrue();
        await().until(() -> jobs("workflow:child@1").size() == 2);
        assertThat(one.workflows().retry(child)).isTrue();
        assertThat(one.ended(child).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        go.countDown();
        WorkflowInfo info = one.ended(parent);
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("undo first", "second");
    }

    @Test
    void parent_waits_for_its_former_child_that_is_retried_while_it_starts_another() throws Exception {
        var broken = new AtomicBoolean(true);
        var begun = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        var birth = new CountDownLatch(1);
        flows.on("child", wf -> {
            if (broken.get()) {
                throw new IllegalStateException("broken");
            }
            birth.await();
            return did("born");
        });
        flows.on("parent", wf -> {
            if (!broken.get()) {
                begun.countDown();
                go.await();
            }
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        UUID parent = one.workflows().start("parent", null);
        one.ended(parent);
        broken.set(false);
        UUID child = child(one, "child");
        one.workflows().retry(parent);
        begun.await();
        try (Connection other = cluster.source.getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("SELECT FROM forge_workflow_runs WHERE id = '%s' FOR UPDATE".formatted(parent));
            go.countDown();
            // The parent has found no active child, and is about to start one.
            await().until(() -> jdbc.sql("""
                            SELECT count(*) FROM pg_stat_activity
                            WHERE datname = current_database() AND wait_event_type = 'Lock'
                            """).query(Long.class).single() > 0);
            assertThat(one.workflows().retry(child)).isTrue();
            other.rollback();
        }
        await().until(() -> one.workflows().find(parent).orElseThrow().status() != WorkflowStatus.RUNNING);
        birth.countDown();
        WorkflowInfo info = one.ended(parent);
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("born");
    }

    // Cancelled ----------------------------------------------------------------------------------------------

    @Test
    void second_cancel_that_reaches_another_child_returns_true() {
        flows.on("child", wf -> {
            step(wf, "deep");
            return wf.awaitSignal("never", String.class);
        });
        flows.on("parent", wf -> wf.child("child", null, String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        UUID child = child(one, "child");
        one.await(child, WorkflowStatus.WAITING);
        one.await(run, WorkflowStatus.WAITING);
        jdbc.sql(
                        "UPDATE forge_workflow_runs SET unwinding = true, status = 'compensating', resolution_reason = 'no' WHERE id = ?")
                .param(run)
                .update();
        assertThat(one.workflows().cancel(run, "no")).as("cancels the child").isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(one.ended(child).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(one.workflows().cancel(run, "no")).as("changes nothing").isFalse();
    }

    /** Cancels a parent whose child has ended, before the parent has received its result. */
    private UUID cancelledAfterItsChild(Member one, WorkflowStatus end) {
        UUID run = one.workflows().start("parent", null);
        UUID child = child(one, "child");
        one.await(child, WorkflowStatus.WAITING);
        one.await(run, WorkflowStatus.WAITING);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = 'infinity' WHERE id = ?")
                .param(run)
                .update();
        one.workflows().signal(child, "go", "on");
        one.await(child, end);
        assertThat(one.workflows().cancel(run, "no")).isTrue();
        return run;
    }

    @Test
    void parent_that_is_cancelled_after_its_child_has_failed_is_compensated() {
        flows.on("child", wf -> {
            wf.awaitSignal("go", String.class);
            throw new IllegalStateException("merely failed");
        });
        flows.on("parent", wf -> {
            step(wf, "own");
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        WorkflowInfo info = one.ended(cancelledAfterItsChild(one, WorkflowStatus.FAILED));
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(done).containsExactly("own", "undo own");
    }

    @Test
    void parent_that_is_cancelled_after_its_child_has_completed_compensates_the_child() {
        flows.on("child", wf -> {
            wf.awaitSignal("go", String.class);
            return step(wf, "deep");
        });
        flows.on("parent", wf -> {
            step(wf, "own");
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        WorkflowInfo info = one.ended(cancelledAfterItsChild(one, WorkflowStatus.COMPLETED));
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(done).containsExactly("own", "deep", "undo deep", "undo own");
    }

    @Test
    void parent_does_not_spin_while_the_run_of_a_child_whose_job_has_ended_is_locked() throws SQLException {
        flows.on("child", wf -> wf.awaitSignal("never", String.class));
        flows.on("parent", wf -> wf.child("child", null, String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        UUID child = child(one, "child");
        one.await(child, WorkflowStatus.WAITING);
        one.await(run, WorkflowStatus.WAITING);
        long before = claims(run);
        try (Connection connection = cluster.source.getConnection()) {
            connection.setAutoCommit(false);
            connection
                    .createStatement()
                    .execute("SELECT FROM forge_workflow_runs WHERE id = '%s' FOR UPDATE".formatted(child));
            jdbc.sql("UPDATE forge_jobs SET status = 'failed' WHERE id = ?")
                    .param(child)
                    .update();
            await().until(() -> claims(run) >= before + 2);
            connection.rollback();
        }
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(one.ended(child).lastError()).contains("its job was failed");
        assertThat(claims(run) - before).as("executions of the parent").isLessThan(20);
    }

    private long claims(UUID run) {
        return jdbc.sql("SELECT claim_epoch FROM forge_jobs WHERE id = ?")
                .param(run)
                .query(Long.class)
                .single();
    }

    // Compensated --------------------------------------------------------------------------------------------

    @Test
    void parent_that_fails_compensates_its_completed_children_in_reverse_order() {
        flows.on("grandchild", wf -> step(wf, "grandchild"));
        flows.on("child", wf -> {
            step(wf, "before");
            wf.child("grandchild", null, String.class);
            return step(wf, "after");
        });
        flows.on("parent", wf -> {
            step(wf, "first");
            wf.child("child", null, String.class);
            step(wf, "last");
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(info.lastError()).contains("fails");
        assertThat(done)
                .containsExactly(
                        "first",
                        "before",
                        "grandchild",
                        "after",
                        "last",
                        "undo last",
                        "undo after",
                        "undo grandchild",
                        "undo before",
                        "undo first");
        assertThat(one.operations().search(WorkflowFilter.all(), 10).items())
                .extracting(WorkflowInfo::status)
                .containsOnly(WorkflowStatus.COMPENSATED);
        assertThat(info.steps()).extracting(WorkflowInfo.Step::status).containsOnly(StepStatus.COMPENSATED);
    }

    @Test
    void parent_whose_completed_child_cannot_be_compensated_fails_until_it_is_retried() {
        var broken = new AtomicBoolean(true);
        flows.attempts = 1;
        flows.on(
                "child",
                wf -> wf.step(
                        "deep",
                        String.class,
                        () -> did("deep"),
                        it -> it.withCompensation(result -> {
                            if (broken.get()) {
                                throw new IllegalStateException("still in use");
                            }
                            did("undo deep");
                        })));
        flows.on("parent", wf -> {
            step(wf, "own");
            wf.child("child", null, String.class);
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        WorkflowInfo failed = one.ended(run);
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).contains(child(one, "child").toString(), "still in use");
        assertThat(done).containsExactly("own", "deep");
        broken.set(false);
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(done).containsExactly("own", "deep", "undo deep", "undo own");
    }

    @Test
    void compensation_of_a_job_or_a_child_runs_with_its_result() {
        flows.work = jobs -> jobs.on(TestJobs.job("ship"), (payload, context) -> did("shipped"));
        flows.on("child", wf -> step(wf, "deep"));
        flows.on("parent", wf -> {
            wf.job("ship", null, String.class, result -> did("recall " + result));
            wf.child("child", null, String.class, result -> did("replace " + result));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(done).containsExactly("shipped", "deep", "replace deep", "recall shipped");
    }

    // Parallel steps -----------------------------------------------------------------------------------------

    @Test
    void parallel_steps_all_end_if_a_thread_cannot_be_created() {
        flows.on(
                "crowd",
                wf -> wf.all(Stream.of("a", "b", "c")
                        .map(name -> Step.of(name, String.class, () -> did(name)))
                        .toList()));
        Member one = flows.start("one");
        var threads = new AtomicInteger();
        ((SimpleAsyncTaskExecutor) one.engine().stepRuntime().branches()).setThreadFactory(work -> {
            if (threads.incrementAndGet() == 2) {
                throw new OutOfMemoryError("unable to create native thread");
            }
            return new Thread(work, "forge-cluster-step-test");
        });
        UUID run = one.workflows().start("crowd", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactlyInAnyOrder("a", "b", "c");
    }
}
