// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.SqlArrays;
import dev.forge.cluster.internal.database.Tables;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;

/**
 * Claims due jobs and maintains claims while their handlers run. A claim raises {@code claim_epoch}. Every later statement of its
 * holder names the node and that epoch; where they no longer match, the statement changes nothing.
 */
public final class JobClaimStore {

    /** The bytes that one claim reads; the job that exceeds them is its last. */
    public static final int CLAIM_BYTES = 8_000_000;

    /** The largest epoch; a row that was inserted with it is never claimed. */
    private static final long LAST_EPOCH = 1_000_000_000_000_000_000L;

    /** Jobs with that many bytes, and jobs of unknown size, are read one by one. */
    private static final int LARGE = 1_000_000;

    /** A row that is stored in fewer bytes and is not compressed cannot be large when printed. */
    private static final int SMALL_ROW = 100;

    /** A job with at most that many bytes is stored in its row itself, so that reading it cannot fail. */
    private static final int SURELY_READABLE = 1_000;

    /** The size of a job as far as it is known without reading large values. */
    private static final String BYTES = """
            (greatest(0, coalesce(body_bytes, CASE WHEN pg_column_size(payload) + pg_column_size(metadata) <= %d
                                                   AND pg_column_compression(payload) IS NULL
                                                   AND pg_column_compression(metadata) IS NULL THEN %d ELSE %d END))
             + CASE WHEN checkpoint IS NULL THEN 0 ELSE greatest(0, coalesce(checkpoint_bytes, %3$d))::bigint END)
            """.formatted(SMALL_ROW, SURELY_READABLE, LARGE);

    private final Tables tables;

