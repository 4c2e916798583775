// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ch.qos.logback.classic.Level;
import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.purge.UndeletableStore;
import dev.forge.cluster.internal.workflow.TestWorkflows;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.BulkResult;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.dao.DataAccessException;

/** Rows that the database refuses to delete. */
@ClusterPostgres
class UndeletableRowTests extends AbstractExecutionTests {

    private final TestDatabase database;

    UndeletableRowTests(TestDatabase database) {
        super(database);
        this.database = database;
    }

    @AfterEach
    void removeTables() {
        jdbc.sql("DROP TABLE IF EXISTS orders").update();
        jdbc.sql("DROP FUNCTION IF EXISTS reject() CASCADE").update();
    }

    /** Starts the only node, which leads the role log_compactor. */
    private Member compactor() {
        Member member = start();
        await().until(() -> member.leadership().isLeader(Leadership.LOG_COMPACTOR));
        return member;
    }

    private void insertEnded(int count, String status) {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, finished_at)
                SELECT gen_random_uuid(), 'old', ?, now() - interval '100 days' - n * interval '1 second'
                FROM generate_series(1, ?) AS n
                """).params(status, count).update();
    }

    private void reference(String table, String condition) {
        jdbc.sql("CREATE TABLE orders (ref uuid REFERENCES %s)".formatted(table))
                .update();
        jdbc.sql("INSERT INTO orders SELECT id FROM %s WHERE %s".formatted(table, condition))
                .update();
    }

    private long count(String rows) {
        return jdbc.sql("SELECT count(*) FROM " + rows).query(Long.class).single();
    }

    /** Inserts what else the clean-up of jobs deletes. */
    private void insertOtherOldRows() {
        jdbc.sql("""
                INSERT INTO forge_job_windows (name, unique_key, job_id, opened_at, ends_at)
                VALUES ('old', 'key', gen_random_uuid(), now() - interval '2 days', now() - interval '1 day')
                """).update();
        jdbc.sql("INSERT INTO forge_job_rates (name, job_group, next_at) VALUES ('old', 'g', now() - interval '1 day')")
                .update();
        jdbc.sql(
                        "INSERT INTO forge_job_batches (id, name, ended_at, succeeded_at) VALUES (gen_random_uuid(), 'old', now() - interval '99 days',"
                                + " now() - interval '99 days')")
                .update();
        jdbc.sql("INSERT INTO forge_job_logs (job_id, epoch, line, attempt, logged_at, message)"
                        + " VALUES (gen_random_uuid(), 1, 1, 1, now(), 'line')")
                .update();
    }

    private void assertNoOtherOldRows() {
        for (String table : List.of("forge_job_windows", "forge_job_rates", "forge_job_batches", "forge_job_logs")) {
            assertThat(count(table)).as(table).isZero();
        }
    }

    private void makeRetryDue() {
        jdbc.sql("UPDATE forge_undeletable_rows SET retry_at = now()").update();
    }

    @Test
    void referenced_job_keeps_no_other_row_from_being_deleted() {
        Member member = compactor();
        insertEnded(1_200, "completed");
        insertEnded(40, "failed");
        insertOtherOldRows();
        reference(
                "forge_jobs",
                "id IN (SELECT id FROM forge_jobs ORDER BY status, finished_at LIMIT 1 OFFSET 700) OR id IN"
                        + " (SELECT id FROM forge_jobs WHERE status = 'failed' LIMIT 2)");
        member.engine().cleanUp();
        assertThat(count("forge_jobs")).isEqualTo(3);
        assertThat(count("orders JOIN forge_jobs ON id = ref JOIN forge_undeletable_rows ON row_id = ref"))
                .isEqualTo(3);
        assertNoOtherOldRows();
        assertThat(jdbc.sql("SELECT DISTINCT reason FROM forge_undeletable_rows")
                        .query(String.class)
                        .list())
                .containsExactly("SQLSTATE 23503, constraint orders_ref_fkey of table public.orders");
        assertThat(logged(Level.WARN, "cannot be deleted")).hasSize(3);
    }

    @Test
    void single_job_whose_trigger_tells_of_an_object_in_use_is_set_aside() {
        Member member = compactor();
        insertEnded(31, "completed");
        jdbc.sql("""
                CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    RAISE EXCEPTION 'no' USING ERRCODE = 'object_in_use';
                END $$
                """).update();
        jdbc.sql(
                        "CREATE TRIGGER reject BEFORE DELETE ON forge_jobs FOR EACH ROW WHEN (OLD.priority = 1) EXECUTE FUNCTION reject()")
                .update();
        jdbc.sql(
                        "UPDATE forge_jobs SET priority = 1 WHERE id = (SELECT id FROM forge_jobs ORDER BY finished_at, id LIMIT 1)")
                .update();
        try {
            member.engine().cleanUp();
            assertThat(count("forge_jobs")).isOne();
            assertThat(count("forge_undeletable_rows")).isOne();
        } finally {
            jdbc.sql("DROP FUNCTION reject() CASCADE").update();
        }
    }

    @Test
    void reason_is_one_short_line_whatever_a_trigger_calls_its_constraint() {
        Member member = compactor();
        insertEnded(2, "completed");
        jdbc.sql("CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'tried'"
                        + " USING ERRCODE = '23503', CONSTRAINT = E'a\\n\\x1b[31m' || repeat('b', 1000); END $$")
                .update();
        jdbc.sql("CREATE TRIGGER reject BEFORE DELETE ON forge_jobs FOR EACH ROW EXECUTE FUNCTION reject()")
                .update();
        member.engine().cleanUp();
        assertThat(jdbc.sql("SELECT DISTINCT reason FROM forge_undeletable_rows")
                        .query(String.class)
                        .list())
                .singleElement()
                .satisfies(reason -> assertThat(reason)
                        .startsWith("SQLSTATE 23503, constraint a??[31mbbb")
                        .hasSize(203));
    }

    @Test
    void referenced_job_is_named_once_and_tried_again_when_its_time_has_come() {
        Member member = compactor();
        insertEnded(1, "completed");
        reference("forge_jobs", "true");
        member.engine().cleanUp();
        jdbc.sql("CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS"
                        + " $$ BEGIN RAISE EXCEPTION 'tried' USING ERRCODE = 'P0001'; END $$")
                .update();
        jdbc.sql("CREATE TRIGGER reject BEFORE DELETE ON forge_jobs FOR EACH ROW EXECUTE FUNCTION reject()")
                .update();
        member.engine().cleanUp();
        assertThat(jdbc.sql("SELECT failures FROM forge_undeletable_rows")
                        .query(Integer.class)
                        .single())
                .isOne();
        makeRetryDue();
        member.engine().cleanUp();
        assertThat(jdbc.sql("SELECT failures || ' ' || reason || ' ' || (retry_at > now() + interval '30 minutes')"
                                + " FROM forge_undeletable_rows")
                        .query(String.class)
                        .single())
                .isEqualTo("2 SQLSTATE P0001 true");
        assertThat(logged(Level.WARN, "cannot be deleted")).hasSize(1);
        jdbc.sql("DROP TRIGGER reject ON forge_jobs").update();
        jdbc.sql("DROP TABLE orders").update();
        makeRetryDue();
        member.engine().cleanUp();
        assertThat(count("forge_jobs")).isZero();
        assertThat(count("forge_undeletable_rows")).isZero();
    }

    @Test
    void job_that_was_deleted_or_retried_by_hand_is_forgotten() {
        Member member = compactor();
        insertEnded(2, "failed");
        reference("forge_jobs", "true");
        member.engine().cleanUp();
        assertThat(new UndeletableStore(cluster.schema, database.dataSource()).counts())
                .containsEntry("forge_jobs", 2L)
                .containsEntry("forge_workflow_runs", 0L);
        jdbc.sql("DROP TABLE orders").update();
        UUID first =
                jdbc.sql("SELECT id FROM forge_jobs LIMIT 1").query(UUID.class).single();
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?").param(first).update();
        jdbc.sql("UPDATE forge_jobs SET status = 'pending', scheduled_at = 'infinity'")
                .update();
        member.engine().cleanUp();
        assertThat(count("forge_undeletable_rows")).isZero();
    }

    @Test
    void failing_purge_keeps_no_other_from_its_work() {
        Member member = compactor();
        insertEnded(3, "completed");
        insertOtherOldRows();
        jdbc.sql("CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS"
                        + " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0001'; END $$")
                .update();
        List<String> rejecting = List.of("forge_job_rates", "forge_job_windows");
        rejecting.forEach(
                table -> jdbc.sql("CREATE TRIGGER reject BEFORE DELETE ON %s FOR EACH ROW EXECUTE FUNCTION reject()"
                                .formatted(table))
                        .update());
        assertThatThrownBy(() -> member.engine().cleanUp())
                .isInstanceOf(DataAccessException.class)
                .satisfies(e -> assertThat(e.getSuppressed()).hasSize(1));
        assertThat(count("forge_jobs")).isZero();
        assertThat(count("forge_job_batches")).isZero();
        assertThat(count("forge_job_logs")).isZero();
        jdbc.sql("DROP FUNCTION reject() CASCADE").update();
        member.engine().cleanUp();
        assertNoOtherOldRows();
    }

    @Test
    void referenced_batches_and_runs_are_set_aside() {
        TestWorkflows.Member one = flows.start("one");
        await().until(() -> one.member().leadership().isLeader(Leadership.LOG_COMPACTOR));
        jdbc.sql("""
                INSERT INTO forge_job_batches (id, name, ended_at, succeeded_at)
                SELECT gen_random_uuid(), 'old', now() - interval '99 days', now() - interval '99 days' FROM generate_series(1, 20)
                """).update();
        reference("forge_job_batches", "id = (SELECT id FROM forge_job_batches LIMIT 1)");
        one.member().engine().cleanUp();
        assertThat(count("forge_job_batches")).isOne();
        jdbc.sql("DROP TABLE orders").update();
        jdbc.sql("""
                INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, status, finished_at)
                SELECT gen_random_uuid(), 'old', '1', CASE WHEN n < 10 THEN 'completed' ELSE 'failed' END,
                       now() - interval '100 days' FROM generate_series(1, 20) AS n
                """).update();
        reference(
                "forge_workflow_runs",
                "id IN (SELECT DISTINCT ON (status) id FROM forge_workflow_runs ORDER BY status, id)");
        one.engine().cleanUp();
        assertThat(count("forge_workflow_runs")).isEqualTo(2);
        assertThat(new UndeletableStore(cluster.schema, database.dataSource()).counts())
                .containsEntry("forge_job_batches", 1L)
                .containsEntry("forge_workflow_runs", 2L);
    }

    @Test
    void many_referenced_jobs_are_set_aside_within_several_passes() {
        Member member = compactor();
        insertEnded(700, "completed");
        reference("forge_jobs", "true");
        for (int pass = 0; pass < 20 && count("forge_undeletable_rows") < 700; pass++) {
            member.engine().cleanUp();
        }
        assertThat(count("forge_undeletable_rows")).isEqualTo(700);
        assertThat(logged(Level.WARN, "forge_jobs")).hasSizeLessThan(100);
    }

    @Test
    void many_referenced_jobs_keep_no_free_ones_from_being_deleted_for_long() {
        Member member = compactor();
        insertEnded(1_400, "completed");
        reference("forge_jobs", "id IN (SELECT id FROM forge_jobs ORDER BY finished_at LIMIT 700)");
        // Each pass has a time budget, so their number depends on the machine.
        for (int pass = 0; pass < 20 && count("forge_jobs") > 700; pass++) {
            member.engine().cleanUp();
        }
        assertThat(count("forge_jobs")).isEqualTo(700);
        assertThat(count("forge_undeletable_rows")).isEqualTo(700);
    }

    @Test
    void bulk_deletion_reports_jobs_that_a_deferred_constraint_rejects() {
        Member member = start();
        insertEnded(1_200, "completed");
        jdbc.sql(
                        "UPDATE forge_jobs SET priority = 1 WHERE id IN (SELECT id FROM forge_jobs ORDER BY id LIMIT 2 OFFSET 100)")
                .update();
        jdbc.sql("CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS"
                        + " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0001'; END $$")
                .update();
        jdbc.sql("CREATE CONSTRAINT TRIGGER reject AFTER DELETE ON forge_jobs DEFERRABLE INITIALLY DEFERRED"
                        + " FOR EACH ROW WHEN (OLD.priority = 1) EXECUTE FUNCTION reject()")
                .update();
        BulkResult result = member.operations().deleteAll(JobFilter.all().withName("old"));
        assertThat(result.changed()).isEqualTo(1_198);
        assertThat(result.rejected()).isEqualTo(2);
        assertThat(result.next()).isNull();
        assertThat(count("forge_jobs")).isEqualTo(2);
    }

    @Test
    void commit_that_a_deferred_constraint_rejects_fails_like_a_statement() {
        insertEnded(1, "completed");
        jdbc.sql("CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS"
                        + " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0001'; END $$")
                .update();
        jdbc.sql("CREATE CONSTRAINT TRIGGER reject AFTER DELETE ON forge_jobs DEFERRABLE INITIALLY DEFERRED"
                        + " FOR EACH ROW EXECUTE FUNCTION reject()")
                .update();
        assertThatThrownBy(() -> OwnTransactions.separate(database.dataSource())
                        .executeWithoutResult(
                                status -> jdbc.sql("DELETE FROM forge_jobs").update()))
                .isInstanceOf(DataAccessException.class)
                .satisfies(e -> assertThat(DatabaseFailure.kind(e).isOfRow()).isTrue());
    }

    @Test
    void bulk_deletion_skips_and_reports_referenced_jobs() {
        Member member = start();
        insertEnded(1_200, "completed");
        reference("forge_jobs", "id IN (SELECT id FROM forge_jobs ORDER BY id LIMIT 3 OFFSET 100)");
        JobFilter old = JobFilter.all().withName("old");
        BulkResult result = member.operations().deleteAll(old);
        assertThat(result.changed()).isEqualTo(1_197);
        assertThat(result.rejected()).isEqualTo(3);
        assertThat(result.skipped()).isEqualTo(3);
        assertThat(result.next()).isNull();
        assertThat(count("forge_jobs")).isEqualTo(3);
        assertThat(logged(Level.WARN, "the database rejects a bulk operation")).hasSizeBetween(1, 3);
        // The cursor passes them: a caller that goes on until there is no next page ends.
        int calls = 0;
        String cursor = null;
        do {
            cursor = member.operations()
                    .deleteAll(old, BulkOptions.defaults().withMaximum(1).withCursor(cursor))
                    .next();
        } while (cursor != null && ++calls < 10);
        assertThat(calls).isLessThan(5);
        assertThat(count("forge_jobs")).isEqualTo(3);
    }

    @Test
    void completed_job_with_a_retention_of_zero_stays_completed_if_its_row_is_referenced() {
        jdbc.sql("CREATE TABLE orders (ref uuid REFERENCES forge_jobs)").update();
        JobHandler usual = new TestJobs(database.dataSource())
                .on(
                        job("referenced"),
                        (payload, context) -> jdbc.sql("INSERT INTO orders VALUES (?)")
                                .param(context.id())
                                .update())
                .handlers()
                .named("referenced");
        JobHandler.Limits limits = usual.limits();
        work.handlers()
                .add(new JobHandler(
                        usual.name(),
                        usual.aliases(),
                        null,
                        usual.priority(),
                        new JobHandler.Limits(
                                limits.maxAttempts(), limits.backoff(), 0, limits.noRetryFor(), null, Duration.ZERO),
                        usual.target()));
        Member member = compactor();
        UUID id = member.jobs().enqueueNamed("referenced", null).id();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
        member.engine().cleanUp();
        assertThat(count("forge_undeletable_rows")).isOne();
        jdbc.sql("DROP TABLE orders").update();
        makeRetryDue();
        member.engine().cleanUp();
        assertThat(member.jobs().find(id)).isEmpty();
    }

    @ParameterizedTest
    @CsvSource({"'', 1", "DEFERRABLE INITIALLY DEFERRED, 2"})
    void transactional_job_with_a_retention_of_zero_completes_if_its_row_is_referenced(String deferrable, int calls) {
        jdbc.sql("CREATE TABLE orders (ref uuid REFERENCES forge_jobs %s)".formatted(deferrable))
                .update();
        work.retention = Duration.ZERO;
        var called = new AtomicInteger();
        work.on(job("referenced").in(work.transaction()), (payload, context) -> {
            called.incrementAndGet();
            return jdbc.sql("INSERT INTO orders VALUES (?)").param(context.id()).update();
        });
        work.on(job("free").in(work.transaction()), (payload, context) -> null);
        Member member = compactor();
        UUID id = member.jobs().enqueueNamed("referenced", null).id();
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isOne();
        assertThat(job.result()).isEqualTo("1");
        // A constraint that is deferred fails the commit: its transaction is repeated once.
        assertThat(called).hasValue(calls);
        assertThat(count("orders JOIN forge_jobs ON id = ref")).isOne();
        UUID second = member.jobs().enqueueNamed("referenced", null).id();
        assertThat(member.ended(second).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(called).hasValue(calls + 1);
        UUID free = member.jobs().enqueueNamed("free", null).id();
        await().until(() -> member.jobs().find(free).isEmpty());
        member.engine().cleanUp();
        assertThat(count("forge_undeletable_rows")).isEqualTo(2);
        jdbc.sql("DROP TABLE orders").update();
        makeRetryDue();
        member.engine().cleanUp();
        assertThat(count("forge_jobs")).isZero();
    }

    @ParameterizedTest
    @CsvSource({"'', 1", "DEFERRABLE INITIALLY DEFERRED, 3"})
    void jobs_of_a_transactional_call_complete_together_if_one_is_referenced(String deferrable, int calls) {
        jdbc.sql("CREATE TABLE orders (ref uuid REFERENCES forge_jobs %s)".formatted(deferrable))
                .update();
        work.retention = Duration.ZERO;
        var called = new AtomicInteger();
        work.onMany(
                job("referenced").taking(Integer.class).in(work.transaction()),
                2,
                Duration.ofSeconds(10),
                (payloads, contexts) -> {
                    called.incrementAndGet();
                    for (int i = 0; i < payloads.size(); i++) {
                        if (payloads.get(i).equals(1)) {
                            jdbc.sql("INSERT INTO orders VALUES (?)")
                                    .param(contexts.get(i).id())
                                    .update();
                        }
                    }
                    return null;
                });
        Member member = compactor();
        List<UUID> ids = Stream.of(0, 1)
                .map(payload ->
                        member.jobs().enqueueNamed("referenced", payload).id())
                .toList();
        assertThat(member.ended(ids.get(1)).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(member.jobs().find(ids.get(1)).orElseThrow().attempts()).isOne();
        await().until(() -> member.jobs()
                .find(ids.get(0))
                .map(job -> job.status() == JobStatus.COMPLETED)
                .orElse(true));
        // Deferred: together, then each alone.
        assertThat(called).hasValue(calls);
        member.engine().cleanUp();
        assertThat(count("forge_jobs")).isOne();
        assertThat(count("forge_undeletable_rows")).isOne();
    }
}
