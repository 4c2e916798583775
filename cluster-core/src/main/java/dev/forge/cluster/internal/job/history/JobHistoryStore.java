// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.history;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.history.JobHistoryCounters.Row;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionOperations;

/** Writes {@code forge_job_history}. */
public final class JobHistoryStore {

    /** The time from which all slots are counted, so that they do not depend on the time zone of the session. */
    static final String ORIGIN = "'2000-01-01 00:00:00+00'::timestamptz";

    /** Minutes are kept this long. */
    static final Duration BY_MINUTE = Duration.ofHours(6);

    private static final String THIS_MINUTE = "date_bin('1 minute', now(), %s)".formatted(ORIGIN);

    private static final String ADDING_COUNTS = """
            completed = h.completed + excluded.completed, failed = h.failed + excluded.failed,
            retried = h.retried + excluded.retried, recovered = h.recovered + excluded.recovered,
            waits = %s, runs = %s""".formatted(sum("waits"), sum("runs"));

    /** The largest of the samples; NULL counts for nothing. */
    private static final String ADDING_SAMPLES = """
            due = greatest(h.due, excluded.due), oldest_due_millis = greatest(h.oldest_due_millis, excluded.oldest_due_millis),
            running = greatest(h.running, excluded.running)""";

    private final Schema schema;
    private final JdbcClient client;
    private final TransactionOperations transaction;

