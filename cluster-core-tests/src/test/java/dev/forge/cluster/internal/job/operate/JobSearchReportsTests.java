// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.operate.JobSearchReports.Found;
import dev.forge.cluster.internal.job.operate.JobSearchReports.Hit;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobPurgeStore;
import dev.forge.cluster.internal.job.row.JobStoreFixture;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.UniquePolicy;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** Searches of jobs: they are complete, continue where they ended, and read a bounded number of rows. */
@ClusterPostgres
class JobSearchReportsTests extends JobStoreFixture {

    private static final int MANY = 30_000;

    private final UUID batch = batchAt(Instant.now().minus(java.time.Duration.ofHours(40)));

    JobSearchReportsTests(TestDatabase database) {
        super(database);
    }

    private JobSearchReports searchWith(java.util.function.LongSupplier nanos) {
        return new JobSearchReports(
                Schema.open(database.dataSource(), SchemaMode.VALIDATE, "public"), database.dataSource(), nanos);
    }

    private static JobFilter all() {
        return JobFilter.all();
    }

    /** Returns the ids of all pages. */
    private List<UUID> pages(JobFilter filter, int limit) {
        var ids = new ArrayList<UUID>();
        String cursor = null;
        do {
            Found found = search.find("test", filter, limit, cursor);
            assertThat(found.hits()).hasSizeLessThanOrEqualTo(limit);
            ids.addAll(found.ids());
            cursor = found.next();
        } while (cursor != null);
        return ids;
    }

    /** Inserts tags of rows that were inserted by hand. */
    private void writeTags() {
        jdbc.sql("INSERT INTO forge_job_tags SELECT unnest(tags::text[]), id FROM forge_jobs WHERE tags IS NOT NULL")
                .update();
    }

    /** Returns the id of a batch that was opened then. */
    private static UUID batchAt(Instant time) {
        return new UUID(time.toEpochMilli() << 16 | 0x7000, 0x8000_0000_0000_0001L);
    }

