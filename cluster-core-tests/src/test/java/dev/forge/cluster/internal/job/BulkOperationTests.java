// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.internal.runtime.Cursors;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.BulkResult;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Operations on all jobs that match a filter, and exports. */
@ClusterPostgres
class BulkOperationTests extends JobFixture {

    private static final JobFilter RED = JobFilter.all().withTags("red");
    private static final BulkOptions EVERYTHING = BulkOptions.defaults().withEverything();

    BulkOperationTests(TestDatabase database) {
        super(database);
    }

    /** Starts a node whose jobs do not run. */
    private Member paused() {
        work.on(job("order").taking(Order.class), (payload, context) -> null);
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().pause("order");
        return member;
    }

    private static List<UUID> enqueue(Jobs jobs, int count, JobOptions options) {
        return jobs.enqueueAll(Collections.nCopies(count, new Order("a", 1)), options).stream()
                .map(EnqueuedJob::id)
                .toList();
    }

    private long count(String condition) {
        return jdbc.sql("SELECT count(*) FROM forge_jobs WHERE " + condition)
                .query(Long.class)
                .single();
    }

    private void end(String status, String condition) {
        jdbc.sql("UPDATE forge_jobs SET status = '%s', finished_at = now() WHERE %s".formatted(status, condition))
                .update();
    }

