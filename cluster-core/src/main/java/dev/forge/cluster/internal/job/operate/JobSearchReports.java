// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobConditions;
import dev.forge.cluster.internal.runtime.Cursors;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.operations.JobCount;
import dev.forge.cluster.job.operations.JobFilter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Searches jobs by any filter. A search reads jobs in the order of an index, a thousand with each statement, and ends when it has
 * found enough, has read {@value #MOST_EXAMINED} rows or has taken two seconds. It can be continued where it ended.
 */
public final class JobSearchReports {

    /** How many rows a search reads. */
    public static final int MOST_EXAMINED = 10_000;

    private static final int CHUNK = 1_000;
    private static final Duration PATIENCE = Duration.ofSeconds(2);

    // Without values that may be large.
    private static final String SMALL_COLUMNS = JobReports.COLUMNS
            .replace("payload::text", "'{}'")
            .replace("result::text", "NULL::text")
            .replace("last_error", "NULL::text")
            .replace(JobReports.HISTORY, "NULL::text[]")
            // A list may have a thousand rows, and a compressed value can have any size.
            .replace(
                    "progress::text",
                    "CASE WHEN pg_column_size(progress) <= 2000 AND pg_column_compression(progress) IS NULL THEN progress::text END")
            .replace(
                    "CASE jsonb_typeof(metadata)",
                    "CASE WHEN pg_column_size(metadata) > 2000 OR pg_column_compression(metadata) IS NOT NULL THEN '{}'"
                            + " ELSE CASE jsonb_typeof(metadata)")
            .replace("THEN metadata ELSE '{}' END", "THEN metadata ELSE '{}' END END");

    private final Schema schema;
    private final JdbcClient client;
    private final LongSupplier nanos;

    public JobSearchReports(Schema schema, DataSource source, LongSupplier nanos) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
        this.nanos = nanos;
    }

    /**
     * A job that was found.
     *
     * @param cursor continues the search after this job
     */
    public record Hit(UUID id, String cursor) {}

    /**
     * What a search has found.
     *
     * @param examined how many rows it has read
     * @param next continues the search; null: there are no further jobs
     */
    public record Found(
            List<Hit> hits, long examined, @Nullable String next) {

        /** Returns the ids of the jobs. */
        public List<UUID> ids() {
            return hits.stream().map(Hit::id).toList();
        }
    }

    /** Where a search continues: in which walk, and after which entry; no entry: at its beginning. */
    private record Position(int walk, List<String> entry) {

        /** @throws RuntimeException if it is not a position of these walks */
        static Position of(List<JobWalk> walks, List<String> parts) {
            int walk = Integer.parseInt(parts.get(0));
            List<String> entry = parts.subList(1, parts.size());
            List<JobWalk.Column> order = walks.get(walk).order();
            if (!entry.isEmpty() && entry.size() != order.size()) {
                throw new IllegalArgumentException("an entry of another walk");
            }
            for (int i = 0; i < entry.size(); i++) {
                order.get(i).type().requireStorable(entry.get(i));
            }
            return new Position(walk, entry);
        }

        List<String> parts() {
            return Stream.concat(Stream.of(Integer.toString(walk)), entry.stream())
                    .toList();
        }
    }

    private record Row(UUID id, boolean matches, List<String> entry) {}

    /**
     * Searches jobs.
     *
     * @param call the method of the API, for messages
     * @param limit how many jobs are enough
     * @param cursor where to continue; null: begins
     * @throws IllegalArgumentException if the cursor is not one of this filter
     */
    public Found find(String call, JobFilter filter, int limit, @Nullable String cursor) {
        var cursors = new Cursors(call, "jobs " + filter);
        List<JobWalk> walks = JobWalk.of(filter);
        Position position = cursor == null
                ? new Position(0, List.of())
                : cursors.decode(cursor, parts -> Position.of(walks, parts));
        Map<String, @Nullable Object> parameters = parameters(filter);
        long began = nanos.getAsLong();
        var hits = new ArrayList<Hit>();
        long examined = 0;
        while (position.walk < walks.size()
                && examined < MOST_EXAMINED
                && nanos.getAsLong() - began < PATIENCE.toNanos()) {
            int chunk = (int) Math.min(CHUNK, MOST_EXAMINED - examined);
            List<Row> rows = read(walks.get(position.walk), position, chunk, parameters);
            for (Row row : rows) {
                examined++;
                position = new Position(position.walk, row.entry);
                if (row.matches) {
                    String after = cursors.encode(position.parts());
                    hits.add(new Hit(row.id, after));
                    if (hits.size() == limit) {
                        return new Found(hits, examined, after);
                    }
                }
            }
            if (rows.size() < chunk) {
                position = new Position(position.walk + 1, List.of());
            }
        }
        return new Found(hits, examined, position.walk == walks.size() ? null : cursors.encode(position.parts()));
    }

    /** Returns a page of the jobs that {@link #find} finds, without values that may be large. */
    public Page<JobInfo> page(String call, JobFilter filter, int limit, @Nullable String cursor) {
        Found found = find(call, filter, limit, cursor);
        return new Page<>(read(found.ids()), found.next);
    }

    /** Counts jobs as far as one search goes. */
    public JobCount count(String call, JobFilter filter) {
        Found found = find(call, filter, Integer.MAX_VALUE, null);
        return new JobCount(found.hits.size(), found.next == null);
    }

    /** Returns jobs in the order of their ids in the list, without values that may be large. Jobs that are gone are left out. */
    public List<JobInfo> read(List<UUID> ids) {
        if (ids.isEmpty()) {
            return List.of();
        }
        var jobs = new HashMap<UUID, JobInfo>();
        client.sql(schema.sql("SELECT %s FROM ~.forge_jobs WHERE id = ANY (:ids)".formatted(SMALL_COLUMNS)))
                .param("ids", ids.toArray(UUID[]::new))
                .query((row, n) -> JobReports.info(row))
                .list()
                .forEach(job -> jobs.put(job.id(), job));
        return ids.stream().map(jobs::get).filter(Objects::nonNull).toList();
    }

    private static Map<String, @Nullable Object> parameters(JobFilter filter) {
        Map<String, @Nullable Object> parameters = JobConditions.parameters(filter, JobConditions.statuses(filter));
        parameters.put("firstId", JobWalk.idAround(filter.createdFrom(), false));
        parameters.put("lastId", JobWalk.idAround(filter.createdBefore(), true));
        parameters.put("batchId", JobWalk.firstOf(filter.batch(), true));
        parameters.put("earliestBatchId", JobWalk.firstOf(filter.batch(), false));
        return parameters;
    }

    private List<Row> read(JobWalk walk, Position position, int chunk, Map<String, @Nullable Object> conditions) {
        var parameters = new HashMap<>(conditions);
        parameters.put("chunk", chunk);
        boolean continued = !position.entry.isEmpty();
        for (int i = 0; i < position.entry.size(); i++) {
            parameters.put("k" + i, walk.order().get(i).type().parse(position.entry.get(i)));
        }
        return client.sql(schema.sql(walk.statement(continued)))
                .params(parameters)
                .query((row, n) -> {
                    var entry = new ArrayList<String>();
                    for (int i = 0; i < walk.order().size(); i++) {
                        entry.add(String.valueOf(
                                row.getObject(4 + i, walk.order().get(i).type().java)));
                    }
                    return new Row(row.getObject(2, UUID.class), row.getBoolean(3), entry);
                })
                .list();
    }
}
