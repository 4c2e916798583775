package dev.forge.cluster.internal.ratelimit;

import dev.forge.cluster.internal.database.Schema;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The rows of {@code forge_rate_limits}: buckets, each with what is spent and has not flowed back yet. */
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
     * @param calls how many
     * @param permits how many tokens each of them takes; at most the capacity
     */
    public record Wish(String bucket, int calls, double permits, double capacity, double perSecond) {}

    /**
     * What became of them.
     *
     * @param granted how many of the calls were admitted
     * @param missing in the bucket now, as this caller's limit has it
     */
    public record Grant(String bucket, int granted, double missing) {}

    /**
     * Takes what there is, from each bucket once. What a row needs to know of the wish is in the row that would be inserted
     * into an empty table, since ON CONFLICT sees nothing else: calls that a full bucket could not serve are lost on the way,
     * but no bucket could.
     *
     * <p>Time is read once, before a lock is waited for: a bucket never gains what it has not waited for. One from the future
     * was left by a clock that has been set back.
     */
    public List<Grant> take(Collection<Wish> wishes) {
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
                .param("buckets", wishes.stream().map(Wish::bucket).toArray(String[]::new))
                .param("calls", wishes.stream().map(Wish::calls).toArray(Integer[]::new))
                .param("permits", wishes.stream().map(Wish::permits).toArray(Double[]::new))
                .param("capacities", wishes.stream().map(Wish::capacity).toArray(Double[]::new))
                .param("rates", wishes.stream().map(Wish::perSecond).toArray(Double[]::new))
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
                .query(String.class)
                .set();
    }

    /** Deletes buckets that have been full for that long, up to that many: a new one is full, too. */
    public int purge(Duration idle, int limit) {
        return client.sql(schema.sql("""
                DELETE FROM ~.forge_rate_limits WHERE bucket = ANY (ARRAY(
                    SELECT bucket FROM ~.forge_rate_limits
                    WHERE updated_at + least(spent / greatest(per_second, 1e-9), 1e9) * interval '1 second'
                        < clock_timestamp() - :idle * interval '1 millisecond'
                    LIMIT :limit FOR UPDATE SKIP LOCKED))
                """))
                .param("idle", idle.toMillis())
                .param("limit", limit)
                .update();
    }
}