    @Test
    void preview_counts_and_cancellation_changes_in_batches() {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        enqueue(jobs, 1_200, JobOptions.defaults().withTags("red"));
        enqueue(jobs, 10, JobOptions.defaults().withTags("blue"));
        assertThat(operations.cancelAll(RED, BulkOptions.defaults().withPreview()))
                .isEqualTo(new BulkResult(1_200, 1_200, 0, 0, null));
        assertThat(count("status = 'cancelled'")).isZero();
        var progress = new ArrayList<Long>();
        BulkResult result =
                operations.cancelAll(RED, BulkOptions.defaults().withProgress(so -> progress.add(so.changed())));
        assertThat(result.changed()).isEqualTo(1_200);
        assertThat(result.skipped()).isZero();
        assertThat(result.next()).isNull();
        assertThat(progress).startsWith(500L, 1_000L, 1_200L);
        assertThat(count("status = 'cancelled' AND finished_at IS NOT NULL")).isEqualTo(1_200);
        assertThat(count("status = 'pending'")).isEqualTo(10);
        assertThat(operations.cancelAll(RED)).isEqualTo(new BulkResult(1_200, 0, 0, 0, null));
        assertThat(operations.cancelAll(RED.withStatuses(JobStatus.FAILED)))
                .isEqualTo(new BulkResult(0, 0, 0, 0, null));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "5000-01-01 00:00:00+00",
                "294276-12-31 23:59:59.999999+00",
                "infinity",
                "-infinity",
                "0044-03-15 12:00:00+00 BC",
                "4713-01-01 00:00:00+00 BC"
            })
    void cursor_continues_after_any_time_that_the_database_stores(String time) {
        Member member = paused();
        JobOperations operations = member.operations();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, job_group, created_at, scheduled_at)
                SELECT gen_random_uuid(), 'order', 'group', t, greatest(t, '1970-01-01 00:00:00+00')
                FROM (SELECT ?::timestamptz AS t FROM generate_series(1, 510)) AS times
                """).param(time).update();
        JobFilter group = JobFilter.all().withGroup("group");
        JobFilter pending = JobFilter.all().withName("order").withStatuses(JobStatus.PENDING);
        for (JobFilter filter : List.of(group, pending)) {
            Page<JobInfo> page = operations.search(filter, 500);
            assertThat(page.items()).hasSize(500);
            assertThat(operations.search(filter, 500, page.next()).items())
                    .hasSize(10)
                    .doesNotContainAnyElementsOf(page.items());
        }
        assertThat(operations.cancelAll(pending, BulkOptions.defaults()).changed())
                .isEqualTo(510);
    }

    @Test
    void cursor_with_a_time_that_the_database_cannot_store_is_refused() {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        enqueue(jobs, 2, JobOptions.defaults());
        JobFilter pending = JobFilter.all().withName("order").withStatuses(JobStatus.PENDING);
        String cursor = operations.search(pending, 1).next();
        var cursors = new Cursors("test", "jobs " + pending);
        List<String> position = cursors.decode(cursor, parts -> parts);
        for (String time : List.of("+294277-01-01T00:00Z", "-4713-12-31T23:59Z", "+294276-12-31T23:59-00:02")) {
            List<String> changed = position.stream()
                    .map(part -> part.replaceFirst("\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z", Matcher.quoteReplacement(time)))
                    .toList();
            assertThat(changed).isNotEqualTo(position);
            assertThatIllegalArgumentException()
                    .isThrownBy(() -> operations.search(pending, 1, cursors.encode(changed)))
                    .withMessageContaining("cursor");
        }
    }

    @Test
    void maximum_ends_a_call_and_its_cursor_continues() {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        enqueue(jobs, 25, JobOptions.defaults());
        JobFilter filter = JobFilter.all().withName("order");
        BulkOptions ten = BulkOptions.defaults().withMaximum(10);
        BulkResult first = operations.cancelAll(filter, ten);
        assertThat(first.changed()).isEqualTo(10);
        BulkResult second = operations.cancelAll(filter, ten.withCursor(first.next()));
        assertThat(second.changed()).isEqualTo(10);
        BulkResult third = operations.cancelAll(filter, ten.withCursor(second.next()));
        assertThat(third.changed()).isEqualTo(5);
        assertThat(third.next()).isNull();
        assertThat(count("status = 'cancelled'")).isEqualTo(25);
        assertThatIllegalArgumentException().isThrownBy(() -> operations.cancelAll(RED, ten.withCursor(first.next())));
        for (int wrong : new int[] {0, -1, 1_000_001}) {
            assertThatIllegalArgumentException().isThrownBy(() -> ten.withMaximum(wrong));
        }
    }

    @Test
    void every_job_must_be_meant() {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        enqueue(jobs, 3, JobOptions.defaults());
        for (JobFilter empty : List.of(JobFilter.all(), JobFilter.all().withStatuses())) {
            refused(() -> operations.cancelAll(empty), "JobOperations.cancelAll", "BulkOptions.withEverything()");
            refused(() -> operations.deleteAll(empty), "JobOperations.deleteAll", "BulkOptions.withEverything()");
        }
        new TransactionTemplate(new JdbcTransactionManager(database.dataSource()))
                .executeWithoutResult(status ->
                        refused(() -> operations.cancelAll(JobFilter.all(), EVERYTHING), "outside of a transaction"));
        assertThat(count("status = 'pending'")).isEqualTo(3);
        assertThat(operations.cancelAll(JobFilter.all(), EVERYTHING).changed()).isEqualTo(3);
    }

    @Test
    void running_handlers_of_cancelled_jobs_are_interrupted() throws InterruptedException {
        var started = new CountDownLatch(2);
        var interrupted = new CountDownLatch(2);
        work.on("job", context -> {
            started.countDown();
            try {
                Thread.currentThread().join();
            } catch (InterruptedException e) {
                interrupted.countDown();
                throw e;
            }
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        member.jobs().enqueueNamed("job", null);
        member.jobs().enqueueNamed("job", null);
        until(started);
        assertThat(member.operations()
                        .cancelAll(JobFilter.all().withName("job"))
                        .changed())
                .isEqualTo(2);
        until(interrupted);
        await().until(() -> count("status = 'cancelled'") == 2);
    }

    @Test
    void job_that_was_claimed_or_locked_meanwhile_is_skipped() throws Exception {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        List<UUID> ids = enqueue(jobs, 3, JobOptions.defaults().withTags("red"));
        JobFilter waiting = RED.withStatuses(JobStatus.PENDING);
        assertThat(operations
                        .cancelAll(waiting, BulkOptions.defaults().withPreview())
                        .matched())
                .isEqualTo(3);
        try (var connection = database.dataSource().getConnection();
                var statement = connection.createStatement()) {
            connection.setAutoCommit(false);
            statement.execute("UPDATE forge_jobs SET priority = 60 WHERE id = '%s'".formatted(ids.get(0)));
            BulkResult result = operations.cancelAll(waiting);
            assertThat(result.changed()).isEqualTo(2);
            assertThat(result.skipped()).isEqualTo(1);
            connection.rollback();
        }
        assertThat(operations.cancelAll(waiting).changed()).isEqualTo(1);
    }

    @Test
    void concurrent_operations_change_each_job_once() {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        enqueue(jobs, 3_000, JobOptions.defaults().withTags("red"));
        List<CompletableFuture<BulkResult>> calls = List.of(
                CompletableFuture.supplyAsync(() -> operations.cancelAll(RED)),
                CompletableFuture.supplyAsync(() -> operations.cancelAll(RED)),
                CompletableFuture.supplyAsync(
                        () -> operations.cancelAll(JobFilter.all().withName("order"))));
        long changed = calls.stream()
                .map(CompletableFuture::join)
                .mapToLong(BulkResult::changed)
                .sum();
        assertThat(changed).isEqualTo(count("status = 'cancelled'")).isLessThanOrEqualTo(3_000);
        operations.cancelAll(RED);
        assertThat(count("status = 'cancelled'")).isEqualTo(3_000);
    }

    @Test
    void retry_restarts_ended_jobs_but_one_for_each_key() {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        JobOptions red = JobOptions.defaults().withTags("red");
        enqueue(jobs, 5, red);
        end("failed", "true");
        enqueue(jobs, 2, red);
        end("completed", "status = 'pending'");
        for (int i = 0; i < 3; i++) {
            jobs.enqueue(new Order("a", 1), red.withUniqueKey("same"));
            end("abandoned", "status = 'pending'");
        }
        jdbc.sql("UPDATE forge_jobs SET attempts = 3").update();
        // A run of a workflow is controlled by its own API.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, finished_at, tags)
                VALUES ('00000000-0000-0000-0000-000000000001', 'workflow:order@1', 'failed', now(), '{red}')
                """).update();
        jdbc.sql("INSERT INTO forge_job_tags VALUES ('red', '00000000-0000-0000-0000-000000000001')")
                .update();
        BulkResult result = operations.retryAll(RED);
        assertThat(result.changed()).isEqualTo(6);
        assertThat(result.skipped()).isEqualTo(3);
        assertThat(count("status = 'pending' AND attempts = 0 AND finished_at IS NULL"))
                .isEqualTo(6);
        assertThat(count("status = 'completed'")).isEqualTo(2);
        assertThat(count("name LIKE 'workflow:%' AND status = 'failed'")).isEqualTo(1);
        operations.deleteAll(RED);
        assertThat(count("name LIKE 'workflow:%'")).isEqualTo(1);
    }

    @Test
    void pending_jobs_are_rescheduled_once() {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        enqueue(jobs, 1_100, JobOptions.defaults().withDelay(Duration.ofHours(1)));
        enqueue(jobs, 5, JobOptions.defaults());
        JobFilter filter = JobFilter.all().withName("order");
        Instant tomorrow = Instant.now().plus(Duration.ofDays(1)).truncatedTo(java.time.temporal.ChronoUnit.MILLIS);
        BulkResult later = operations.rescheduleAll(filter, tomorrow);
        assertThat(later.changed()).isEqualTo(1_105);
        assertThat(later.matched()).isEqualTo(1_105);
        assertThat(count("scheduled_at = '%s'".formatted(tomorrow))).isEqualTo(1_105);
        assertThat(operations.rescheduleAll(filter, tomorrow).changed()).isZero();
        BulkResult now = operations.rescheduleAll(filter, Instant.EPOCH);
        assertThat(now.changed()).isEqualTo(1_105);
        assertThat(count("scheduled_at BETWEEN created_at AND clock_timestamp()"))
                .isEqualTo(1_105);
        assertThat(operations.rescheduleAll(filter, Instant.EPOCH).changed())
                .as("due jobs stay where they are")
                .isZero();
        refused(() -> operations.rescheduleAll(filter, Instant.MAX), "JobOperations.rescheduleAll", "must lie between");
    }

    @Test
    void ended_jobs_are_deleted_with_their_logs_and_tags() {
        work.on("job", context -> context.log("line"));
        Member member = cluster.start("one", work, UnaryOperator.identity());
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        UUID ended = jobs.enqueueNamed("job", null, JobOptions.defaults().withTags("red"))
                .id();
        member.ended(ended);
        jobs.pause("job");
        UUID waiting = jobs.enqueueNamed("job", null, JobOptions.defaults().withTags("red"))
                .id();
        assertThat(operations.logs(ended)).hasSize(1);
        assertThat(operations.deleteAll(RED).changed()).isEqualTo(1);
        assertThat(jobs.find(ended)).isEmpty();
        assertThat(operations.logs(ended)).isEmpty();
        assertThat(jobs.find(waiting)).isPresent();
        assertThat(jdbc.sql("SELECT job_id FROM forge_job_tags")
                        .query(UUID.class)
                        .list())
                .containsExactly(waiting);
    }

    @Test
    void operation_on_a_large_table_reads_no_more_than_it_needs() {
        Member member = paused();
        JobOperations operations = member.operations();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, finished_at, payload)
                SELECT gen_random_uuid(), 'order', CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'completed' END, now(), '{}'
                FROM generate_series(1, 50000) AS n
                """).update();
        BulkResult result = operations.retryAll(JobFilter.all().withName("order"));
        assertThat(result.changed()).isEqualTo(500);
        assertThat(result.examined()).isEqualTo(500);
    }

    // Exports -----------------------------------------------------------------------------------------------

    @Test
    void exported_job_can_be_enqueued_again() {
        Member member = paused();
        Jobs jobs = member.jobs();
        JobOperations operations = member.operations();
        JobOptions options = JobOptions.defaults()
                .withTags("red", "big")
                .withGroup("acme")
                .withUniqueKey("key")
                .withMaxAttempts(7)
                .withMetadata("tenant", "a\nb");
        UUID id = jobs.enqueue(new Order("anvil \ud83d\ude00", 1), options).id();
        jdbc.sql("""
                UPDATE forge_jobs SET payload = payload || '{"big": 12345678901234567890.00000000000000000001, "none": null}',
                    metadata = metadata || '{"forge.trace": "x"}', last_error = 'oops' WHERE id = ?
                """).param(id).update();
        assertThat(operations.export(RED, 10, null).items()).as("pending").isEmpty();
        end("failed", "true");
        Page<String> export = operations.export(RED, 10, null);
        assertThat(export.items())
                .singleElement()
                .satisfies(line -> assertThat(line)
                        .contains("\"id\": \"%s\"".formatted(id), "\"error\": \"oops\"", "\"status\": \"failed\"")
                        .doesNotContain("\n"));
        JobInfo before = jobs.find(id).orElseThrow();
        operations.deleteAll(RED);
        EnqueuedJob again = operations.enqueueExported(export.items().get(0));
        assertThat(again.created()).isTrue();
        JobInfo after = jobs.find(again.id()).orElseThrow();
        assertThat(after.payload()).isEqualTo(before.payload()).contains("12345678901234567890.00000000000000000001");
        assertThat(after.tags()).containsExactlyInAnyOrder("red", "big");
        assertThat(after.group()).isEqualTo("acme");
        assertThat(after.uniqueKey()).isEqualTo("key");
        assertThat(after.maxAttempts()).isEqualTo(7);
        assertThat(after.metadata()).containsEntry("tenant", "a\nb").doesNotContainKey("forge.trace");
        assertThat(after.status()).isEqualTo(JobStatus.PENDING);
        assertThat(operations.enqueueExported(export.items().get(0)).created()).isFalse();
    }

    @Test
    void line_that_is_no_exported_job_is_rejected() {
        Member member = paused();
        JobOperations operations = member.operations();
        for (String wrong : List.of(
                "",
                "x",
                "[]",
                "{}",
                "{\"name\": \"order\", \"priority\": \"high\"}",
                "{\"name\": \"order\", \"tags\": 1}",
                "{\"name\": \"order\", \"payload\": {\"quantity\": \"many\"}}",
                "{\"name\": \"nobody-knows\"}",
                "{\"name\": \"workflow:a@1\"}")) {
            assertThatExceptionOfType(JobRejectedException.class)
                    .as(wrong)
                    .isThrownBy(() -> operations.enqueueExported(wrong));
        }
        assertThat(count("true")).isZero();
    }

    @Test
    void pages_of_an_export_are_bounded_by_lines_and_bytes() {
        Member member = paused();
        JobOperations operations = member.operations();
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, finished_at, payload, body_bytes)
                SELECT gen_random_uuid(), 'order', 'failed', now() - n * interval '1 second',
                       to_jsonb(repeat('x', 900000)), 900002
                FROM generate_series(1, 20) AS n
                """).update();
        JobFilter filter = JobFilter.all().withName("order");
        var sizes = new ArrayList<Integer>();
        var lines = new java.util.HashSet<String>();
        String cursor = null;
        do {
            Page<String> page = operations.export(filter, 12, cursor);
            sizes.add(page.items().size());
            lines.addAll(page.items());
            cursor = page.next();
        } while (cursor != null);
        assertThat(sizes).allSatisfy(size -> assertThat(size).isLessThanOrEqualTo(8));
        assertThat(lines).hasSize(20);
    }
}
