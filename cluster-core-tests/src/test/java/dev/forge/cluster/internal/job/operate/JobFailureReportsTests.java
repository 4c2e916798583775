// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.operate.JobFailureReports.Failed;
import dev.forge.cluster.internal.job.row.JobStoreFixture;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Jobs that failed recently, at a cost that does not depend on the number of jobs. */
@ClusterPostgres
class JobFailureReportsTests extends JobStoreFixture {

    JobFailureReportsTests(TestDatabase database) {
        super(database);
    }

    private JobFailureReports reports() {
        return new JobFailureReports(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    @Test
    void failed_and_abandoned_jobs_are_counted_by_name() {
        rows(3, "name, status, finished_at", "'mail', 'failed', now() - interval '2 hours'");
        rows(1, "name, status, finished_at", "'mail', 'abandoned', now() - interval '2 hours'");
        rows(2, "name, status, finished_at, retention", "'kept', 'failed', now(), interval '30 days'");
        rows(5, "name, status, finished_at", "'old', 'failed', now() - interval '2 days'");
        rows(5, "name, status, finished_at", "'workflow:a@1', 'failed', now()");
        rows(5, "name, status, finished_at", "'good', 'completed', now()");
        rows(5, "name, status, finished_at, retention", "'good', 'completed', now(), interval '1 day'");
        assertThat(reports().failed(Duration.ofDays(1), List.of("workflow:"), 10))
                .containsExactly(
                        new Failed("mail", JobStatus.FAILED, 3),
                        new Failed("kept", JobStatus.FAILED, 2),
                        new Failed("mail", JobStatus.ABANDONED, 1));
        assertThat(reports().failed(Duration.ofDays(1), List.of(), 2))
                .extracting(Failed::name)
                .containsExactly("workflow:a@1", "mail");
    }

    @Test
    void count_reads_a_bounded_number_of_rows() {
        rows(20_000, "name, status, finished_at", "'bad', 'failed', now() - n * interval '1 second'");
        rows(20_000, "name, status, finished_at", "'good', 'completed', now()");
        rows(
                20_000,
                "name, status, finished_at, retention",
                "'own', 'completed', now() - n * interval '1 second', interval '30 days'");
        jdbc.sql("ANALYZE forge_jobs").update();
        JobFailureReports reports = reports();
        assertThat(reads(() -> reports.failed(Duration.ofDays(1), List.of(), 10)))
                .isLessThan(5 * JobFailureReports.MOST_COUNTED);
        assertThat(reports.failed(Duration.ofDays(1), List.of(), 10))
                .containsExactly(new Failed("bad", JobStatus.FAILED, JobFailureReports.MOST_COUNTED));
    }
}
