// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.job.operations.JobHistory;
import dev.forge.cluster.job.operations.JobHistory.Backlog;
import dev.forge.cluster.job.operations.JobHistory.Point;
import dev.forge.cluster.job.operations.JobHistory.Times;
import dev.forge.cluster.job.operations.JobHistoryQuery;
import dev.forge.cluster.job.operations.JobSummary;
import java.sql.Array;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads {@code forge_job_history}. A query for a chart reads one row for each slot of its time, however many jobs there were. */
public final class JobHistoryReports {

    /** The largest number of names that are summed up. */
    public static final int MOST_NAMES = JobHistoryCounters.MOST_NAMES;

    /** The longest time that is summed up: each name has a row for each minute. */
    public static final Duration LONGEST_SUMMARY = Duration.ofDays(1);

    /** Rows of ten minutes in 90 days, twice. */
    private static final int MOST_ROWS = 30_000;

    /** How many names are gone through. */
    private static final int MOST_WALKED = 2_000;

    private static final int MOST_POINTS = 360;

    /** Each is a multiple of those before it, so that a row lies in one step. */
    private static final List<Duration> STEPS = List.of(
            Duration.ofMinutes(1),
            Duration.ofMinutes(10),
            Duration.ofMinutes(30),
            Duration.ofHours(1),
            Duration.ofHours(3),
            Duration.ofHours(6));

    /** The names in the table, one step in the index for each. */
    private static final String NAMES = """
            RECURSIVE walk (name) AS (
                (SELECT name FROM ~.forge_job_history WHERE name > '' ORDER BY name LIMIT 1)
                UNION ALL
                SELECT (SELECT h.name FROM ~.forge_job_history h WHERE h.name > w.name ORDER BY h.name LIMIT 1)
                FROM walk w WHERE w.name IS NOT NULL),
            known (name) AS MATERIALIZED (
                SELECT name FROM (SELECT name FROM walk WHERE name IS NOT NULL LIMIT %d) AS few WHERE name <> '%s')""".formatted(MOST_WALKED, JobHistoryCounters.OTHER_NAMES);

    private final Schema schema;
    private final JdbcClient client;

    public JobHistoryReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    // Charts ------------------------------------------------------------------------------------------------

    /** Returns the history of all jobs or of one name. */
    public JobHistory read(JobHistoryQuery query) {
        Duration step = step(query.range());
        long seconds = query.range().toSeconds();
        int count = (int) ((seconds + step.toSeconds() - 1) / step.toSeconds());
        String name = query.name() == null ? JobHistoryCounters.ALL_NAMES : query.name();
        var steps = new ArrayList<Step>(count);
        for (int i = 0; i < count; i++) {
            steps.add(new Step());
        }
        Instant[] first = {Instant.EPOCH};
        @Nullable Instant[] since = {null};
        // The row of all jobs as well: it tells whether there was a sample, in which a name without jobs has no row.
        client.sql(schema.sql("""
                        SELECT b.first, h.slot, h.name, h.completed, h.failed, h.retried, h.recovered, h.due,
                               h.oldest_due_millis, h.running, h.waits, h.runs,
                               (SELECT min(r.slot) FROM ~.forge_job_history r WHERE r.name = :all)
                        FROM (SELECT date_bin(:step * interval '1 second', now(), %1$s)
                                     - :back * interval '1 second' AS first) AS b
                        LEFT JOIN LATERAL (
                            SELECT * FROM ~.forge_job_history r
                            WHERE r.name IN (:name, :all) AND r.slot >= b.first
                            ORDER BY r.slot LIMIT %2$d) AS h ON true
                        """.formatted(JobHistoryStore.ORIGIN, MOST_ROWS)))
                .param("step", step.toSeconds())
                .param("back", (count - 1) * step.toSeconds())
                .param("name", name)
                .param("all", JobHistoryCounters.ALL_NAMES)
                .query(row -> {
                    first[0] = row.getObject(1, OffsetDateTime.class).toInstant();
                    OffsetDateTime earliest = row.getObject(13, OffsetDateTime.class);
                    since[0] = earliest == null ? null : earliest.toInstant();
                    OffsetDateTime slot = row.getObject(2, OffsetDateTime.class);
                    if (slot != null) {
                        long index =
                                Duration.between(first[0], slot.toInstant()).toSeconds() / step.toSeconds();
                        // A clock that was set back leaves rows of the future.
                        if (index < count) {
                            steps.get((int) index).add(row, name);
                        }
                    }
                });
        var points = new ArrayList<Point>(count);
        for (int i = 0; i < count; i++) {
            points.add(steps.get(i).point(first[0].plus(step.multipliedBy(i))));
        }
        return new JobHistory(query.name(), step, since[0], points);
    }

    private static Duration step(Duration range) {
        return STEPS.stream()
                .filter(step -> range.compareTo(step.multipliedBy(MOST_POINTS)) <= 0)
                .findFirst()
                .orElse(STEPS.get(STEPS.size() - 1));
    }

    /** The sums of one step. */
    private static final class Step {

        private final long[] sums = new long[JobHistoryCounters.WAITS];
        private final long[] waits = new long[TimeHistogram.BUCKETS];
        private final long[] runs = new long[TimeHistogram.BUCKETS];
        private boolean sampled;
        private long due;
        private long oldestMillis;
        private long running;

        void add(ResultSet row, String name) throws SQLException {
            Long jobs = row.getObject(8, Long.class);
            sampled |= jobs != null;
            if (!name.equals(row.getString(3))) {
                return;
            }
            for (int kind = 0; kind < sums.length; kind++) {
                sums[kind] += row.getLong(4 + kind);
            }
            if (jobs != null) {
                due = Math.max(due, jobs);
                oldestMillis = Math.max(oldestMillis, row.getLong(9));
                running = Math.max(running, row.getLong(10));
            }
            addBuckets(waits, row.getArray(11));
            addBuckets(runs, row.getArray(12));
        }

