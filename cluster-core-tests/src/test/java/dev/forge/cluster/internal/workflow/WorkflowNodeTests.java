// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.TestNodes;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Runs whose nodes leave or freeze, and runs that nodes share. */
@ClusterPostgres
class WorkflowNodeTests extends WorkflowFixture {

    WorkflowNodeTests(TestDatabase database) {
        super(database);
    }

    /** Starts a node that waits for its jobs only briefly when it leaves. */
    private Member startImpatient(String name) {
        return flows.start(name, settings -> TestNodes.withDrainTimeout(settings, Duration.ofMillis(200)));
    }

    @Test
    void run_continues_on_another_node_when_its_node_leaves_during_a_step() throws InterruptedException {
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
        // A node that leaves does not count an attempt.
        assertThat(info.steps().get(1).attempts()).isEqualTo(1);
    }

    @Test
    void attempt_that_a_leaving_node_counts_is_recorded_with_the_calls_before_it() throws InterruptedException {
        var begun = new CountDownLatch(1);
        var released = new AtomicBoolean();
        flows.on("deaf", wf -> {
            wf.saveState("begun");
            wf.step(
                    "deaf",
                    String.class,
                    () -> {
                        begun.countDown();
                        while (!released.get()) {
                            Thread.onSpinWait();
                        }
                        return "released";
                    },
                    step -> step.withTimeout(Duration.ofMillis(50)));
            return null;
        });
        Member one = startImpatient("one");
        UUID run = one.workflows().start("deaf", null);
        assertThat(begun.await(60, TimeUnit.SECONDS)).isTrue();
        try {
            one.member().stop();
            assertThat(jdbc.sql("""
                            SELECT position || ' ' || kind || ' ' || status || ' ' || attempts FROM forge_workflow_steps
                            WHERE run_id = ? ORDER BY position
                            """).param(run).query(String.class).list())
                    .containsExactly("0 state completed 0", "1 step retrying 1");
        } finally {
            released.set(true);
        }
    }

    @Test
    void parallel_steps_all_end_when_their_node_leaves() throws InterruptedException {
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
        // A node that leaves waits half a second for interrupted steps; a paused machine may take longer.
        await().untilAsserted(() -> assertThat(interrupted).containsExactlyInAnyOrder("a", "b", "c"));
        assertThat(two.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactlyInAnyOrder("a", "b", "c");
    }

    @Test
    void transactional_steps_have_one_effect_each_when_two_nodes_share_runs() {
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
    void node_that_freezes_before_its_step_commits_does_not_keep_the_run_for_ever() throws InterruptedException {
        var frozen = new AtomicBoolean();
        var freeze = new AtomicBoolean();
        var thaw = new CountDownLatch(1);
        flows.source = new InterceptedDataSource(database.dataSource()) {
            @Override
            void before(Connection connection, String call, String sql) throws SQLException {
                if (call.equals("commit") && freeze.getAndSet(false)) {
                    frozen.set(true);
                    try {
                        thaw.await(30, TimeUnit.SECONDS);
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                    }
                }
            }
        };
        flows.on("freezes", wf -> {
            wf.transactionalStep("write", String.class, () -> {
                freeze.set(done.isEmpty());
                did("attempt");
                return wrote(flows.source, wf.id(), "write");
            });
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("freezes", null);
        await().untilTrue(frozen);
        // A sweeper can take the run as soon as the server has ended the transaction of the frozen node.
        await().until(() -> jdbc.sql("SELECT id FROM forge_jobs WHERE id = ? FOR UPDATE SKIP LOCKED")
                .param(run)
                .query(UUID.class)
                .optional()
                .isPresent());
        assertThat(written(run)).isEmpty();
        thaw.countDown();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(written(run)).containsExactly("write");
    }
}