    public JobClaimStore(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /**
     * How to claim.
     *
     * @param limit the largest number of jobs
     * @param starting how many of them start immediately; the others wait on this node. A job that was returned before counts
     *     as started: if it makes its node crash right after its start, the next claim must know
     * @param maxAttempts for jobs without a value of their own: the node that recovers them may not have their handler
     * @param lease how long the claim is valid without renewal; null: as long as the node lives
     * @param bodies whether small payloads, checkpoints and metadata are read with the claim
     * @param quick whether to leave out rows that were locked by a transaction that may still be running, without trying to lock
     *     them
     */
    public record Claiming(
            UUID node,
            int limit,
            int starting,
            int maxAttempts,
            @Nullable Duration lease,
            boolean bodies,
            boolean quick) {

        public Claiming(UUID node, int limit, int starting, int maxAttempts, @Nullable Duration lease) {
            this(node, limit, starting, maxAttempts, lease, true, false);
        }

        /** Binds the parameters of the statement that changes the rows. */
        private void bind(PreparedStatement statement, int first) throws SQLException {
            statement.setInt(first, starting);
            statement.setInt(first + 1, starting);
            statement.setInt(first + 2, maxAttempts);
            statement.setObject(first + 3, node);
            statement.setObject(first + 4, lease == null ? null : lease.toMillis(), Types.BIGINT);
        }
    }

    /**
     * A job that this node has claimed.
     *
     * @param payload JSON
     * @param attempt the number of this attempt
     * @param recoveries how often the job was taken from a dead or silent node
     * @param checkpoint JSON
     * @param metadata JSON
     * @param waitedMillis how long the job had been due when it was claimed
     * @param started whether the row has the status running already
     * @param bytes approximate size of payload, checkpoint and metadata
     * @param read whether these three were read with the claim; otherwise {@link HeldJobStore#read} reads them
     * @param hasKey whether the job has a unique key, so that another job may wait for its end
     * @param group the group of the job; null: none
     * @param batch the batch that the job belongs to; null: none
     */
    public record Claimed(
            UUID id,
            Queue queue,
            String payload,
            int attempt,
            @Nullable Integer maxAttempts,
            long epoch,
            int recoveries,
            Instant scheduledAt,
            @Nullable String checkpoint,
            String metadata,
            long waitedMillis,
            boolean started,
            long bytes,
            boolean read,
            boolean hasKey,
            @Nullable String group,
            @Nullable UUID batch) {

        /** Returns the name under which the job was enqueued. */
        public String name() {
            return queue.name();
        }

        public ClaimKey key() {
            return new ClaimKey(id, epoch);
        }

        /** Returns the place that the job had in its queue. */
        public Mark mark() {
            return new Mark(scheduledAt, id);
        }

        /** Returns the job with its payload, checkpoint and metadata. */
        Claimed with(long bytes, String payload, @Nullable String checkpoint, String metadata) {
            return new Claimed(
                    id,
                    queue,
                    payload,
                    attempt,
                    maxAttempts,
                    epoch,
                    recoveries,
                    scheduledAt,
                    checkpoint,
                    metadata,
                    waitedMillis,
                    started,
                    bytes,
                    true,
                    hasKey,
                    group,
                    batch);
        }
    }

    /** Returns whether a claim took all due jobs of its queue, so that neither the limit nor {@link #CLAIM_BYTES} ended it. */
    public static boolean isShort(List<Claimed> claimed, int limit) {
        return claimed.size() < limit
                && claimed.stream().mapToLong(Claimed::bytes).sum() < CLAIM_BYTES;
    }

    /**
     * Picks the oldest jobs of a queue. The array is an InitPlan: its rows are locked once and found again by primary key. A join with
     * the subselect costs a third more, and IN (subselect) may take more rows than the limit.
     */
    private static final String OLDEST = """
            WITH picked AS MATERIALIZED (SELECT ARRAY(
                SELECT id FROM (
                    SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (
                        SELECT id, %1$s AS bytes FROM ~.forge_jobs j
                        WHERE status = 'pending' AND waits_for IS NULL AND name = ?
                          AND coalesce(worker_capability, '') = ? AND %4$s = ?
                          AND scheduled_at <= now() AND (scheduled_at, id) >= (?, ?) AND claim_epoch < %3$d
                          AND EXISTS (SELECT FROM ~.forge_nodes WHERE id = ? AND status = 'active')
                          AND NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = ?)
                          -- Skipping a row because its lock is taken costs as much as claiming it.
                          AND (NOT ? OR age(xmax) > (SELECT age(pg_snapshot_xmin(pg_current_snapshot())::xid)))
                        ORDER BY scheduled_at, id LIMIT ? FOR UPDATE SKIP LOCKED) AS locked) AS weighed
                WHERE before < %2$d) AS ids)
            """.formatted(BYTES, CLAIM_BYTES, LAST_EPOCH, Queue.RANK);

    /** Picks jobs of the groups whose turn it is. The function has locked them. */
    private static final String IN_TURNS = """
            WITH turn AS MATERIALIZED (
                SELECT * FROM ~.forge_pick_jobs(?, ?, ?::text[], ?, ?, ?, ?, ?, ?, ?, ?, ?::text[])),
            picked AS MATERIALIZED (SELECT ARRAY(
                SELECT id FROM (
                    SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (
                        SELECT j.id, %1$s AS bytes FROM unnest((SELECT ids FROM turn)) WITH ORDINALITY AS p (id, place)
                        JOIN ~.forge_jobs j ON j.id = p.id
                        ORDER BY p.place) AS read) AS weighed
                WHERE before < %2$d) AS ids),
            """.formatted(BYTES, CLAIM_BYTES);

    // A job that was returned before may be the reason why the claim that included it failed: it is read alone.
    private static final String BODIES =
            "%1$s < %2$d AND (claim_epoch <= attempts OR %1$s <= %3$d)".formatted(BYTES, LARGE, SURELY_READABLE);

    private static final String CLAIM_WITH_BODIES = OLDEST + claimSql(BODIES);

    private static final String CLAIM_WITHOUT_BODIES = OLDEST + claimSql("false");

    private static final String CLAIM_IN_TURNS = inTurns(BODIES);

    private static final String CLAIM_IN_TURNS_WITHOUT_BODIES = inTurns("false");

    private static String inTurns(String bodies) {
        return """
                %s claimed AS (%s)
                SELECT c.*, t.last_group, t.last_credit, t.blocked, t.wait_millis, t.contended, t.complete
                FROM turn t LEFT JOIN claimed c ON true
                """.formatted(IN_TURNS, claimSql(bodies));
    }

    private static String claimSql(String bodies) {
        return """
                UPDATE ~.forge_jobs
                SET status = CASE WHEN claim_epoch > attempts OR id = ANY ((SELECT ids[1:?] FROM picked)::uuid[])
                              THEN 'running' ELSE 'claimed' END,
                    started_at = CASE WHEN claim_epoch > attempts OR id = ANY ((SELECT ids[1:?] FROM picked)::uuid[])
                                  THEN clock_timestamp() END,
                    max_attempts = coalesce(max_attempts, ?),
                    worker_id = ?, claim_epoch = claim_epoch + 1, attempts = least(greatest(attempts, 0), %3$d - 1) + 1,
                    claimed_at = clock_timestamp(), last_heartbeat = clock_timestamp(),
                    lease_expires_at = coalesce(clock_timestamp() + ? * interval '1 millisecond', 'infinity')
                WHERE id = ANY ((SELECT ids FROM picked)::uuid[])
                RETURNING id, CASE WHEN %2$s THEN payload::text END AS payload, attempts, max_attempts, claim_epoch, scheduled_at,
                          CASE WHEN %2$s THEN checkpoint::text END AS checkpoint,
                          CASE WHEN %2$s THEN metadata::text END AS metadata,
                          status = 'running' AS started, claimed_at, recoveries, %1$s AS bytes, unique_key IS NOT NULL AS has_key,
                          job_group, batch_id
                """.formatted(BYTES, bodies, JobRows.MOST_COUNTED);
    }

    /**
     * Claims the oldest due jobs of a queue, if this node is active, up to the limit or {@link #CLAIM_BYTES}. Skips rows that
     * other nodes are claiming.
     *
     * @param mark jobs before it are not read, so that a claim does not read the dead index entries that an old
     *     snapshot keeps
     */
    public List<Claimed> claim(Queue queue, Mark mark, Claiming claiming) {
        var claimed = new ClaimedRows(queue);
        tables.query(
                claiming.bodies ? CLAIM_WITH_BODIES : CLAIM_WITHOUT_BODIES,
                statement -> {
                    statement.setString(1, queue.name());
                    statement.setString(2, queue.capability());
                    statement.setInt(3, queue.rank());
                    statement.setObject(4, mark.scheduledAt().atOffset(ZoneOffset.UTC));
                    statement.setObject(5, mark.id());
                    statement.setObject(6, claiming.node);
                    statement.setString(7, queue.name());
                    statement.setBoolean(8, claiming.quick);
                    statement.setInt(9, claiming.limit);
                    claiming.bind(statement, 10);
                },
                claimed::add);
        claimed.jobs.sort(Comparator.comparing(Claimed::mark));
        return claimed.jobs;
    }

    /** Collects the rows that a claim returns. */
    private static final class ClaimedRows {

        private final Queue queue;
        private final List<Claimed> jobs = new ArrayList<>();
        /** Read once: all rows have nearly the same time, and conversion has a cost. */
        private long claimedAt;

        ClaimedRows(Queue queue) {
            this.queue = queue;
        }

        void add(ResultSet row) throws SQLException {
            Instant scheduledAt = row.getObject(6, OffsetDateTime.class).toInstant();
            if (claimedAt == 0) {
                claimedAt = row.getObject(10, OffsetDateTime.class).toInstant().toEpochMilli();
            }
            String payload = row.getString(2);
            String metadata = row.getString(8);
            jobs.add(new Claimed(
                    row.getObject(1, UUID.class),
                    queue,
                    payload == null ? "{}" : payload,
                    row.getInt(3),
                    row.getObject(4, Integer.class),
                    row.getLong(5),
                    row.getInt(11),
                    scheduledAt,
                    row.getString(7),
                    metadata == null ? "{}" : metadata,
                    Math.max(0, claimedAt - scheduledAt.toEpochMilli()),
                    row.getBoolean(9),
                    row.getLong(12),
                    payload != null,
                    row.getBoolean(13),
                    row.getString(14),
                    row.getObject(15, UUID.class)));
        }
    }

    /**
     * Where the turns of a queue with groups continue.
     *
     * @param handler the name of the handler, whose limits apply
     * @param names this name and the former ones
     * @param group the group that had the last turn; {@code ""}: none
     * @param credit how many jobs it may still start in that turn
     * @param ended groups whose jobs have just ended
     */
    public record Turn(String handler, List<String> names, String group, int credit, List<String> ended) {}

    /**
     * The result of a claim in turns.
     *
     * @param group the group that had the last turn
     * @param credit how many jobs it may still start in that turn
     * @param blocked the number of groups with due jobs that a limit keeps from starting one, as far as they were visited
     * @param waitMillis time until a rate allows another start; null if no rate is the obstacle
     * @param contended whether another node was claiming from one of the groups
     * @param complete whether all groups were visited, unless there was enough to claim before
     */
    public record Turns(
            List<Claimed> jobs,
            String group,
            int credit,
            int blocked,
            @Nullable Long waitMillis,
            boolean contended,
            boolean complete) {}

    /**
     * Claims due jobs of a queue that has groups or a limit, if this node is active: groups take turns, and limits are observed.
     * Skips groups and rows that other nodes are claiming.
     *
     * @param mark jobs before its time are not read, so that a claim does not read all the dead index entries that an old snapshot
     *     keeps
     */
    public Turns claimInTurns(Queue queue, Mark mark, Turn turn, Claiming claiming) {
        var claimed = new ClaimedRows(queue);
        Turns[] turns = new Turns[1];
        tables.query(
                claiming.bodies ? CLAIM_IN_TURNS : CLAIM_IN_TURNS_WITHOUT_BODIES,
                statement -> {
                    statement.setObject(1, claiming.node);
                    statement.setString(2, turn.handler);
                    SqlArrays.bind(statement, 3, "text", turn.names, name -> name);
                    statement.setString(4, queue.name());
                    statement.setString(5, queue.capability());
                    statement.setInt(6, queue.priority());
                    statement.setBoolean(7, queue.grouped());
                    statement.setInt(8, claiming.limit);
                    statement.setObject(9, mark.scheduledAt().atOffset(ZoneOffset.UTC));
                    statement.setString(10, turn.group);
                    statement.setInt(11, turn.credit);
                    SqlArrays.bind(statement, 12, "text", turn.ended, group -> group);
                    claiming.bind(statement, 13);
                },
                row -> {
                    turns[0] = new Turns(
                            claimed.jobs,
                            row.getString(16),
                            row.getInt(17),
                            row.getInt(18),
                            row.getObject(19, Long.class),
                            row.getBoolean(20),
                            row.getBoolean(21));
                    if (row.getObject(1) != null) {
                        claimed.add(row);
                    }
                });
        return Objects.requireNonNull(turns[0], "forge_pick_jobs returns one row");
    }
}
