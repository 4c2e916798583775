// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobLogStore.NewLine;
import dev.forge.cluster.internal.job.row.JobLogStore.Swept;
import dev.forge.cluster.job.operations.JobLogLine;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Lines of logs: their guard, their number, and their deletion. */
@ClusterPostgres
class JobLogStoreTests extends JobStoreFixture {

    private final JobLogStore logs;

    JobLogStoreTests(TestDatabase database) {
        super(database);
        this.logs = new JobLogStore(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    private static NewLine line(Claimed claimed, int number, String text) {
        return new NewLine(key(claimed), claimed.attempt(), number, 0, text);
    }

    private List<String> texts(UUID job) {
        return logs.read(job).stream().map(JobLogLine::message).toList();
    }

    private long count() {
        return jdbc.sql("SELECT count(*) FROM forge_job_logs").query(Long.class).single();
    }

    @Test
    void lines_of_an_earlier_claim_are_dropped() {
        UUID id = insert();
        Claimed first = claimOne(one);
        logs.write(one, List.of(line(first, 0, "a")));
        finishes.finish(one, List.of(again(first, 0)));
        // Still the last claim.
        logs.write(one, List.of(line(first, 1, "b")));
        Claimed second = claimOne(two);
        logs.write(one, List.of(line(first, 2, "stale")));
        logs.write(one, List.of(line(second, 0, "not the holder")));
        logs.write(two, List.of(line(second, 0, "c"), line(second, 0, "repeated")));
        logs.write(two, List.of(line(second, 0, "repeated after a lost response")));
        logs.write(two, List.of(new NewLine(new ClaimKey(UUID.randomUUID(), 1), 1, 0, 0, "no such job")));
        assertThat(texts(id)).containsExactly("a", "b", "c");
        assertThat(logs.read(id)).extracting(JobLogLine::attempt).containsExactly(1, 1, 2);
        assertThat(count()).isEqualTo(3);
    }

    @Test
    void time_of_a_line_is_that_of_the_database() {
        UUID id = insert();
        Claimed claimed = claimOne(one);
        Instant now = jdbc.sql("SELECT clock_timestamp()")
                .query((row, n) ->
                        row.getObject(1, java.time.OffsetDateTime.class).toInstant())
                .single();
        logs.write(one, List.of(new NewLine(key(claimed), 1, 0, 3_600_000_000L, "an hour ago")));
        assertThat(logs.read(id).get(0).time())
                .isBetween(now.minus(Duration.ofHours(1)), now.minus(Duration.ofMinutes(59)));
    }

    @Test
    void last_lines_of_a_job_are_kept_across_claims() {
        UUID id = insert();
        UUID other = insert();
        Claimed first = claimOne(one);
        Claimed untouched = claimOne(one);
        assertThat(List.of(first.id(), untouched.id())).containsExactlyInAnyOrder(id, other);
        logs.write(one, List.of(line(untouched, 0, "other")));
        logs.write(
                one,
                IntStream.range(0, 600).mapToObj(i -> line(first, i, "a" + i)).toList());
        logs.trim(List.of(first.id(), untouched.id()));
        assertThat(texts(first.id())).hasSize(500).startsWith("a100").endsWith("a599");
        finishes.finish(one, List.of(again(first, 0)));
        Claimed second = claimOne(two);
        logs.write(two, List.of(line(second, 0, "b0"), line(second, 1, "b1")));
        assertThat(texts(first.id())).hasSize(500).startsWith("a102").endsWith("b0", "b1");
        logs.trim(List.of(first.id()));
        assertThat(count()).isEqualTo(501);
    }

    @Test
    void lines_of_deleted_jobs_are_swept() {
        IntStream.range(0, 25).forEach(i -> insert());
        List<Claimed> claimed = claim(one, 25);
        claimed.forEach(each -> logs.write(one, List.of(line(each, 0, "x"), line(each, 1, "y"))));
        List<UUID> kept = claimed.stream().map(Claimed::id).limit(5).toList();
        jdbc.sql("DELETE FROM forge_jobs WHERE NOT id = ANY (?)")
                .param(kept.toArray(UUID[]::new))
                .update();
        int deleted = 0;
        int rounds = 0;
        UUID last = null;
        do {
            Swept swept = logs.sweep(last, 4);
            deleted += swept.deleted();
            last = swept.last();
            rounds++;
        } while (last != null);
        assertThat(deleted).isEqualTo(40);
        assertThat(rounds).isEqualTo(7);
        assertThat(kept).allSatisfy(id -> assertThat(texts(id)).containsExactly("x", "y"));
        assertThat(logs.sweep(null, 4).deleted()).isZero();
    }

    @Test
    void sweep_reads_one_entry_for_each_job() {
        rows(3_000, "name", "'job'");
        jdbc.sql("""
                INSERT INTO forge_job_logs (job_id, epoch, line, attempt, logged_at, message)
                SELECT id, 1, n, 1, now(), 'x' FROM forge_jobs CROSS JOIN generate_series(1, 20) AS n
                """).update();
        jdbc.sql("VACUUM ANALYZE forge_job_logs").update();
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        Long read = transactions().execute(status -> {
            long before = readsOfLogs() + readSoFar();
            logs.sweep(null, 1_000);
            return readsOfLogs() + readSoFar() - before;
        });
        assertThat(read).isLessThan(5_000);
    }

    private long readsOfLogs() {
        return jdbc.sql("""
                SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::bigint FROM pg_class
                WHERE oid IN ('forge_job_logs'::regclass, 'forge_job_logs_pkey'::regclass)
                """).query(Long.class).single();
    }
}
