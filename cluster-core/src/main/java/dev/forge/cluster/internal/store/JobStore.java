package dev.forge.cluster.internal.store;

import dev.forge.cluster.JobInfo;
import dev.forge.cluster.JobStatus;
import dev.forge.cluster.UniquePolicy;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The rows of {@code forge_jobs}.
 *
 * <p><b>Claiming.</b> A {@link Queue} is what is pending under one name, for one capability, with one priority; an index
 * leads straight to its oldest row. {@link #queues} finds those that have something due, {@link #claim} takes from one
 * of them. So neither ever meets a row that it may not take, however many there are.
 *
 * <p><b>Guards.</b> A claim raises {@code claim_epoch}. Whatever its holder writes later carries its node's id and that
 * epoch; where they do not match any more, nothing is written.
 */
public final class JobStore {

    /** From the beginning: no row is older. */
    public static final Instant UNMARKED = Instant.EPOCH;

    private static final Duration LONGEST_VACUUM = Duration.ofMinutes(30);

    private static final String ACTIVE = "('pending', 'claimed', 'running')";
    private static final String HELD = "('claimed', 'running')";

    /**
     * Whether row {@code j} is held by that node. Says it so that the planner sees no use for the index on holders: of a
     * busy node that index is full of dead entries, and rows are to be found by their ids.
     */
    private static final String OURS = """
            j.worker_id IS NOT DISTINCT FROM ?
            AND j.status NOT IN ('pending', 'completed', 'failed', 'cancelled', 'abandoned')""";

    private final Schema schema;
    private final JdbcTemplate jdbc;
    private final JdbcClient client;

    /** @param source the application's for {@link #insert} and the like, which join its transactions; ours for the rest */
    public JobStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(source);
        this.client = JdbcClient.create(jdbc);
    }

    /** Whether what is written here and now is part of the running transaction. */
    public boolean joinsTransaction() {
        DataSource source = jdbc.getDataSource();
        return source != null && TransactionSynchronizationManager.hasResource(source);
    }

    /** A transaction on the same source, for callers that have none. */
    public TransactionOperations transaction() {
        return new TransactionTemplate(new JdbcTransactionManager(Objects.requireNonNull(jdbc.getDataSource())));
    }

    // Enqueueing --------------------------------------------------------------------------------------------

    /**
     * A job to be.
     *
     * @param payload JSON
     * @param delayMillis after now, unless {@code at} says when
     * @param metadata JSON
     */
    public record NewJob(
            UUID id,
            String name,
            String payload,
            int priority,
            @Nullable String capability,
            long delayMillis,
            @Nullable Instant at,
            @Nullable Integer maxAttempts,
            String metadata) {}

    // Not now(): jobs of one transaction would share it, and a mark could not tell them apart.
    private static final String INSERT = """
            INSERT INTO ~.forge_jobs
                (id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata, unique_key, waits_for)
            VALUES (?, ?, ?::jsonb, ?, ?, coalesce(?, clock_timestamp() + ? * interval '1 millisecond'), ?, ?::jsonb, ?, ?)
            """;

    /** Adds a job in the caller's transaction. */
    public void insert(NewJob job) {
        jdbc.update(schema.sql(INSERT), statement -> bind(statement, job, null, null));
    }

    /** Adds many with one statement, in the caller's transaction. */
    public void insertAll(List<NewJob> jobs) {
        jdbc.update(schema.sql("""
                INSERT INTO ~.forge_jobs
                    (id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata)
                SELECT d.id, d.name, d.payload::jsonb, d.priority, d.capability,
                       coalesce(?, clock_timestamp() + ? * interval '1 millisecond'), d.max_attempts, ?::jsonb
                FROM unnest(?::uuid[], ?::text[], ?::text[], ?::int[], ?::text[], ?::int[])
                    AS d (id, name, payload, priority, capability, max_attempts)
                """), statement -> {
            Connection connection = statement.getConnection();
            NewJob first = jobs.get(0);
            statement.setObject(
                    1, first.at == null ? null : first.at.atOffset(ZoneOffset.UTC), Types.TIMESTAMP_WITH_TIMEZONE);
            statement.setLong(2, first.delayMillis);
            statement.setString(3, first.metadata);
            statement.setArray(4, array(connection, "uuid", jobs, NewJob::id));
            statement.setArray(5, array(connection, "text", jobs, NewJob::name));
            statement.setArray(6, array(connection, "text", jobs, NewJob::payload));
            statement.setArray(7, array(connection, "int4", jobs, NewJob::priority));
            statement.setArray(8, array(connection, "text", jobs, NewJob::capability));
            statement.setArray(9, array(connection, "int4", jobs, NewJob::maxAttempts));
        });
    }

    /** Adds a job unless its key belongs to an active one; answers the id of the job that has the key then. */
    public UUID insertUnique(NewJob job, String key, UniquePolicy policy) {
        while (true) {
            UUID id = switch (policy) {
                case KEEP -> insertOrFind(job, key);
                case REPLACE -> replace(job, key);
            };
            if (id != null) {
                return id;
            }
            // Whoever had the key a moment ago has just ended.
        }
    }

    private @Nullable UUID insertOrFind(NewJob job, String key) {
        return tryInsert(job, key, null) ? job.id : active(job.name, key, "");
    }

    private @Nullable UUID replace(NewJob job, String key) {
        UUID replaced = overwrite(job, key, "waits_for IS NOT NULL");
        if (replaced == null) {
            replaced = overwrite(job, key, "waits_for IS NULL");
        }
        if (replaced != null || tryInsert(job, key, null)) {
            return replaced != null ? replaced : job.id;
        }
        // One that is pending again is overwritten in the next round.
        UUID running = active(job.name, key, "AND waits_for IS NULL AND status <> 'pending'");
        return running != null && tryInsert(job, key, running) ? job.id : null;
    }

    private boolean tryInsert(NewJob job, String key, @Nullable UUID waitsFor) {
        return jdbc.update(
                        schema.sql(INSERT + " ON CONFLICT DO NOTHING"),
                        statement -> bind(statement, job, key, waitsFor))
                == 1;
    }

    private @Nullable UUID active(String name, String key, String condition) {
        return client.sql(schema.sql("""
                SELECT id FROM ~.forge_jobs WHERE name = ? AND unique_key = ? AND status IN %s %s
                ORDER BY waits_for NULLS FIRST LIMIT 1
                """.formatted(ACTIVE, condition)))
                .params(name, key)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional()
                .orElse(null);
    }

    // Waits for a claim that is under way, and then finds the row pending no more.
    private @Nullable UUID overwrite(NewJob job, String key, String condition) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs
                SET payload = :payload::jsonb, priority = :priority, worker_capability = :capability,
                    scheduled_at = coalesce(:at, clock_timestamp() + :delay * interval '1 millisecond'),
                    max_attempts = :max_attempts, metadata = :metadata::jsonb,
                    attempts = 0, recoveries = 0, progress = NULL, checkpoint = NULL, last_error = NULL
                WHERE name = :name AND unique_key = :key AND status = 'pending' AND %s
                RETURNING id
                """.formatted(condition)))
                .param("payload", job.payload)
                .param("priority", job.priority)
                .param("capability", job.capability)
                .param("at", job.at == null ? null : job.at.atOffset(ZoneOffset.UTC), Types.TIMESTAMP_WITH_TIMEZONE)
                .param("delay", job.delayMillis)
                .param("max_attempts", job.maxAttempts, Types.INTEGER)
                .param("metadata", job.metadata)
                .param("name", job.name)
                .param("key", key)
                .query((row, n) -> row.getObject(1, UUID.class))
                .optional()
                .orElse(null);
    }

    private static void bind(PreparedStatement statement, NewJob job, @Nullable String key, @Nullable UUID waitsFor)
            throws SQLException {
        statement.setObject(1, job.id);
        statement.setString(2, job.name);
        statement.setString(3, job.payload);
        statement.setInt(4, job.priority);
        statement.setString(5, job.capability);
        statement.setObject(6, job.at == null ? null : job.at.atOffset(ZoneOffset.UTC), Types.TIMESTAMP_WITH_TIMEZONE);
        statement.setLong(7, job.delayMillis);
        statement.setObject(8, job.maxAttempts, Types.INTEGER);
        statement.setString(9, job.metadata);
        statement.setString(10, key);
        statement.setObject(11, waitsFor);
    }

    /**
     * Lets successors run whose predecessor has ended unseen: it did so while they were being enqueued. All of them, or
     * only that one.
     */
    public int freeSuccessors(@Nullable UUID successor) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs s
                SET waits_for = (SELECT a.id FROM ~.forge_jobs a
                                 WHERE a.name = s.name AND a.unique_key = s.unique_key AND a.waits_for IS NULL
                                   AND a.status IN %1$s)
                WHERE s.waits_for IS NOT NULL AND s.status = 'pending' AND (:all OR s.id = :id)
                  AND NOT EXISTS (SELECT FROM ~.forge_jobs p WHERE p.id = s.waits_for AND p.status IN %1$s)
                """.formatted(ACTIVE)))
                .param("all", successor == null)
                .param("id", successor, Types.OTHER)
                .update();
    }

    // Claiming ----------------------------------------------------------------------------------------------

    /** What is pending under one name, for one capability ({@code ""}: any node), with one priority. */
    public record Queue(String name, String capability, int priority) {}

    /**
     * What a look at the queues has shown.
     *
     * @param due queues with the time of their oldest job, the most urgent first
     * @param nextMillis until the next job is due that is not yet; null if there is none
     */
    public record Queues(List<Head> due, @Nullable Long nextMillis) {}

    /** The oldest due job of a queue. */
    public record Head(Queue queue, Instant scheduledAt) {}

    /** Queues of these names and capabilities that are not paused. */
    public Queues queues(Collection<String> names, Collection<String> capabilities) {
        List<Head> due = new ArrayList<>();
        @Nullable Long[] next = {null};
        jdbc.query(
                connection -> {
                    PreparedStatement statement = connection.prepareStatement(schema.sql("""
                            WITH RECURSIVE queue (name, capability, priority) AS (
                                SELECT n.name, c.capability,
                                       (SELECT j.priority FROM ~.forge_jobs j
                                        WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = n.name
                                          AND coalesce(j.worker_capability, '') = c.capability
                                        ORDER BY j.priority DESC LIMIT 1)
                                FROM unnest(?::text[]) AS n (name), unnest(?::text[]) AS c (capability)
                                WHERE NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = n.name)
                                UNION ALL
                                SELECT q.name, q.capability,
                                       (SELECT j.priority FROM ~.forge_jobs j
                                        WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = q.name
                                          AND coalesce(j.worker_capability, '') = q.capability
                                          AND j.priority < q.priority
                                        ORDER BY j.priority DESC LIMIT 1)
                                FROM queue q WHERE q.priority IS NOT NULL
                            )
                            SELECT q.name, q.capability, q.priority,
                                   (SELECT j.scheduled_at FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = q.name
                                      AND coalesce(j.worker_capability, '') = q.capability AND j.priority = q.priority
                                      AND j.scheduled_at <= now()
                                    ORDER BY j.scheduled_at LIMIT 1),
                                   (SELECT (extract(epoch FROM j.scheduled_at - now()) * 1000)::bigint FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = q.name
                                      AND coalesce(j.worker_capability, '') = q.capability AND j.priority = q.priority
                                      AND j.scheduled_at > now() AND j.scheduled_at < now() + interval '1 day'
                                    ORDER BY j.scheduled_at LIMIT 1)
                            FROM queue q WHERE q.priority IS NOT NULL
                            """));
                    statement.setArray(1, connection.createArrayOf("text", names.toArray()));
                    statement.setArray(2, connection.createArrayOf("text", capabilities.toArray()));
                    return statement;
                },
                row -> {
                    OffsetDateTime head = row.getObject(4, OffsetDateTime.class);
                    if (head != null) {
                        due.add(new Head(
                                new Queue(row.getString(1), row.getString(2), row.getInt(3)), head.toInstant()));
                    }
                    Long soon = row.getObject(5, Long.class);
                    if (soon != null && (next[0] == null || soon < next[0])) {
                        next[0] = soon;
                    }
                });
        due.sort(Comparator.comparingInt((Head head) -> -head.queue.priority).thenComparing(Head::scheduledAt));
        return new Queues(due, next[0]);
    }

    /**
     * How to claim.
     *
     * @param limit how many at most
     * @param starting how many of them start at once; the rest waits on this node. One that was given back before counts
     *     as started: should it bring its node down soon after its start, the next claim must know
     * @param maxAttempts of those that do not say themselves: whoever recovers them may not know their handler
     * @param lease until when they are this node's without a sign of life; null: as long as the node lives
     */
    public record Claiming(
            UUID node,
            int limit,
            int starting,
            int maxAttempts,
            @Nullable Duration lease) {}

    /**
     * A job that is this node's now.
     *
     * @param payload JSON
     * @param attempt which one this is
     * @param recoveries how often it was taken from a dead or silent node
     * @param checkpoint JSON
     * @param metadata JSON
     * @param waitedMillis how long it had been due when it was claimed
     * @param started whether it is marked as running already
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
            boolean started) {

        /** The name under which it was enqueued. */
        public String name() {
            return queue.name;
        }
    }

    /**
     * Takes the oldest due jobs of a queue, if this node is active. Rows that others are taking are left to them.
     *
     * @param mark jobs scheduled before it are not looked at: where a snapshot somewhere keeps dead entries in the
     *     index, this is what keeps a claim from wading through them
     */
    public List<Claimed> claim(Queue queue, Instant mark, Claiming claiming) {
        List<Claimed> claimed = new ArrayList<>();
        // The same moment for all of them, near enough: reading times is not free.
        long[] claimedAt = {0};
        jdbc.query(
                connection -> {
                    // The array is an InitPlan: its rows are locked once and found again by primary key. Joining the
                    // subselect instead costs a third more, and IN (subselect) may take more rows than the limit.
                    PreparedStatement statement = connection.prepareStatement(schema.sql("""
                            WITH picked AS MATERIALIZED (SELECT ARRAY(
                                SELECT id FROM ~.forge_jobs
                                WHERE status = 'pending' AND waits_for IS NULL AND name = ?
                                  AND coalesce(worker_capability, '') = ? AND priority = ?
                                  AND scheduled_at <= now() AND scheduled_at >= ?
                                  AND EXISTS (SELECT FROM ~.forge_nodes WHERE id = ? AND status = 'active')
                                  AND NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = ?)
                                ORDER BY scheduled_at LIMIT ? FOR UPDATE SKIP LOCKED) AS ids)
                            UPDATE ~.forge_jobs
                            SET status = CASE WHEN claim_epoch > attempts OR id = ANY ((SELECT ids[1:?] FROM picked)::uuid[])
                                          THEN 'running' ELSE 'claimed' END,
                                started_at = CASE WHEN claim_epoch > attempts OR id = ANY ((SELECT ids[1:?] FROM picked)::uuid[])
                                              THEN clock_timestamp() END,
                                max_attempts = coalesce(max_attempts, ?),
                                worker_id = ?, claim_epoch = claim_epoch + 1, attempts = attempts + 1,
                                claimed_at = clock_timestamp(), last_heartbeat = clock_timestamp(),
                                lease_expires_at = coalesce(clock_timestamp() + ? * interval '1 millisecond', 'infinity')
                            WHERE id = ANY ((SELECT ids FROM picked)::uuid[])
                            RETURNING id, payload::text, attempts, max_attempts, claim_epoch, scheduled_at, checkpoint::text,
                                      metadata::text, status = 'running', claimed_at, recoveries
                            """));
                    statement.setString(1, queue.name);
                    statement.setString(2, queue.capability);
                    statement.setInt(3, queue.priority);
                    statement.setObject(4, mark.atOffset(ZoneOffset.UTC));
                    statement.setObject(5, claiming.node);
                    statement.setString(6, queue.name);
                    statement.setInt(7, claiming.limit);
                    statement.setInt(8, claiming.starting);
                    statement.setInt(9, claiming.starting);
                    statement.setInt(10, claiming.maxAttempts);
                    statement.setObject(11, claiming.node);
                    statement.setObject(12, claiming.lease == null ? null : claiming.lease.toMillis(), Types.BIGINT);
                    return statement;
                },
                row -> {
                    Instant scheduledAt = row.getObject(6, OffsetDateTime.class).toInstant();
                    if (claimedAt[0] == 0) {
                        claimedAt[0] = row.getObject(10, OffsetDateTime.class)
                                .toInstant()
                                .toEpochMilli();
                    }
                    claimed.add(new Claimed(
                            row.getObject(1, UUID.class),
                            queue,
                            row.getString(2),
                            row.getInt(3),
                            row.getObject(4, Integer.class),
                            row.getLong(5),
                            row.getInt(11),
                            scheduledAt,
                            row.getString(7),
                            row.getString(8),
                            Math.max(0, claimedAt[0] - scheduledAt.toEpochMilli()),
                            row.getBoolean(9)));
                });
        claimed.sort(Comparator.comparing(Claimed::scheduledAt).thenComparing(Claimed::id));
        return claimed;
    }

    // What a claim's holder writes --------------------------------------------------------------------------

    /** One claim of one job. */
    public record ClaimKey(UUID id, long epoch) {}

    /**
     * How a claim ends.
     *
     * @param status completed, failed, or pending again
     * @param result JSON
     * @param delayMillis before it is due again
     * @param attemptsGivenBack 1 if the attempt does not count
     * @param checkpoint JSON
     * @param progress JSON
     * @param ranMillis how long its handler ran; null if it never started
     */
    public record Finish(
            ClaimKey key,
            JobStatus status,
            @Nullable String result,
            @Nullable String error,
            long delayMillis,
            int attemptsGivenBack,
            @Nullable String checkpoint,
            @Nullable String progress,
            @Nullable Duration retention,
            @Nullable Long ranMillis) {

        /** Whether a statement for the usual case can write it. */
        boolean isPlain() {
            return status == JobStatus.COMPLETED && checkpoint == null && progress == null && retention == null;
        }

        boolean isDeletion() {
            return status == JobStatus.COMPLETED && retention != null && retention.isZero();
        }
    }

    // Arrays come from a subselect: a planner that knows their length thinks that scanning the table is cheaper than
    // looking
    // up their rows, and on a table of some ten thousand rows takes ten times as long.

    /** Ends these claims; answers those that were not this node's any more. Whoever is final by our own hand counts as done. */
    public Set<ClaimKey> finish(UUID node, Collection<Finish> finishes) {
        List<Finish> plain = new ArrayList<>();
        List<Finish> deleted = new ArrayList<>();
        List<Finish> rest = new ArrayList<>();
        // In the order of their ids: two statements that lock the same rows in different orders wait for each other.
        finishes.stream()
                .sorted(Comparator.comparing(finish -> finish.key.id))
                .forEach(finish -> (finish.isDeletion() ? deleted : finish.isPlain() ? plain : rest).add(finish));
        var lost = new HashSet<ClaimKey>();
        lost.addAll(finish(node, plain, this::complete));
        lost.addAll(finish(node, deleted, this::delete));
        lost.addAll(finish(node, rest, this::end));
        return lost;
    }

    private interface Write {
        int apply(UUID node, List<Finish> finishes);
    }

    private Set<ClaimKey> finish(UUID node, List<Finish> finishes, Write write) {
        if (finishes.isEmpty() || write.apply(node, finishes) == finishes.size()) {
            return Set.of();
        }
        List<ClaimKey> keys = finishes.stream().map(Finish::key).toList();
        var lost = new HashSet<>(keys);
        lost.removeAll(finished(node, keys));
        return lost;
    }

    /** Those claims that ended as this node's. */
    private List<ClaimKey> finished(UUID node, List<ClaimKey> keys) {
        return byKey("""
                SELECT j.id, j.claim_epoch FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                WHERE j.worker_id IS NOT DISTINCT FROM ? AND j.status IN ('completed', 'failed')
                """, node, keys);
    }

    private int complete(UUID node, List<Finish> finishes) {
        return jdbc.update(schema.sql("""
                UPDATE ~.forge_jobs j
                SET status = 'completed', finished_at = clock_timestamp(), lease_expires_at = NULL,
                    result = d.result::jsonb,
                    started_at = coalesce(j.started_at, clock_timestamp() - d.ran * interval '1 millisecond')
                FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[]), (SELECT ?::text[]), (SELECT ?::bigint[])) AS d (id, epoch, result, ran)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(OURS)), statement -> {
            Connection connection = statement.getConnection();
            statement.setArray(1, array(connection, "uuid", finishes, finish -> finish.key.id));
            statement.setArray(2, array(connection, "int8", finishes, finish -> finish.key.epoch));
            statement.setArray(3, array(connection, "text", finishes, Finish::result));
            statement.setArray(4, array(connection, "int8", finishes, Finish::ranMillis));
            statement.setObject(5, node);
        });
    }

    private int delete(UUID node, List<Finish> finishes) {
        return jdbc.update(schema.sql("""
                DELETE FROM ~.forge_jobs j USING unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(OURS)), statement -> {
            Connection connection = statement.getConnection();
            statement.setArray(1, array(connection, "uuid", finishes, finish -> finish.key.id));
            statement.setArray(2, array(connection, "int8", finishes, finish -> finish.key.epoch));
            statement.setObject(3, node);
        });
    }

    private int end(UUID node, List<Finish> finishes) {
        return jdbc.update(schema.sql("""
                UPDATE ~.forge_jobs j
                SET status = d.status, lease_expires_at = NULL,
                    worker_id = CASE WHEN d.status <> 'pending' THEN j.worker_id END,
                    finished_at = CASE WHEN d.status <> 'pending' THEN clock_timestamp() END,
                    scheduled_at = CASE WHEN d.status <> 'pending' THEN j.scheduled_at
                                        ELSE clock_timestamp() + d.delay * interval '1 millisecond' END,
                    attempts = j.attempts - d.given_back,
                    -- A handler that ended an attempt by itself does not bring its nodes down.
                    recoveries = CASE WHEN d.status = 'pending' AND d.ran IS NOT NULL THEN 0 ELSE j.recoveries END,
                    started_at = coalesce(j.started_at, clock_timestamp() - d.ran * interval '1 millisecond'),
                    result = coalesce(d.result::jsonb, j.result), last_error = coalesce(d.error, j.last_error),
                    checkpoint = coalesce(d.checkpoint::jsonb, j.checkpoint),
                    progress = coalesce(d.progress::jsonb, j.progress),
                    retention = d.retention * interval '1 millisecond'
                FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[]), (SELECT ?::text[]), (SELECT ?::text[]), (SELECT ?::text[]), (SELECT ?::bigint[]), (SELECT ?::int[]), (SELECT ?::text[]),
                            (SELECT ?::text[]), (SELECT ?::bigint[]), (SELECT ?::bigint[]))
                    AS d (id, epoch, status, result, error, delay, given_back, checkpoint, progress, retention, ran)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(OURS)), statement -> {
            Connection connection = statement.getConnection();
            statement.setArray(1, array(connection, "uuid", finishes, finish -> finish.key.id));
            statement.setArray(2, array(connection, "int8", finishes, finish -> finish.key.epoch));
            statement.setArray(3, array(connection, "text", finishes, finish -> word(finish.status)));
            statement.setArray(4, array(connection, "text", finishes, Finish::result));
            statement.setArray(5, array(connection, "text", finishes, Finish::error));
            statement.setArray(6, array(connection, "int8", finishes, Finish::delayMillis));
            statement.setArray(7, array(connection, "int4", finishes, Finish::attemptsGivenBack));
            statement.setArray(8, array(connection, "text", finishes, Finish::checkpoint));
            statement.setArray(9, array(connection, "text", finishes, Finish::progress));
            statement.setArray(
                    10,
                    array(
                            connection,
                            "int8",
                            finishes,
                            finish -> finish.retention == null ? null : finish.retention.toMillis()));
            statement.setArray(11, array(connection, "int8", finishes, Finish::ranMillis));
            statement.setObject(12, node);
        });
    }

    /** Ends a claim with the last statement of its handler's own transaction; false if it is not this node's any more. */
    public boolean finishInTransaction(UUID node, Finish finish) {
        // Should the node be cut off before it commits, the row must not stay locked for as long as the network lasts.
        jdbc.queryForObject("SELECT set_config('idle_in_transaction_session_timeout', '5s', true)", String.class);
        return finish(node, List.of(finish)).isEmpty();
    }

    /** Whether somebody else has locked what was to be written. */
    public static boolean isLocked(DataAccessException failure) {
        return "55P03".equals(state(failure));
    }

    private static @Nullable String state(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                return sql.getSQLState();
            }
        }
        return null;
    }

    /** Whether the server rejects the values themselves, so that no repetition helps. */
    public static boolean isRefusal(DataAccessException failure) {
        String state = state(failure);
        return state != null && (state.startsWith("22") || state.startsWith("23") || state.startsWith("54"));
    }

    /** Marks claimed jobs as running. */
    public void start(UUID node, Collection<ClaimKey> keys) {
        List<ClaimKey> sorted = sorted(keys);
        jdbc.update(schema.sql("""
                UPDATE ~.forge_jobs j SET status = 'running', started_at = clock_timestamp()
                FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND j.worker_id IS NOT DISTINCT FROM ? AND j.status = 'claimed'
                """), statement -> bind(statement, node, sorted));
    }

    /** Says how far a job is; false if it is not this node's any more. */
    public boolean note(UUID node, ClaimKey key, @Nullable String progress, @Nullable String checkpoint) {
        return jdbc.update(schema.sql("""
                UPDATE ~.forge_jobs
                SET progress = coalesce(?::jsonb, progress), checkpoint = coalesce(?::jsonb, checkpoint)
                WHERE id = ? AND claim_epoch = ? AND worker_id = ? AND status IN %s
                """.formatted(HELD)), progress, checkpoint, key.id, key.epoch, node) == 1;
    }

    /**
     * Extends the leases of jobs that this node is working on; answers those that are not its any more. Rows that
     * somebody has locked are busy, not lost.
     */
    public Set<ClaimKey> renew(UUID node, Collection<ClaimKey> keys, Duration lease) {
        List<ClaimKey> sorted = sorted(keys);
        List<ClaimKey> renewed = byKey("""
                UPDATE ~.forge_jobs
                SET last_heartbeat = clock_timestamp(),
                    lease_expires_at = clock_timestamp() + %d * interval '1 millisecond'
                WHERE id = ANY (ARRAY(
                    SELECT j.id FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                    JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                    WHERE %s
                    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED))
                RETURNING id, claim_epoch
                """.formatted(lease.toMillis(), OURS), node, sorted);
        return renewed.size() == sorted.size() ? Set.of() : missing(node, sorted);
    }

    /** Those of these claims that are not this node's any more. */
    public Set<ClaimKey> missing(UUID node, Collection<ClaimKey> keys) {
        List<ClaimKey> all = List.copyOf(keys);
        var missing = new HashSet<>(all);
        missing.removeAll(byKey("""
                SELECT j.id, j.claim_epoch FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                WHERE %s
                """.formatted(OURS), node, all));
        return missing;
    }

    /**
     * Returns jobs that the table says this node has although it knows nothing of them: the answer to a claim got lost.
     *
     * @param known what it does have
     * @param age only those claimed longer ago, so that claims under way are left alone
     */
    public int returnUnknown(UUID node, Collection<UUID> known, Duration age) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs
                SET status = 'pending', worker_id = NULL, lease_expires_at = NULL, attempts = attempts - 1
                WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs
                    WHERE worker_id = :node AND status IN %1$s AND id <> ALL (:known::uuid[])
                      AND claimed_at < clock_timestamp() - :age * interval '1 millisecond'
                    ORDER BY id FOR UPDATE SKIP LOCKED))
                  AND worker_id = :node AND status IN %1$s
                """.formatted(HELD)))
                .param("node", node)
                .param("known", known.toArray(UUID[]::new))
                .param("age", age.toMillis())
                .update();
    }

    // Recovery ----------------------------------------------------------------------------------------------

    /**
     * What a crash costs a job.
     *
     * @param spendsAttempt whether it counts as a failed attempt
     * @param maxAttempts of jobs that do not say themselves
     * @param maxRecoveries how many a job survives
     */
    public record CrashRule(boolean spendsAttempt, int maxAttempts, int maxRecoveries) {}

    /** A job that was taken from its node. */
    public record Recovered(
            UUID id, String name, @Nullable UUID node, long silentMillis, int recoveries, JobStatus status) {}

    static Recovered recovered(ResultSet row, UUID node) throws SQLException {
        return new Recovered(
                row.getObject(1, UUID.class),
                row.getString(2),
                node,
                row.getLong(3),
                row.getInt(4),
                status(row.getString(5)));
    }

    /** What becomes of a job that is taken from its node; the alias of its row is {@code j}. */
    static String recovery(CrashRule rule) {
        String over = rule.spendsAttempt
                ? "j.status = 'running' AND j.attempts >= coalesce(j.max_attempts, %d)".formatted(rule.maxAttempts)
                : "j.status = 'running' AND j.recoveries >= %d".formatted(rule.maxRecoveries);
        String reason = rule.spendsAttempt
                ? "its node died under the last of its attempts"
                : "its node died under it more than %d times; see forge.cluster.job.max-recoveries"
                        .formatted(rule.maxRecoveries);
        return """
                status = CASE WHEN %1$s THEN '%2$s' ELSE 'pending' END,
                finished_at = CASE WHEN %1$s THEN clock_timestamp() END,
                last_error = CASE WHEN %1$s THEN '%3$s' ELSE j.last_error END,
                recoveries = j.recoveries + CASE j.status WHEN 'running' THEN 1 ELSE 0 END,
                attempts = j.attempts - CASE WHEN j.status = 'running' AND %4$s THEN 0 ELSE 1 END,
                -- A job that brings its nodes down must not take the next one with it at once; and those that ran beside
                -- it should not do so every time.
                scheduled_at = greatest(j.scheduled_at, clock_timestamp() + interval '500 milliseconds'
                                   + random() * j.recoveries * interval '2 seconds'),
                worker_id = NULL, lease_expires_at = NULL, started_at = NULL
                """.formatted(over, rule.spendsAttempt ? "failed" : "abandoned", reason, rule.spendsAttempt);
    }

    /**
     * Takes jobs from nodes that are dead or gone, and (unless in grace) those whose lease is over or that were claimed
     * too long ago without a start. One statement: what it decides on, it has locked.
     */
    public List<Recovered> sweep(CrashRule rule, Duration claimStartTimeout, boolean grace) {
        return client.sql(schema.sql("""
                WITH overdue AS MATERIALIZED (
                    SELECT j.id, j.worker_id, j.last_heartbeat FROM ~.forge_jobs j
                    WHERE j.status IN %s
                      AND (NOT EXISTS (SELECT FROM ~.forge_nodes n WHERE n.id = j.worker_id AND n.status <> 'dead')
                           OR NOT :grace AND (j.lease_expires_at < clock_timestamp()
                               OR j.status = 'claimed'
                                  AND j.claimed_at < clock_timestamp() - :unstarted * interval '1 millisecond'))
                    ORDER BY j.id LIMIT 1000 FOR UPDATE SKIP LOCKED)
                UPDATE ~.forge_jobs j SET %s
                FROM overdue o WHERE j.id = o.id
                RETURNING j.id, j.name, o.worker_id,
                          (extract(epoch FROM clock_timestamp() - o.last_heartbeat) * 1000)::bigint, j.recoveries, j.status
                """.formatted(HELD, recovery(rule))))
                .param("grace", grace)
                .param("unstarted", claimStartTimeout.toMillis())
                .query((row, n) -> new Recovered(
                        row.getObject(1, UUID.class),
                        row.getString(2),
                        row.getObject(3, UUID.class),
                        row.getLong(4),
                        row.getInt(5),
                        status(row.getString(6))))
                .list();
    }

    // Operators and house-keeping ---------------------------------------------------------------------------

    /** Tells every node that listens. */
    public void notifyOthers(String news) {
        client.sql("SELECT pg_notify(?, ?)")
                .params(schema.channel(), news)
                .query((row, n) -> true)
                .list();
    }

    /** Calls a job off; its node if one has it, nothing if there is no such active job. */
    public Optional<Cancelled> cancel(UUID id) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs j
                SET status = 'cancelled', finished_at = clock_timestamp(), lease_expires_at = NULL, waits_for = NULL
                WHERE id = ? AND status IN %s
                RETURNING j.worker_id
                """.formatted(ACTIVE)))
                .param(id)
                .query((row, n) -> new Cancelled(row.getObject(1, UUID.class)))
                .optional();
    }

    /** A job that was called off, and who had it. */
    public record Cancelled(@Nullable UUID node) {}

    /** Begins a failed, cancelled or abandoned job anew, unless an active one has its key by now. */
    public boolean retry(UUID id) {
        return jdbc.update(schema.sql("""
                UPDATE ~.forge_jobs j
                SET status = 'pending', scheduled_at = now(), attempts = 0, recoveries = 0, finished_at = NULL,
                    started_at = NULL, worker_id = NULL, retention = NULL
                WHERE id = ? AND status IN ('failed', 'cancelled', 'abandoned')
                  AND NOT EXISTS (SELECT FROM ~.forge_jobs a WHERE a.name = j.name AND a.unique_key = j.unique_key
                                  AND a.waits_for IS NULL AND a.status IN ('pending', 'claimed', 'running'))
                """), id) == 1;
    }

    /** No claim takes jobs of that name from now on. */
    public void pause(String name) {
        jdbc.update(schema.sql("INSERT INTO ~.forge_job_pauses (name) VALUES (?) ON CONFLICT DO NOTHING"), name);
    }

    /** Ends a pause; false if there was none. */
    public boolean resume(String name) {
        return jdbc.update(schema.sql("DELETE FROM ~.forge_job_pauses WHERE name = ?"), name) == 1;
    }

    /** The names that are paused. */
    public Set<String> paused() {
        return new TreeSet<>(client.sql(schema.sql("SELECT name FROM ~.forge_job_pauses"))
                .query((row, n) -> row.getString(1))
                .list());
    }

    /** Deletes finished jobs that were kept long enough, up to that many. */
    public int purge(Duration completed, Duration failed, int limit) {
        return client.sql(schema.sql("""
                DELETE FROM ~.forge_jobs WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs
                    WHERE status IN ('completed', 'failed', 'cancelled', 'abandoned')
                      AND finished_at < clock_timestamp() - coalesce(retention,
                          CASE WHEN status IN ('completed', 'cancelled') THEN :completed ELSE :failed END
                          * interval '1 millisecond')
                    ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED))
                """))
                .param("completed", completed.toMillis())
                .param("failed", failed.toMillis())
                .param("limit", limit)
                .update();
    }

    /** How many dead rows the table has, as far as the server's statistics know. */
    public long deadRows() {
        return client.sql("SELECT coalesce(pg_stat_get_dead_tuples(to_regclass(?)), 0)")
                .param(schema.sql("~.forge_jobs"))
                .query(Long.class)
                .single();
    }

    /** Cleans the table up. Best effort: only its owner may, and not while somebody else does. */
    public void vacuum() {
        jdbc.execute((ConnectionCallback<Boolean>) connection -> {
            connection.setNetworkTimeout(Runnable::run, (int) LONGEST_VACUUM.toMillis());
            try (Statement statement = connection.createStatement()) {
                return statement.execute(
                        schema.sql("VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF, SKIP_LOCKED) ~.forge_jobs"));
            }
        });
    }

    /** A job. */
    public Optional<JobInfo> find(UUID id) {
        return client.sql(schema.sql("SELECT %s FROM ~.forge_jobs WHERE id = ?".formatted(COLUMNS)))
                .param(id)
                .query((row, n) -> info(row))
                .optional();
    }

    /** The newest jobs, if wanted only of that name or status; without what may be large. */
    public List<JobInfo> list(@Nullable String name, @Nullable JobStatus status, int limit) {
        return client.sql(schema.sql("""
                SELECT %s FROM ~.forge_jobs
                WHERE (:name::text IS NULL OR name = :name) AND (:status::text IS NULL OR status = :status)
                ORDER BY id DESC LIMIT :limit
                """.formatted(SMALL_COLUMNS)))
                .param("name", name, Types.VARCHAR)
                .param("status", status == null ? null : word(status), Types.VARCHAR)
                .param("limit", limit)
                .query((row, n) -> info(row))
                .list();
    }

    /** How many jobs of a name have a status. */
    public record Count(String name, JobStatus status, long jobs) {}

    /** The unfinished ones, by name and status. */
    public List<Count> unfinished() {
        return client.sql(schema.sql("""
                SELECT name, status, count(*) FROM ~.forge_jobs WHERE status IN %s GROUP BY 1, 2 ORDER BY 1, 2
                """.formatted(ACTIVE)))
                .query((row, n) -> new Count(row.getString(1), status(row.getString(2)), row.getLong(3)))
                .list();
    }

    /** For how long the oldest due job has been waiting. */
    public Duration oldestAge() {
        return Duration.ofMillis(client.sql(schema.sql("""
                SELECT coalesce((extract(epoch FROM now() - min(scheduled_at)) * 1000)::bigint, 0)
                FROM ~.forge_jobs WHERE status = 'pending' AND waits_for IS NULL AND scheduled_at <= now()
                """)).query(Long.class).single());
    }

    /** Which pending names no live node has a handler for, with their counts up to a thousand: cheap, however many there are. */
    public Map<String, Long> orphanedNames() {
        return client
                .sql(schema.sql("""
                WITH RECURSIVE pending (name) AS (
                    (SELECT name FROM ~.forge_jobs WHERE status = 'pending' AND waits_for IS NULL ORDER BY name LIMIT 1)
                    UNION ALL
                    SELECT (SELECT j.name FROM ~.forge_jobs j
                            WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name > p.name
                            ORDER BY j.name LIMIT 1)
                    FROM pending p WHERE p.name IS NOT NULL)
                SELECT p.name, (SELECT count(*) FROM (
                                   SELECT FROM ~.forge_jobs j
                                   WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = p.name LIMIT 1000) AS few)
                FROM pending p
                WHERE p.name IS NOT NULL
                  AND p.name <> ALL (ARRAY(SELECT unnest(handlers) FROM ~.forge_nodes WHERE status <> 'dead'))
                """))
                .query((row, n) -> Map.entry(row.getString(1), row.getLong(2)))
                .list()
                .stream()
                .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue, (a, b) -> a, TreeMap::new));
    }

    /** Names that nodes of this cluster, live or lately dead, have handlers for. */
    public Set<String> advertisedNames() {
        return new TreeSet<>(client.sql(schema.sql("SELECT DISTINCT unnest(handlers) FROM ~.forge_nodes"))
                .query((row, n) -> row.getString(1))
                .list());
    }

    /** What stands in the way of a pending job. */
    public record Obstacles(
            boolean paused,
            @Nullable UUID waitsFor,
            long dueInMillis,
            int workers,
            int knowing,
            int capable,
            int free) {}

    /** What stands in the way of that job; nothing if it is not pending. */
    public Optional<Obstacles> obstacles(UUID id) {
        return client.sql(schema.sql("""
                SELECT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = j.name), j.waits_for,
                       (extract(epoch FROM j.scheduled_at - now()) * 1000)::bigint,
                       count(n.id), count(n.id) FILTER (WHERE j.name = ANY (n.handlers)),
                       count(n.id) FILTER (WHERE j.name = ANY (n.handlers)
                           AND (j.worker_capability IS NULL OR j.worker_capability = ANY (n.worker_capabilities))),
                       count(n.id) FILTER (WHERE j.name = ANY (n.handlers)
                           AND (j.worker_capability IS NULL OR j.worker_capability = ANY (n.worker_capabilities))
                           AND n.current_jobs < coalesce((n.info ->> 'slots')::int, 1))
                FROM ~.forge_jobs j
                LEFT JOIN ~.forge_nodes n ON n.status = 'active' AND 'worker' = ANY (n.roles)
                    AND n.info ->> 'mode' <> 'observer'
                WHERE j.id = ? AND j.status = 'pending'
                GROUP BY j.id, j.name, j.waits_for, j.scheduled_at
                """))
                .param(id)
                .query((row, n) -> new Obstacles(
                        row.getBoolean(1),
                        row.getObject(2, UUID.class),
                        row.getLong(3),
                        row.getInt(4),
                        row.getInt(5),
                        row.getInt(6),
                        row.getInt(7)))
                .optional();
    }

    // -------------------------------------------------------------------------------------------------------

    private static final String COLUMNS = """
            id, name, status, payload::text, priority, worker_capability, scheduled_at, attempts, max_attempts, recoveries,
            worker_id, claim_epoch, started_at, finished_at, progress::text, result::text, last_error, unique_key,
            ARRAY(SELECT key FROM jsonb_each_text(%1$s) ORDER BY key),
            ARRAY(SELECT coalesce(value, '') FROM jsonb_each_text(%1$s) ORDER BY key), created_at"""
            // Somebody may have edited it by hand.
            .formatted("CASE jsonb_typeof(metadata) WHEN 'object' THEN metadata ELSE '{}' END");

    private static final String SMALL_COLUMNS = COLUMNS.replace("payload::text", "'{}'")
            .replace("result::text", "NULL::text")
            .replace("last_error", "NULL::text");

    private static JobInfo info(ResultSet row) throws SQLException {
        var metadata = new TreeMap<String, String>();
        String[] keys = (String[]) row.getArray(19).getArray();
        String[] values = (String[]) row.getArray(20).getArray();
        for (int i = 0; i < keys.length; i++) {
            metadata.put(keys[i], values[i]);
        }
        return new JobInfo(
                row.getObject(1, UUID.class),
                row.getString(2),
                status(row.getString(3)),
                row.getString(4),
                row.getInt(5),
                row.getString(6),
                row.getObject(7, OffsetDateTime.class).toInstant(),
                row.getInt(8),
                row.getObject(9, Integer.class),
                row.getInt(10),
                row.getObject(11, UUID.class),
                row.getLong(12),
                instant(row, 13),
                instant(row, 14),
                row.getString(15),
                row.getString(16),
                row.getString(17),
                row.getString(18),
                metadata,
                row.getObject(21, OffsetDateTime.class).toInstant());
    }

    private static @Nullable Instant instant(ResultSet row, int column) throws SQLException {
        OffsetDateTime time = row.getObject(column, OffsetDateTime.class);
        return time == null ? null : time.toInstant();
    }

    private List<ClaimKey> byKey(String sql, UUID node, List<ClaimKey> keys) {
        return jdbc.query(
                connection -> {
                    PreparedStatement statement = connection.prepareStatement(schema.sql(sql));
                    bind(statement, node, keys);
                    return statement;
                },
                (row, n) -> new ClaimKey(row.getObject(1, UUID.class), row.getLong(2)));
    }

    private static void bind(PreparedStatement statement, UUID node, List<ClaimKey> keys) throws SQLException {
        Connection connection = statement.getConnection();
        statement.setArray(1, array(connection, "uuid", keys, ClaimKey::id));
        statement.setArray(2, array(connection, "int8", keys, ClaimKey::epoch));
        statement.setObject(3, node);
    }

    private static List<ClaimKey> sorted(Collection<ClaimKey> keys) {
        return keys.stream().sorted(Comparator.comparing(ClaimKey::id)).toList();
    }

    private static <T> Array array(
            Connection connection, String type, List<T> rows, Function<T, @Nullable Object> column)
            throws SQLException {
        @Nullable Object[] values = new @Nullable Object[rows.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = column.apply(rows.get(i));
        }
        return connection.createArrayOf(type, values);
    }

    private static String word(JobStatus status) {
        return status.name().toLowerCase(Locale.ROOT);
    }

    private static JobStatus status(String word) {
        return JobStatus.valueOf(word.toUpperCase(Locale.ROOT));
    }
}
