// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.operate.JobReports.Count;
import dev.forge.cluster.internal.job.row.JobStoreFixture;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Lists and counts of jobs, and how many rows they read. */
@ClusterPostgres
class JobReportsTests extends JobStoreFixture {

    JobReportsTests(TestDatabase database) {
        super(database);
    }

    @Test
    void list_omits_compressed_values_of_unknown_size() {
        String large = "jsonb_build_object('text', repeat('x', 100000))";
        rows(1, "name, progress, metadata", "'large', %s, %s".formatted(large, large));
        rows(1, "name, progress, metadata", "'small', '{\"percent\": 1}', '{\"tenant\": \"a\"}'");
        assertThat(jdbc.sql("SELECT max(pg_column_size(progress)) FROM forge_jobs")
                        .query(Integer.class)
                        .single())
                .isLessThan(2_000);
        assertThat(search.page("test", JobFilter.all(), 10, null).items())
                .hasSize(2)
                .allSatisfy(job -> {
                    boolean small = job.name().equals("small");
                    assertThat(job.progress()).isEqualTo(small ? "{\"percent\": 1}" : null);
                    assertThat(job.metadata()).isEqualTo(small ? Map.of("tenant", "a") : Map.of());
                });
    }

    @Test
    void count_of_unfinished_jobs_is_limited_and_reads_nothing_else() {
        rows(30_000, "name, scheduled_at", "'many', now()");
        rows(20_000, "name, status, finished_at", "'many', 'completed', now()");
        rows(3, "name, priority", "'few', n");
        rows(2, "name, status, worker_id", "'few', 'running', '%s'".formatted(one));
        rows(4, "name, unique_key, waits_for", "'few', n::text, gen_random_uuid()");
        rows(1, "name, status", "'only-held', 'claimed'");
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        var counts = new ArrayList<Count>();
        long read = reads(() -> counts.addAll(reports.unfinished()));
        assertThat(counts)
                .containsExactly(
                        new Count("few", JobStatus.PENDING, 7),
                        new Count("few", JobStatus.RUNNING, 2),
                        new Count("many", JobStatus.PENDING, JobReports.MOST_COUNTED),
                        new Count("only-held", JobStatus.CLAIMED, 1));
        assertThat(read).isLessThan(JobReports.MOST_COUNTED + 100);
    }

    @Test
    void names_beyond_a_thousand_are_counted_together() {
        rows(3_000, "name", "'junk-' || n");
        rows(1, "name, unique_key, waits_for", "'yet-another', 'k', gen_random_uuid()");
        rows(2, "name", "'with-handler'");
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('with-handler'), ('idle')")
                .update();
        List<Count> counts = reports.unfinished();
        assertThat(counts)
                .hasSizeLessThan(1_010)
                .contains(
                        new Count("with-handler", JobStatus.PENDING, 2),
                        new Count(JobReports.OTHER_NAMES, JobStatus.PENDING, 2_001))
                .noneMatch(count -> count.name().equals("idle"));
        assertThat(counts.stream().mapToLong(Count::jobs).sum()).isEqualTo(3_003);
    }

    @Test
    void oldest_job_is_found_by_the_heads_of_the_queues() {
        jdbc.sql("INSERT INTO forge_job_names (name) SELECT chr(c) FROM generate_series(ascii('a'), ascii('z')) AS c")
                .update();
        assertThat(reports.oldestAge()).isZero();
        rows(1, "name, scheduled_at", "'a', now() + interval '1 hour'");
        assertThat(reports.oldestAge()).isZero();
        rows(10_000, "name, priority, scheduled_at", "'b', 10 * (n % 3), now() - interval '1 minute'");
        rows(
                10_000,
                "name, worker_capability, scheduled_at",
                "'c', (ARRAY[NULL, 'cpu', 'gpu'])[n % 3 + 1], now() - interval '2 minutes'");
        rows(5_000, "name, waits_for, scheduled_at", "'d', gen_random_uuid(), now() - interval '1 day'");
        jdbc.sql("ANALYZE forge_jobs").update();
        // The oldest job is in the last queue of a name, of a capability, and of all.
        for (String oldest : List.of("'b', 0, NULL", "'c', 50, 'cpu'", "'c', 50, 'gpu'", "'z', 0, 'gpu'")) {
            rows(1, "name, priority, worker_capability, scheduled_at", oldest + ", now() - interval '1 hour'");
            assertThat(reports.oldestAge()).as(oldest).isBetween(Duration.ofMinutes(60), Duration.ofMinutes(61));
            jdbc.sql("DELETE FROM forge_jobs WHERE scheduled_at < now() - interval '59 minutes' AND waits_for IS NULL")
                    .update();
        }
        assertThat(reports.oldestAge()).isBetween(Duration.ofMinutes(2), Duration.ofMinutes(4));
        assertThat(reads(() -> reports.oldestAge())).isLessThan(250);
    }

    @Test
    void jobs_that_no_node_knows_neither_hide_the_oldest_one_nor_count_as_such() {
        rows(11_000, "name, scheduled_at", "'!' || n, now() + interval '800 years'");
        rows(1, "name, scheduled_at", "'nobody', now() - interval '1 year'");
        rows(1, "name, scheduled_at", "'known', now() - interval '1 hour'");
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('known')").update();
        assertThat(reports.oldestAge()).isBetween(Duration.ofMinutes(60), Duration.ofMinutes(61));
    }

    @Test
    void capabilities_that_nobody_offers_do_not_hide_the_oldest_job() {
        jdbc.sql("UPDATE forge_nodes SET worker_capabilities = '{zgpu}'").update();
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('known')").update();
        rows(11_000, "name, worker_capability", "'known', 'junk-' || n");
        rows(1, "name, worker_capability, scheduled_at", "'known', 'zgpu', now() - interval '1 hour'");
        assertThat(reports.oldestAge()).isBetween(Duration.ofMinutes(60), Duration.ofMinutes(61));
    }
}