    public JobHistoryStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
        this.transaction = OwnTransactions.separate(source);
    }

    /** The shorter array is extended with NULL. */
    private static String sum(String column) {
        return """
                ARRAY(SELECT least(coalesce(b.old, 0)::bigint + coalesce(b.new, 0), 2147483647)::int
                      FROM unnest(h.%1$s, excluded.%1$s) WITH ORDINALITY AS b (old, new, n) ORDER BY b.n)""".formatted(column);
    }

    /** Returns transactions on the same source: the changes of a leader are rolled back if its term is over. */
    TransactionOperations transaction() {
        return transaction;
    }

    // What nodes have counted -------------------------------------------------------------------------------

    /** Whether rows were added. */
    sealed interface Added {}

    /** The rows were added. */
    record Written() implements Added {}

    /** The response to the commit was lost. {@link #outcome} says later whether the rows were added. */
    record InDoubt(String transaction) implements Added {}

    /**
     * Adds numbers to the rows of the present minute, by the database's clock.
     *
     * @param rows with different names
     * @throws DataAccessException if nothing was added
     */
    Added add(List<Row> rows) {
        var id = new AtomicReference<String>();
        try {
            transaction.executeWithoutResult(status -> id.set(insert(rows)));
            return new Written();
        } catch (RuntimeException e) {
            String known = id.get();
            if (known == null || DatabaseFailure.kind(e).isAnswered()) {
                throw e;
            }
            return new InDoubt(known);
        }
    }

    /** Returns the id of the transaction. */
    private String insert(List<Row> rows) {
        // In the order of the key: nodes that write the same rows must not lock them in different orders.
        return client.sql(schema.sql("""
                        INSERT INTO ~.forge_job_history AS h (name, slot, minutes, completed, failed, retried, recovered, waits, runs)
                        SELECT r.name, %s, 1, r.counts[1], r.counts[2], r.counts[3], r.counts[4], r.waits, r.runs
                        FROM (SELECT name, counts::bigint[] AS counts, waits::int[] AS waits, runs::int[] AS runs
                              FROM unnest(:names::text[], :counts::text[], :waits::text[], :runs::text[])
                                  AS given (name, counts, waits, runs)) AS r
                        ORDER BY r.name
                        ON CONFLICT (name, slot, minutes) DO UPDATE SET %s
                        RETURNING pg_current_xact_id()::text
                        """.formatted(THIS_MINUTE, ADDING_COUNTS)))
                .param("names", column(rows, Row::name))
                .param("counts", column(rows, row -> array(row.counts(), 0, JobHistoryCounters.WAITS)))
                .param(
                        "waits",
                        column(rows, row -> array(row.counts(), JobHistoryCounters.WAITS, JobHistoryCounters.RUNS)))
                .param(
                        "runs",
                        column(rows, row -> array(row.counts(), JobHistoryCounters.RUNS, JobHistoryCounters.KINDS)))
                .query((row, n) -> row.getString(1))
                .list()
                .get(0);
    }

    private static <T> String[] column(List<T> rows, Function<T, String> text) {
        return rows.stream().map(text).toArray(String[]::new);
    }

    /** Returns a part of an array as PostgreSQL reads it; without the zeros at the end unless it begins the array. */
    private static String array(long[] counts, int from, int to) {
        int end = to;
        while (from > 0 && end > from && counts[end - 1] == 0) {
            end--;
        }
        return Arrays.stream(counts, from, end)
                .mapToObj(count -> Long.toString(from > 0 ? Math.min(count, Integer.MAX_VALUE) : count))
                .collect(Collectors.joining(",", "{", "}"));
    }

    /** How a transaction ended. */
    enum Outcome {
        COMMITTED,
        ABORTED,
        IN_PROGRESS
    }

    /** Returns how a transaction ended whose response was lost. */
    Outcome outcome(String id) {
        String status;
        try {
            status = client.sql("SELECT coalesce(pg_xact_status(?::xid8), 'aborted')")
                    .param(id)
                    .query(String.class)
                    .single();
        } catch (DataAccessException e) {
            if (!DatabaseFailure.kind(e).isAnswered()) {
                throw e;
            }
            // Another server took over that has not seen the transaction.
            return Outcome.ABORTED;
        }
        return switch (status) {
            case "committed" -> Outcome.COMMITTED;
            case "in progress" -> Outcome.IN_PROGRESS;
            default -> Outcome.ABORTED;
        };
    }

    // Samples of the backlog --------------------------------------------------------------------------------

    /**
     * The backlog of a name.
     *
     * @param due how many jobs were due and had not started
     * @param oldest how long the oldest one had been due
     */
    record Sample(String name, long due, Duration oldest, long running) {}

    /** Returns whether the present minute, by the database's clock, has samples. */
    boolean isSampled() {
        return client.sql(schema.sql("""
                        SELECT EXISTS (SELECT FROM ~.forge_job_history
                                       WHERE name = ? AND slot = %s AND minutes = 1 AND due IS NOT NULL)
                        """.formatted(THIS_MINUTE)))
                .param(JobHistoryCounters.ALL_NAMES)
                .query(Boolean.class)
                .single();
    }

    /** Adds samples to the rows of the present minute; returns how many. */
    int sample(List<Sample> samples) {
        return client.sql(schema.sql("""
                        INSERT INTO ~.forge_job_history AS h (name, slot, minutes, due, oldest_due_millis, running)
                        SELECT r.name, %s, 1, r.numbers[1], r.numbers[2], r.numbers[3]
                        FROM (SELECT name, numbers::bigint[] AS numbers
                              FROM unnest(:names::text[], :numbers::text[]) AS given (name, numbers)) AS r
                        ORDER BY r.name
                        ON CONFLICT (name, slot, minutes) DO UPDATE SET %s
                        """.formatted(THIS_MINUTE, ADDING_SAMPLES)))
                .param("names", column(samples, Sample::name))
                .param(
                        "numbers",
                        column(samples, one -> "{%d,%d,%d}".formatted(one.due, one.oldest.toMillis(), one.running)))
                .update();
    }

    // Old rows ----------------------------------------------------------------------------------------------

    /** Replaces old minutes by rows of ten minutes, up to that many; returns how many were replaced. */
    int rollUp(int limit) {
        return client.sql(schema.sql(
                        """
                        WITH picked AS MATERIALIZED (
                            SELECT name, slot, minutes FROM ~.forge_job_history
                            WHERE minutes = 1 AND slot < date_bin('10 minutes', now() - :age * interval '1 second', %1$s)
                            ORDER BY slot LIMIT :limit FOR UPDATE),
                        old AS (
                            DELETE FROM ~.forge_job_history h USING picked p
                            WHERE h.name = p.name AND h.slot = p.slot AND h.minutes = p.minutes
                            RETURNING h.*, date_bin('10 minutes', h.slot, %1$s) AS begin),
                        waited AS (%2$s), ran AS (%3$s),
                        added AS (
                            INSERT INTO ~.forge_job_history AS h
                                (name, slot, minutes, completed, failed, retried, recovered, due, oldest_due_millis, running, waits, runs)
                            SELECT s.*, coalesce(w.counts, '{}'), coalesce(r.counts, '{}')
                            FROM (SELECT name, begin, 10::smallint, sum(completed)::bigint, sum(failed)::bigint,
                                         sum(retried)::bigint, sum(recovered)::bigint, max(due), max(oldest_due_millis), max(running)
                                  FROM old GROUP BY name, begin) AS s
                            LEFT JOIN waited w USING (name, begin) LEFT JOIN ran r USING (name, begin)
                            ORDER BY name, begin
                            ON CONFLICT (name, slot, minutes) DO UPDATE SET %4$s, %5$s)
                        SELECT count(*) FROM old
                        """.formatted(ORIGIN, merged("waits"), merged("runs"), ADDING_COUNTS, ADDING_SAMPLES)))
                .param("age", BY_MINUTE.toSeconds())
                .param("limit", limit)
                .query(Integer.class)
                .single();
    }

    private static String merged(String column) {
        return """
                SELECT name, begin, array_agg(count ORDER BY n) AS counts
                FROM (SELECT o.name, o.begin, b.n, least(sum(b.count), 2147483647)::int AS count
                      FROM old o CROSS JOIN LATERAL unnest(o.%s) WITH ORDINALITY AS b (count, n)
                      GROUP BY o.name, o.begin, b.n) AS buckets
                GROUP BY name, begin""".formatted(column);
    }

    /** Deletes rows whose retention has passed, up to that many; returns how many were deleted. */
    int purge(Duration retention, int limit) {
        return client.sql(schema.sql("""
                        WITH picked AS MATERIALIZED (
                            SELECT * FROM (
                                (SELECT name, slot, minutes FROM ~.forge_job_history
                                 WHERE minutes = 1 AND slot < now() - :age * interval '1 second' ORDER BY slot LIMIT :limit)
                                UNION ALL
                                (SELECT name, slot, minutes FROM ~.forge_job_history
                                 WHERE minutes = 10 AND slot < now() - :age * interval '1 second' ORDER BY slot LIMIT :limit)
                            ) AS old LIMIT :limit)
                        DELETE FROM ~.forge_job_history h USING picked p
                        WHERE h.name = p.name AND h.slot = p.slot AND h.minutes = p.minutes
                        """))
                .param("age", retention.toSeconds())
                .param("limit", limit)
                .update();
    }
}
