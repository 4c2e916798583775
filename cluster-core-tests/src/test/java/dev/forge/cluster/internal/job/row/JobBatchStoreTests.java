// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.operate.JobBatchReports;
import dev.forge.cluster.internal.job.row.JobBatchStore.Changed;
import dev.forge.cluster.internal.job.row.JobBatchStore.NewBatch;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobBatchStatus;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.dao.DataAccessException;

class JobBatchStoreTests extends JobStoreFixture {

    private final JobBatchStore batches;
    private final JobBatchReports batchReports;

    JobBatchStoreTests(TestDatabase database) {
        super(database);
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        this.batches = new JobBatchStore(schema, database.dataSource());
        this.batchReports = new JobBatchReports(schema, database.dataSource());
    }

    /** A batch with one callback of each kind. */
    private NewBatch open(UUID parent) {
        List<NewJob> callbacks =
                Stream.of("failure", "end", "success").map(JobStoreFixture::job).toList();
        var batch = new NewBatch(
                UUID.randomUUID(),
                "batch",
                parent,
                callbacks.get(0).id(),
                callbacks.get(1).id(),
                callbacks.get(2).id());
        assertThat(batches.open(batch)).isTrue();
        callbacks.forEach(callback -> jobs.insertWaiting(callback, batch.id()));
        return batch;
    }

    private List<UUID> add(NewBatch batch, int count) {
        List<NewJob> added = IntStream.range(0, count).mapToObj(n -> job("job")).toList();
        assertThat(jobs.insertAll(added, batch.id(), JobOptions.defaults().startAfter()))
                .isTrue();
        return added.stream().map(NewJob::id).toList();
    }

    private void end(UUID id, String status) {
        jdbc.sql("UPDATE forge_jobs SET status = ?, finished_at = clock_timestamp() WHERE id = ?")
                .params(status, id)
                .update();
    }

    /** Returns the callbacks that no longer wait. */
    private List<String> released() {
        return jdbc.sql("SELECT name FROM forge_jobs WHERE name <> 'job' AND waits_for IS NULL ORDER BY name")
                .query(String.class)
                .list();
    }

    private int settle(NewBatch batch) {
        return batches.settle(List.of(batch.id())).stream()
                .mapToInt(Changed::released)
                .sum();
    }

    private JobBatchInfo info(NewBatch batch) {
        return batchReports.find(batch.id()).orElseThrow();
    }

