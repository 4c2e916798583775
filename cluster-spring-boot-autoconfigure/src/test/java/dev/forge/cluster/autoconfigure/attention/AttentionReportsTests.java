// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.autoconfigure.TestApplications;
import dev.forge.cluster.autoconfigure.attention.Attention.Item;
import dev.forge.cluster.autoconfigure.attention.Attention.Kind;
import dev.forge.cluster.autoconfigure.attention.Attention.Severity;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.JobHistory;
import dev.forge.cluster.job.operations.JobHistoryQuery;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.jdbc.core.simple.JdbcClient;

/** What needs the attention of an operator, each kind in an application on a database. */
@ClusterPostgres
class AttentionReportsTests {

    private final TestDatabase database;
    private final JdbcClient jdbc;

    AttentionReportsTests(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
    }

    @BeforeEach
    void clear() {
        database.clear();
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withConfiguration(AutoConfigurations.of(AttentionAutoConfiguration.class))
                .withBean(Handlers.class);
    }

    static class Handlers {
        @ClusterJob
        void mail() {}
    }

    private static List<Item> items(ApplicationContext context, Kind kind) {
        return context.getBean(AttentionReports.class).read().items().stream()
                .filter(item -> item.kind() == kind)
                .toList();
    }

    /** Waits until there is one item of that kind: a result is used again for five seconds. */
    private static Item item(ApplicationContext context, Kind kind) {
        await().until(() -> items(context, kind).size() == 1);
        return items(context, kind).get(0);
    }

