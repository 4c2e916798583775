// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Verifies that no statement which nodes repeat reads the whole table, whatever the planner expects to find in it. */
@ClusterPostgres
class LargeTableTests extends JobStoreFixture {

    private static final int MANY = 20_000;
    /** The most rows that a statement may read: orphaned names are counted up to 1,000 jobs each. */
    private static final long MOST_READ = MANY / 10;

    private static final Duration RETENTION = Duration.ofDays(1);

    LargeTableTests(TestDatabase database) {
        super(database);
    }

    @Test
    void statements_read_few_rows_beside_pending_and_completed_jobs() {
        rows(MANY, "name, scheduled_at", "'job', now() + (n - 10000) * interval '1 second'");
        finished("completed");
        check();
    }

    @Test
    void statements_read_few_rows_beside_failed_jobs() {
        finished("failed");
        finished("cancelled");
        check();
    }

    @Test
    void statements_read_few_rows_beside_jobs_with_their_own_retention() {
        finished("completed");
        jdbc.sql("UPDATE forge_jobs SET retention = interval '30 days'").update();
        check();
    }

    private void finished(String status) {
        rows(
                MANY,
                "name, status, attempts, claim_epoch, worker_id, claimed_at, started_at, finished_at",
                "'job', '%s', 1, 1, '%s', now(), now(), now()".formatted(status, one));
    }

    private void check() {
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        var statements = new LinkedHashMap<String, Runnable>();
        statements.put("purge", () -> keeping.purge(new JobPurgeStore.Expiry(RETENTION, RETENTION, ""), 1_000));
        statements.put("orphaned names", () -> names.orphanedNames(10, List.of()));
        statements.put("successors", () -> successors.freeNext(null));
        statements.put("recovery", () -> recoveries.recoverFrom(one, REQUEUE, 1_000));
        statements.put("sweep", () -> recoveries.sweep(REQUEUE, overdue(false)));
        statements.put("overdue", () -> recoveries.overdue(overdue(false)));
        statements.put("unknown claims", () -> recoveries.returnUnknown(one, Set.of(), Duration.ZERO));
        statements.put("oldest age", reports::oldestAge);
        statements.put("search", () -> queues.queues(List.of("job"), List.of("general", "")));
        statements.put("claim", () -> claim(one, 10));
        Map<String, Long> costs = new LinkedHashMap<>();
        statements.forEach((name, statement) -> costs.put(name, reads(statement)));
        assertThat(costs).allSatisfy((name, read) -> assertThat(read).as(name).isLessThan(MOST_READ));
    }
}
