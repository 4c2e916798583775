// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import dev.forge.cluster.internal.database.Schema;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Shared token buckets in {@code forge_rate_limits}. Each row has the tokens that are spent and have not flowed back yet. */
public final class RateLimitStore {

    private final Schema schema;
    private final JdbcClient client;

    public RateLimitStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * Calls on one bucket.
     *
     * @param calls how many calls
     * @param permits how many tokens each call consumes; at most the capacity
     */
    public record Request(String bucket, int calls, double permits, double capacity, double perSecond) {}

    /**
     * The outcome of the calls on one bucket.
     *
     * @param granted how many calls were admitted
     * @param missing how many tokens are missing in the bucket now, by the limit of these calls
     */
    public record Grant(String bucket, int granted, double missing) {}

    /**
     * Consumes the available tokens, up to those requested, from each bucket. ON CONFLICT sees nothing but the row to be
     * inserted, so that row carries the request. Calls beyond the capacity of a full bucket are cut off there; no bucket could
     * admit them.
     *
     * <p>The time is read once, before the wait for row locks, so that a bucket gains no tokens for the wait. A row whose time lies
     * in the future was written before the server's clock was set back.
     */
    public List<Grant> take(Collection<Request> requests) {
        return client.sql(schema.sql("""
                INSERT INTO ~.forge_rate_limits AS b (bucket, granted, spent, capacity, per_second, updated_at)
                SELECT w.bucket, n, n * w.permits, w.capacity, w.per_second, t.now
                FROM unnest(:buckets, :calls, :permits, :capacities, :rates)
                         AS w (bucket, calls, permits, capacity, per_second)
                     CROSS JOIN (SELECT clock_timestamp() AS now) t
                     CROSS JOIN LATERAL (SELECT least(w.calls, floor(w.capacity / w.permits))::int AS n) f
                ORDER BY w.bucket
                ON CONFLICT (bucket) DO UPDATE
                SET (granted, spent, capacity, per_second, updated_at) = (
                    -- Where nothing is taken nothing changes: what a caller with a smaller limit does not see is still spent
                    -- for the others.
                    SELECT n, CASE WHEN n = 0 THEN b.spent ELSE greatest(0, b.spent - back) + n * permits END,
                           excluded.capacity, excluded.per_second,
                           CASE WHEN n = 0 THEN least(b.updated_at, now) ELSE now END
                    FROM (SELECT CASE WHEN b.updated_at > excluded.updated_at + interval '10 seconds'
                                      THEN excluded.updated_at
                                      ELSE greatest(excluded.updated_at, b.updated_at) END AS now,
                                 excluded.spent / excluded.granted AS permits) x
                         CROSS JOIN LATERAL (
                             SELECT greatest(0, extract(epoch FROM now - b.updated_at)::float8) * excluded.per_second AS back) y
                         CROSS JOIN LATERAL (
                             SELECT greatest(0, least(b.spent, excluded.capacity) - back) AS missing) m
                         CROSS JOIN LATERAL (
                             -- A hair more than there is: what flows back is not counted in whole tokens.
                             SELECT least(excluded.granted, floor((excluded.capacity + 1e-6 - missing) / permits))::int AS n) z)
                RETURNING bucket, granted, greatest(0, least(spent, capacity)
                    - greatest(0, extract(epoch FROM clock_timestamp() - updated_at)::float8) * per_second)
                """))
                .param("buckets", requests.stream().map(Request::bucket).toArray(String[]::new))
                .param("calls", requests.stream().map(Request::calls).toArray(Integer[]::new))
                .param("permits", requests.stream().map(Request::permits).toArray(Double[]::new))
                .param("capacities", requests.stream().map(Request::capacity).toArray(Double[]::new))
                .param("rates", requests.stream().map(Request::perSecond).toArray(Double[]::new))
                .query((row, n) -> new Grant(row.getString(1), row.getInt(2), row.getDouble(3)))
                .list();
    }

    /** Returns those of the buckets whose rows another session has locked. Does not wait. */
    public Set<String> locked(Collection<String> buckets) {
        return client.sql(schema.sql("""
                WITH free AS MATERIALIZED (
                    SELECT bucket FROM ~.forge_rate_limits WHERE bucket = ANY (:buckets)
                    ORDER BY bucket FOR NO KEY UPDATE SKIP LOCKED)
                SELECT bucket FROM ~.forge_rate_limits
                WHERE bucket = ANY (:buckets) AND bucket NOT IN (SELECT bucket FROM free)
                """))
                .param("buckets", buckets.toArray(String[]::new))
                .query((row, n) -> row.getString(1))
                .set();
    }

    /**
     * A page of buckets that was searched for full ones.
     *
     * @param read how many buckets it had
     * @param last its last bucket, after which the next page begins; null if there was none
     * @param deleted how many of them were deleted
     */
    public record PurgedPage(int read, @Nullable String last, int deleted) {}

    /**
     * Deletes the buckets of one page that have been full for that long; a new bucket is full, too. Reads no other bucket,
     * because no index can tell which buckets are full.
     *
     * @param after the last bucket of the page before; empty for the first page
     */
    public PurgedPage purge(Duration idle, String after, int size) {
        return client.sql(schema.sql("""
                WITH page AS MATERIALIZED (
                    SELECT b.bucket, %1$s AS idle FROM ~.forge_rate_limits b WHERE b.bucket > :after ORDER BY b.bucket LIMIT :size),
                deleted AS (
                    DELETE FROM ~.forge_rate_limits WHERE bucket = ANY (ARRAY(
                        SELECT b.bucket FROM ~.forge_rate_limits b
                        WHERE b.bucket = ANY (ARRAY(SELECT p.bucket FROM page p WHERE p.idle)) AND %1$s
                        FOR UPDATE SKIP LOCKED))
                    RETURNING 1)
                SELECT count(*), max(bucket), (SELECT count(*) FROM deleted) FROM page
                """.formatted("""
                        b.updated_at + least(b.spent / greatest(b.per_second, 1e-9), 1e9) * interval '1 second'
                            < clock_timestamp() - :idle * interval '1 millisecond'""")))
                .param("idle", idle.toMillis())
                .param("after", after)
                .param("size", size)
                .query((row, n) -> new PurgedPage(row.getInt(1), row.getString(2), row.getInt(3)))
                .single();
    }
}
