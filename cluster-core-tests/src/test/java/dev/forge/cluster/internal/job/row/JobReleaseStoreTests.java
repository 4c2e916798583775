// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobReleaseStore.Freed;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.Statement;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** Verifies that jobs which wait for another one are released. */
@ClusterPostgres
class JobReleaseStoreTests extends JobStoreFixture {

    JobReleaseStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void end_of_a_job_by_any_statement_releases_its_successor() {
        for (String end : List.of(
                "UPDATE forge_jobs SET status = 'cancelled' WHERE id = ?",
                "UPDATE forge_jobs SET status = 'failed' WHERE id = ?",
                "DELETE FROM forge_jobs WHERE id = ?")) {
            empty();
            NewJob first = job("job");
            unique.insertUnique(first, "k", UniquePolicy.KEEP);
            claimOne(one);
            NewJob second = job("job");
            unique.insertUnique(second, "k", UniquePolicy.REPLACE);
            jdbc.sql(end).param(first.id()).update();
            assertThat(claim(two, 10)).as(end).extracting(Claimed::id).containsExactly(second.id());
        }
    }

    @Test
    void successor_is_released_if_its_predecessor_ended_unseen() {
        NewJob first = job("job");
        unique.insertUnique(first, "k", UniquePolicy.KEEP);
        Claimed running = claimOne(one);
        NewJob second = job("job");
        transactions().executeWithoutResult(status -> {
            unique.insertUnique(second, "k", UniquePolicy.REPLACE);
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
        int waiting = JobReleaseStore.MOST_READ + 10;
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
            var sweeper = new JobReleaseStore(
                    Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"),
                    new SingleConnectionDataSource(sweeping, true));
            assertThat(sweeper.freeNext(null).jobs()).isEqualTo(999);
            connection.rollback();
            assertThat(sweeper.freeNext(null).jobs()).isOne();
        }
    }
}
