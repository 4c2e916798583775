// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobStore.NewJob;
import dev.forge.cluster.internal.job.row.JobSuccessorStore.Freed;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** Enqueueing with unique keys, successors, cancel and retry. */
@ClusterPostgres
class JobStoreTests extends JobStoreFixture {

    JobStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void unique_key_belongs_to_one_active_job() {
        NewJob first = job("job");
        assertThat(jobs.insertUnique(first, "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        assertThat(jobs.insertUnique(job("job"), "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        NewJob other = job("other");
        assertThat(jobs.insertUnique(other, "k", UniquePolicy.KEEP)).isEqualTo(other.id());
        Claimed claimed = claimOne(one);
        assertThat(jobs.insertUnique(job("job"), "k", UniquePolicy.KEEP)).isEqualTo(first.id());
        finishes.finish(one, List.of(completed(claimed, null)));
        NewJob next = job("job");
        assertThat(jobs.insertUnique(next, "k", UniquePolicy.KEEP)).isEqualTo(next.id());
    }

    @Test
    void concurrent_enqueuers_of_a_key_agree_on_one_job() throws Exception {
        var threads = Executors.newFixedThreadPool(4);
        try {
            for (int round = 0; round < 25; round++) {
                String key = "k" + round;
                UniquePolicy policy = round % 2 == 0 ? UniquePolicy.KEEP : UniquePolicy.REPLACE;
                Callable<UUID> enqueuer = () -> jobs.insertUnique(job("job"), key, policy);
                var ids = new HashSet<UUID>();
                for (Future<UUID> id : threads.invokeAll(List.of(enqueuer, enqueuer, enqueuer, enqueuer))) {
                    ids.add(id.get());
                }
                assertThat(ids).hasSize(1);
            }
        } finally {
            threads.shutdown();
        }
    }

    @Test
    void replacement_overwrites_a_job_that_has_not_started() {
        NewJob first = job("job", "{\"v\": 1}");
        jobs.insertUnique(first, "k", UniquePolicy.KEEP);
        assertThat(jobs.insertUnique(job("job", "{\"v\": 2}"), "k", UniquePolicy.REPLACE))
                .isEqualTo(first.id());
        assertThat(claimOne(one).payload()).contains("2");
    }

    @Test
    void replacement_waits_for_the_running_job_and_can_be_replaced() {
        NewJob first = job("job", "{\"v\": 1}");
        jobs.insertUnique(first, "k", UniquePolicy.KEEP);
        Claimed running = claimOne(one);
        NewJob second = job("job", "{\"v\": 2}");
        assertThat(jobs.insertUnique(second, "k", UniquePolicy.REPLACE)).isEqualTo(second.id());
        assertThat(jobs.insertUnique(job("job", "{\"v\": 3}"), "k", UniquePolicy.REPLACE))
                .isEqualTo(second.id());
        assertThat(claim(two, 10)).as("claims beside the replaced job").isEmpty();
        assertThat(reports.obstacles(second.id()).orElseThrow().waitsFor()).isEqualTo(first.id());

        // A failed attempt is not the end: the replaced job runs again first.
        finishes.finish(one, List.of(again(running, 0)));
        List<Claimed> repeated = claim(two, 10);
        assertThat(repeated).extracting(Claimed::id).containsExactly(first.id());
        finishes.finish(two, List.of(completed(repeated.get(0), null)));
        List<Claimed> after = claim(two, 10);
        assertThat(after).extracting(Claimed::id).containsExactly(second.id());
        assertThat(after.get(0).payload()).contains("3");
    }

    @Test
    void end_of_a_job_by_any_statement_releases_its_successor() {
        for (String end : List.of(
                "UPDATE forge_jobs SET status = 'cancelled' WHERE id = ?",
                "UPDATE forge_jobs SET status = 'failed' WHERE id = ?",
                "DELETE FROM forge_jobs WHERE id = ?")) {
            empty();
            NewJob first = job("job");
            jobs.insertUnique(first, "k", UniquePolicy.KEEP);
            claimOne(one);
            NewJob second = job("job");
            jobs.insertUnique(second, "k", UniquePolicy.REPLACE);
            jdbc.sql(end).param(first.id()).update();
            assertThat(claim(two, 10)).as(end).extracting(Claimed::id).containsExactly(second.id());
        }
    }

    @Test
    void successor_is_released_if_its_predecessor_ended_unseen() {
        NewJob first = job("job");
        jobs.insertUnique(first, "k", UniquePolicy.KEEP);
        Claimed running = claimOne(one);
        NewJob second = job("job");
        transactions().executeWithoutResult(status -> {
            jobs.insertUnique(second, "k", UniquePolicy.REPLACE);
            // On another connection, before this transaction commits: neither transaction sees the other.
            var elsewhere = new JobFinishStore(
                    Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"),
                    new org.springframework.jdbc.datasource.DelegatingDataSource(database.dataSource()));
            assertThat(elsewhere.finish(one, List.of(completed(running, null)))).isEmpty();
        });
        assertThat(claim(two, 10)).isEmpty();
        assertThat(successors.free(second.id())).isOne();
        assertThat(claim(two, 10)).extracting(Claimed::id).containsExactly(second.id());
        assertThat(successors.freeNext(null).jobs()).isZero();
    }

    @Test
    void locked_successor_blocks_no_other_release() throws Exception {
        rows(1_500, "name, unique_key, waits_for", "'job', n::text, gen_random_uuid()");
        UUID first = jdbc.sql("SELECT id FROM forge_jobs ORDER BY id LIMIT 1")
                .query(UUID.class)
                .single();
        try (Connection connection = database.dataSource().getConnection();
                Statement statement = connection.createStatement()) {
            connection.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(first));
            assertThat(IntStream.range(0, 3)
                            .map(i -> successors.freeNext(null).jobs())
                            .sum())
                    .isEqualTo(1_499);
            connection.rollback();
        }
        assertThat(successors.freeNext(null).jobs()).isOne();
    }

    @Test
    void waiting_jobs_are_checked_in_turns() {
        // Each waits for itself, as jobs do that depend on others; the last one does not.
        int waiting = JobSuccessorStore.MOST_READ + 10;
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, waits_for)
                SELECT id, 'job', CASE WHEN n > 1 THEN id ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff' END
                FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, ?) AS n OFFSET 0) AS job
                """).param(waiting).update();

        Freed begun = successors.freeNext(null);
        assertThat(begun.jobs()).isZero();
        assertThat(successors.freeNext(begun.last())).isEqualTo(new Freed(1, null));
    }

    @Test
    void key_that_another_session_is_inserting_blocks_no_other_successor() throws Exception {
        rows(1_000, "name, unique_key, waits_for", "'job', n::text, gen_random_uuid()");
        try (Connection connection = database.dataSource().getConnection();
                Statement statement = connection.createStatement();
                Connection sweeping = database.dataSource().getConnection();
                Statement patience = sweeping.createStatement()) {
            connection.setAutoCommit(false);
            statement.execute("INSERT INTO forge_jobs (id, name, unique_key) VALUES (gen_random_uuid(), 'job', '1')");
            patience.execute("SET lock_timeout = '100ms'");
            var sweeper = new JobSuccessorStore(
                    Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"),
                    new SingleConnectionDataSource(sweeping, true));
            assertThat(sweeper.freeNext(null).jobs()).isEqualTo(999);
            connection.rollback();
            assertThat(sweeper.freeNext(null).jobs()).isOne();
        }
    }

    private long waiting() {
        return jdbc.sql("""
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """).query(Long.class).single();
    }

    @Test
    void retry_is_refused_while_its_key_is_enqueued_and_the_transaction_continues() throws Exception {
        NewJob first = job("job");
        jobs.insertUnique(first, "k", UniquePolicy.KEEP);
        jobs.cancel(first.id(), List.of());
        var threads = Executors.newSingleThreadExecutor();
        try (Connection enqueuer = database.dataSource().getConnection();
                Statement statement = enqueuer.createStatement()) {
            enqueuer.setAutoCommit(false);
            statement.execute("SELECT forge_enqueue('job', unique_key => 'k')");
            Future<Boolean> retried = threads.submit(() -> transactions().execute(status -> {
                boolean restarted = jobs.retry(first.id(), List.of());
                // The conflict has not aborted the transaction.
                jobs.insert(job("after"));
                return restarted;
            }));
            await().until(() -> waiting() == 1);
            enqueuer.commit();
            assertThat(retried.get()).isFalse();
        } finally {
            threads.shutdown();
        }
        assertThat(status(first.id())).isEqualTo("cancelled");
        assertThat(jdbc.sql("SELECT count(*) FROM forge_jobs WHERE name = 'after'")
                        .query(Long.class)
                        .single())
                .isOne();
        jdbc.sql("DELETE FROM forge_jobs WHERE status = 'pending'").update();
        assertThat(jobs.retry(first.id(), List.of())).isTrue();
    }

    @Test
    void infinite_past_is_rejected_as_schedule() {
        assertThatExceptionOfType(DataIntegrityViolationException.class)
                .isThrownBy(() -> jdbc.sql("SELECT forge_enqueue('job', scheduled_at => '-infinity')")
                        .query((row, n) -> true)
                        .single());
    }

    @Test
    void cancellation_ends_pending_and_running_jobs() {
        UUID pending = insert();
        assertThat(jobs.cancel(pending, List.of())).isPresent();
        assertThat(jobs.cancel(pending, List.of())).isEmpty();
        UUID running = insert();
        Claimed claimed = claimOne(one);
        assertThat(jobs.cancel(running, List.of()).orElseThrow().node()).isEqualTo(one);
        assertThat(finishes.finish(one, List.of(completed(claimed, null)))).containsExactly(key(claimed));
        assertThat(status(running)).isEqualTo("cancelled");
        assertThat(jobs.retry(running, List.of())).isTrue();
        assertThat(jobs.retry(running, List.of())).isFalse();
    }
}
