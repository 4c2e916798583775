package dev.forge.cluster.internal.workflow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
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

/** Runs, and the children and jobs that they start. */
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
        jdbc.sql("TRUNCATE forge_jobs, forge_workflow_runs, forge_workflow_steps, forge_workflow_signals")
                .update();
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
        return wf.step(name, String.class, () -> did(name), it -> it.compensate(result -> did("undo " + result)));
    }

    private List<UUID> jobs(String name) {
        return jdbc.sql("SELECT id FROM forge_jobs WHERE name = ?")
                .param(name)
                .query(UUID.class)
                .list();
    }

    private UUID child(Member one, String name) {
        await().until(() -> !one.workflows().list(name, null, 1).isEmpty());
        return one.workflows().list(name, null, 1).get(0).id();
    }

    // Retried ------------------------------------------------------------------------------------------------

    @Test
    void run_that_is_retried_after_its_failed_job_waits_for_that_job() throws InterruptedException {
        var broken = new AtomicBoolean(true);
        var begun = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        flows.work = jobs -> jobs.on(TestJobs.job("import"), (payload, context) -> {
            if (broken.get()) {
                throw new PermanentJobFailure("broken");
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
    void run_that_is_retried_after_its_job_and_its_child_have_completed_takes_their_results() {
        var broken = new AtomicBoolean(true);
        flows.work = jobs -> jobs.on(TestJobs.job("import"), (payload, context) -> {
            if (broken.get()) {
                throw new PermanentJobFailure("broken");
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
        await().until(() -> one.engine().find(job).orElseThrow().status().isFinal());
        one.workflows().retry(ofJob);
        one.workflows().retry(ofChild);
        assertThat(one.ended(ofJob).result()).isEqualTo("\"imported\"");
        assertThat(one.ended(ofChild).result()).isEqualTo("\"born\"");
        assertThat(done).containsExactlyInAnyOrder("imported", "born");
    }

    // Cancelled ----------------------------------------------------------------------------------------------

    @Test
    void second_cancel_that_reaches_a_child_says_so() {
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

    /** The child ends before the parent, which is cancelled then, has heard of it. */
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
        assertThat(one.workflows().list(null, null, 10))
                .extracting(WorkflowInfo::status)
                .containsOnly(WorkflowStatus.COMPENSATED);
        assertThat(info.steps()).extracting(WorkflowInfo.Step::status).containsOnly("compensated");
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
                        it -> it.compensate(result -> {
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

    // Side by side -------------------------------------------------------------------------------------------

    @Test
    void steps_side_by_side_all_end_if_a_thread_cannot_be_created() {
        flows.on(
                "crowd",
                wf -> wf.all(Stream.of("a", "b", "c")
                        .map(name -> Step.of(name, String.class, () -> did(name)))
                        .toList()));
        Member one = flows.start("one");
        var threads = new AtomicInteger();
        ((SimpleAsyncTaskExecutor) one.engine().tools().branches()).setThreadFactory(work -> {
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
