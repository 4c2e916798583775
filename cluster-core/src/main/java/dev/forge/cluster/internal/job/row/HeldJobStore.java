// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.PrintedJson;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * What a node writes about jobs that it holds, from the claim to the end: starts, progress, checkpoints and leases. Each statement
 * changes only rows that the node still holds in the same epoch.
 */
public final class HeldJobStore {

    /** What changes in a job {@code j} that its node gives back: the attempt does not count. */
    static final String GIVEN_BACK =
            "status = 'pending', worker_id = NULL, lease_expires_at = NULL, attempts = greatest(j.attempts, 1) - 1";

    private final Tables tables;

    public HeldJobStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * Marks claimed jobs as running; returns those that it marked. This node no longer holds the others, or another transaction
     * has locked them.
     */
    public Set<ClaimKey> start(UUID node, Collection<ClaimKey> keys) {
        return change("status = 'running', started_at = coalesce(started_at, clock_timestamp())", node, keys);
    }

    /** Changes jobs that the node holds; returns those that it changed. Skips locked rows. */
    private Set<ClaimKey> change(String changes, UUID node, Collection<ClaimKey> keys) {
        return claims(tables, """
                UPDATE ~.forge_jobs SET %s
                WHERE id = ANY (ARRAY(SELECT j.id FROM %s ORDER BY j.id FOR UPDATE OF j SKIP LOCKED))
                RETURNING id, claim_epoch
                """.formatted(changes, JobRows.CLAIMS_OF_NODE), node, JobRows.sorted(keys));
    }

