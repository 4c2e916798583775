// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static dev.forge.cluster.internal.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.row.HeldJobStore.Reading;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claiming;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.CrashRule;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.Recovered;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.dao.DataIntegrityViolationException;

/** Claims of due jobs, and writes by their holders. */
@ClusterPostgres
class JobClaimStoreTests extends JobStoreFixture {

    JobClaimStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void job_is_claimed_by_one_of_two_concurrent_workers() throws Exception {
        for (int round = 0; round < 20; round++) {
            insert();
            var threads = Executors.newFixedThreadPool(2);
            try {
                List<Callable<List<Claimed>>> both = List.of(() -> claim(one, 10), () -> claim(two, 10));
                int sum = 0;
                for (Future<List<Claimed>> claimed : threads.invokeAll(both)) {
                    sum += claimed.get().size();
                }
                assertThat(sum).isOne();
            } finally {
                threads.shutdown();
            }
        }
    }

    @Test
    void every_job_is_claimed_once_by_many_claimers() throws Exception {
        jobs.insertAll(IntStream.range(0, 1_000).mapToObj(i -> job("job")).toList());
        var threads = Executors.newFixedThreadPool(4);
        try {
            Callable<List<UUID>> claimer = () -> {
                var taken = new ArrayList<UUID>();
                List<Claimed> batch = claim(one, 7);
                while (!batch.isEmpty()) {
                    batch.forEach(claimed -> taken.add(claimed.id()));
                    batch = claim(one, 7);
                }
                return taken;
            };
            var all = new ArrayList<UUID>();
            for (Future<List<UUID>> taken : threads.invokeAll(List.of(claimer, claimer, claimer, claimer))) {
                all.addAll(taken.get());
            }
            assertThat(all).hasSize(1_000).doesNotHaveDuplicates();
        } finally {
            threads.shutdown();
        }
    }

    private List<UUID> quickClaim() {
        var claiming = new Claiming(one, 10, 10, 10, LEASE, true, true);
        return claims.claim(QUEUE, Mark.UNMARKED, claiming).stream()
                .map(Claimed::id)
                .toList();
    }

