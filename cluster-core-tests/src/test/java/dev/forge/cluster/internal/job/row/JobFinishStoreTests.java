// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.springframework.dao.DataAccessException;

/** Ends of claims: their guards, locked rows and lost responses. */
@ClusterPostgres
class JobFinishStoreTests extends JobStoreFixture {

    JobFinishStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void finish_may_be_repeated_after_a_lost_response() {
        insert();
        Claimed claimed = claimOne(one);
        assertThat(finishes.finish(one, List.of(completed(claimed, "1")))).isEmpty();
        assertThat(finishes.finish(one, List.of(completed(claimed, "1")))).isEmpty();
        assertThat(finishes.finish(two, List.of(completed(claimed, "1")))).containsExactly(key(claimed));
    }

    @Test
    void end_by_the_holder_is_distinguished_from_a_recovery() {
        IntStream.range(0, 8).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 8);
        Map<ClaimKey, Integer> keys = new HashMap<>();
        claimed.forEach(job -> keys.put(key(job), job.recoveries()));
        var own = new HashSet<ClaimKey>();
        // Still held.
        assertThat(finishes.endedByHolder(one, keys)).isEmpty();
        // Completed, returned and deleted by the holder itself.
        finishes.finish(one, List.of(completed(claimed.get(0), "1"), again(claimed.get(1), 60_000)));
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?")
                .param(claimed.get(2).id())
                .update();
        // Returned, and claimed by another node since.
        finishes.finish(one, List.of(again(claimed.get(3), 0)));
        assertThat(claimOne(two).id()).isEqualTo(claimed.get(3).id());
        claimed.subList(0, 4).forEach(job -> own.add(key(job)));
        // Cancelled, and recovered from the holder.
        cancels.cancel(claimed.get(4).id(), List.of());
        jdbc.sql("UPDATE forge_jobs SET lease_expires_at = now() - interval '1 minute' WHERE id IN (?, ?)")
                .params(claimed.get(5).id(), claimed.get(6).id())
                .update();
        assertThat(recoveries.sweep(REQUEUE, overdue(false))).hasSize(2);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE id = ?")
                .param(claimed.get(6).id())
                .update();
        assertThat(claimOne(two).id()).isEqualTo(claimed.get(6).id());
        assertThat(finishes.endedByHolder(one, keys)).isEqualTo(own);
        assertThat(finishes.endedByHolder(two, Map.of(key(claimed.get(0)), 0))).isEmpty();
    }

    private boolean inTransaction(Finish finish) {
        return Objects.requireNonNull(transactions().execute(status -> transactional.finish(one, finish)));
    }

    @Test
    void handler_transaction_cannot_end_a_claim_twice() {
        insert();
        Claimed claimed = claimOne(one);
        assertThat(inTransaction(completed(claimed, "1"))).isTrue();
        // By the same node in the same epoch, as if two threads of it had run the job.
        assertThat(inTransaction(completed(claimed, "2"))).isFalse();
        assertThat(column(claimed.id(), "result::text", String.class)).isEqualTo("1");
    }

    @Test
    void batch_with_lost_claims_finishes_the_others() {
        IntStream.range(0, 10).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 10);
        jdbc.sql("UPDATE forge_jobs SET claim_epoch = 7 WHERE id = ?")
                .param(claimed.get(3).id())
                .update();
        jdbc.sql("DELETE FROM forge_jobs WHERE id = ?")
                .param(claimed.get(4).id())
                .update();
        Set<ClaimKey> lost = finishes.finish(
                one, claimed.stream().map(one -> completed(one, "{}")).toList());
        assertThat(lost).containsExactlyInAnyOrder(key(claimed.get(3)), key(claimed.get(4)));
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE status = 'completed'")
                        .query(Long.class)
                        .single())
                .isEqualTo(8);
    }

    @ParameterizedTest
    @EnumSource
    void completion_does_not_wait_for_a_locked_row(Pooler pooler) throws Exception {
        UUID id = insert();
        UUID other = insert();
        List<Finish> ends =
                claim(one, 2).stream().map(job -> completed(job, "1")).toList();
        try (var control = new ControlConnections(database.newSessions(), pooler, 1, Duration.ofSeconds(2));
                Connection holder = database.dataSource().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(id));
            var store = new JobFinishStore(Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), control);
            assertThatExceptionOfType(DataAccessException.class)
                    .isThrownBy(() -> store.finish(one, ends))
                    .matches(e -> DatabaseFailure.kind(e) == DatabaseFailure.Kind.LOCK_TIMEOUT);
            assertThat(store.finishUnlocked(one, ends)).extracting(ClaimKey::id).containsExactly(other);
            assertThat(status(id)).isEqualTo("running");
            holder.rollback();
            assertThat(store.finish(one, ends)).isEmpty();
        }
        assertThat(status(id)).isEqualTo("completed");
        assertThat(status(other)).isEqualTo("completed");
    }

    @Test
    void finish_and_renewal_skip_rows_that_the_other_has_locked() throws Exception {
        IntStream.range(0, 4).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 4);
        List<ClaimKey> first = keys(claimed.subList(0, 2));
        List<ClaimKey> second = keys(claimed.subList(2, 4));
        var threads = Executors.newSingleThreadExecutor();
        try {
            transactions().executeWithoutResult(status -> {
                // This transaction holds its locks until the statements of the other thread have returned.
                assertThat(held.renew(one, first, LEASE)).containsExactlyInAnyOrderElementsOf(first);
                assertThat(result(threads.submit(() -> held.renew(one, keys(claimed), LEASE))))
                        .containsExactlyInAnyOrderElementsOf(second);
                assertThat(result(threads.submit(() -> finishes.finishUnlocked(one, ends(claimed)))))
                        .containsExactlyInAnyOrderElementsOf(second);
            });
        } finally {
            threads.shutdown();
        }
        assertThat(finishes.finishUnlocked(one, ends(claimed))).containsExactlyInAnyOrderElementsOf(first);
    }

    @Test
    void concurrent_finish_and_renewal_in_opposite_order_do_not_deadlock() throws Exception {
        IntStream.range(0, 200).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 200);
        List<Claimed> reversed = new ArrayList<>(claimed);
        Collections.reverse(reversed);
        var threads = Executors.newFixedThreadPool(2);
        try {
            for (int round = 0; round < 20; round++) {
                Future<Set<ClaimKey>> finished = threads.submit(() -> finishes.finishUnlocked(one, ends(claimed)));
                Future<Set<ClaimKey>> renewed = threads.submit(() -> held.renew(one, keys(reversed), LEASE));
                var either = new HashSet<>(result(finished));
                either.addAll(result(renewed));
                assertThat(either).as("rows that were finished or renewed").hasSize(200);
                assertThat(held.missing(one, keys(claimed)))
                        .as("claims that are missing because they were finished")
                        .isEqualTo(result(finished));
                jdbc.sql("UPDATE forge_jobs SET status = 'running'").update();
            }
        } finally {
            threads.shutdown();
        }
    }

    private static List<ClaimKey> keys(List<Claimed> claimed) {
        return claimed.stream().map(JobStoreFixture::key).toList();
    }

    private static List<Finish> ends(List<Claimed> claimed) {
        return claimed.stream().map(job -> completed(job, "{}")).toList();
    }

    private static <T> T result(Future<T> future) {
        try {
            return future.get(30, TimeUnit.SECONDS);
        } catch (InterruptedException | ExecutionException | TimeoutException e) {
            throw new AssertionError("the statement failed or waited for a lock", e);
        }
    }

    @Test
    void retention_of_zero_deletes_at_completion() {
        UUID id = insert();
        Claimed claimed = claimOne(one);
        var finish =
                new Finish(key(claimed), JobStatus.COMPLETED, null, null, 0, 0, null, null, Duration.ZERO, 1L, false);
        assertThat(finishes.finish(one, List.of(finish))).isEmpty();
        assertThat(reports.find(id)).isEmpty();
    }
}
