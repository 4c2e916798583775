// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.job.row.JobPurgeStore;
import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.internal.workflow.store.WorkflowJobs;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobBatchStatus;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.NonRetryableJobException;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.StepFailedException;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Jobs and child runs that a run starts and waits for. */
@ClusterPostgres
class WorkflowChildTests extends WorkflowFixture {

    private static final String AWAITED = new WorkflowJobs(run -> Optional.empty()).awaitedCondition();

    WorkflowChildTests(TestDatabase database) {
        super(database);
    }

    @Test
    void run_waits_for_a_job_and_a_child_and_receives_their_results() {
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
    void run_waits_for_a_batch_of_jobs_and_learns_how_it_ended() {
        var jobs = new AtomicReference<Jobs>();
        flows.work = work -> {
            work.sweep = Duration.ofMinutes(1);
            work.on("good", context -> {});
            work.on("bad", context -> {
                throw new NonRetryableJobException("bad");
            });
        };
        flows.on("import", String.class, (wf, input) -> {
            UUID batch = wf.step(
                    "open",
                    UUID.class,
                    () -> jobs.get().batch(JobBatchOptions.named("import")).id());
            wf.step("fill", () -> {
                for (int i = 0; i < 20; i++) {
                    jobs.get()
                            .enqueueNamed(
                                    (String) input, null, JobOptions.defaults().withBatch(batch));
                }
                jobs.get().batch(batch).close();
            });
            return wf.awaitBatch("imported", batch);
        });
        flows.on("unknown", wf -> wf.awaitBatch("imported", new UUID(0, 1)));
        Member one = flows.start("one");
        jobs.set(one.member().jobs());

        UUID good = one.workflows().start("import", "good");
        UUID bad = one.workflows().start("import", "bad");
        one.ended(good);
        assertThat(one.workflows().result(good, JobBatchStatus.class)).contains(JobBatchStatus.SUCCEEDED);
        one.ended(bad);
        assertThat(one.workflows().result(bad, JobBatchStatus.class)).contains(JobBatchStatus.FAILED);
        WorkflowInfo unknown = one.ended(one.workflows().start("unknown", null));
        assertThat(unknown.lastError()).contains("The batch is unknown");
    }

    @Test
    void result_of_a_job_is_kept_until_its_run_has_received_it() throws InterruptedException {
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
        String carrier = new WorkflowVersion("parent", "1").jobName();
        one.member().jobs().pause(carrier);
        goOn.countDown();
        await().until(() -> jdbc.sql("SELECT status FROM forge_jobs WHERE name = 'add'")
                .query(String.class)
                .single()
                .equals("completed"));
        var keeping = new JobPurgeStore(one.member().node().resources().schema(), database.dataSource());
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofDays(1), Duration.ofDays(1), AWAITED), 100))
                .isZero();
        one.member().jobs().resume(carrier);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.workflows().result(run, Integer.class)).contains(3);
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofDays(1), Duration.ofDays(1), AWAITED), 100))
                .isEqualTo(1);
    }

    @Test
    void cancelled_run_cancels_the_runs_that_it_waits_for() {
        flows.on(
                "grandchild",
                wf -> wf.step(
                                "deep",
                                String.class,
                                () -> did("deep"),
                                step -> step.withCompensation(it -> did("undo deep")))
                        + wf.awaitSignal("never", String.class));
        flows.on("child", wf -> wf.child("grandchild", null, String.class));
        flows.on("parent", wf -> {
            wf.step("own", String.class, () -> did("own"), step -> step.withCompensation(it -> did("undo own")));
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        await().until(() -> done.contains("deep"));
        await().untilAsserted(() -> assertThat(one.operations()
                        .search(WorkflowFilter.all().withName("grandchild"), 1)
                        .items())
                .extracting(WorkflowInfo::awaits)
                .containsExactly("never"));
        assertThat(one.workflows().cancel(run, "enough")).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPENSATED);
        await().untilAsserted(() -> assertThat(
                        one.operations().search(WorkflowFilter.all(), 10).items())
                .extracting(WorkflowInfo::status)
                .containsOnly(WorkflowStatus.COMPENSATED)
                .hasSize(3));
        assertThat(done).contains("undo own", "undo deep");
    }

    @Test
    void failed_job_or_child_is_a_failed_step() {
        flows.work = jobs -> jobs.on("breaks", context -> {
            throw new NonRetryableJobException("broken");
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
    void job_of_a_run_cannot_be_enqueued() {
        flows.on("order", wf -> null);
        Member one = flows.start("one");
        assertThatExceptionOfType(JobRejectedException.class)
                .isThrownBy(() -> one.member().jobs().enqueueNamed("workflow:order@1", null))
                .withMessageContaining("Workflows.start");
    }

    @Test
    void parent_that_is_retried_after_its_child_waits_for_that_child() {
        var broken = new AtomicBoolean(true);
        flows.attempts = 1;
        flows.on("child", wf -> {
            if (broken.get()) {
                throw new IllegalStateException("broken");
            }
            return wf.awaitSignal("go", String.class);
        });
        flows.on("parent", wf -> wf.child("child", null, String.class));
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.FAILED);
        broken.set(false);
        UUID child = one.operations()
                .search(WorkflowFilter.all().withName("child"), 1)
                .items()
                .get(0)
                .id();
        assertThat(one.workflows().retry(child)).isTrue();
        one.await(child, WorkflowStatus.WAITING);
        assertThat(one.workflows().retry(run)).isTrue();
        one.await(run, WorkflowStatus.WAITING);
        assertThat(one.workflows().signal(child, "go", "on")).isTrue();
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(one.operations()
                        .search(WorkflowFilter.all().withName("child"), 10)
                        .items())
                .extracting(WorkflowInfo::id)
                .containsExactly(child);
    }

    @Test
    void end_of_a_child_wakes_its_parent_at_once_under_repeatable_read() {
        flows.source = repeatableRead();
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
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().signal(child, "go", "on");
        one.ended(child);
        one.ended(run);
    }

    @Test
    void cancelled_parent_fails_if_its_child_cannot_be_compensated() throws InterruptedException {
        flows.attempts = 1;
        flows.on("child", wf -> {
            wf.step(
                    "deep",
                    String.class,
                    () -> did("deep"),
                    s -> s.withCompensation(x -> {
                        throw new NonRetryableJobException("cannot be undone");
                    }));
            return wf.awaitSignal("never", String.class);
        });
        flows.on("parent", wf -> {
            wf.step("own", String.class, () -> did("own"), s -> s.withCompensation(x -> did("undo own")));
            return wf.child("child", null, String.class);
        });
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
        one.await(run, WorkflowStatus.WAITING);
        one.workflows().cancel(run, "no");
        one.ended(child);
        WorkflowInfo failed = one.ended(run);
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).contains(child.toString());
        assertThat(done).containsExactly("own", "deep", "undo own");
    }

    @Test
    void child_whose_version_is_missing_for_a_moment_does_not_fail_its_parent() throws InterruptedException {
        var children = new TestWorkflows(cluster);
        children.on("child", wf -> "child");
        Member other = children.start("other");
        flows.work = jobs -> jobs.on("elsewhere", context -> {});
        flows.on("parent", wf -> {
            wf.step("a", String.class, () -> did("a"), s -> s.withCompensation(x -> did("undo a")));
            wf.awaitSignal("go", String.class);
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        one.await(run, WorkflowStatus.WAITING);
        other.member().stop();
        one.workflows().signal(run, "go", "on");
        await().until(() -> !one.operations()
                .search(WorkflowFilter.all().withName("child"), 1)
                .items()
                .isEmpty());
        UUID child = one.operations()
                .search(WorkflowFilter.all().withName("child"), 1)
                .items()
                .get(0)
                .id();
        one.await(child, WorkflowStatus.BLOCKED_MISSING_VERSION);
        var again = new TestWorkflows(cluster);
        again.on("child", wf -> "child");
        again.start("again");
        assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED);
        assertThat(done).containsExactly("a");
    }

    @Test
    void database_failure_while_a_child_is_prepared_does_not_fail_the_run() {
        var children = new TestWorkflows(cluster);
        children.on("child", wf -> "child");
        children.start("other");
        var hit = new AtomicInteger();
        flows.source = new InterceptedDataSource(database.dataSource()) {
            @Override
            void before(Connection connection, String call, String sql) throws SQLException {
                if (sql.contains("workflows.deprecated") && hit.getAndIncrement() == 0) {
                    throw new SQLException("the connection has died", "08006");
                }
            }
        };
        flows.on("parent", wf -> {
            wf.step("a", String.class, () -> did("a"), s -> s.withCompensation(x -> did("undo a")));
            return wf.child("child", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("parent", null);
        WorkflowInfo info = one.ended(run);
        assertThat(hit.get()).isPositive();
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPLETED);
    }
}