    private void node(String name, String status, String columns, String values) {
        jdbc.sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at, %s)
                VALUES (?, ?, ?, 'host', '{worker}', ?, '1', now() + interval '1 hour', now() + interval '1 hour', %s)
                """.formatted(columns, values))
                .params(UUID.randomUUID(), UUID.randomUUID().toString(), name, status)
                .update();
    }

    @Test
    void healthy_cluster_needs_no_attention() {
        runner().run(context -> {
            TestApplications.ended(
                    context,
                    context.getBean(Jobs.class).enqueueNamed("mail", null).id());
            assertThat(context.getBean(AttentionReports.class).read()).isEqualTo(new Attention(List.of(), false));
        });
    }

    // Jobs --------------------------------------------------------------------------------------------------

    private void history(String name, int completed, int failed, int retried, String age) {
        jdbc.sql("""
                INSERT INTO forge_job_history (name, slot, minutes, completed, failed, retried)
                VALUES (?, date_bin('1 minute', now() - ?::interval, '2000-01-01'), 1, ?, ?, ?)
                """).params(name, age, completed, failed, retried).update();
    }

    @Test
    void names_with_many_failures_in_the_last_hour_are_failing() {
        history("broken", 10, 8, 12, "10 minutes");
        history("shaky", 80, 2, 8, "10 minutes");
        history("good", 1000, 10, 0, "10 minutes");
        history("seldom", 0, 2, 0, "10 minutes");
        history("former", 0, 100, 0, "2 hours");
        runner().run(context -> assertThat(items(context, Kind.FAILING_JOBS))
                .satisfiesExactly(
                        item -> {
                            assertThat(item.severity()).isEqualTo(Severity.CRITICAL);
                            assertThat(item.target()).isEqualTo("broken");
                            assertThat(item.text())
                                    .isEqualTo(
                                            "Job broken: 20 attempts failed in the last hour, 67% of all; 8 jobs failed for good.");
                            assertThat(item.nextStep()).contains("retry");
                        },
                        item -> {
                            assertThat(item.severity()).isEqualTo(Severity.WARNING);
                            assertThat(item.target()).isEqualTo("shaky");
                        }));
    }

    private void ended(String name, String status, String age) {
        jdbc.sql(
                        "INSERT INTO forge_jobs (id, name, status, finished_at) VALUES (gen_random_uuid(), ?, ?, now() - ?::interval)")
                .params(name, status, age)
                .update();
    }

    @Test
    void single_failed_job_is_listed_until_it_is_retried_or_deleted() {
        ended("seldom", "failed", "20 hours");
        ended("former", "failed", "25 hours");
        ended("crashing", "abandoned", "1 hour");
        ended("broken", "failed", "1 minute");
        history("broken", 0, 10, 0, "1 minute");
        runner().run(context -> {
            Item failed = item(context, Kind.FAILED_JOBS);
            assertThat(failed.severity()).isEqualTo(Severity.WARNING);
            assertThat(failed.target()).isEqualTo("seldom");
            assertThat(failed.text()).isEqualTo("Job seldom: 1 job failed for good in the last day.");
            assertThat(item(context, Kind.ABANDONED_JOBS).target()).isEqualTo("crashing");
            assertThat(items(context, Kind.FAILING_JOBS))
                    .as("listed once")
                    .extracting(Item::target)
                    .containsExactly("broken");
            jdbc.sql("UPDATE forge_jobs SET status = 'cancelled' WHERE status = 'failed'")
                    .update();
            await().until(() -> items(context, Kind.FAILED_JOBS).isEmpty());
        });
    }

    private UUID batch(String columns, String values) {
        UUID batch = UUID.randomUUID();
        jdbc.sql("INSERT INTO forge_job_batches (id, name, closed_at, %s) VALUES (?, 'secret', now(), %s)"
                        .formatted(columns, values))
                .param(batch)
                .update();
        jdbc.sql(
                        "INSERT INTO forge_jobs (id, name, status, finished_at, batch_id) VALUES (gen_random_uuid(), 'x', 'failed', now(), ?)")
                .param(batch)
                .update();
        jdbc.sql("INSERT INTO forge_job_batch_parts (batch_id, jobs) VALUES (?, 1)")
                .param(batch)
                .update();
        return batch;
    }

    @Test
    void failed_batches_are_listed_by_their_ids_until_they_are_retried() {
        UUID failed = batch("failed_at, ended_at", "now(), now()");
        batch("failed_at, ended_at", "now() - interval '2 days', now()");
        batch("failed_at, ended_at, cancelled_at", "now(), now(), now()");
        batch("failed_at, ended_at, parent_id", "now(), now(), gen_random_uuid()");
        runner().run(context -> {
            Item item = item(context, Kind.FAILED_BATCH);
            assertThat(item.target()).isEqualTo(failed.toString());
            assertThat(item.text()).isEqualTo("Batch %s: 1 job has failed.".formatted(failed));
            jdbc.sql("UPDATE forge_jobs SET status = 'completed' WHERE batch_id = ?")
                    .param(failed)
                    .update();
            await().until(() -> items(context, Kind.FAILED_BATCH).isEmpty());
        });
    }

    @Test
    void oldest_due_job_is_overdue_with_its_reason() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, worker_capability, priority, scheduled_at)
                VALUES ('00000000-0000-0000-0000-000000000001', 'mail', 'gpu', 10, now() - interval '2 hours'),
                       ('00000000-0000-0000-0000-000000000002', 'mail', 'gpu', 90, now() - interval '1 minute')
                """).update();
        runner().run(context -> {
            Item item = item(context, Kind.OVERDUE_JOBS);
            assertThat(item.severity()).isEqualTo(Severity.CRITICAL);
            assertThat(item.target()).isEqualTo("mail");
            assertThat(item.text())
                    .contains(
                            "00000000-0000-0000-0000-000000000001", "has been due for 2 h", "with 1 other.", "Reason: ")
                    .doesNotContain("gpu");
        });
    }

    @Test
    void paused_name_with_due_jobs_is_listed() {
        runner().run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            jobs.pause("mail");
            assertThat(items(context, Kind.PAUSED_JOBS)).isEmpty();
            jobs.enqueueNamed("mail", null);
            assertThat(item(context, Kind.PAUSED_JOBS).text())
                    .isEqualTo("Job mail: it is paused, and 1 due job waits.");
        });
    }

    @Test
    void pending_jobs_without_a_handler_are_unhandled_and_not_overdue() {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, scheduled_at)
                SELECT gen_random_uuid(), 'ghost', now() - interval '2 hours' FROM generate_series(1, 3)
                """).update();
        runner().run(context -> {
            assertThat(item(context, Kind.UNHANDLED_JOBS).text())
                    .isEqualTo("Job ghost: 3 jobs are pending, and no live node has a handler of that name.");
            assertThat(items(context, Kind.OVERDUE_JOBS)).isEmpty();
        });
    }

    @Test
    void made_up_names_hide_no_others_and_are_not_overdue() {
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('renamed')").update();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, worker_capability, scheduled_at)
                SELECT gen_random_uuid(), '!' || n, NULL, now() - interval '2 hours' FROM generate_series(1, 60) AS n
                UNION ALL
                SELECT gen_random_uuid(), 'free', 'made-up' || n, now() - interval '2 hours' FROM generate_series(1, 60) AS n
                UNION ALL
                SELECT gen_random_uuid(), name, 'gpu', now() - interval '40 minutes'
                FROM unnest(ARRAY['renamed', 'mail']) AS r (name)
                """).update();
        runner().withBean(Free.class).run(context -> {
            await().until(() -> items(context, Kind.OVERDUE_JOBS).size() == AttentionItems.MOST_OF_A_KIND);
            assertThat(items(context, Kind.UNHANDLED_JOBS))
                    .hasSize(AttentionItems.MOST_OF_A_KIND)
                    .extracting(Item::target)
                    .contains("renamed");
            assertThat(items(context, Kind.OVERDUE_JOBS))
                    .extracting(Item::target)
                    .contains("mail")
                    .containsOnly("mail", "free");
        });
    }

    static class Free {
        @ClusterJob
        void free() {}
    }

    @Test
    void each_kind_has_a_bounded_number_of_items() {
        jdbc.sql(
                        "INSERT INTO forge_jobs (id, name) SELECT gen_random_uuid(), 'ghost' || n FROM generate_series(1, 50) AS n")
                .update();
        runner().run(context -> {
            assertThat(items(context, Kind.UNHANDLED_JOBS)).hasSize(AttentionItems.MOST_OF_A_KIND);
            assertThat(context.getBean(AttentionReports.class).read().cutOff()).isTrue();
        });
    }

    // Workflows, crons and daemons --------------------------------------------------------------------------

    @Test
    void runs_that_cannot_continue_are_blocked_or_stranded() {
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, status)
                VALUES (gen_random_uuid(), 'order', '1', 'blocked_signature_mismatch'),
                       (gen_random_uuid(), 'order', '2', 'blocked_missing_version'),
                       (gen_random_uuid(), 'order', '2', 'waiting'),
                       (gen_random_uuid(), 'order', '3', 'completed')
                """).update();
        runner().run(context -> {
            assertThat(item(context, Kind.BLOCKED_WORKFLOWS).text()).contains("order", "1 run is blocked");
            assertThat(item(context, Kind.STRANDED_WORKFLOWS).text()).contains("order", "2 runs are in flight");
        });
    }

    @Test
    void failed_and_compensated_runs_are_listed() {
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, status, finished_at, parent_id, resolution_reason)
                VALUES (gen_random_uuid(), 'order', '1', 'failed', now() - interval '20 hours', NULL, NULL),
                       (gen_random_uuid(), 'old', '1', 'failed', now() - interval '2 days', NULL, NULL),
                       (gen_random_uuid(), 'child', '1', 'failed', now(), gen_random_uuid(), NULL),
                       (gen_random_uuid(), 'trip', '2', 'compensated', now(), NULL, NULL),
                       (gen_random_uuid(), 'trip', '2', 'compensated', now(), NULL, NULL),
                       (gen_random_uuid(), 'cancelled', '1', 'compensated', now(), NULL, 'changed their mind'),
                       (gen_random_uuid(), 'good', '1', 'completed', now(), NULL, NULL)
                """).update();
        runner().run(context -> {
            Item failed = item(context, Kind.FAILED_WORKFLOWS);
            assertThat(failed.severity()).isEqualTo(Severity.CRITICAL);
            assertThat(failed.target()).isEqualTo("order@1");
            assertThat(failed.text()).isEqualTo("Workflow order@1: 1 run failed in the last day.");
            Item compensated = item(context, Kind.COMPENSATED_WORKFLOWS);
            assertThat(compensated.severity()).isEqualTo(Severity.WARNING);
            assertThat(compensated.text())
                    .isEqualTo("Workflow trip@2: 2 runs failed in the last day, and compensated.");
        });
    }

    private void slot(String cron, String outcome, String jobStatus, String age) {
        jdbc.sql("""
                INSERT INTO forge_cron_runs (cron, slot, outcome, job_status, job_id)
                VALUES (?, now() - ?::interval, ?, ?, gen_random_uuid())
                """).params(cron, age, outcome, jobStatus).update();
    }

    @Test
    void crons_whose_last_slot_was_missed_or_failed_are_listed() {
        runner().run(context -> {
            Crons crons = context.getBean(Crons.class);
            for (String name : List.of("missed", "failed", "recovered", "paused")) {
                crons.create(CronDefinition.cron(name, "0 0 0 1 1 *").withHandler("mail"));
            }
            slot("missed", "missed", null, "1 minute");
            slot("failed", "ran", "failed", "1 minute");
            slot("recovered", "ran", "failed", "2 minutes");
            slot("recovered", "ran", "completed", "1 minute");
            slot("paused", "ran", "failed", "1 minute");
            crons.pause("paused");
            assertThat(item(context, Kind.MISSED_CRON).target()).isEqualTo("missed");
            assertThat(item(context, Kind.FAILED_CRON).target()).isEqualTo("failed");
        });
    }

    @Test
    void cron_without_a_handler_on_a_live_node_is_stopped() {
        jdbc.sql("""
                INSERT INTO forge_crons (name, handler, expression, declared, next_fire_at)
                VALUES ('lost', 'ghost', '0 0 0 1 1 *', false, now() + interval '1 day')
                """).update();
        runner().run(context -> {
            Item item = item(context, Kind.STOPPED_CRON);
            assertThat(item.target()).isEqualTo("lost");
            assertThat(item.nextStep()).isNotEmpty();
        });
    }

    static class Failing {
        @ClusterDaemon
        void feed() {
            throw new IllegalStateException("boom");
        }
    }

    @Test
    void daemon_that_restarts_often_is_listed() {
        runner().withBean(Failing.class)
                .withPropertyValues("forge.cluster.daemon.restart-delay=1ms")
                .run(context -> {
                    Item item = item(context, Kind.RESTARTING_DAEMON);
                    assertThat(item.target()).isEqualTo("feed");
                    assertThat(item.text()).startsWith("Daemon feed, instance 0: it was restarted");
                });
    }

    @Test
    void daemon_that_failed_for_good_is_listed() {
        runner().withBean(Failing.class)
                .withPropertyValues("forge.cluster.daemon.restart-delay=1ms", "forge.cluster.daemon.max-restarts=1")
                .run(context ->
                        assertThat(item(context, Kind.FAILED_DAEMON).severity()).isEqualTo(Severity.CRITICAL));
    }

    // Nodes -------------------------------------------------------------------------------------------------

    @Test
    void nodes_of_one_name_that_died_repeatedly_are_flapping() {
        for (int i = 0; i < 3; i++) {
            node("pod-1", "dead", "started_at", "now() - interval '20 minutes'");
            node("pod-2", "dead", "started_at", "now() - interval '2 hours'");
        }
        node("pod-3", "dead", "started_at", "now()");
        runner().run(context -> assertThat(item(context, Kind.FLAPPING_NODE).text())
                .isEqualTo("Node pod-1: joined and died 3 times in the last hour."));
    }

    @Test
    void node_that_drains_for_long_is_listed() {
        node("slow", "draining", "draining_since", "now() - interval '50 minutes'");
        node("quick", "draining", "draining_since", "now() - interval '5 minutes'");
        runner().run(context -> {
            assertThat(item(context, Kind.DRAINING_NODE).target()).isEqualTo("slow");
            assertThat(item(context, Kind.DRAINING_NODE).text()).contains("has been draining for 50 min");
            UUID self = context.getBean(NodeRuntime.class).node().id();
            context.getBean(NodeRuntime.class).node().drain();
            assertThat(jdbc.sql("SELECT draining_since > now() - interval '1 minute' FROM forge_nodes WHERE id = ?")
                            .param(self)
                            .query(Boolean.class)
                            .single())
                    .isTrue();
        });
    }

    @Test
    void clock_of_the_database_that_was_set_back_is_listed() {
        jdbc.sql("INSERT INTO forge_job_history (name, slot, minutes) VALUES ('', now() + interval '1 hour', 1)")
                .update();
        runner().run(context -> {
            Item item = item(context, Kind.CLOCK_SET_BACK);
            assertThat(item.severity()).isEqualTo(Severity.CRITICAL);
            assertThat(item.text()).startsWith("Database: its clock is ").contains("behind");
        });
    }

    // The history in an application -------------------------------------------------------------------------

    @Test
    void application_counts_its_jobs_unless_that_is_switched_off() {
        runner().run(context -> TestApplications.ended(
                context, context.getBean(Jobs.class).enqueueNamed("mail", null).id()));
        runner().withPropertyValues("forge.cluster.history.enabled=false").run(context -> {
            Jobs jobs = context.getBean(Jobs.class);
            JobOperations operations = context.getBean(JobOperations.class);
            TestApplications.ended(context, jobs.enqueueNamed("mail", null).id());
            // The first application has written its job when it ended.
            JobHistory history =
                    operations.history(JobHistoryQuery.last(Duration.ofHours(1)).withName("mail"));
            assertThat(history.points().stream()
                            .mapToLong(JobHistory.Point::completed)
                            .sum())
                    .isOne();
            assertThat(operations.summaries(Duration.ofHours(1))).hasSize(1);
        });
        assertThat(jdbc.sql("SELECT sum(completed) FROM forge_job_history WHERE name = ''")
                        .query(Long.class)
                        .single())
                .isOne();
    }

    // Retention ---------------------------------------------------------------------------------------------

    @Test
    void reason_of_an_undeletable_row_forges_no_line() {
        jdbc.sql("""
                INSERT INTO forge_undeletable_rows (table_name, row_id, retry_at, reason)
                VALUES ('forge_jobs', gen_random_uuid(), now() + interval '1 hour', E'a\\n\\x1b[31m' || repeat('b', 1000))
                """).update();
        runner().run(context -> assertThat(item(context, Kind.UNDELETABLE_ROWS).text())
                .endsWith("Reason: a??[31m%s....".formatted("b".repeat(193))));
    }

    @Test
    void tables_with_undeletable_rows_are_listed_with_the_first_of_them() {
        jdbc.sql("""
                INSERT INTO forge_undeletable_rows (table_name, row_id, since, retry_at, reason)
                SELECT 'forge_jobs', ('00000000-0000-0000-0000-00000000000' || n)::uuid, now() - n * interval '1 hour',
                       now() + interval '1 hour', 'SQLSTATE 23503'
                FROM generate_series(1, 3) AS n
                """).update();
        runner().run(context -> {
            Item item = item(context, Kind.UNDELETABLE_ROWS);
            assertThat(item.severity()).isEqualTo(Severity.WARNING);
            assertThat(item.target()).isEqualTo("forge_jobs");
            assertThat(item.text())
                    .isEqualTo("Table forge_jobs: 3 rows cannot be deleted after the retention, the first,"
                            + " 00000000-0000-0000-0000-000000000003, for 3 h. Reason: SQLSTATE 23503.");
        });
    }
}
