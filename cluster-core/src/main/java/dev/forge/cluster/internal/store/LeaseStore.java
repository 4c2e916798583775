package dev.forge.cluster.internal.store;

import dev.forge.cluster.internal.store.JobStore.ClaimKey;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import javax.sql.DataSource;
import org.springframework.jdbc.core.JdbcTemplate;

/** Until when claimed jobs are their node's. */
public final class LeaseStore {

    private final Schema schema;
    private final JdbcTemplate jdbc;

    public LeaseStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(source);
    }

    /**
     * Extends the leases of jobs that this node is working on; answers which it has extended. The others are not its any
     * more, or somebody has locked them: their leases go on as they were.
     */
    public Set<ClaimKey> renew(UUID node, Collection<ClaimKey> keys, Duration lease) {
        // In the order of their ids, like whatever else locks several of them.
        List<ClaimKey> sorted =
                keys.stream().sorted(Comparator.comparing(ClaimKey::id)).toList();
        return new HashSet<>(jdbc.query(
                connection -> {
                    PreparedStatement statement = connection.prepareStatement(schema.sql("""
                            UPDATE ~.forge_jobs
                            SET last_heartbeat = clock_timestamp(),
                                lease_expires_at = clock_timestamp() + ? * interval '1 millisecond'
                            WHERE id = ANY (ARRAY(
                                SELECT j.id FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                                JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                                -- Said so that the planner sees no use for the index on holders, as in JobStore.
                                WHERE j.worker_id IS NOT DISTINCT FROM ?
                                  AND j.status NOT IN ('pending', 'completed', 'failed', 'cancelled', 'abandoned')
                                ORDER BY j.id FOR UPDATE OF j SKIP LOCKED))
                            RETURNING id, claim_epoch
                            """));
                    Connection source = statement.getConnection();
                    statement.setLong(1, lease.toMillis());
                    statement.setArray(
                            2,
                            source.createArrayOf(
                                    "uuid", sorted.stream().map(ClaimKey::id).toArray()));
                    statement.setArray(
                            3,
                            source.createArrayOf(
                                    "int8", sorted.stream().map(ClaimKey::epoch).toArray()));
                    statement.setObject(4, node);
                    return statement;
                },
                (row, n) -> new ClaimKey(row.getObject(1, UUID.class), row.getLong(2))));
    }
}