    @Test
    void batch_ends_when_it_is_closed_and_no_job_is_active() {
        NewBatch batch = open(null);
        List<UUID> members = add(batch, 2);
        end(members.get(0), "completed");
        end(members.get(1), "completed");
        assertThat(settle(batch)).isZero();
        UUID late = add(batch, 1).get(0);
        assertThat(batches.close(batch.id())).isTrue();
        assertThat(settle(batch)).isZero();
        assertThat(info(batch).status()).isEqualTo(JobBatchStatus.RUNNING);

        end(late, "completed");
        assertThat(settle(batch)).isEqualTo(2);
        assertThat(settle(batch)).isZero();
        assertThat(released()).containsExactly("end", "success");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'failure'")
                        .query(Integer.class)
                        .single())
                .as("callbacks that can never run")
                .isZero();
        JobBatchInfo info = info(batch);
        assertThat(info.status()).isEqualTo(JobBatchStatus.SUCCEEDED);
        assertThat(List.of(info.total(), info.completed(), info.failed(), info.remaining()))
                .containsExactly(3L, 3L, 0L, 0L);
    }

    @Test
    void first_failure_is_reported_while_the_batch_is_open_and_only_once() {
        NewBatch batch = open(null);
        List<UUID> members = add(batch, 3);
        end(members.get(0), "failed");
        assertThat(settle(batch)).isEqualTo(1);
        end(members.get(1), "abandoned");
        assertThat(settle(batch)).isZero();
        assertThat(released()).containsExactly("failure");
        batches.close(batch.id());
        end(members.get(2), "completed");
        assertThat(settle(batch)).isEqualTo(1);
        assertThat(released()).containsExactly("end", "failure");
        assertThat(info(batch).status()).isEqualTo(JobBatchStatus.FAILED);
        assertThat(info(batch).failed()).isEqualTo(2);
    }

    @Test
    void batch_succeeds_after_its_failed_jobs_were_retried() {
        NewBatch batch = open(null);
        List<UUID> members = add(batch, 2);
        batches.close(batch.id());
        end(members.get(0), "completed");
        assertThat(batches.retryFailed(batch.id())).isFalse();
        end(members.get(1), "failed");
        settle(batch);
        assertThat(batches.retryFailed(batch.id())).isTrue();
        assertThat(restarts.restartOfBatches(List.of(batch.id()), 10)).isEqualTo(1);
        batches.endRetries(List.of(batch.id()));
        assertThat(batches.unfinished(List.of(batch.id()))).isEmpty();
        assertThat(status(members.get(1))).isEqualTo("pending");
        assertThat(settle(batch)).isZero();
        assertThat(info(batch).status()).isEqualTo(JobBatchStatus.RUNNING);
        end(members.get(1), "completed");
        assertThat(settle(batch)).isEqualTo(1);
        assertThat(released()).containsExactly("end", "failure", "success");
    }

    @Test
    void job_that_fails_again_is_not_retried_again() {
        NewBatch batch = open(null);
        UUID member = add(batch, 1).get(0);
        end(member, "failed");
        settle(batch);
        batches.retryFailed(batch.id());
        restarts.restartOfBatches(List.of(batch.id()), 10);
        end(member, "failed");
        assertThat(restarts.restartOfBatches(List.of(batch.id()), 10)).isZero();
        batches.endRetries(List.of(batch.id()));
        assertThat(batches.unfinished(List.of(batch.id()))).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(strings = {"failed", "cancelled"})
    void purged_job_that_did_not_complete_keeps_the_batch_from_succeeding(String status) {
        NewBatch batch = open(null);
        List<UUID> members = add(batch, 2);
        end(members.get(0), status);
        age("finished_at", "1 day");
        keeping.purge(new JobPurgeStore.Expiry(Duration.ofHours(1), Duration.ofHours(1), ""), 10);
        assertThat(reports.find(members.get(0))).isEmpty();
        end(members.get(1), "completed");
        batches.close(batch.id());
        settle(batch);
        assertThat(released()).doesNotContain("success").contains("end");
        assertThat(released().contains("failure")).isEqualTo(status.equals("failed"));
        JobBatchInfo info = info(batch);
        assertThat(info.failed() + info.cancelled()).isEqualTo(1);
        assertThat(info.completed()).isEqualTo(1);
    }

    @Test
    void completed_jobs_of_a_batch_are_unknown_if_not_all_jobs_are_counted() {
        NewBatch large = open(null);
        NewBatch small = open(null);
        add(large, 600);
        add(large, 600);
        add(small, 1_000);
        assertThat(batchReports.list(null, 10))
                .satisfiesExactlyInAnyOrder(
                        info -> {
                            assertThat(info.id()).isEqualTo(large.id());
                            assertThat(info.exact()).isFalse();
                            assertThat(info.completed()).isNull();
                            assertThat(info.remaining()).isEqualTo(1_000);
                            assertThat(info.total()).isEqualTo(1_200);
                        },
                        info -> {
                            assertThat(info.id()).isEqualTo(small.id());
                            assertThat(info.exact())
                                    .as("no more than are counted")
                                    .isTrue();
                            assertThat(info.completed()).isZero();
                        });
        assertThat(info(large).exact()).isTrue();
        assertThat(info(large).completed()).isZero();
        assertThat(info(large).remaining()).isEqualTo(1_200);
    }

    @Test
    void closed_or_unknown_batch_takes_no_jobs() {
        NewBatch batch = open(null);
        batches.close(batch.id());
        assertThat(batches.close(batch.id())).isFalse();
        assertThat(jobs.insertAll(
                        List.of(job("job")), batch.id(), JobOptions.defaults().startAfter()))
                .isFalse();
        assertThat(jobs.insertAll(
                        List.of(job("job")),
                        UUID.randomUUID(),
                        JobOptions.defaults().startAfter()))
                .isFalse();
        assertThat(batches.open(new NewBatch(UUID.randomUUID(), "child", batch.id(), null, null, null)))
                .isFalse();
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'job'")
                        .query(Integer.class)
                        .single())
                .isZero();
        assertThat(info(batch).total()).isZero();
    }

    @Test
    void close_waits_for_transactions_that_add_jobs() {
        NewBatch batch = open(null);
        CompletableFuture<Boolean> closing = transactions().execute(status -> {
            add(batch, 1);
            CompletableFuture<Boolean> started = CompletableFuture.supplyAsync(() -> batches.close(batch.id()));
            await().until(() -> jdbc.sql(
                            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%closed_at%')")
                    .query(Boolean.class)
                    .single());
            assertThat(batches.settle(List.of())).isEmpty();
            return started;
        });
        assertThat(closing.join()).isTrue();
        assertThat(settle(batch)).isZero();
        assertThat(info(batch).remaining()).isEqualTo(1);
    }

    /** Repeats a check that did not get the lock in time, so that there is always one that waits for it. */
    private int settlePatiently(NewBatch batch) {
        while (true) {
            try {
                return settle(batch);
            } catch (DataAccessException e) {
                if (DatabaseFailure.kind(e) != DatabaseFailure.Kind.LOCK_TIMEOUT) {
                    throw e;
                }
            }
        }
    }

    /** The check has begun before the batch was closed, and waits for the row of the batch until after that. */
    @Test
    void check_with_an_old_snapshot_does_not_end_a_batch_that_was_closed_meanwhile() {
        NewBatch batch = open(null);
        UUID failed = add(batch, 1).get(0);
        end(failed, "failed");
        CompletableFuture<Integer> settling = transactions().execute(status -> {
            // Changes the row of the batch, so that the check has to wait for this transaction.
            add(batch, 1);
            batches.close(batch.id());
            CompletableFuture<Integer> started = CompletableFuture.supplyAsync(() -> settlePatiently(batch));
            await().until(() -> jdbc.sql(
                            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%seen AS%')")
                    .query(Boolean.class)
                    .single());
            return started;
        });
        assertThat(settling.join()).isEqualTo(1);
        assertThat(released()).containsExactly("failure");
        assertThat(info(batch).endedAt()).isNull();
    }

    @Test
    void concurrent_checks_release_each_callback_once() {
        for (int round = 0; round < 20; round++) {
            NewBatch batch = open(null);
            UUID member = add(batch, 1).get(0);
            batches.close(batch.id());
            end(member, "completed");
            List<CompletableFuture<Integer>> checks = IntStream.range(0, 4)
                    .mapToObj(n -> CompletableFuture.supplyAsync(() -> settle(batch)))
                    .toList();
            assertThat(checks.stream().mapToInt(CompletableFuture::join).sum()).isEqualTo(2);
        }
    }

    @Test
    void batch_ends_after_its_parts() {
        NewBatch parent = open(null);
        NewBatch child = open(parent.id());
        UUID member = add(child, 1).get(0);
        batches.close(parent.id());
        batches.close(child.id());
        assertThat(settle(parent)).isZero();
        end(member, "failed");
        assertThat(batches.settle(List.of(child.id())))
                .singleElement()
                .extracting(Changed::parent)
                .isEqualTo(parent.id());
        assertThat(settle(parent)).isEqualTo(2);
        assertThat(info(parent).status()).isEqualTo(JobBatchStatus.FAILED);

        batches.retryFailed(parent.id());
        assertThat(batches.passOn(List.of(parent.id()), 10)).containsExactly(child.id());
        restarts.restartOfBatches(List.of(parent.id(), child.id()), 10);
        batches.endRetries(List.of(parent.id(), child.id()));
        end(member, "completed");
        settle(child);
        settle(parent);
        assertThat(info(child).status()).isEqualTo(JobBatchStatus.SUCCEEDED);
        assertThat(info(parent).status()).isEqualTo(JobBatchStatus.SUCCEEDED);
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name <> 'job' AND waits_for IS NULL")
                        .query(Integer.class)
                        .single())
                .isEqualTo(6);
    }

    @Test
    void cancelled_batch_cancels_its_parts_and_their_jobs() {
        NewBatch parent = open(null);
        NewBatch child = open(parent.id());
        add(parent, 3);
        add(child, 2);
        assertThat(batches.cancel(parent.id())).isTrue();
        assertThat(batches.cancel(parent.id())).isFalse();
        assertThat(cancels.cancelOfBatches(List.of(parent.id()), 2)).hasSize(2);
        assertThat(batches.passOn(List.of(parent.id()), 10)).containsExactly(child.id());
        List<UUID> both = List.of(parent.id(), child.id());
        assertThat(batches.unfinished(both)).containsExactlyInAnyOrderElementsOf(both);
        assertThat(cancels.cancelOfBatches(both, 10)).hasSize(3);
        settle(child);
        settle(parent);
        assertThat(info(parent).status()).isEqualTo(JobBatchStatus.CANCELLED);
        assertThat(info(parent).cancelled()).isEqualTo(3);
        assertThat(released()).containsExactly("end", "end");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE waits_for IS NOT NULL")
                        .query(Integer.class)
                        .single())
                .isZero();
        assertThat(batches.unfinished(both)).isEmpty();
    }

    @Test
    void sweep_for_successors_releases_no_callback() {
        NewBatch batch = open(null);
        UUID member = add(batch, 1).get(0);
        batches.close(batch.id());
        assertThat(successors.freeNext(null).jobs()).isZero();
        end(member, "failed");
        settle(batch);
        assertThat(successors.freeNext(null).jobs()).isZero();
        assertThat(released()).containsExactly("end", "failure");
    }

    @Test
    void deleted_batch_takes_its_waiting_callbacks_along() {
        NewBatch batch = open(null);
        add(batch, 1);
        jdbc.sql("DELETE FROM forge_job_batches").update();
        assertThat(jdbc.sql("SELECT DISTINCT name FROM forge_jobs")
                        .query(String.class)
                        .list())
                .containsExactly("job");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_job_batch_parts")
                        .query(Integer.class)
                        .single())
                .isZero();
    }

    @Test
    void ended_batches_are_purged_but_not_before_the_batch_that_they_are_part_of() {
        NewBatch parent = open(null);
        NewBatch child = open(parent.id());
        NewBatch retried = open(null);
        UUID member = add(retried, 1).get(0);
        end(member, "failed");
        List.of(parent, child, retried).forEach(batch -> batches.close(batch.id()));
        List.of(child, parent, retried).forEach(this::settle);
        end(member, "pending");
        NewBatch running = open(null);
        jdbc.sql(
                        "UPDATE forge_job_batches SET ended_at = ended_at - interval '1 day', succeeded_at = succeeded_at - interval '1 day'")
                .update();
        assertThat(batches.purge(Duration.ofHours(1), 10)).isEqualTo(1);
        assertThat(batchReports.find(parent.id())).isEmpty();
        assertThat(batches.purge(Duration.ofHours(1), 10)).isEqualTo(1);
        assertThat(batchReports.list(null, 10))
                .extracting(JobBatchInfo::id)
                .containsExactlyInAnyOrder(retried.id(), running.id());
    }

    @Test
    void check_of_a_large_batch_reads_few_rows_even_if_statistics_expect_many() {
        NewBatch batch = open(null);
        rows(20_000, "name, batch_id", "'job', '%s'".formatted(batch.id()));
        batches.close(batch.id());
        jdbc.sql("ANALYZE forge_jobs").update();
        assertThat(reads(() -> settle(batch))).isLessThan(100);
        jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now() WHERE batch_id IS NOT NULL")
                .update();
        jdbc.sql("VACUUM forge_jobs").update();
        assertThat(reads(() -> settle(batch))).isLessThan(100);
        assertThat(info(batch).status()).isEqualTo(JobBatchStatus.SUCCEEDED);
    }

    @Test
    void batches_are_looked_after_in_turns() {
        List<UUID> all =
                IntStream.range(0, 5).mapToObj(n -> open(null).id()).sorted().toList();
        JobBatchStore.Slice first = batches.unended(null, 3);
        JobBatchStore.Slice second = batches.unended(first.last(), 3);
        assertThat(Stream.concat(first.ids().stream(), second.ids().stream())).containsExactlyInAnyOrderElementsOf(all);
        assertThat(second.last()).isNull();
    }

    @Test
    void many_additions_are_added_up_while_others_add_and_purge_jobs() throws Exception {
        NewBatch batch = open(null);
        NewBatch small = open(null);
        add(small, 3);
        add(small, 4);
        jdbc.sql("""
                INSERT INTO forge_job_batch_parts (batch_id, jobs, failed, cancelled)
                SELECT ?, CASE WHEN n % 2 = 0 THEN n ELSE 0 END, n % 2, 2 * (n % 2) FROM generate_series(1, 200) AS n
                """).param(batch.id()).update();
        JobBatchInfo before = info(batch);
        try (Connection other = database.dataSource().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute(
                    "INSERT INTO forge_job_batch_parts (batch_id, jobs) VALUES ('%s', 7)".formatted(batch.id()));

            assertThat(batches.addUp(List.of(batch.id(), small.id()), 1_000)).isEqualTo(200);
            assertThat(info(batch)).isEqualTo(before);
            assertThat(parts(batch)).isEqualTo(2);
            assertThat(parts(small)).isEqualTo(2);
            other.commit();
        }
        assertThat(info(batch).total()).isEqualTo(before.total() + 7);
        assertThat(batches.addUp(List.of(batch.id()), 1_000)).isZero();
    }

    private int parts(NewBatch batch) {
        return jdbc.sql("SELECT count(*) FROM forge_job_batch_parts WHERE batch_id = ?")
                .param(batch.id())
                .query(Integer.class)
                .single();
    }
}
