// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.workflow.TestWorkflows.Member;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.util.RawValue;

/** Values that the database rejects, exceptions that cannot be printed, rows that are locked. */
@ClusterPostgres
class WorkflowRejectedValueTests extends WorkflowFixture {

    WorkflowRejectedValueTests(TestDatabase database) {
        super(database);
    }

    @Test
    void rejected_name_of_a_wait_fails_the_run() throws InterruptedException {
        flows.on("nul", wf -> {
            wf.sleep("a\0b", Duration.ofMillis(10));
            return "fine";
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("nul", null);
        WorkflowStatus status = one.ended(run).status();
        assertThat(status.isFinal())
                .as("%s after %d claims", status, claims(run))
                .isTrue();
    }

    @Test
    void job_that_was_inserted_with_the_key_of_an_awaited_job_fails_the_run() {
        flows.work = jobs -> jobs.on("order", context -> did("order"));
        flows.on("checkout", wf -> {
            wf.awaitSignal("go", String.class);
            return wf.job("order", null, String.class);
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("checkout", null);
        one.await(run, WorkflowStatus.WAITING);
        UUID planted = UUID.randomUUID();
        for (int position = 0; position < 4; position++) {
            jdbc.sql("INSERT INTO forge_jobs (id, name, unique_key, scheduled_at) VALUES (?, 'order', ?, 'infinity')")
                    .params(position == 0 ? planted : UUID.randomUUID(), "workflow:%s:%d".formatted(run, position))
                    .update();
        }
        one.workflows().signal(run, "go", "go");
        WorkflowInfo failed = one.ended(run);
        assertThat(failed.status()).isEqualTo(WorkflowStatus.FAILED);
        assertThat(failed.lastError()).contains("workflow:" + run, "'order'");
        assertThat(done).isEmpty();
        jdbc.sql("DELETE FROM forge_jobs").update();
    }

    @Test
    void rejected_state_or_payload_fails_the_run() throws InterruptedException {
        flows.work = jobs -> jobs.on("add", context -> {});
        flows.on("huge-number", wf -> wf.job("add", Map.of("x", new RawValue("[1,")), String.class));
        flows.on("huge-state", wf -> {
            wf.saveState(Map.of("x", new RawValue("[1,")));
            wf.sleep("nap", Duration.ofMillis(10));
            return null;
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("huge-number", null);
        UUID state = one.workflows().start("huge-state", null);
        WorkflowStatus status = one.ended(run).status();
        WorkflowStatus second = one.ended(state).status();
        assertThat(List.of(status.isFinal(), second.isFinal()))
                .as("%s after %d claims, %s after %d claims", status, claims(run), second, claims(state))
                .containsOnly(true);
    }

    @Test
    void rejected_result_compensates_the_run() {
        flows.on("huge-result", wf -> {
            wf.step(
                    "a",
                    String.class,
                    () -> wrote(wf.id(), "a"),
                    s -> s.withCompensation(x -> wrote(wf.id(), "undo a")));
            return Map.of("x", new RawValue("[1,"));
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("huge-result", null);
        WorkflowInfo info = one.ended(run);
        assertThat(info.status()).as(info.lastError()).isEqualTo(WorkflowStatus.COMPENSATED);
        assertThat(written(run)).containsExactly("a", "undo a");
    }

    static final class Unspeakable extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }
    }

    @Test
    void exception_that_cannot_be_printed_fails_the_run() {
        flows.on("unspeakable", wf -> {
            wf.step("a", String.class, () -> did("a"), s -> s.withCompensation(x -> did("undo a")));
            wf.step("b", String.class, () -> {
                did("b");
                throw new Unspeakable();
            });
            return null;
        });
        flows.on("unspeakable-method", wf -> {
            wf.step(
                    "a",
                    String.class,
                    () -> wrote(wf.id(), "a"),
                    s -> s.withCompensation(x -> wrote(wf.id(), "undo a")));
            throw new Unspeakable();
        });
        Member one = flows.start("one");
        UUID run = one.workflows().start("unspeakable", null);
        UUID method = one.workflows().start("unspeakable-method", null);
        WorkflowInfo info = one.ended(run);
        WorkflowInfo second = one.ended(method);
        assertThat(List.of(info.status(), second.status()))
                .as("%s %s %s", done, written(method), second.lastError())
                .containsOnly(WorkflowStatus.COMPENSATED);
        assertThat(done).containsExactly("a", "b", "b", "b", "undo a");
    }

    @Test
    void locked_runs_leave_their_slots_to_other_jobs() throws Exception {
        var go = new CountDownLatch(1);
        flows.work = jobs -> jobs.on("other", context -> {});
        flows.on(
                "stuck",
                wf -> wf.step("wait", String.class, () -> {
                    go.await();
                    return did("waited");
                }));
        Member one = flows.start("one");
        // As many runs as the node has slots.
        List<UUID> runs = Stream.generate(() -> one.workflows().start("stuck", null))
                .limit(4)
                .toList();
        await().until(() -> jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'running'")
                        .query(Long.class)
                        .single()
                == 4);
        try (Connection operator = database.dataSource().getConnection();
                Statement statement = operator.createStatement()) {
            operator.setAutoCommit(false);
            statement.execute("UPDATE forge_workflow_runs SET resolution_reason = 'obsolete'");
            go.countDown();
            UUID job = one.member().jobs().enqueueNamed("other", null).id();
            assertThat(one.member().ended(job).status()).isEqualTo(JobStatus.COMPLETED);
            operator.rollback();
        }
        runs.forEach(run -> assertThat(one.ended(run).status()).isEqualTo(WorkflowStatus.COMPLETED));
        assertThat(done).as("effects of the steps").hasSize(4);
    }
}
