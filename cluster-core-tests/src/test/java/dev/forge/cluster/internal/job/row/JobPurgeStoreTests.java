// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.RecordedStatements;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobNameStore.FewNames;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeRole;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Retention, purge, names and vacuum. */
@ClusterPostgres
class JobPurgeStoreTests extends JobStoreFixture {

    JobPurgeStoreTests(TestDatabase database) {
        super(database);
    }

    @Test
    void finished_jobs_are_kept_for_their_retention() {
        for (String[] row : new String[][] {
            {"completed", "2 hours", null}, {"completed", "30 minutes", null}, {"completed", "2 hours", "3 hours"},
            {"failed", "2 hours", null}, {"abandoned", "8 days", null}, {"cancelled", "2 hours", null}
        }) {
            jdbc.sql("""
                    INSERT INTO forge_jobs (id, name, status, finished_at, retention)
                    VALUES (gen_random_uuid(), :name, :status, now() - :age::interval, :retention::interval)
                    """)
                    .param("name", String.join(" ", row[0], row[1], String.valueOf(row[2])))
                    .param("status", row[0])
                    .param("age", row[1])
                    .param("retention", row[2])
                    .update();
        }
        insert();
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofHours(1), Duration.ofDays(7), ""), 100))
                .isEqualTo(3);
        assertThat(jdbc.sql("SELECT name FROM forge_jobs ORDER BY 1")
                        .query(String.class)
                        .list())
                .containsExactly(
                        "completed 2 hours 3 hours", "completed 30 minutes null", "failed 2 hours null", "job");
    }

    @Test
    void job_that_was_made_pending_by_hand_is_kept() {
        UUID id = insert();
        jdbc.sql("UPDATE forge_jobs SET finished_at = now() - interval '2 hours', retention = interval '1 hour'")
                .update();
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofHours(1), Duration.ofHours(1), ""), 10))
                .isZero();
        assertThat(column(id, "status", String.class)).isEqualTo("pending");
    }

    @Test
    void purge_reads_only_rows_that_it_deletes() {
        rows(10_000, "name, status, finished_at", "'kept', 'failed', now() - interval '6 days'");
        rows(
                5_000,
                "name, status, finished_at, retention",
                "'retained', 'completed', now() - interval '6 days', interval '30 days'");
        rows(1_000, "name, status, finished_at", "'done', 'completed', now() - interval '2 days'");
        rows(
                100,
                "name, status, finished_at, retention",
                "'own', 'failed', now() - interval '2 hours', interval '1 hour'");
        rows(5_000, "name, status, finished_at", "'fresh', 'completed', now()");
        jdbc.sql("ANALYZE forge_jobs").update();
        var deleted = new ArrayList<Integer>();
        long read = reads(() -> deleted.add(
                keeping.purge(new JobPurgeStore.Expiry(Duration.ofDays(1), Duration.ofDays(7), ""), 5_000)));
        assertThat(deleted).containsExactly(1_100);
        // Per job one entry of the index of its kind and one of the primary key.
        assertThat(read).isLessThan(2 * 1_100 + 100);
        jdbc.sql("VACUUM forge_jobs").update();
        assertThat(reads(() ->
                        keeping.purge(new JobPurgeStore.Expiry(Duration.ofDays(1), Duration.ofDays(7), ""), 5_000)))
                .isLessThan(10);
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofDays(1), Duration.ofDays(5), ""), 4_000))
                .isEqualTo(4_000);
    }

    @Test
    void full_batch_of_completed_jobs_is_followed_by_no_further_statement() {
        rows(20, "name, status, finished_at", "'done', 'completed', now() - interval '2 days'");
        var recorded = new RecordedStatements(database.dataSource());
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        var expiry = new JobPurgeStore.Expiry(Duration.ofDays(1), Duration.ofDays(7), "");
        assertThat(new JobPurgeStore(schema, recorded).purge(expiry, 10)).isEqualTo(10);
        // One that dates jobs which were ended by hand, and the deletion.
        assertThat(recorded.statements()).hasSize(2);
    }

    @Test
    void job_ended_by_hand_ages_from_the_next_purge() {
        UUID id = insert();
        jdbc.sql("UPDATE forge_jobs SET status = 'failed'").update();
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofHours(1), Duration.ofHours(1), ""), 10))
                .isZero();
        assertThat(column(id, "finished_at IS NOT NULL", Boolean.class)).isTrue();
        age("finished_at", "2 hours");
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofHours(1), Duration.ofHours(1), ""), 10))
                .isOne();
    }

    @ParameterizedTest
    @ValueSource(strings = {"soon", "2020-01-01 00:00:00+99", "2020-01-01 00:00 Foo/Bar", "294277-01-01"})
    void metadata_like_those_of_a_cron_do_not_keep_finished_jobs(String slot) {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, finished_at, metadata)
                VALUES (gen_random_uuid(), 'own', 'completed', now() - interval '2 hours',
                        jsonb_build_object('cron', 'report', 'slot', ?::text))
                """).param(slot).update();
        assertThat(keeping.purge(new JobPurgeStore.Expiry(Duration.ofHours(1), Duration.ofHours(1), ""), 10))
                .isOne();
    }

    @Test
    void expired_locks_and_dead_nodes_are_purged_in_batches() {
        jdbc.sql("""
                INSERT INTO forge_locks (lock_name, owner_node, expires_at)
                SELECT 'lock-' || n, gen_random_uuid(), now() - n * interval '1 hour' FROM generate_series(-2, 25) AS n
                """).update();
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        var locks = new LockStore(schema, database.dataSource());
        assertThat(IntStream.range(0, 4).mapToObj(i -> locks.purge(Duration.ofMinutes(30), "", 10)))
                .containsExactly(10, 10, 5, 0);
        database.clear();
        IntStream.range(0, 5).forEach(i -> node(UUID.randomUUID(), "dead"));
        jdbc.sql("UPDATE forge_nodes SET dead_at = now() - interval '1 hour'").update();
        assertThat(IntStream.range(0, 3).mapToObj(i -> nodes().purgeDead(Duration.ofMinutes(30), 3, dead -> {})))
                .containsExactly(3, 2, 0);
    }

    @Test
    void names_of_nodes_that_left_or_died_are_kept_for_a_while() {
        UUID left = UUID.randomUUID();
        UUID dead = UUID.randomUUID();
        node(left, "active");
        node(dead, "dead");
        jdbc.sql("UPDATE forge_nodes SET name = status, dead_at = now() - interval '1 hour'")
                .update();
        nodes().remove(left, id -> {});
        nodes().purgeDead(Duration.ofMinutes(30), 10, ids -> {});
        Schema schema = Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public");
        var reports = new NodeReports(schema, database.dataSource());
        assertThat(reports.all()).extracting(NodeReports.Row::id).doesNotContain(left, dead);
        assertThat(reports.names(List.of(left, dead))).isEqualTo(Map.of(left, "active", dead, "dead"));
        jdbc.sql("UPDATE forge_former_nodes SET left_at = now() - interval '2 hours' WHERE name = 'active'")
                .update();
        assertThat(nodes().forgetFormer(Duration.ofHours(1), 10)).isOne();
        assertThat(reports.names(List.of(left, dead))).isEqualTo(Map.of(dead, "dead"));
    }

    @Test
    void names_stay_registered() {
        UUID id = UUID.randomUUID();
        var introduction = new NodeStore.NewNode(
                id,
                new NodeIdentity("key", "name"),
                "host",
                Set.of(NodeRole.WORKER),
                List.of(),
                "1",
                null,
                List.of("b", "a", "b"),
                List.of(),
                Map.of());
        for (int start = 0; start < 2; start++) {
            nodes().register(introduction, new NodeStore.Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(15)));
            nodes().remove(id, leaving -> {});
        }
        jobs.insert(job("pending"));
        jdbc.sql("INSERT INTO forge_jobs (id, name, status) VALUES (gen_random_uuid(), 'held', 'running')")
                .update();
        assertThat(names.handledNames(10, List.of()))
                .isEqualTo(new FewNames(new TreeMap<>(Map.of("a", 0L, "b", 0L)), 0));
        assertThat(names.handledNames(1, List.of())).isEqualTo(new FewNames(new TreeMap<>(Map.of("a", 0L)), 1));
        assertThat(List.of("a", "b", "held", "pending")).allMatch(names::knows);
        assertThat(List.of("a", "b")).allMatch(names::hasHandler);
        assertThat(List.of("held", "pending")).noneMatch(names::hasHandler);
        assertThat(names.knows("c")).isFalse();
    }

    @Test
    void pending_names_without_a_handler_are_found() {
        jdbc.sql("UPDATE forge_nodes SET handlers = '{known}' WHERE id = ?")
                .param(one)
                .update();
        jdbc.sql("UPDATE forge_nodes SET handlers = '{of-the-dead}', status = 'dead' WHERE id = ?")
                .param(two)
                .update();
        for (String name : List.of("known", "of-the-dead", "renamed", "renamed")) {
            jobs.insert(job(name));
        }
        assertThat(names.orphanedNames(10, List.of()))
                .isEqualTo(new FewNames(new TreeMap<>(Map.of("of-the-dead", 1L, "renamed", 2L)), 0));
        assertThat(names.orphanedNames(1, List.of()))
                .isEqualTo(new FewNames(new TreeMap<>(Map.of("of-the-dead", 1L)), 1));
    }

    @Test
    void names_that_had_a_handler_come_before_made_up_ones() {
        jdbc.sql("INSERT INTO forge_job_names (name) VALUES ('idle'), ('renamed')")
                .update();
        rows(10_001, "name, scheduled_at", "'!' || n, now()");
        jobs.insert(job("renamed"));
        assertThat(names.orphanedNames(2, List.of()).first().keySet())
                .startsWith("renamed")
                .hasSize(2);
    }

    @Test
    void table_can_be_vacuumed() {
        insert();
        keeping.vacuum();
        assertThat(keeping.deadRows()).isNotNegative();
    }
}