        Point point(Instant at) {
            return new Point(
                    at,
                    sums[JobHistoryCounters.COMPLETED],
                    sums[JobHistoryCounters.FAILED],
                    sums[JobHistoryCounters.RETRIED],
                    sums[JobHistoryCounters.RECOVERED],
                    times(waits),
                    times(runs),
                    sampled ? new Backlog(due, Duration.ofMillis(oldestMillis), running) : null);
        }
    }

    private static void addBuckets(long[] sums, @Nullable Array column) throws SQLException {
        if (column != null && column.getArray() instanceof Number[] counts) {
            for (int i = 0; i < Math.min(sums.length, counts.length); i++) {
                sums[i] += counts[i] == null ? 0 : counts[i].longValue();
            }
        }
    }

    private static @Nullable Times times(long[] buckets) {
        Duration p50 = TimeHistogram.percentile(buckets, 50);
        Duration p95 = TimeHistogram.percentile(buckets, 95);
        return p50 == null || p95 == null ? null : new Times(p50, p95);
    }

    // Summaries ---------------------------------------------------------------------------------------------

    /** Sums up the names with the most ended attempts, at most {@link #MOST_NAMES}, in the order of the names. */
    public List<JobSummary> summaries(Duration range) {
        List<String> busiest = client.sql(schema.sql("""
                        WITH %s
                        SELECT k.name FROM known k
                        CROSS JOIN LATERAL (
                            SELECT sum(h.completed + h.failed + h.retried + h.recovered) AS ends FROM ~.forge_job_history h
                            WHERE h.name = k.name AND h.slot > now() - :range * interval '1 second') AS s
                        WHERE s.ends > 0 ORDER BY s.ends DESC, k.name LIMIT %d
                        """.formatted(NAMES, MOST_NAMES)))
                .param("range", range.toSeconds())
                .query((row, n) -> row.getString(1))
                .list();
        return summaries(range, busiest);
    }

    /** Sums up names, in their order. Names without jobs in that time are absent. */
    public List<JobSummary> summaries(Duration range, Collection<String> names) {
        return client.sql(schema.sql("""
                        WITH hist AS MATERIALIZED (
                            SELECT h.* FROM (SELECT DISTINCT unnest(:names::text[]) AS name) AS n
                            JOIN ~.forge_job_history h
                              ON h.name = n.name AND h.slot > now() - :range * interval '1 second'),
                        waited AS (%s), ran AS (%s)
                        SELECT s.*, w.counts, r.counts
                        FROM (SELECT name, sum(completed)::bigint AS completed, sum(failed)::bigint AS failed,
                                     sum(retried)::bigint AS retried, sum(recovered)::bigint AS recovered
                              FROM hist GROUP BY name) AS s
                        LEFT JOIN waited w USING (name) LEFT JOIN ran r USING (name)
                        WHERE s.completed + s.failed + s.retried + s.recovered > 0 OR w.counts IS NOT NULL
                        ORDER BY name
                        """.formatted(merged("waits"), merged("runs"))))
                .param("names", names.toArray(String[]::new))
                .param("range", range.toSeconds())
                .query((row, n) -> new JobSummary(
                        row.getString(1),
                        range,
                        row.getLong(2),
                        row.getLong(3),
                        row.getLong(4),
                        row.getLong(5),
                        times(row.getArray(6)),
                        times(row.getArray(7))))
                .list();
    }

    private static String merged(String column) {
        return """
                SELECT name, array_agg(count ORDER BY n) AS counts
                FROM (SELECT h.name, b.n, sum(b.count)::bigint AS count
                      FROM hist h CROSS JOIN LATERAL unnest(h.%s) WITH ORDINALITY AS b (count, n)
                      GROUP BY h.name, b.n) AS buckets
                GROUP BY name""".formatted(column);
    }

    private static @Nullable Times times(@Nullable Array column) throws SQLException {
        long[] buckets = new long[TimeHistogram.BUCKETS];
        addBuckets(buckets, column);
        return times(buckets);
    }

    /**
     * A name whose attempts fail.
     *
     * @param ratio the share of attempts that failed
     */
    public record Failing(String name, long failed, long retried, double ratio) {}

    /**
     * Returns names of which at least so many attempts failed, and at least that share of all attempts; those with the most failures
     * first, up to the limit.
     */
    public List<Failing> failing(Duration range, int failures, double ratio, int limit) {
        return client.sql(schema.sql("""
                        WITH %s
                        SELECT k.name, s.failed, s.retried, (s.failed + s.retried)::float8 / s.ends
                        FROM known k
                        CROSS JOIN LATERAL (
                            SELECT sum(h.failed)::bigint AS failed, sum(h.retried)::bigint AS retried,
                                   sum(h.completed + h.failed + h.retried)::bigint AS ends
                            FROM ~.forge_job_history h
                            WHERE h.name = k.name AND h.slot > now() - :range * interval '1 second') AS s
                        WHERE s.failed + s.retried >= :failures AND s.failed + s.retried >= :ratio * s.ends
                        ORDER BY s.failed + s.retried DESC, k.name LIMIT :limit
                        """.formatted(NAMES)))
                .param("range", range.toSeconds())
                .param("failures", failures)
                .param("ratio", ratio)
                .param("limit", limit)
                .query((row, n) -> new Failing(row.getString(1), row.getLong(2), row.getLong(3), row.getDouble(4)))
                .list();
    }
}
