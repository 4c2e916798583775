// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.operate.JobRelationReports.Relations;
import dev.forge.cluster.internal.job.row.JobStoreFixture;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** Which jobs wait for which others. */
@ClusterPostgres
class JobRelationReportsTests extends JobStoreFixture {

    private final JobRelationReports relations;

    JobRelationReportsTests(TestDatabase database) {
        super(database);
        this.relations = new JobRelationReports(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource());
    }

    private void waitFor(UUID job, UUID other) {
        jdbc.sql("UPDATE forge_jobs SET waits_for = ? WHERE id = ?")
                .params(other, job)
                .update();
    }

    private void dependOn(UUID job, UUID other) {
        waitFor(job, job);
        jdbc.sql("INSERT INTO forge_job_dependencies (job_id, after_id, anyway) VALUES (?, ?, false)")
                .params(job, other)
                .update();
    }

    @Test
    void relations_have_both_directions() {
        UUID predecessor = insert();
        UUID successor = insert();
        UUID last = insert();
        UUID alone = insert();
        waitFor(successor, predecessor);
        dependOn(last, predecessor);
        dependOn(last, successor);
        Map<UUID, Relations> all = relations.of(List.of(predecessor, successor, last, alone));
        assertThat(all).containsOnlyKeys(predecessor, successor, last);
        assertThat(all.get(predecessor).awaitedBy()).containsExactlyInAnyOrder(successor, last);
        assertThat(all.get(predecessor).waitsFor()).isEmpty();
        assertThat(all.get(successor)).isEqualTo(new Relations(List.of(predecessor), null, List.of(last)));
        assertThat(all.get(last).waitsFor()).containsExactlyInAnyOrder(predecessor, successor);
        assertThat(all.get(last).awaitedBy()).isEmpty();
        assertThat(relations.of(List.of())).isEmpty();
        assertThat(relations.of(List.of(UUID.randomUUID()))).isEmpty();
    }

    @Test
    void job_that_has_ended_waits_for_nothing() {
        UUID predecessor = insert();
        UUID successor = insert();
        waitFor(successor, predecessor);
        jdbc.sql("UPDATE forge_jobs SET status = 'cancelled', finished_at = now() WHERE id = ?")
                .param(successor)
                .update();
        assertThat(relations.of(List.of(predecessor, successor))).isEmpty();
    }

    @Test
    void batch_that_a_job_waits_for_is_named_as_one() {
        UUID batch = UUID.randomUUID();
        jdbc.sql("INSERT INTO forge_job_batches (id, name) VALUES (?, 'import')")
                .param(batch)
                .update();
        UUID callback = insert();
        waitFor(callback, batch);
        assertThat(relations.of(List.of(callback)))
                .isEqualTo(Map.of(callback, new Relations(List.of(), batch, List.of())));
    }

    @Test
    void relations_of_one_job_are_few() {
        UUID predecessor = insert();
        rows(1_000, "name, waits_for", "'job', '%s'".formatted(predecessor));
        rows(1_000, "name", "'later'");
        jdbc.sql("INSERT INTO forge_job_dependencies SELECT id, ?, false FROM forge_jobs WHERE name = 'later'")
                .param(predecessor)
                .update();
        UUID last = insert();
        waitFor(last, last);
        jdbc.sql("INSERT INTO forge_job_dependencies SELECT ?, id, false FROM forge_jobs WHERE name = 'later'")
                .param(last)
                .update();
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        jdbc.sql("VACUUM ANALYZE forge_job_dependencies").update();
        Map<UUID, Relations> few = relations.of(List.of(predecessor, last));
        assertThat(few.get(predecessor).awaitedBy()).hasSize(JobRelationReports.MOST_RELATED);
        assertThat(few.get(last).waitsFor()).hasSize(JobRelationReports.MOST_RELATED);
        assertThat(reads(() -> relations.of(List.of(predecessor, last)))).isLessThan(200);
    }
}
