// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.row.JobConditions;
import dev.forge.cluster.job.JobCount;
import dev.forge.cluster.job.JobFilter;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPage;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.function.LongSupplier;
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
    private static final String SEPARATOR = "\n";

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
    private record Position(int walk, List<String> entry) {}

    private record Row(UUID id, boolean matches, List<String> entry) {}

    /**
     * Searches jobs.
     *
     * @param limit how many jobs are enough
     * @param cursor where to continue; null: begins
     * @throws IllegalArgumentException if the cursor is not one of this filter
     */
    public Found find(JobFilter filter, int limit, @Nullable String cursor) {
        List<JobWalk> walks = JobWalk.of(filter);
        Position position = cursor == null ? new Position(0, List.of()) : parse(filter, walks, cursor);
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
                    String after = text(filter, position);
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
        return new Found(hits, examined, position.walk == walks.size() ? null : text(filter, position));
    }

    /** Returns a page of the jobs that {@link #find} finds, without values that may be large. */
    public JobPage page(JobFilter filter, int limit, @Nullable String cursor) {
        Found found = find(filter, limit, cursor);
        boolean cutOff = found.next != null && found.hits.size() < limit;
        return new JobPage(read(found.ids()), found.examined, cutOff, found.next);
    }

    /** Counts jobs as far as one search goes. */
    public JobCount count(JobFilter filter) {
        Found found = find(filter, Integer.MAX_VALUE, null);
        return new JobCount(found.hits.size(), found.next == null);
    }

    /** Returns jobs in the order of their ids in the list, without values that may be large. Jobs that are gone are left out. */
    public List<JobInfo> read(List<UUID> ids) {
        if (ids.isEmpty()) {
            return List.of();
        }
        var jobs = new HashMap<UUID, JobInfo>();
        client.sql(schema.sql(
                        "SELECT %s FROM ~.forge_jobs WHERE id = ANY (:ids)".formatted(JobListReports.SMALL_COLUMNS)))
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

    // Cursors -----------------------------------------------------------------------------------------------

    private static String text(JobFilter filter, Position position) {
        var parts = new ArrayList<String>();
        parts.add(fingerprint(filter));
        parts.add(Integer.toString(position.walk));
        parts.addAll(position.entry);
        return Base64.getUrlEncoder()
                .withoutPadding()
                .encodeToString(String.join(SEPARATOR, parts).getBytes(StandardCharsets.UTF_8));
    }

    private static Position parse(JobFilter filter, List<JobWalk> walks, String cursor) {
        try {
            String text = new String(Base64.getUrlDecoder().decode(cursor), StandardCharsets.UTF_8);
            List<String> parts = List.of(text.split(SEPARATOR, -1));
            int walk = Integer.parseInt(parts.get(1));
            List<String> entry = parts.subList(2, parts.size());
            List<JobWalk.Column> order = walks.get(walk).order();
            if (parts.get(0).equals(fingerprint(filter)) && (entry.isEmpty() || entry.size() == order.size())) {
                for (int i = 0; i < entry.size(); i++) {
                    order.get(i).type().requireStorable(entry.get(i));
                }
                return new Position(walk, entry);
            }
        } catch (RuntimeException e) {
            throw new IllegalArgumentException(invalid(), e);
        }
        throw new IllegalArgumentException(invalid());
    }

    private static String invalid() {
        return "The cursor does not belong to this filter: use the cursor of the previous page, with the same filter";
    }

    private static String fingerprint(JobFilter filter) {
        return Integer.toHexString(filter.toString().hashCode());
    }
}
