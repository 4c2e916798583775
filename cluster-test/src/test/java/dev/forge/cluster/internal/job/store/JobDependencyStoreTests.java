// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.store;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.store.JobDependencyStore.Decision;
import dev.forge.cluster.test.TestDatabase;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class JobDependencyStoreTests extends JobStoreFixture {

    private static final int WAITING = 20_000;

    private final JobDependencyStore dependencies;

    JobDependencyStoreTests(TestDatabase database) {
        super(database);
        this.dependencies = new JobDependencyStore(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    /** Makes many jobs wait for one, and returns some of them. */
    private List<UUID> waitingFor(UUID one) {
        jdbc.sql("""
                WITH added AS (
                    INSERT INTO forge_jobs (id, name, waits_for)
                    SELECT n.id, 'job', n.id FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, ?)) n RETURNING id)
                INSERT INTO forge_job_dependencies (job_id, after_id, anyway) SELECT id, ?, false FROM added
                """).params(WAITING, one).update();
        return jdbc.sql("SELECT job_id FROM forge_job_dependencies ORDER BY job_id LIMIT 500")
                .query(UUID.class)
                .list();
    }

    @Test
    void decision_reads_no_whole_table_for_each_of_many_jobs_that_wait_for_one() {
        UUID one = UUID.randomUUID();
        List<UUID> some = waitingFor(one);
        jdbc.sql("ANALYZE forge_jobs, forge_job_dependencies").update();

        transactions().executeWithoutResult(status -> {
            assertThat(dependencies.decide(some).jobs()).hasSize(500);
            assertThat(dependencies.awaited(some)).isEmpty();
            assertThat(jdbc.sql("SELECT sum(seq_tup_read) FROM pg_stat_xact_user_tables")
                            .query(Long.class)
                            .single())
                    .isLessThan(5L * WAITING);
        });
    }

    @Test
    void decision_tells_that_jobs_are_left_even_if_others_were_decided_about_meanwhile() {
        UUID one = UUID.randomUUID();
        List<UUID> some = waitingFor(one);
        // As another node does that has not yet deleted their dependencies.
        jdbc.sql("UPDATE forge_jobs SET waits_for = NULL WHERE id = ANY (?)")
                .param(some.toArray(UUID[]::new))
                .update();

        Decision decision = dependencies.decide(List.of(one));
        assertThat(decision.jobs()).hasSize(JobDependencyStore.MOST_DECIDED - some.size());
        assertThat(decision.more()).isTrue();
        assertThat(dependencies.awaited(List.of(one))).containsExactly(one);
    }
}
