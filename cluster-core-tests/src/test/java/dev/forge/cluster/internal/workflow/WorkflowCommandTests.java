// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UnknownJobException;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.StepFailedException;
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Commands to runs, changes of the tables by hand, and nodes that lack the version of a run. */
@ClusterPostgres
class WorkflowCommandTests {

    private final JdbcClient jdbc;
    private final TestDatabase database;
    private final TestCluster cluster;
    private final TestWorkflows flows;
    private final List<String> done = new CopyOnWriteArrayList<>();

    WorkflowCommandTests(TestDatabase database) {
        this.database = database;
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

    private Map<String, Object> job(UUID id) {
        return jdbc.sql("SELECT * FROM forge_jobs WHERE id = ?")
                .param(id)
                .query()
                .singleRow();
    }

    /** Starts a run and waits until it is suspended. */
    private UUID waiting(Member one, String workflow) {
        UUID run = one.workflows().start(workflow, null);
        one.await(run, WorkflowStatus.WAITING);
        return run;
    }

    private void undoable(String workflow) {
        flows.on(workflow, wf -> {
            wf.step("a", String.class, () -> did("a"), step -> step.withCompensation(x -> did("undo a")));
            return wf.awaitSignal("go", String.class);
        });
    }

    private static void look(Member member) {
        member.engine().checkStranded();
    }

    // Versions

    @Test
    void runs_of_a_workflow_are_paused_by_the_name_of_their_jobs_and_misspelt_names_are_rejected() {
        flows.on("deploy", "1", wf -> "done");
        Member carrier = flows.start("carrier");
        Member other = new TestWorkflows(cluster).start("other");
        assertThat(other.member().jobs().pause("workflow:deploy@1")).isTrue();
        UUID run = carrier.workflows().start("deploy", null);
        assertThat(carrier.member().operations().explain(run).reason()).isEqualTo(JobExplanation.Reason.PAUSED);
        for (String misspelt : List.of("workflow:deploi@1", "workflow:deploy@2", "workflow:deploy")) {
            assertThatExceptionOfType(UnknownJobException.class)
                    .isThrownBy(() -> other.member().jobs().pause(misspelt))
                    .withMessageContaining("'" + misspelt + "'");
        }
        assertThat(other.member().jobs().resume("workflow:deploy@1")).isTrue();
        carrier.ended(run);
    }

    @Test
    void old_node_stays_ready_when_a_new_node_starts_runs_of_a_version_that_it_lacks() {
        flows.on("deploy", "1", wf -> wf.awaitSignal("go", String.class));
        Member old = flows.start("old");
        UUID first = waiting(old, "deploy");
        var newer = new TestWorkflows(cluster);
        newer.deprecated("deploy", "1", wf -> wf.awaitSignal("go", String.class));
        newer.on("deploy", "2", wf -> wf.awaitSignal("go", String.class));
        Member fresh = newer.start("fresh");
        UUID second = waiting(fresh, "deploy");
        look(old);
        assertThat(old.engine().isStranded()).isFalse();
        // A node that lacks a version in flight when it starts is not ready, even if another node has that version.
        var newest = new TestWorkflows(cluster);
        newest.on("deploy", "2", wf -> wf.awaitSignal("go", String.class));
        Member bold = newest.start("bold");
        assertThat(bold.engine().isStranded()).isTrue();
        old.workflows().signal(first, "go", "on");
        old.ended(first);
        look(bold);
        assertThat(bold.engine().isStranded()).isFalse();
        // Once the missing version is drained, it is treated like any other version.
        jdbc.sql("UPDATE forge_workflow_runs SET status = 'waiting', finished_at = NULL WHERE id = ?")
                .param(first)
                .update();
        look(bold);
        assertThat(bold.engine().isStranded()).isFalse();
        fresh.member().stop();
        bold.member().stop();
        await().untilAsserted(() -> {
            look(old);
            assertThat(old.engine().isStranded())
                    .as("no live node has the version of run %s", second)
                    .isTrue();
        });
    }

    @Test
    void node_that_is_no_worker_starts_versions_of_live_workers() {
        flows.on("tiers", "1", wf -> "by 1");
        Member worker = flows.start("worker");
        var web = new TestWorkflows(cluster);
        web.on("tiers", "2", wf -> "by 2");
        Member gateway = web.start("gateway", WorkflowCommandTests::withoutWork);
        UUID run = gateway.workflows().start("tiers", null);
        assertThat(gateway.ended(run).version()).isEqualTo("1");
        worker.member().stop();
        // The run waits for a worker with the version of this node, instead of being rejected.
        UUID later = gateway.workflows().start("tiers", null);
        assertThat(gateway.workflows().find(later).orElseThrow().version()).isEqualTo("2");
    }

    private static NodeSettings withoutWork(NodeSettings settings) {
        return TestNodes.withRoles(settings, NodeRole.GATEWAY, NodeRole.FUNCTION);
    }

    // Cancelling

    @Test
    void reason_is_read_in_part_however_long_it_is() {
        flows.on("waits", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = waiting(one, "waits");
        assertThat(one.workflows().cancel(run, "x".repeat(100_000))).isTrue();
        assertThat(one.workflows().find(run).orElseThrow().resolutionReason()).hasSizeLessThanOrEqualTo(2_000);
        jdbc.sql("UPDATE forge_workflow_runs SET resolution_reason = repeat('y', 1000000)")
                .update();
        assertThat(one.workflows().find(run).orElseThrow().resolutionReason()).isEqualTo("y".repeat(2_000));
        assertThat(one.operations().search(WorkflowFilter.all(), 10).items())
                .singleElement()
                .satisfies(listed -> assertThat(listed.resolutionReason()).isNull());
    }

    @Test
    void search_of_runs_continues_behind_a_run() {
        flows.on("waits", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        List<UUID> newestFirst = Stream.generate(() -> one.workflows().start("waits", null))
                .limit(5)
                .sorted((a, b) -> b.toString().compareTo(a.toString()))
                .toList();
        WorkflowFilter waits = WorkflowFilter.all().withName("waits");
        Page<WorkflowInfo> first = one.operations().search(waits, 2);
        assertThat(first.items()).extracting(WorkflowInfo::id).isEqualTo(newestFirst.subList(0, 2));
        Page<WorkflowInfo> second = one.operations().search(waits, 2, first.next());
        assertThat(second.items()).extracting(WorkflowInfo::id).isEqualTo(newestFirst.subList(2, 4));
        Page<WorkflowInfo> last = one.operations().search(waits, 1_000, second.next());
        assertThat(last.items()).extracting(WorkflowInfo::id).isEqualTo(newestFirst.subList(4, 5));
        assertThat(last.next()).isNull();
        assertThatIllegalArgumentException()
                .isThrownBy(() -> one.operations().search(WorkflowFilter.all(), 2, first.next()))
                .withMessageContaining("WorkflowOperations.search: cursor '%s'", first.next());
    }

    @Test
    void run_whose_job_was_abandoned_is_compensated_when_it_is_cancelled() {
        undoable("poison");
        flows.on("harmless", wf -> wf.awaitSignal("go", String.class));
        Member one = flows.start("one");
        UUID run = waiting(one, "poison");
        UUID idle = waiting(one, "harmless");
        jdbc.sql("UPDATE forge_jobs SET status = 'abandoned', finished_at = now() WHERE name LIKE 'workflow:%'")
                .update();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(one.workflows().cancel(run, "it kills nodes")).isTrue();
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(info.resolutionReason()).isEqualTo("it kills nodes");
        assertThat(done).containsExactly("a", "undo a");
        assertThat(one.workflows().cancel(run, "again")).isFalse();
        assertThat(one.workflows().cancel(idle, "it has done nothing")).isFalse();
    }

    @Test
    void run_with_a_failed_compensation_continues_it_when_it_is_cancelled() {
        var broken = new AtomicBoolean(true);
        flows.attempts = 1;
        flows.on("sticky", wf -> {
            wf.step("first", String.class, () -> did("first"), step -> step.withCompensation(x -> did("undo first")));
            wf.step(
                    "second",
                    String.class,
                    () -> did("second"),
                    step -> step.withCompensation(x -> {
                        if (broken.get()) {
                            throw new IllegalStateException("stuck");
                        }
                        did("undo second");
                    }));
            throw new IllegalStateException("fails");
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("sticky", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        assertThat(one.workflows().cancel(run, "enough")).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(done).containsExactly("first", "second", "undo second", "undo first");
    }

    @Test
    void job_of_a_run_is_neither_cancelled_nor_retried_without_the_run() {
        undoable("carried");
        Member one = flows.start("one");
        UUID run = waiting(one, "carried");
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(() -> one.member().jobs().cancel(run))
                .withMessageContainingAll("workflow:carried@1", "Workflows.cancel");
        assertThat(job(run)).containsEntry("status", "pending");
        jdbc.sql("UPDATE forge_jobs SET status = 'failed', finished_at = now() WHERE id = ?")
                .param(run)
                .update();
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(() -> one.member().jobs().retry(run))
                .withMessageContainingAll("workflow:carried@1", "Workflows.retry");
        assertThat(job(run)).containsEntry("status", "failed");
    }

    @Test
    void job_that_a_cancelled_run_waits_for_never_begins() {
        flows.work = jobs -> jobs.on("ship", context -> did("shipped"));
        flows.on("child", wf -> wf.job("ship", null, String.class));
        flows.on("parent", wf -> {
            wf.step("charge", String.class, () -> did("charge"), step -> step.withCompensation(x -> did("refund")));
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        one.member().jobs().pause("ship");
        UUID run = one.workflows().start("parent", null);
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'ship'")
                        .query(Integer.class)
                        .single()
                == 1);
        assertThat(one.workflows().cancel(run, "no")).isTrue();
        UUID ship = jdbc.sql("SELECT id FROM forge_jobs WHERE name = 'ship'")
                .query(UUID.class)
                .single();
        assertThat(one.member().jobs().find(ship).orElseThrow().status()).isEqualTo(JobStatus.CANCELLED);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        one.member().jobs().resume("ship");
        assertThat(done).containsExactly("charge", "refund");
        jdbc.sql("DELETE FROM forge_jobs WHERE name = 'ship'").update();
    }

    @Test
    void job_that_a_cancelled_run_waits_for_is_interrupted() throws InterruptedException {
        var begun = new CountDownLatch(1);
        var interrupted = new CountDownLatch(1);
        flows.work = jobs -> jobs.on("pack", context -> {
            begun.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException e) {
                interrupted.countDown();
                throw e;
            }
        });
        flows.on("parent", wf -> wf.job("pack", null, String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        assertThat(begun.await(60, TimeUnit.SECONDS)).isTrue();
        one.await(run, WorkflowStatus.WAITING);
        assertThat(one.workflows().cancel(run, "no")).isTrue();
        assertThat(interrupted.await(60, TimeUnit.SECONDS)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
    }

    // Retrying

    @Test
    void step_whose_failure_was_recorded_before_it_was_thrown_is_retried() {
        var broken = new AtomicBoolean(true);
        flows.attempts = 1;
        flows.on("noted", wf -> {
            wf.saveState("before");
            try {
                wf.step("charge", String.class, () -> {
                    did("charge");
                    if (broken.get()) {
                        throw new IllegalStateException("no money");
                    }
                    return "charged";
                });
            } catch (StepFailedException e) {
                wf.saveState("%s at %s, %s".formatted(e.step(), wf.now(), wf.randomUuid()));
                throw e;
            }
            // In another order than in the execution that failed.
            wf.randomUuid();
            return wf.state(String.class).orElseThrow();
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("noted", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(one.workflows().retry(run)).isTrue();
        await().until(() -> done.size() == 2);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        assertThat(one.workflows().retry(run)).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, String.class)).contains("before");
        assertThat(done).hasSize(3);
    }

    // Changes by hand

    @Test
    void operator_with_rights_on_runs_alone_may_retire_them() throws SQLException {
        undoable("retired");
        Member one = flows.start("one");
        UUID run = waiting(one, "retired");
        String role = "operator_" + run.toString().substring(24);
        jdbc.sql("CREATE ROLE " + role).update();
        try (Connection connection = database.dataSource().getConnection();
                var statement = connection.createStatement()) {
            statement.execute("GRANT SELECT, UPDATE ON forge_workflow_runs TO " + role);
            statement.execute("SET ROLE " + role);
            // The statement of the guide.
            assertThat(statement.executeUpdate("""
                            UPDATE forge_workflow_runs SET status = 'retired_unresumable', resolution_reason = '...'
                            WHERE workflow_name = 'retired' AND workflow_version = '1'
                              AND status NOT IN ('completed','compensated','failed','retired_unresumable','cancelled_by_operator');
                            """)).isEqualTo(1);
            assertThatExceptionOfType(SQLException.class)
                    .isThrownBy(() -> statement.execute("SELECT forge_workflow_resolved()"))
                    .withMessageContaining("permission denied");
        } finally {
            jdbc.sql("DROP OWNED BY " + role).update();
            jdbc.sql("DROP ROLE " + role).update();
        }
        assertThat(job(run)).containsEntry("status", "cancelled");
        assertThat(one.workflows().find(run).orElseThrow().finishedAt()).isNotNull();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void run_whose_job_was_completed_by_hand_fails(boolean atWork) throws InterruptedException {
        var begun = new CountDownLatch(1);
        var go = new CountDownLatch(1);
        flows.on("by-hand", wf -> {
            wf.awaitSignal("go", String.class);
            wf.step("work", () -> {
                begun.countDown();
                go.await();
            });
            return "done";
        });
        Member one = flows.start("one");
        UUID run = waiting(one, "by-hand");
        if (atWork) {
            one.workflows().signal(run, "go", "on");
            assertThat(begun.await(60, TimeUnit.SECONDS)).isTrue();
        }
        jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now() WHERE id = ?")
                .param(run)
                .update();
        assertThat(one.workflows().find(run).orElseThrow())
                .extracting(WorkflowInfo::status, WorkflowInfo::lastError)
                .containsExactly(WorkflowStatus.FAILED, "its job was completed");
        go.countDown();
        await().until(() -> one.member().engine().load() == 0);
        assertThat(one.workflows().retry(run)).isTrue();
        one.workflows().signal(run, "go", "on");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
    }

    @Test
    void child_whose_job_was_deleted_gets_another_job_whose_end_frees_the_parent() {
        flows.on("child", wf -> wf.awaitSignal("go", String.class));
        flows.on("parent", wf -> wf.child("child", null, String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        await().until(() -> !one.operations()
                .search(WorkflowFilter.all().withName("child").withStatus(WorkflowStatus.WAITING), 1)
                .items()
                .isEmpty());
        UUID child = one.operations()
                .search(WorkflowFilter.all().withName("child"), 1)
                .items()
                .get(0)
                .id();
        Map<String, Object> lost = job(child);
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?").param(child).update();
        await().until(() -> one.member().jobs().find(child).isPresent());
        assertThat(job(child))
                .containsEntry("unique_key", lost.get("unique_key"))
                .containsEntry("metadata", lost.get("metadata"));
        one.workflows().signal(child, "go", "on");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, String.class)).contains("on");
    }

    // Reports

    @Test
    void progress_of_a_run_is_stored() {
        flows.on("progress", wf -> {
            wf.progress(40, "half-way");
            return wf.awaitSignal("go", String.class);
        });
        Member one = flows.start("one");
        UUID run = waiting(one, "progress");
        assertThat(one.workflows().find(run).orElseThrow().progress()).contains("40", "half-way");
    }

    @Test
    void timeline_contains_the_end_of_a_step_and_the_attempts_of_its_compensation() {
        var broken = new AtomicBoolean(true);
        flows.on("undone", wf -> {
            wf.step(
                    "a",
                    String.class,
                    () -> did("a"),
                    step -> step.withCompensation(x -> {
                        if (broken.getAndSet(false)) {
                            throw new IllegalStateException("not yet");
                        }
                        did("undo a");
                    }));
            return wf.awaitSignal("go", String.class);
        });
        Member one = flows.start("one");
        UUID run = waiting(one, "undone");
        WorkflowInfo.Step before =
                one.workflows().find(run).orElseThrow().steps().get(0);
        assertThat(before.compensationAttempts()).isZero();
        one.workflows().cancel(run, "no");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        WorkflowInfo.Step after =
                one.workflows().find(run).orElseThrow().steps().get(0);
        assertThat(after.status()).isEqualTo(StepStatus.COMPENSATED);
        assertThat(after.finishedAt()).isEqualTo(before.finishedAt());
        assertThat(after.compensationAttempts()).isEqualTo(2);
    }
}
