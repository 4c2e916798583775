// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobBulkStore.Batch;
import dev.forge.cluster.internal.job.row.JobBulkStore.Changed;
import dev.forge.cluster.internal.job.row.JobCancelStore.CancelledJob;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Batches of jobs that have changed since they were found. */
@ClusterPostgres
class JobBulkStoreTests extends JobStoreFixture {

    private final JobBulkStore bulk;

    JobBulkStoreTests(TestDatabase database) {
        super(database);
        this.bulk = new JobBulkStore(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    private final AtomicInteger committed = new AtomicInteger();

    private Batch batch(List<UUID> ids, JobStatus... statuses) {
        return batch(ids, changed -> {}, statuses);
    }

    private Batch batch(List<UUID> ids, IntConsumer changed, JobStatus... statuses) {
        return new Batch(
                ids, JobFilter.all().withStatuses(statuses), List.of("workflow:"), changed, committed::addAndGet);
    }

    private UUID failed(String key) {
        NewJob job = job("job");
        unique.insertUnique(job, key, UniquePolicy.KEEP);
        jdbc.sql("UPDATE forge_jobs SET status = 'failed', finished_at = now() WHERE id = ?")
                .param(job.id())
                .update();
        return job.id();
    }

    @Test
    @Timeout(60)
    void retry_does_not_wait_for_a_transaction_that_may_get_the_key_of_a_job() {
        List<UUID> ids = List.of(failed("held"), failed("free"));
        Batch found = batch(ids, JobStatus.FAILED);
        transactions().executeWithoutResult(other -> {
            unique.insertUnique(job("job"), "held", UniquePolicy.KEEP);
            CompletableFuture.runAsync(() -> bulk.retry(found)).join();
            other.setRollbackOnly();
        });
        assertThat(committed).hasValue(1);
        assertThat(ids).extracting(this::status).containsExactly("failed", "pending");
        bulk.retry(found);
        assertThat(committed).hasValue(2);
        assertThat(ids).extracting(this::status).containsOnly("pending");
    }

    @Test
    void keyed_job_that_no_longer_matches_when_its_turn_comes_is_not_retried() {
        List<UUID> ids = List.of(failed("a"), failed("b"));
        bulk.retry(batch(
                ids,
                changed -> {
                    if (changed == 1) {
                        // Somebody changes the other job while the first one is retried.
                        CompletableFuture.runAsync(() -> jdbc.sql(
                                                "UPDATE forge_jobs SET status = 'cancelled' WHERE status = 'failed' AND id = ANY (ARRAY("
                                                        + "SELECT id FROM forge_jobs FOR UPDATE SKIP LOCKED))")
                                        .update())
                                .join();
                    }
                },
                JobStatus.FAILED));
        assertThat(committed).hasValue(1);
        assertThat(ids).extracting(this::status).containsExactlyInAnyOrder("pending", "cancelled");
    }

    @Test
    void job_that_was_claimed_since_it_was_found_is_not_cancelled_as_a_pending_one() {
        List<UUID> found = List.of(insert(), insert());
        Claimed claimed = claimOne(one);
        assertThat(bulk.cancel(batch(found, JobStatus.PENDING)))
                .extracting(CancelledJob::id, CancelledJob::held)
                .hasSize(1)
                .doesNotContain(org.assertj.core.groups.Tuple.tuple(claimed.id(), true));
        assertThat(status(claimed.id())).isEqualTo("running");
        assertThat(finishes.finish(one, List.of(completed(claimed, null)))).isEmpty();
        assertThat(status(claimed.id())).isEqualTo("completed");
    }

    @Test
    void held_job_that_is_cancelled_loses_its_claim() {
        UUID id = insert();
        Claimed claimed = claimOne(one);
        assertThat(bulk.cancel(batch(List.of(id), JobStatus.PENDING, JobStatus.CLAIMED, JobStatus.RUNNING)))
                .containsExactly(new CancelledJob(id, one, false, null));
        assertThat(finishes.finish(one, List.of(completed(claimed, null)))).containsExactly(key(claimed));
        assertThat(status(id)).isEqualTo("cancelled");
    }

    @Test
    void job_that_was_retried_since_it_was_found_is_neither_retried_again_nor_deleted() {
        UUID id = insert();
        jdbc.sql("UPDATE forge_jobs SET status = 'failed', finished_at = now()").update();
        Batch found = batch(List.of(id), JobStatus.FAILED);
        assertThat(restarts.retry(id, List.of())).isTrue();
        Claimed claimed = claimOne(one);
        bulk.retry(found);
        assertThat(committed).hasValue(0);
        assertThat(bulk.delete(found, "")).isZero();
        assertThat(bulk.reschedule(
                        batch(List.of(id), JobStatus.PENDING), Instant.now().plus(Duration.ofDays(1))))
                .isEqualTo(new Changed(0, 0));
        assertThat(finishes.finish(one, List.of(completed(claimed, null)))).isEmpty();
        assertThat(status(id)).isEqualTo("completed");
    }

    @Test
    void awaited_jobs_are_not_deleted() {
        List<UUID> ids = List.of(insert(), insert());
        jdbc.sql("UPDATE forge_jobs SET status = 'completed', finished_at = now()")
                .update();
        assertThat(bulk.delete(batch(ids, JobStatus.COMPLETED), "j.id = '%s'".formatted(ids.get(0))))
                .isEqualTo(1);
        assertThat(status(ids.get(0))).isEqualTo("completed");
    }
}
