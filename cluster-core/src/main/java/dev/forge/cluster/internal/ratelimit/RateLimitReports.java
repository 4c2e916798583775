// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.ratelimit;

import dev.forge.cluster.internal.database.Schema;
import java.time.OffsetDateTime;
import java.util.List;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads {@code forge_rate_limits} for operators. Locks no bucket. */
public final class RateLimitReports {

    private final Schema schema;
    private final JdbcClient client;

    public RateLimitReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /**
     * A shared bucket.
     *
     * @param key the name of the limit, followed by the key of the caller in brackets if each key has its own bucket
     * @param capacity the tokens of a full bucket, according to the last caller
     * @param perSecond the tokens that are refilled each second, according to the last caller
     * @param available the tokens in the bucket now
     * @param updatedAt when tokens were last consumed
     */
    public record Bucket(String key, double capacity, double perSecond, double available, OffsetDateTime updatedAt) {}

    /**
     * Returns buckets in the order of their keys. A bucket without a row is full, and full ones lose their rows after some minutes.
     *
     * @param after the key after which the list begins; null: the first one
     */
    public List<Bucket> list(@Nullable String after, int limit) {
        return client.sql(schema.sql("""
                SELECT left(bucket, 1000), capacity, per_second,
                       greatest(0, capacity - greatest(0, least(spent, capacity)
                           - greatest(0, extract(epoch FROM clock_timestamp() - updated_at)::float8) * per_second)),
                       updated_at
                FROM ~.forge_rate_limits WHERE bucket > :after ORDER BY bucket LIMIT :limit
                """))
                .param("after", after == null ? "" : after)
                .param("limit", limit)
                .query((row, n) -> new Bucket(
                        row.getString(1),
                        row.getDouble(2),
                        row.getDouble(3),
                        row.getDouble(4),
                        row.getObject(5, OffsetDateTime.class)))
                .list();
    }
}