    private void mixedJobs() {
        // Ids that the cluster makes begin with the time; every tenth time is shared by several jobs.
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, status, priority, worker_capability, job_group, unique_key, tags, metadata,
                                        created_at, scheduled_at, finished_at, retention, last_error)
                SELECT (lpad(to_hex((extract(epoch FROM now() - n * interval '10 minutes') * 1000)::bigint), 12, '0')
                        || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid,
                       'job' || n % 3, status, (n % 4) * 25, CASE WHEN n % 5 = 0 THEN 'gpu' END,
                       CASE WHEN n % 4 = 0 THEN 'g' || n % 3 END,
                       CASE WHEN n % 6 = 0 THEN 'key' || n END,
                       CASE WHEN n % 7 = 0 THEN ARRAY['red', 'big'] WHEN n % 7 = 1 THEN ARRAY['red'] END,
                       jsonb_build_object('tenant', 't' || n % 5, 'region', 'r' || n % 2),
                       now() - n * interval '10 minutes',
                       CASE WHEN n % 50 = 0 THEN 'infinity' ELSE now() + (n / 10) * interval '1 hour' END,
                       CASE WHEN status IN ('completed', 'failed', 'cancelled', 'abandoned')
                            THEN now() - (n / 10) * interval '1 hour' END,
                       CASE WHEN n % 8 = 0 AND status IN ('completed', 'failed') THEN interval '30 days' END,
                       CASE WHEN n % 9 = 0 THEN 'connection to bank' || n % 2 || ' refused' END
                FROM (SELECT n, (ARRAY['pending', 'claimed', 'running', 'completed', 'failed', 'cancelled', 'abandoned'])[
                                    1 + (n / 2) % 7] AS status
                      FROM generate_series(1, 700) AS n) AS numbered
                """).update();
        jdbc.sql("""
                UPDATE forge_jobs SET waits_for = gen_random_uuid() WHERE status = 'pending' AND unique_key IS NOT NULL
                """).update();
        // Five hours before the batch, as if the clocks of the nodes differed, up to two hours after it.
        jdbc.sql(
                        "UPDATE forge_jobs SET batch_id = ? WHERE name = 'job1' AND created_at BETWEEN now() - interval '45 hours' AND now() - interval '38 hours'")
                .param(batch)
                .update();
        writeTags();
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
    }

    @Test
    void pages_of_a_search_contain_each_matching_job_once() {
        mixedJobs();
        Instant older = Instant.now().minus(java.time.Duration.ofHours(60));
        Instant newer = Instant.now().minus(java.time.Duration.ofHours(20));
        var filters = new LinkedHashMap<JobFilter, String>();
        filters.put(all(), "true");
        filters.put(all().withName("job1"), "name = 'job1'");
        for (JobStatus status : JobStatus.values()) {
            String word = "status = '%s'".formatted(status.name().toLowerCase(java.util.Locale.ROOT));
            filters.put(all().withStatuses(status), word);
            filters.put(all().withStatuses(status).withName("job2"), word + " AND name = 'job2'");
        }
        filters.put(
                all().withStatuses(JobStatus.PENDING, JobStatus.RUNNING, JobStatus.FAILED),
                "status IN ('pending', 'running', 'failed')");
        filters.put(all().withTags("red"), "tags::text[] @> '{red}'");
        filters.put(
                all().withTags("red", "big").withStatuses(JobStatus.FAILED),
                "tags::text[] @> '{red,big}' AND status = 'failed'");
        filters.put(all().withTags("none"), "false");
        filters.put(all().withGroup("g1"), "job_group = 'g1'");
        filters.put(all().withGroup("g1").withName("job1"), "job_group = 'g1' AND name = 'job1'");
        String ofBatch = "batch_id = '%s'".formatted(batch);
        filters.put(all().withBatch(batch), ofBatch);
        filters.put(all().withBatch(batch).withStatuses(JobStatus.FAILED), ofBatch + " AND status = 'failed'");
        filters.put(all().withBatch(batch).withTags("red"), ofBatch + " AND tags::text[] @> '{red}'");
        filters.put(all().withBatch(batch).withName("job0"), "false");
        filters.put(
                all().withBatch(batch).withCreatedFrom(Instant.now().minus(java.time.Duration.ofHours(41))),
                ofBatch + " AND created_at >= now() - interval '41 hours'");
        filters.put(all().withBatch(new UUID(1, 2)), "false");
        filters.put(all().withUniqueKey("key12"), "unique_key = 'key12'");
        filters.put(all().withUniqueKey("key12").withName("job0"), "unique_key = 'key12' AND name = 'job0'");
        filters.put(
                all().withUniqueKey("key12").withName("job0").withStatuses(JobStatus.COMPLETED),
                "unique_key = 'key12' AND name = 'job0' AND status = 'completed'");
        filters.put(
                all().withMetadata("tenant", "t3").withMetadata("region", "r1"),
                "metadata ->> 'tenant' = 't3' AND metadata ->> 'region' = 'r1'");
        filters.put(all().withError("bank1"), "last_error LIKE '%bank1%' AND status IN ('failed', 'abandoned')");
        filters.put(
                all().withError("refused").withStatuses(JobStatus.PENDING, JobStatus.FAILED),
                "last_error LIKE '%refused%' AND status IN ('pending', 'failed')");
        filters.put(all().withCreatedFrom(older), "created_at >= '%s'".formatted(older));
        filters.put(
                all().withCreatedFrom(older).withCreatedBefore(newer),
                "created_at >= '%s' AND created_at < '%s'".formatted(older, newer));
        filters.put(
                all().withFinishedFrom(older).withFinishedBefore(newer),
                "finished_at >= '%s' AND finished_at < '%s'".formatted(older, newer));
        filters.put(
                all().withFinishedBefore(newer).withStatuses(JobStatus.FAILED).withName("job0"),
                "finished_at < '%s' AND status = 'failed' AND name = 'job0'".formatted(newer));
        filters.forEach((filter, condition) -> {
            List<UUID> expected = jdbc.sql("SELECT id FROM forge_jobs WHERE " + condition)
                    .query(UUID.class)
                    .list();
            assertThat(pages(filter, 7)).as(filter.toString()).containsExactlyInAnyOrderElementsOf(expected);
            assertThat(search.count("test", filter))
                    .as(filter.toString())
                    .isEqualTo(new JobCount(expected.size(), true));
        });
    }

    @Test
    void search_without_an_index_is_cut_off_and_continues() {
        rows(1, "name, status, finished_at, metadata", "'job', 'completed', now(), '{\"tenant\": \"rare\"}'");
        UUID rare = jdbc.sql("SELECT id FROM forge_jobs").query(UUID.class).single();
        rows(MANY - 1, "name, status, finished_at", "'job', 'completed', now()");
        JobFilter filter = all().withMetadata("tenant", "rare");
        Found first = search.find("test", filter, 10, null);
        assertThat(first.hits()).isEmpty();
        assertThat(first.examined()).isEqualTo(JobSearchReports.MOST_EXAMINED);
        assertThat(first.next()).isNotNull();
        assertThat(search.count("test", filter)).isEqualTo(new JobCount(0, false));
        Found second = search.find("test", filter, 10, first.next());
        assertThat(second.hits()).isEmpty();
        Found third = search.find("test", filter, 10, second.next());
        assertThat(third.hits()).extracting(Hit::id).containsExactly(rare);
        assertThat(pages(filter, 10)).containsExactly(rare);
    }

    @Test
    void jobs_of_a_batch_are_searched_from_its_opening_on_oldest_first() {
        UUID opened = batchAt(Instant.now());
        rows(MANY, "name", "'job'");
        // An hour before the batch: read last, because jobs of the batch are hardly there.
        idsAt("now() - interval '1 hour'", 12_000, "NULL");
        idsAt("now() + n * interval '1 second'", 6, "'%s'".formatted(opened));
        idsAt("now() + interval '1 hour'", 3_000, "NULL");
        List<UUID> expected = jdbc.sql("SELECT id FROM forge_jobs WHERE batch_id = ? ORDER BY id")
                .param(opened)
                .query(UUID.class)
                .list();
        JobSearchReports timeless = searchWith(() -> 0);
        Found first = timeless.find("test", all().withBatch(opened), 4, null);
        assertThat(first.ids()).isEqualTo(expected.subList(0, 4));
        assertThat(first.examined()).isEqualTo(4);
        Found second = timeless.find("test", all().withBatch(opened), 4, first.next());
        assertThat(second.ids()).isEqualTo(expected.subList(4, 6));
        assertThat(second.examined()).isEqualTo(JobSearchReports.MOST_EXAMINED);
        assertThat(pages(all().withBatch(opened), 4)).isEqualTo(expected);
    }

    /** Inserts jobs whose ids have that time. */
    private void idsAt(String time, int count, String batch) {
        jdbc.sql("""
                INSERT INTO forge_jobs (id, name, batch_id)
                SELECT (lpad(to_hex((extract(epoch FROM %s) * 1000)::bigint), 12, '0')
                        || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid, 'job', %s::uuid
                FROM generate_series(1, %d) AS n
                """.formatted(time, batch, count)).update();
    }

    @Test
    void search_ends_when_its_time_is_over() {
        rows(5_000, "name", "'job'");
        long[] time = {0};
        // Each look at the clock takes a second.
        JobSearchReports slow = searchWith(() -> time[0] += 1_000_000_000L);
        Found found = slow.find("test", all().withName("other"), 10, null);
        assertThat(found.examined()).isBetween(1L, 2_000L);
        assertThat(found.next()).isNotNull();
    }

    @Test
    void each_page_reads_few_rows_beside_many_jobs() {
        String ended = "worker_id, claimed_at, started_at, finished_at";
        String values = "'%s', now(), now(), now() - n * interval '1 second'".formatted(one);
        rows(MANY, "name, status, " + ended, "'job', 'completed', " + values);
        rows(MANY, "name, status, last_error, " + ended, "'job', 'failed', 'refused', " + values);
        rows(MANY, "name, scheduled_at", "'job', now() + n * interval '1 second'");
        rows(MANY, "name, job_group, scheduled_at", "'job', 'acme', now() + n * interval '1 second'");
        rows(
                MANY,
                "name, status, tags, finished_at",
                "'job', 'cancelled', CASE WHEN n % 2 = 0 THEN ARRAY['red'] ELSE ARRAY['blue'] END, now()");
        rows(20, "name, status, worker_id, unique_key", "'job', 'running', '%s', n::text".formatted(one));
        writeTags();
        jdbc.sql("VACUUM ANALYZE forge_jobs").update();
        jdbc.sql("VACUUM ANALYZE forge_job_tags").update();
        var filters = new LinkedHashMap<String, JobFilter>();
        filters.put("tag", all().withTags("red"));
        filters.put("group", all().withGroup("acme"));
        filters.put("group and name", all().withGroup("acme").withName("job"));
        filters.put("pending", all().withStatuses(JobStatus.PENDING).withName("job"));
        filters.put("pending of any name", all().withStatuses(JobStatus.PENDING));
        filters.put("running", all().withStatuses(JobStatus.RUNNING));
        filters.put("failed", all().withStatuses(JobStatus.FAILED));
        filters.put("error", all().withError("refused"));
        filters.put("finished", all().withFinishedBefore(Instant.now()));
        filters.put("newest", all());
        filters.put("active key", all().withUniqueKey("7").withName("job").withStatuses(JobStatus.RUNNING));
        Map<String, Long> costs = new LinkedHashMap<>();
        filters.forEach((name, filter) -> {
            String[] cursor = {null};
            costs.put(
                    name,
                    reads(() ->
                            cursor[0] = search.find("test", filter, 100, null).next()));
            if (cursor[0] != null) {
                costs.put(name + ", next page", reads(() -> search.find("test", filter, 100, cursor[0])));
            }
        });
        // A chunk has a thousand rows, each branch of a statement reads no more.
        assertThat(costs).allSatisfy((name, read) -> assertThat(read).as(name).isLessThan(8_000));
        // A hundred thousand rows without an index are read up to the bound.
        assertThat(reads(() -> search.find("test", all().withMetadata("a", "b"), 10, null)))
                .isLessThan(2L * JobSearchReports.MOST_EXAMINED);
        assertThat(reads(() -> search.find("test", all().withBatch(new UUID(1, 2)), 10, null)))
                .isLessThan(2L * JobSearchReports.MOST_EXAMINED);
    }

    @Test
    void cursor_of_another_filter_is_rejected() {
        rows(10, "name", "'job'");
        String cursor = search.find("test", all(), 3, null).next();
        assertThat(cursor).isNotNull();
        for (String wrong : List.of("", "x", "!", cursor.substring(4), cursor + "AAAA")) {
            assertThatIllegalArgumentException()
                    .as(wrong)
                    .isThrownBy(() -> search.find("test", all(), 3, wrong))
                    .withMessageContaining("test: cursor '%s'", wrong);
        }
        assertThatIllegalArgumentException().isThrownBy(() -> search.find("test", all().withName("job"), 3, cursor));
    }

    // Tags --------------------------------------------------------------------------------------------------

    private static NewJob tagged(String... tags) {
        return new NewJob(UUID.randomUUID(), "job", "{}", 50, null, 0, null, null, "{}", null, List.of(tags));
    }

    private List<String> tags() {
        return jdbc.sql("SELECT tag FROM forge_job_tags ORDER BY tag")
                .query(String.class)
                .list();
    }

    @Test
    void tags_follow_the_job() {
        NewJob single = tagged("a", "b");
        jobs.insert(single);
        assertThat(reports.find(single.id()).orElseThrow().tags()).containsExactly("a", "b");
        assertThat(search.find("test", all().withTags("b"), 10, null).ids()).containsExactly(single.id());
        jobs.insertAll(List.of(tagged("c"), tagged("c")));
        assertThat(tags()).containsExactly("a", "b", "c", "c");
        jdbc.sql("UPDATE forge_jobs SET tags = '{b,d}' WHERE id = ?")
                .param(single.id())
                .update();
        assertThat(tags()).containsExactly("b", "c", "c", "d");
        jdbc.sql("DELETE FROM forge_jobs").update();
        assertThat(tags()).isEmpty();
    }

    @Test
    void job_that_replaces_another_has_its_own_tags() {
        unique.insertUnique(tagged("old"), "key", UniquePolicy.REPLACE);
        UUID id = unique.insertUnique(tagged("new"), "key", UniquePolicy.REPLACE);
        assertThat(tags()).containsExactly("new");
        assertThat(unique.insertUnique(tagged("other"), "key", UniquePolicy.KEEP))
                .isEqualTo(id);
        assertThat(tags()).containsExactly("new");
        unique.insertUnique(tagged(), "key", UniquePolicy.REPLACE);
        assertThat(tags()).isEmpty();
    }

    @Test
    void purge_deletes_the_tags_of_its_jobs() {
        jobs.insert(tagged("a"));
        finishes.finish(one, List.of(completed(claimOne(one), null)));
        age("finished_at", "2 days");
        assertThat(keeping.purge(
                        new JobPurgeStore.Expiry(java.time.Duration.ofDays(1), java.time.Duration.ofDays(1), ""), 10))
                .isEqualTo(1);
        assertThat(tags()).isEmpty();
    }

    @Test
    void change_of_a_status_writes_no_tag() {
        jobs.insert(tagged("a", "b"));
        Long written = transactions().execute(status -> {
            long before = writesOfTags();
            finishes.finish(one, List.of(completed(claimOne(one), null)));
            return writesOfTags() - before;
        });
        assertThat(written).isZero();
        assertThat(status(
                        jdbc.sql("SELECT id FROM forge_jobs").query(UUID.class).single()))
                .isEqualTo("completed");
        // An index over tags would cost each change of a status an entry.
        assertThat(jdbc.sql("SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'forge_jobs'::regclass")
                        .query(String.class)
                        .list())
                .isNotEmpty()
                .noneMatch(index -> index.contains("tags"));
    }

    private long writesOfTags() {
        return jdbc.sql("""
                SELECT pg_stat_get_xact_tuples_inserted(c) + pg_stat_get_xact_tuples_updated(c)
                     + pg_stat_get_xact_tuples_deleted(c) FROM (SELECT 'forge_job_tags'::regclass AS c) AS tags
                """).query(Long.class).single();
    }
}