    private void lockAndRelease(UUID id) throws SQLException {
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setAutoCommit(false);
            lock(connection, id);
            connection.rollback();
        }
    }

    private static void lock(Connection connection, UUID id) throws SQLException {
        try (PreparedStatement lock = connection.prepareStatement("SELECT FROM forge_jobs WHERE id = ? FOR UPDATE")) {
            lock.setObject(1, id);
            lock.execute();
        }
    }

    @Test
    void quick_claim_passes_locked_rows() throws Exception {
        UUID first = insert();
        UUID second = insert();
        try (Connection locking = database.dataSource().getConnection()) {
            locking.setAutoCommit(false);
            lock(locking, first);
            assertThat(quickClaim()).containsExactly(second);
        }
        // Transactions of other databases may be older.
        await().untilAsserted(() -> assertThat(quickClaim()).containsExactly(first));
    }

    @Test
    void quick_claim_leaves_out_rows_that_were_locked_since_the_oldest_transaction_began() throws Exception {
        UUID first = insert();
        UUID second = insert();
        try (Connection oldest = database.dataSource().getConnection();
                Statement begin = oldest.createStatement()) {
            oldest.setAutoCommit(false);
            begin.execute("SELECT pg_current_xact_id()");
            lockAndRelease(first);
            assertThat(quickClaim()).containsExactly(second);
            assertThat(claim(one, 10)).extracting(Claimed::id).containsExactly(first);
        }
    }

    @Test
    void claim_reads_no_more_bytes_than_a_node_can_hold() {
        String large = "{\"text\": \"%s\"}".formatted("x".repeat(1_000_000));
        // Half of the jobs are inserted by the engine, which knows their size, the others with SQL.
        jobs.insertAll(IntStream.range(0, 15).mapToObj(i -> job("job", large)).toList());
        rows(15, "name, payload", "'job', jsonb_build_object('text', repeat('x', 1000000))");
        int batches = 0;
        var taken = new HashSet<UUID>();
        for (List<Claimed> batch = claim(one, 30); !batch.isEmpty(); batch = claim(one, 30)) {
            assertThat(batch.stream()
                            .mapToLong(claimed -> claimed.payload().length())
                            .sum())
                    .isLessThan(10_000_000);
            assertThat(batch.stream().mapToLong(Claimed::bytes).sum()).isLessThan(10_000_000);
            batch.forEach(claimed -> {
                assertThat(held.read(one, claimed, 2_000_000))
                        .isInstanceOfSatisfying(
                                Reading.Read.class,
                                read -> assertThat(read.job().payload()).hasSize(1_000_012));
                assertThat(held.read(one, claimed, 1_000)).isEqualTo(new Reading.TooLarge(1_000_014));
                taken.add(claimed.id());
            });
            batches++;
        }
        assertThat(taken).hasSize(30);
        assertThat(batches).isBetween(3, 5);
    }

    @Test
    void compressed_body_of_unknown_size_is_not_regarded_as_small() {
        // 5,000 bytes when printed, and less than a hundred when stored.
        rows(1, "name, payload", "'job', jsonb_build_object('text', repeat('x', 5000))");
        rows(1, "name, metadata", "'job', jsonb_build_object('text', repeat('x', 5000))");
        assertThat(jdbc.sql("SELECT max(pg_column_size(payload) + pg_column_size(metadata)) FROM forge_jobs")
                        .query(Integer.class)
                        .single())
                .isLessThan(100);
        List<Claimed> claimed = claim(one, 10);
        assertThat(claimed).hasSize(2).allSatisfy(job -> {
            assertThat(job.read()).isFalse();
            assertThat(job.bytes()).isGreaterThan(5_000);
            assertThat(held.read(one, job, 10_000))
                    .isInstanceOfSatisfying(
                            Reading.Read.class,
                            read -> assertThat(read.job().bytes()).isBetween(5_000L, 5_100L));
        });
    }

    private boolean writes(String sql) {
        try {
            return jdbc.sql(sql).update() > 0;
        } catch (DataIntegrityViolationException e) {
            return false;
        }
    }

    /** Claims until there is nothing more: a job that seems to be large is claimed alone. */
    private List<Claimed> claimAll() {
        var all = new ArrayList<Claimed>();
        List<Claimed> some;
        do {
            some = claim(one, 10);
            all.addAll(some);
        } while (!some.isEmpty());
        return all;
    }

    @ParameterizedTest
    @CsvSource({
        "attempts, 2147483647",
        "attempts, 1000000000",
        "attempts, 0",
        "attempts, -2147483648",
        "recoveries, 2147483647",
        "recoveries, 1000000000",
        "recoveries, -2147483648",
        "claim_epoch, 9223372036854775807",
        "claim_epoch, 4611686018427387904",
        "claim_epoch, 1000000000000000000",
        "claim_epoch, -9223372036854775808",
        "max_attempts, 2147483647",
        "max_attempts, -2147483648",
        "body_bytes, 2147483647",
        "body_bytes, -2147483648",
        "checkpoint_bytes, 2147483647",
        "checkpoint_bytes, -2147483648",
        "retention, 200000 years",
        "retention, 1000 years",
        "retention, -200000 years"
    })
    void extreme_row_blocks_no_other_job(String column, String value) {
        boolean stored = writes("""
                INSERT INTO forge_jobs (id, name, status, worker_id, checkpoint, %1$s) VALUES
                    (gen_random_uuid(), 'job', 'pending', NULL, '{}', '%2$s'),
                    (gen_random_uuid(), 'job', 'running', gen_random_uuid(), '{}', '%2$s')
                """.formatted(column, value));
        UUID neighbour = insert();
        for (CrashRule rule : List.of(REQUEUE, new CrashRule(true, 10, 3), REQUEUE, REQUEUE, REQUEUE)) {
            jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE status = 'pending'")
                    .update();
            assertThat(claimAll()).extracting(Claimed::id).contains(neighbour);
            jdbc.sql("UPDATE forge_jobs SET lease_expires_at = now() - interval '1 minute' WHERE status = 'running'")
                    .update();
            assertThat(recoveries.sweep(rule, overdue(false)))
                    .extracting(Recovered::id)
                    .contains(neighbour);
            // The neighbour must not be abandoned after too many recoveries.
            jdbc.sql("UPDATE forge_jobs SET recoveries = 0 WHERE id = ?")
                    .param(neighbour)
                    .update();
        }
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now() WHERE status = 'pending'")
                .update();
        List<Claimed> claimed = claimAll();
        assertThat(claimed).extracting(Claimed::id).contains(neighbour);
        assertThat(finishes.finish(
                        one, claimed.stream().map(job -> completed(job, "1")).toList()))
                .isEmpty();
        assertThat(status(neighbour)).isEqualTo("completed");
        jdbc.sql("UPDATE forge_jobs SET finished_at = now() - interval '1 hour' WHERE id = ?")
                .param(neighbour)
                .update();
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofMinutes(1), Duration.ofDays(1), ""), 100))
                .isPositive();
        assertThat(stored || !value.equals("0")).as("ordinary rows are stored").isTrue();
    }

    @Test
    void claim_marks_jobs_that_start_immediately_and_jobs_that_wait() {
        IntStream.range(0, 5).forEach(i -> insert());
        List<Claimed> claimed = claims.claim(QUEUE, Mark.UNMARKED, new Claiming(one, 5, 2, 10, LEASE));
        assertThat(claimed).extracting(Claimed::started).containsExactly(true, true, false, false, false);
        assertThat(claimed).allSatisfy(job -> {
            assertThat(job.attempt()).isOne();
            assertThat(job.epoch()).isOne();
            assertThat(status(job.id())).isEqualTo(job.started() ? "running" : "claimed");
        });
        held.start(one, claimed.stream().map(JobStoreFixture::key).toList());
        assertThat(claimed).allSatisfy(job -> assertThat(status(job.id())).isEqualTo("running"));
    }

    @Test
    void returned_job_counts_as_started_at_its_next_claim() {
        insert();
        claims.claim(QUEUE, Mark.UNMARKED, new Claiming(one, 1, 0, 10, LEASE));
        age("lease_expires_at", "2 minutes");
        assertThat(recoveries.sweep(REQUEUE, overdue(false))).hasSize(1);
        jdbc.sql("UPDATE forge_jobs SET scheduled_at = now()").update();
        // The job may have crashed its node before its start was written.
        assertThat(claims.claim(QUEUE, Mark.UNMARKED, new Claiming(two, 1, 0, 10, LEASE)))
                .singleElement()
                .extracting(Claimed::started)
                .isEqualTo(true);
    }

    @Test
    void inactive_node_claims_nothing() {
        insert();
        for (String status : List.of("joining", "stale", "draining", "dead")) {
            jdbc.sql("UPDATE forge_nodes SET status = ? WHERE id = ?")
                    .params(status, one)
                    .update();
            assertThat(claim(one, 1)).as(status).isEmpty();
        }
        assertThat(claim(UUID.randomUUID(), 1)).isEmpty();
    }

    @Test
    void paused_name_is_not_claimed_from_a_queue_that_was_seen_before() {
        insert();
        names.pause("job");
        assertThat(claim(one, 1)).isEmpty();
        assertThat(names.paused()).containsExactly("job");
        assertThat(names.resume("job")).isTrue();
        assertThat(names.resume("job")).isFalse();
        assertThat(claim(one, 1)).hasSize(1);
    }

    @Test
    void time_in_the_past_does_not_overtake_earlier_jobs() {
        UUID first = insert();
        Instant longAgo = Instant.EPOCH;
        NewJob single = urgent(50, null, longAgo);
        jobs.insert(single);
        NewJob together = urgent(50, null, longAgo);
        jobs.insertAll(List.of(together));
        NewJob keyed = urgent(50, null, longAgo);
        unique.insertUnique(keyed, "key", UniquePolicy.KEEP);
        UUID bySql = jdbc.sql("SELECT forge_enqueue('job', scheduled_at => '1971-01-01')")
                .query(UUID.class)
                .single();
        unique.insertUnique(urgent(50, null, longAgo), "key", UniquePolicy.REPLACE);
        assertThat(jdbc.sql("SELECT id FROM forge_jobs ORDER BY scheduled_at")
                        .query(UUID.class)
                        .list())
                .as("jobs in the order in which they were enqueued, the replaced one last")
                .containsExactly(first, single.id(), together.id(), bySql, keyed.id());
        assertThat(claim(one, 1)).extracting(Claimed::id).containsExactly(first);
    }

    @Test
    void holder_of_an_old_epoch_writes_nothing() {
        UUID id = insert();
        Claimed old = claimOne(one);
        assertThat(finishes.finish(one, List.of(again(old, 0)))).isEmpty();
        Claimed current = claimOne(one);
        assertThat(current.epoch()).isEqualTo(2);
        assertThat(current.attempt()).isEqualTo(2);

        assertThat(finishes.finish(one, List.of(completed(old, "1")))).containsExactly(key(old));
        assertThat(finishes.finish(one, List.of(again(old, 0)))).containsExactly(key(old));
        assertThat(finishes.finish(two, List.of(completed(current, "1")))).containsExactly(key(current));
        assertThat(held.writeCheckpoint(one, key(old), "{}", "{}")).isFalse();
        assertThat(held.writeCheckpoint(two, key(current), "{}", "{}")).isFalse();
        assertThat(held.renew(one, List.of(key(old)), LEASE)).isEmpty();
        assertThat(held.renew(two, List.of(key(current)), LEASE)).isEmpty();
        held.start(one, List.of(key(old)));
        assertThat(status(id)).isEqualTo("running");
        assertThat(column(id, "result IS NULL", Boolean.class)).isTrue();

        assertThat(held.renew(one, List.of(key(current)), LEASE)).containsExactly(key(current));
        assertThat(finishes.finish(one, List.of(completed(current, "1")))).isEmpty();
        assertThat(status(id)).isEqualTo("completed");
    }

    @Test
    void locked_row_is_no_lost_claim() throws Exception {
        UUID id = insert();
        Claimed claimed = claimOne(one);
        try (Connection holder = database.dataSource().getConnection();
                Statement statement = holder.createStatement()) {
            holder.setAutoCommit(false);
            statement.execute("SELECT FROM forge_jobs WHERE id = '%s' FOR UPDATE".formatted(id));
            assertThat(held.renew(one, List.of(key(claimed)), LEASE)).isEmpty();
            assertThat(held.missing(one, List.of(key(claimed)))).isEmpty();
            holder.rollback();
        }
    }
}