    /** Returns claimed jobs to the queue, each with the group that it should have. Their attempts do not count. */
    public void returnWithGroups(UUID node, Map<ClaimKey, String> groups) {
        List<ClaimKey> keys = JobRows.sorted(groups.keySet());
        tables.update("""
                UPDATE ~.forge_jobs j SET %s, started_at = NULL, job_group = d.job_group
                FROM unnest(?::uuid[], ?::bigint[], ?::text[]) AS d (id, epoch, job_group)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(GIVEN_BACK, JobRows.HELD_BY_NODE), statement -> {
            bind(statement, keys);
            SqlArrays.bind(statement, 3, "text", keys, groups::get);
            statement.setObject(4, node);
        });
    }

    /**
     * Returns a statement that gives back the job {@code j} of a workflow run until the run continues. Its parameters: {@code :until}
     * and {@code :forever} say when, {@code :other} is the job or batch that it waits for, {@code :progress} is JSON.
     *
     * @param held whether the node holds the job, in SQL
     */
    public static String suspending(String held) {
        return """
                UPDATE ~.forge_jobs j
                SET %s, started_at = NULL, recoveries = 0, waits_for = :other, progress = coalesce(:progress::jsonb, j.progress),
                    scheduled_at = CASE WHEN :forever THEN 'infinity' ELSE greatest(:until::timestamptz, clock_timestamp()) END
                WHERE %s
                RETURNING j.id
                """.formatted(GIVEN_BACK, held);
    }

    /** Forgets the node failures of a job that this node holds: it makes progress, so it does not crash its nodes. */
    public void resetRecoveries(UUID node, ClaimKey key) {
        tables.sql("UPDATE ~.forge_jobs j SET recoveries = 0 WHERE j.id = ? AND j.claim_epoch = ? AND "
                        + JobRows.HELD_BY_NODE)
                .params(key.id(), key.epoch(), node)
                .update();
    }

    /** Writes the progress of a job; false if its row is locked or this node no longer holds it. */
    public boolean writeProgress(UUID node, ClaimKey key, String progress) {
        return tables.sql("""
                UPDATE ~.forge_jobs SET progress = ?::jsonb
                WHERE id = (SELECT id FROM ~.forge_jobs WHERE id = ? AND claim_epoch = ? AND worker_id = ? AND status IN %s
                            FOR UPDATE SKIP LOCKED)
                """.formatted(JobRows.HELD))
                        .params(progress, key.id(), key.epoch(), node)
                        .update()
                == 1;
    }

    /** Writes a checkpoint and, unless null, the progress of a job; false if this node no longer holds it. */
    public boolean writeCheckpoint(UUID node, ClaimKey key, @Nullable String progress, @Nullable String checkpoint) {
        return tables.sql("""
                UPDATE ~.forge_jobs
                SET progress = coalesce(?::jsonb, progress), checkpoint = coalesce(?::jsonb, checkpoint),
                    checkpoint_bytes = coalesce(?, checkpoint_bytes)
                WHERE id = ? AND claim_epoch = ? AND worker_id = ? AND status IN %s
                """.formatted(JobRows.HELD))
                        .param(1, progress, Types.VARCHAR)
                        .param(2, checkpoint, Types.VARCHAR)
                        .param(3, checkpoint == null ? null : (int) PrintedJson.bytes(checkpoint), Types.INTEGER)
                        .param(4, key.id())
                        .param(5, key.epoch())
                        .param(6, node)
                        .update()
                == 1;
    }

    /**
     * Extends the leases of running jobs; returns those that it extended. This node no longer holds the others, or another
     * transaction has locked them: then their leases stay as they were.
     */
    public Set<ClaimKey> renew(UUID node, Collection<ClaimKey> keys, Duration lease) {
        String changes =
                "last_heartbeat = clock_timestamp(), lease_expires_at = clock_timestamp() + %d * interval '1 millisecond'"
                        .formatted(lease.toMillis());
        return change(changes, node, keys);
    }

    /**
     * Moves the leases of jobs that these nodes hold, for a test that moves the time. Skips locked rows.
     *
     * @param expired whether only leases that have expired are moved
     */
    public void moveLeases(Collection<UUID> nodes, Duration duration, boolean expired) {
        tables.sql("""
                UPDATE ~.forge_jobs SET lease_expires_at = lease_expires_at + :micros * interval '1 microsecond'
                WHERE id IN (SELECT id FROM ~.forge_jobs
                             WHERE status IN %s AND worker_id = ANY (:nodes)
                               AND CASE WHEN :expired THEN lease_expires_at <= clock_timestamp() ELSE lease_expires_at IS NOT NULL END
                             FOR UPDATE SKIP LOCKED)
                """.formatted(JobRows.HELD))
                .param("micros", duration.toNanos() / 1_000)
                .param("nodes", nodes.toArray(UUID[]::new))
                .param("expired", expired)
                .update();
    }

    /** Returns those of these claims that this node no longer holds. */
    public Set<ClaimKey> missing(UUID node, Collection<ClaimKey> keys) {
        List<ClaimKey> all = List.copyOf(keys);
        var missing = new HashSet<>(all);
        missing.removeAll(claims(tables, "SELECT j.id, j.claim_epoch FROM " + JobRows.CLAIMS_OF_NODE, node, all));
        return missing;
    }

    /** Returns whether a job was cancelled while it was claimed in that epoch. */
    public boolean isCancelled(ClaimKey key) {
        return tables.sql("""
                SELECT EXISTS (SELECT FROM ~.forge_jobs WHERE id = ? AND claim_epoch = ? AND status = 'cancelled')
                """)
                .params(key.id(), key.epoch())
                .query((row, n) -> row.getBoolean(1))
                .single();
    }

    /** The result of reading a claimed job. */
    public sealed interface Reading {

        /** The job with its payload, checkpoint and metadata. */
        record Read(Claimed job) implements Reading {}

        /** The job is too large to be read. */
        record TooLarge(long bytes) implements Reading {}

        /** This node no longer holds the job. */
        record Lost() implements Reading {}
    }

    /**
     * Reads payload, checkpoint and metadata of a job that was claimed without them.
     *
     * @param most the largest number of bytes to read; measured, whatever the row claims
     */
    public Reading read(UUID node, Claimed job, long most) {
        return tables.sql("""
                SELECT bytes, CASE WHEN bytes <= :most THEN payload::text END,
                       CASE WHEN bytes <= :most THEN checkpoint::text END, CASE WHEN bytes <= :most THEN metadata::text END
                FROM (SELECT j.payload, j.checkpoint, j.metadata,
                             octet_length(j.payload::text)::bigint + octet_length(j.metadata::text)
                             + coalesce(octet_length(j.checkpoint::text), 0) AS bytes
                      FROM ~.forge_jobs j
                      WHERE j.id = :id AND j.claim_epoch = :epoch AND j.worker_id = :node AND j.status IN %s
                      OFFSET 0) AS measured
                """.formatted(JobRows.HELD))
                .param("most", most)
                .param("id", job.id())
                .param("epoch", job.epoch())
                .param("node", node)
                .query((row, n) -> {
                    String payload = row.getString(2);
                    String metadata = row.getString(4);
                    return payload == null || metadata == null
                            ? new Reading.TooLarge(row.getLong(1))
                            : new Reading.Read(job.with(row.getLong(1), payload, row.getString(3), metadata));
                })
                .optional()
                .orElseGet(Reading.Lost::new);
    }

    /** Runs a statement whose parameters are the ids and epochs of claims and their node, and which returns claims. */
    static Set<ClaimKey> claims(Tables tables, String sql, UUID node, List<ClaimKey> keys) {
        return new HashSet<>(tables.query(
                sql,
                statement -> {
                    bind(statement, keys);
                    statement.setObject(3, node);
                },
                (row, n) -> new ClaimKey(row.getObject(1, UUID.class), row.getLong(2))));
    }

    /** Binds ids and epochs, the first two parameters of a statement. */
    static void bind(PreparedStatement statement, List<ClaimKey> keys) throws SQLException {
        SqlArrays.bind(statement, 1, "uuid", keys, ClaimKey::id);
        SqlArrays.bind(statement, 2, "int8", keys, ClaimKey::epoch);
    }
}
