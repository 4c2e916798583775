package dev.forge.cluster.internal.store;

import dev.forge.cluster.JobStatus;
import dev.forge.cluster.UniquePolicy;
import java.sql.Array;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The rows of {@code forge_jobs}: how they come, who takes them, how they end. What people ask about them is in
 * {@link JobReports}, what keeps the table in order in {@link JobKeeping}.
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

    static final String ACTIVE = "('pending', 'claimed', 'running')";
    static final String HELD = "('claimed', 'running')";

    /** For how long row {@code %s} has been without a sign of life; somebody may have edited it by hand. */
    private static final String SILENT_MILLIS = """
            CASE WHEN isfinite(%1$s.last_heartbeat)
                THEN (extract(epoch FROM clock_timestamp() - %1$s.last_heartbeat) * 1000)::bigint ELSE 0 END""";

    private static final String UNIQUE_VIOLATION = "23505";

    /** The largest size that a row may name. */
    private static final int MOST_BYTES = 1_000_000_000;

    /** How many characters of JSON one statement brings along, more or less. */
    private static final long STATEMENT_LENGTH = 8_000_000;

    /**
     * Whether row {@code j} is held by that node. Says it so that the planner sees no use for the index on holders: of a
     * busy node that index is full of dead entries, and rows are to be found by their ids.
     */
    private static final String OURS = """
            j.worker_id IS NOT DISTINCT FROM ?
            AND j.status NOT IN ('pending', 'completed', 'failed', 'cancelled', 'abandoned')""";

    /** The largest count of attempts or recoveries, as the table's constraints have it. Statements stop counting there. */
    private static final int MOST_COUNTED = 1_000_000_000;

    /** The last epoch; a row that somebody has written with it is never claimed. */
    private static final long LAST_EPOCH = 1_000_000_000_000_000_000L;

    /** How many entries {@code attempt_history} has at most; the oldest go first. */
    static final int LONGEST_HISTORY = 20;

    /** Characters of the error of one entry. */
    static final int LONGEST_HISTORY_ERROR = 2_000;

    private static final String HISTORY_WITH_FAILURE =
            historyWith("CASE WHEN d.timed_out THEN 'timed-out' ELSE 'failed' END", "d.ran", "d.error");

    private static final String HISTORY_WITH_LOST_NODE = historyWith(
            "'node-lost'",
            "CASE WHEN isfinite(j.started_at) THEN (extract(epoch FROM clock_timestamp() - j.started_at) * 1000)::bigint END",
            "'the node died or left, or it did not renew the lease in time'");

    /**
     * The history of row {@code j} with one entry more, for the statement that ends the attempt: a job that succeeds at
     * its first attempt never has one. Somebody may have edited the column by hand.
     */
    private static String historyWith(String outcome, String ranMillis, String error) {
        return """
                CASE WHEN jsonb_typeof(j.attempt_history) = 'array'
                    THEN CASE WHEN jsonb_array_length(j.attempt_history) >= %d THEN j.attempt_history - 0
                              ELSE j.attempt_history END
                    ELSE '[]'::jsonb END
                || jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
                    'attempt', j.attempts, 'epoch', j.claim_epoch, 'node', j.worker_id,
                    'startedAt', date_trunc('milliseconds',
                        coalesce(j.started_at, clock_timestamp() - coalesce(%3$s, 0) * interval '1 millisecond')),
                    'millis', %3$s, 'outcome', %2$s, 'error', left(%4$s, %5$d))))""".formatted(LONGEST_HISTORY, outcome, ranMillis, error, LONGEST_HISTORY_ERROR);
    }

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
        return new TransactionTemplate(new OwnTransactions(Objects.requireNonNull(jdbc.getDataSource())));
    }

    // Enqueueing --------------------------------------------------------------------------------------------

    /**
     * A job to be.
     *
     * @param payload JSON
     * @param delayMillis after now; 0 if {@code at} says when
     * @param at not before it is enqueued: a time in the past would go before all that others have enqueued
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
            String metadata) {

        /** What a claim of it reads. */
        int bytes() {
            return (int) Math.min(MOST_BYTES, PrintedJson.bytes(payload) + PrintedJson.bytes(metadata));
        }
    }

    // Not now(): jobs of one transaction would share it, and a mark could not tell them apart.
    private static final String INSERT = """
            INSERT INTO ~.forge_jobs
                (id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata, unique_key, waits_for,
                 body_bytes)
            VALUES (?, ?, ?::jsonb, ?, ?, greatest(?, clock_timestamp() + ? * interval '1 millisecond'), ?, ?::jsonb, ?, ?, ?)
            """;

    /** Adds a job in the caller's transaction. */
    public void insert(NewJob job) {
        jdbc.update(schema.sql(INSERT), statement -> bind(statement, job, null, null));
    }

    /** Adds many with one statement, or with a few if they are large, in the caller's transaction. */
    public void insertAll(List<NewJob> jobs) {
        inParts(jobs, job -> (long) job.payload.length() + job.metadata.length())
                .forEach(this::insertTogether);
    }

    private void insertTogether(List<NewJob> jobs) {
        jdbc.update(schema.sql("""
                INSERT INTO ~.forge_jobs
                    (id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata, body_bytes)
                SELECT d.id, d.name, d.payload::jsonb, d.priority, d.capability,
                       greatest(?, clock_timestamp() + ? * interval '1 millisecond'), d.max_attempts, ?::jsonb, d.bytes
                FROM unnest(?::uuid[], ?::text[], ?::text[], ?::int[], ?::text[], ?::int[], ?::int[])
                    AS d (id, name, payload, priority, capability, max_attempts, bytes)
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
            statement.setArray(10, array(connection, "int4", jobs, NewJob::bytes));
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

    /**
     * Adds a job with a key that no other job should have.
     *
     * @throws DuplicateKeyException if an active one has it all the same; no repetition helps
     */
    public void insertWithOwnKey(NewJob job, String key) {
        UUID active = insertUnique(job, key, UniquePolicy.KEEP);
        if (!active.equals(job.id)) {
            String message =
                    "job '%s' with the unique key '%s' exists already, as %s; cancel that job if it was enqueued by hand"
                            .formatted(job.name, key, active);
            throw new DuplicateKeyException(message, new SQLException(message, UNIQUE_VIOLATION));
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
                    scheduled_at = greatest(:at, clock_timestamp() + :delay * interval '1 millisecond'),
                    max_attempts = :max_attempts, metadata = :metadata::jsonb, body_bytes = :bytes,
                    attempts = 0, recoveries = 0, progress = NULL, checkpoint = NULL, checkpoint_bytes = NULL,
                    last_error = NULL, attempt_history = NULL
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
                .param("bytes", job.bytes())
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
        statement.setInt(12, job.bytes());
    }

    /**
     * Lets successors run whose predecessor has ended unseen: it did so while they were being enqueued. A thousand at most,
     * and none that somebody has locked; the next sweep frees the others.
     */
    public int freeSuccessors() {
        return free("""
                AND s.id = ANY (ARRAY(
                    SELECT w.id FROM ~.forge_jobs w
                    WHERE w.waits_for IS NOT NULL AND w.status = 'pending'
                      AND NOT EXISTS (SELECT FROM ~.forge_jobs p WHERE p.id = w.waits_for AND p.status IN %s)
                    LIMIT 1000 FOR UPDATE OF w SKIP LOCKED))
                """.formatted(ACTIVE)).update();
    }

    /** The same for one of them. */
    public int freeSuccessor(UUID successor) {
        return free("AND s.id = ?").param(successor).update();
    }

    /** The same for that of one job, which has ended in a transaction that could not see it. */
    public int freeSuccessorOf(UUID predecessor) {
        return free("AND s.waits_for = ?").param(predecessor).update();
    }

    private JdbcClient.StatementSpec free(String which) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs s
                SET waits_for = (SELECT a.id FROM ~.forge_jobs a
                                 WHERE a.name = s.name AND a.unique_key = s.unique_key AND a.waits_for IS NULL
                                   AND a.status IN %1$s)
                WHERE s.waits_for IS NOT NULL AND s.status = 'pending' %2$s
                  AND NOT EXISTS (SELECT FROM ~.forge_jobs p WHERE p.id = s.waits_for AND p.status IN %1$s)
                """.formatted(ACTIVE, which)));
    }

    // Claiming ----------------------------------------------------------------------------------------------

    /** What is pending under one name, for one capability ({@code ""}: any node), with one priority. */
    public record Queue(String name, String capability, int priority) {}

    /**
     * What a look at the queues has shown.
     *
     * @param due queues with the time of their oldest job, the most urgent first
     * @param nextMillis until the next job is due that is not yet; null if there is none
     * @param marks from where on the next look needs to look at the queues that this one has seen
     * @param unseen names and capabilities that have more queues than this look went through, with the priority of the last one
     */
    public record Queues(
            List<Head> due, @Nullable Long nextMillis, Map<Queue, Instant> marks, Map<Place, Integer> unseen) {}

    /** Queues of one name for one capability. */
    public record Place(String name, String capability) {}

    /**
     * Where to look.
     *
     * @param marks what earlier looks have answered. Jobs of a queue that are due before its mark are not looked at: where a
     *     snapshot somewhere keeps dead entries in the index, this is what keeps a look from wading through them. Whatever
     *     was committed within a second of its time is found all the same; a job that came later than that, or with a
     *     time that had passed, is found by a look without marks only
     * @param most how many queues of a name for one capability, the most urgent first
     * @param continued what an earlier look has left {@linkplain Queues#unseen unseen}: this one goes through as many of those
     */
    public record Look(
            Collection<String> names,
            Collection<String> capabilities,
            Map<Queue, Instant> marks,
            int most,
            Map<Place, Integer> continued) {}

    /** The oldest due job of a queue. */
    public record Head(Queue queue, Instant scheduledAt) {}

    /** Queues of these names and capabilities that are not paused, each from its beginning. */
    public Queues queues(Collection<String> names, Collection<String> capabilities) {
        return queues(names, capabilities, Map.of());
    }

    /** Queues of these names and capabilities that are not paused, from their marks on. */
    public Queues queues(Collection<String> names, Collection<String> capabilities, Map<Queue, Instant> marks) {
        return queues(new Look(names, capabilities, marks, Integer.MAX_VALUE, Map.of()));
    }

    /**
     * How long a look may take. Where a snapshot somewhere keeps millions of dead entries it takes longer; then
     * {@link #recentQueues} finds work, because it does not meet them.
     */
    private static final int LOOK_SECONDS = 2;

    /** The end of a look: what is due of a queue, and what comes next. */
    private static final String SEEN = """
            ), seen AS (
                SELECT q.*,
                       CASE WHEN q.head <= now() THEN
                           (SELECT j.scheduled_at FROM ~.forge_jobs j
                            WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = q.name
                              AND coalesce(j.worker_capability, '') = q.capability
                              AND j.priority = q.priority
                              AND j.scheduled_at > now() AND j.scheduled_at < now() + interval '1 day'
                            ORDER BY j.scheduled_at LIMIT 1)
                           WHEN q.head < now() + interval '1 day' THEN q.head END AS next
                FROM queue q
            )
            SELECT name, capability, priority, CASE WHEN head <= now() THEN head END,
                   (extract(epoch FROM next - now()) * 1000)::bigint,
                   least(head, now() - interval '1 second'), depth
            FROM seen
            """;

    /** Collects the rows of {@link #SEEN}. */
    private static final class Found {

        private final int most;
        private final List<Head> due = new ArrayList<>();
        private @Nullable Long next;
        private final Map<Queue, Instant> marks = new HashMap<>();
        private final Map<Place, Integer> unseen = new HashMap<>();

        Found(int most) {
            this.most = most;
        }

        void add(ResultSet row) throws SQLException {
            var queue = new Queue(row.getString(1), row.getString(2), row.getInt(3));
            OffsetDateTime head = row.getObject(4, OffsetDateTime.class);
            if (head != null) {
                due.add(new Head(queue, head.toInstant()));
            }
            Long soon = row.getObject(5, Long.class);
            Long earlier = next;
            if (soon != null && (earlier == null || soon < earlier)) {
                next = soon;
            }
            marks.put(queue, row.getObject(6, OffsetDateTime.class).toInstant());
            if (row.getInt(7) == most) {
                // The last one of a gap: the least urgent of these is where the next look goes on.
                unseen.merge(new Place(queue.name, queue.capability), queue.priority, Math::min);
            }
        }

        Queues queues() {
            due.sort(
                    Comparator.comparingInt((Head head) -> -head.queue.priority).thenComparing(Head::scheduledAt));
            // Nothing is less urgent than zero.
            unseen.values().removeIf(last -> last == 0);
            return new Queues(due, next, marks, unseen);
        }
    }

    /**
     * Queues of these names and capabilities that are not paused, as if there were no jobs with an earlier time than so long
     * ago. A look that meets no dead entries from before, however many a snapshot keeps.
     */
    public Queues recentQueues(Collection<String> names, Collection<String> capabilities, Duration reach) {
        var found = new Found(Integer.MAX_VALUE);
        jdbc.query(
                connection -> {
                    // Priority by priority: to find out which there are it would have to pass the dead entries.
                    PreparedStatement statement = connection.prepareStatement(schema.sql("""
                            WITH queue (name, capability, priority, head, depth) AS (
                                SELECT n.name, c.capability, p.priority, first.scheduled_at, 0
                                FROM unnest(?::text[]) AS n (name) CROSS JOIN unnest(?::text[]) AS c (capability)
                                CROSS JOIN generate_series(0, 100) AS p (priority)
                                CROSS JOIN LATERAL (
                                    SELECT j.scheduled_at FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = n.name
                                      AND coalesce(j.worker_capability, '') = c.capability AND j.priority = p.priority
                                      AND j.scheduled_at >= now() - ? * interval '1 millisecond'
                                    ORDER BY j.scheduled_at LIMIT 1) AS first
                                WHERE NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = n.name)
                            """ + SEEN));
                    statement.setQueryTimeout(LOOK_SECONDS);
                    statement.setArray(1, connection.createArrayOf("text", names.toArray()));
                    statement.setArray(2, connection.createArrayOf("text", capabilities.toArray()));
                    statement.setLong(3, reach.toMillis());
                    return statement;
                },
                found::add);
        return found.queues();
    }

    /** Queues that are not paused. */
    public Queues queues(Look look) {
        var found = new Found(look.most);
        jdbc.query(
                connection -> {
                    // The first pending row of a queue says both its priority and its head, so that dead entries are
                    // met
                    // once. Between queues with a mark there may be others of which nothing is known: gaps.
                    PreparedStatement statement = connection.prepareStatement(schema.sql("""
                            WITH RECURSIVE gap (name, capability, above, priority, head, depth) AS (
                                SELECT g.name, g.capability, g.above, first.priority, first.scheduled_at, 1
                                FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[])
                                         AS g (name, capability, above, below)
                                CROSS JOIN LATERAL (
                                    SELECT j.priority, j.scheduled_at FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = g.name
                                      AND coalesce(j.worker_capability, '') = g.capability
                                      AND j.priority > g.above AND j.priority < g.below
                                    ORDER BY j.priority DESC, j.scheduled_at LIMIT 1) AS first
                                WHERE NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = g.name)
                                UNION ALL
                                SELECT g.name, g.capability, g.above, first.priority, first.scheduled_at, g.depth + 1
                                FROM gap g
                                CROSS JOIN LATERAL (
                                    SELECT j.priority, j.scheduled_at FROM ~.forge_jobs j
                                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = g.name
                                      AND coalesce(j.worker_capability, '') = g.capability
                                      AND j.priority > g.above AND j.priority < g.priority
                                    ORDER BY j.priority DESC, j.scheduled_at LIMIT 1) AS first
                                WHERE g.depth < ?
                            ), queue (name, capability, priority, head, depth) AS (
                                SELECT name, capability, priority, head, depth FROM gap
                                UNION ALL
                                SELECT m.name, m.capability, m.priority,
                                       (SELECT j.scheduled_at FROM ~.forge_jobs j
                                        WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = m.name
                                          AND coalesce(j.worker_capability, '') = m.capability
                                          AND j.priority = m.priority AND j.scheduled_at >= m.mark
                                        ORDER BY j.scheduled_at LIMIT 1), 0
                                FROM unnest(?::text[], ?::text[], ?::int[], ?::timestamptz[])
                                         AS m (name, capability, priority, mark)
                                WHERE NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = m.name)
                            """ + SEEN));
                    statement.setQueryTimeout(LOOK_SECONDS);
                    Places.of(look).bind(statement, look.most);
                    return statement;
                },
                found::add);
        return found.queues();
    }

    /** Where a look looks: at queues with a mark, and at all priorities between them. */
    private record Places(List<Gap> gaps, List<Head> marked) {

        /** Priorities between two others of which nothing is known. */
        record Gap(String name, String capability, long above, long below) {}

        static Places of(Look look) {
            Map<String, List<Head>> known = new HashMap<>();
            look.marks.forEach((queue, mark) ->
                    known.computeIfAbsent(queue.name, n -> new ArrayList<>()).add(new Head(queue, mark)));
            List<Gap> gaps = new ArrayList<>();
            List<Head> marked = new ArrayList<>();
            for (String name : look.names) {
                for (String capability : look.capabilities) {
                    long below = Long.MAX_VALUE;
                    List<Head> here = known.getOrDefault(name, List.of()).stream()
                            .filter(head -> head.queue.capability.equals(capability))
                            .sorted(Comparator.comparingInt(head -> -head.queue.priority))
                            .toList();
                    for (Head head : here) {
                        gaps.add(new Gap(name, capability, head.queue.priority, below));
                        below = head.queue.priority;
                    }
                    gaps.add(new Gap(name, capability, Long.MIN_VALUE, below));
                    marked.addAll(here);
                    Integer last = look.continued.get(new Place(name, capability));
                    if (last != null) {
                        gaps.add(new Gap(name, capability, Long.MIN_VALUE, last));
                    }
                }
            }
            return new Places(gaps, marked);
        }

        void bind(PreparedStatement statement, int most) throws SQLException {
            Connection connection = statement.getConnection();
            statement.setArray(1, array(connection, "text", gaps, Gap::name));
            statement.setArray(2, array(connection, "text", gaps, Gap::capability));
            statement.setArray(3, array(connection, "int8", gaps, Gap::above));
            statement.setArray(4, array(connection, "int8", gaps, Gap::below));
            statement.setInt(5, most);
            statement.setArray(6, array(connection, "text", marked, head -> head.queue.name));
            statement.setArray(7, array(connection, "text", marked, head -> head.queue.capability));
            statement.setArray(8, array(connection, "int4", marked, head -> head.queue.priority));
            statement.setArray(9, array(connection, "timestamptz", marked, head -> head.scheduledAt.toString()));
        }
    }

    /**
     * How to claim.
     *
     * @param limit how many at most
     * @param starting how many of them start at once; the rest waits on this node. One that was given back before counts
     *     as started: should it bring its node down soon after its start, the next claim must know
     * @param maxAttempts of those that do not say themselves: whoever recovers them may not know their handler
     * @param lease until when they are this node's without a sign of life; null: as long as the node lives
     * @param bodies whether their payloads, checkpoints and metadata are read with them, as far as those are small
     */
    public record Claiming(
            UUID node,
            int limit,
            int starting,
            int maxAttempts,
            @Nullable Duration lease,
            boolean bodies) {

        public Claiming(UUID node, int limit, int starting, int maxAttempts, @Nullable Duration lease) {
            this(node, limit, starting, maxAttempts, lease, true);
        }
    }

    /** The bytes that a claim takes; the job that exceeds them is its last. */
    public static final int CLAIM_BYTES = 8_000_000;

    /** Jobs of that many bytes, and those of unknown size, are read one by one. */
    private static final int LARGE = 1_000_000;

    /** A row that is stored in fewer bytes, and not compressed, cannot become large, whoever wrote it. */
    private static final int SMALL_ROW = 100;

    /** A job of that many bytes is stored in its row itself: reading it cannot fail. */
    private static final int SURELY_READABLE = 1_000;

    /** What is known of the size of a job when it is claimed, without looking at what may be large. */
    private static final String BYTES = """
            (coalesce(body_bytes, CASE WHEN pg_column_size(payload) + pg_column_size(metadata) <= %d
                                       AND pg_column_compression(payload) IS NULL
                                       AND pg_column_compression(metadata) IS NULL THEN %d ELSE %d END)
             + CASE WHEN checkpoint IS NULL THEN 0 ELSE coalesce(checkpoint_bytes, %3$d) END)
            """.formatted(SMALL_ROW, SURELY_READABLE, LARGE);

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
     * @param bytes of payload, checkpoint and metadata, roughly
     * @param read whether these three were read with the claim; if not, {@link #read} does
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
            boolean read) {

        /** The name under which it was enqueued. */
        public String name() {
            return queue.name;
        }

        public ClaimKey key() {
            return new ClaimKey(id, epoch);
        }

        private Claimed with(Body body) {
            return new Claimed(
                    id,
                    queue,
                    body.payload,
                    attempt,
                    maxAttempts,
                    epoch,
                    recoveries,
                    scheduledAt,
                    body.checkpoint,
                    body.metadata,
                    waitedMillis,
                    started,
                    body.bytes,
                    true);
        }
    }

    /** What a handler is given of a job, all of it JSON. */
    private record Body(
            long bytes, String payload, @Nullable String checkpoint, String metadata) {}

    /** Whether a claim that brought so many jobs left none behind because of its limits. */
    public static boolean isShort(List<Claimed> claimed, int limit) {
        return claimed.size() < limit
                && claimed.stream().mapToLong(Claimed::bytes).sum() < CLAIM_BYTES;
    }

    // One that was given back before may be the reason for which the claim failed that it was in.
    private static final String CLAIM_WITH_BODIES = claimSql(
            "%1$s < %2$d AND (claim_epoch <= attempts OR %1$s <= %3$d)".formatted(BYTES, LARGE, SURELY_READABLE));

    private static final String CLAIM_WITHOUT_BODIES = claimSql("false");

    private static String claimSql(String bodies) {
        // The array is an InitPlan: its rows are locked once and found again by primary key. Joining the
        // subselect instead costs a third more, and IN (subselect) may take more rows than the limit.
        return """
                WITH picked AS MATERIALIZED (SELECT ARRAY(
                    SELECT id FROM (
                        SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (
                            SELECT id, %1$s AS bytes FROM ~.forge_jobs
                            WHERE status = 'pending' AND waits_for IS NULL AND name = ?
                              AND coalesce(worker_capability, '') = ? AND priority = ?
                              AND scheduled_at <= now() AND scheduled_at >= ? AND claim_epoch < %4$d
                              AND EXISTS (SELECT FROM ~.forge_nodes WHERE id = ? AND status = 'active')
                              AND NOT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = ?)
                            ORDER BY scheduled_at LIMIT ? FOR UPDATE SKIP LOCKED) AS locked) AS weighed
                    WHERE before < %2$d) AS ids)
                UPDATE ~.forge_jobs
                SET status = CASE WHEN claim_epoch > attempts OR id = ANY ((SELECT ids[1:?] FROM picked)::uuid[])
                              THEN 'running' ELSE 'claimed' END,
                    started_at = CASE WHEN claim_epoch > attempts OR id = ANY ((SELECT ids[1:?] FROM picked)::uuid[])
                                  THEN clock_timestamp() END,
                    max_attempts = coalesce(max_attempts, ?),
                    worker_id = ?, claim_epoch = claim_epoch + 1, attempts = least(attempts + 1, %5$d),
                    claimed_at = clock_timestamp(), last_heartbeat = clock_timestamp(),
                    lease_expires_at = coalesce(clock_timestamp() + ? * interval '1 millisecond', 'infinity')
                WHERE id = ANY ((SELECT ids FROM picked)::uuid[])
                RETURNING id, CASE WHEN %3$s THEN payload::text END, attempts, max_attempts, claim_epoch, scheduled_at,
                          CASE WHEN %3$s THEN checkpoint::text END, CASE WHEN %3$s THEN metadata::text END,
                          status = 'running', claimed_at, recoveries, %1$s
                """.formatted(BYTES, CLAIM_BYTES, bodies, LAST_EPOCH, MOST_COUNTED);
    }

    /**
     * Takes the oldest due jobs of a queue, if this node is active, until the limit is reached or {@link #CLAIM_BYTES}. Rows
     * that others are taking are left to them.
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
                    PreparedStatement statement = connection.prepareStatement(
                            schema.sql(claiming.bodies ? CLAIM_WITH_BODIES : CLAIM_WITHOUT_BODIES));
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
                    String payload = row.getString(2);
                    String metadata = row.getString(8);
                    claimed.add(new Claimed(
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
                            Math.max(0, claimedAt[0] - scheduledAt.toEpochMilli()),
                            row.getBoolean(9),
                            row.getLong(12),
                            payload != null));
                });
        claimed.sort(Comparator.comparing(Claimed::scheduledAt).thenComparing(Claimed::id));
        return claimed;
    }

    /** What came of reading a job that is claimed. */
    public sealed interface Reading {

        /** It was read. */
        record Read(Claimed job) implements Reading {}

        /** It was not, having that many bytes. */
        record TooLarge(long bytes) implements Reading {}

        /** It is not this node's any more. */
        record Lost() implements Reading {}
    }

    /**
     * Reads what the claim did not.
     *
     * @param most how many bytes at most; measured, not believed
     */
    public Reading read(UUID node, Claimed job, long most) {
        return client.sql(schema.sql("""
                SELECT bytes, CASE WHEN bytes <= :most THEN payload::text END,
                       CASE WHEN bytes <= :most THEN checkpoint::text END, CASE WHEN bytes <= :most THEN metadata::text END
                FROM (SELECT j.payload, j.checkpoint, j.metadata,
                             octet_length(j.payload::text)::bigint + octet_length(j.metadata::text)
                             + coalesce(octet_length(j.checkpoint::text), 0) AS bytes
                      FROM ~.forge_jobs j
                      WHERE j.id = :id AND j.claim_epoch = :epoch AND j.worker_id = :node AND j.status IN %s
                      OFFSET 0) AS measured
                """.formatted(HELD)))
                .param("most", most)
                .param("id", job.id)
                .param("epoch", job.epoch)
                .param("node", node)
                .query((row, n) -> {
                    String payload = row.getString(2);
                    String metadata = row.getString(4);
                    return payload == null || metadata == null
                            ? new Reading.TooLarge(row.getLong(1))
                            : new Reading.Read(job.with(new Body(row.getLong(1), payload, row.getString(3), metadata)));
                })
                .optional()
                .orElseGet(Reading.Lost::new);
    }

    /**
     * Returns a claimed job that cannot be read. That counts as if its node had died under it, so that a job which no node can
     * read is abandoned; nothing if it is not this node's any more.
     *
     * @param reason why; kept as the job's last error
     */
    public Optional<Recovered> returnUnreadable(UUID node, ClaimKey key, CrashRule rule, String reason) {
        return client.sql(schema.sql(
                        """
                UPDATE ~.forge_jobs j SET %s
                WHERE j.id = :id AND j.claim_epoch = :epoch AND j.worker_id = :node AND j.status IN %s
                RETURNING j.id, j.name, 0, j.recoveries, j.status
                """.formatted(recovery(rule, "true", ":reason", ":reason", "j.attempt_history"), HELD)))
                .param("id", key.id)
                .param("epoch", key.epoch)
                .param("node", node)
                .param("reason", reason)
                .query((row, n) -> recovered(row, node))
                .optional();
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
     * @param timedOut whether the attempt has failed because it exceeded its timeout
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
            @Nullable Long ranMillis,
            boolean timedOut) {

        /** Whether a statement for the usual case can write it. */
        boolean isPlain() {
            return status == JobStatus.COMPLETED && checkpoint == null && progress == null && retention == null;
        }

        /** Roughly how long it makes the statement that writes it. */
        public long length() {
            return length(result) + length(error) + length(checkpoint) + length(progress);
        }

        private static long length(@Nullable String text) {
            return text == null ? 0 : text.length();
        }

        boolean isDeletion() {
            return status == JobStatus.COMPLETED && retention != null && retention.isZero();
        }
    }

    // Arrays come from a subselect: a planner that knows their length thinks that scanning the table is cheaper than
    // looking
    // up their rows, and on a table of some ten thousand rows takes ten times as long.

    /** Parts of these that {@link #finish} writes with one statement each: all of a part are written, or none. */
    public static List<List<Finish>> statements(Collection<Finish> finishes) {
        List<Finish> plain = new ArrayList<>();
        List<Finish> deleted = new ArrayList<>();
        List<Finish> rest = new ArrayList<>();
        // In the order of their ids: two statements that lock the same rows in different orders wait for each other.
        finishes.stream()
                .sorted(Comparator.comparing(finish -> finish.key.id))
                .forEach(finish -> (finish.isDeletion() ? deleted : finish.isPlain() ? plain : rest).add(finish));
        var parts = new ArrayList<List<Finish>>();
        List.of(plain, deleted, rest).forEach(kind -> parts.addAll(inParts(kind, Finish::length)));
        return parts;
    }

    /**
     * How long a statement that ends claims waits for a row that another transaction has locked. Part of the statement,
     * because a setting of the session does not hold behind a transaction pooler.
     */
    private static final String LOCK_PATIENCE = "set_config('lock_timeout', '100', true) AS patience";

    /**
     * Ends these claims; answers those that were not this node's any more. A claim that this node has completed or failed
     * before counts as ended. If a statement fails, those of other {@linkplain #statements parts} may have been written.
     *
     * @throws DataAccessException that {@linkplain #isLocked says so} if another transaction has locked one of the rows;
     *     {@link #finishUnlocked} writes the others
     */
    public Set<ClaimKey> finish(UUID node, Collection<Finish> finishes) {
        var lost = new HashSet<ClaimKey>();
        statements(finishes).forEach(part -> lost.addAll(finishTogether(node, part)));
        return lost;
    }

    /**
     * Ends these claims, except for those whose rows another transaction has locked; answers those that it has ended. The
     * others are locked, or not this node's any more: {@link #missing} and {@link #finished} tell.
     */
    public Set<ClaimKey> finishUnlocked(UUID node, Collection<Finish> finishes) {
        TransactionOperations transaction = transaction();
        var ended = new HashSet<ClaimKey>();
        for (List<Finish> part : statements(finishes)) {
            ended.addAll(Objects.requireNonNull(transaction.execute(status -> {
                Set<ClaimKey> free = unlocked(node, part);
                List<Finish> those = part.stream()
                        .filter(finish -> free.contains(finish.key))
                        .toList();
                if (!those.isEmpty()) {
                    // All of them: their rows are locked by this transaction.
                    write(node, those, "");
                }
                return free;
            })));
        }
        return ended;
    }

    /** Those of these claims that this node has, and whose rows nobody has locked at this moment. */
    private Set<ClaimKey> unlocked(UUID node, List<Finish> finishes) {
        return new HashSet<>(byKey(
                """
                SELECT j.id, j.claim_epoch
                FROM %s CROSS JOIN unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                WHERE %s
                FOR UPDATE OF j SKIP LOCKED
                """.formatted(LOCK_PATIENCE, OURS),
                node,
                finishes.stream().map(Finish::key).toList()));
    }

    /**
     * Writes a {@linkplain #statements part}; answers how many rows were still this node's.
     *
     * @param patience what the FROM clauses begin with: {@link #LOCK_PATIENCE} and a comma, or nothing
     */
    private int write(UUID node, List<Finish> part, String patience) {
        Finish first = part.get(0);
        return first.isDeletion()
                ? delete(node, part, patience)
                : first.isPlain() ? complete(node, part, patience) : end(node, part, patience);
    }

    private Set<ClaimKey> finishTogether(UUID node, List<Finish> finishes) {
        if (write(node, finishes, LOCK_PATIENCE + ", ") == finishes.size()) {
            return Set.of();
        }
        List<ClaimKey> keys = finishes.stream().map(Finish::key).toList();
        var lost = new HashSet<>(keys);
        lost.removeAll(finished(node, keys));
        return lost;
    }

    /** Those of these claims that this node has completed or failed. */
    public Set<ClaimKey> finished(UUID node, Collection<ClaimKey> keys) {
        return new HashSet<>(byKey("""
                SELECT j.id, j.claim_epoch FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                WHERE j.worker_id IS NOT DISTINCT FROM ? AND j.status IN ('completed', 'failed')
                """, node, List.copyOf(keys)));
    }

    /**
     * Those of these claims that look as if their node had ended them itself: completed or failed by it, deleted, or given
     * back. Asked where the answer to a statement that ends them got lost. A job that was taken from its node counts a recovery
     * more, so it is not among them.
     *
     * @param recoveries of each job when it was claimed
     */
    public Set<ClaimKey> endedByHolder(UUID node, Map<ClaimKey, Integer> recoveries) {
        List<Map.Entry<ClaimKey, Integer>> claims = List.copyOf(recoveries.entrySet());
        return new HashSet<>(jdbc.query(
                connection -> {
                    PreparedStatement statement = connection.prepareStatement(schema.sql("""
                            SELECT d.id, d.epoch
                            FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[]), (SELECT ?::int[])) AS d (id, epoch, recoveries)
                            LEFT JOIN ~.forge_jobs j ON j.id = d.id
                            WHERE j.id IS NULL
                               OR j.claim_epoch = d.epoch AND j.worker_id = ? AND j.status IN ('completed', 'failed')
                               OR (j.claim_epoch > d.epoch OR j.claim_epoch = d.epoch AND j.status = 'pending')
                                  AND j.recoveries <= d.recoveries
                            """));
                    statement.setArray(1, array(connection, "uuid", claims, claim -> claim.getKey().id));
                    statement.setArray(2, array(connection, "int8", claims, claim -> claim.getKey().epoch));
                    statement.setArray(3, array(connection, "int4", claims, Map.Entry::getValue));
                    statement.setObject(4, node);
                    return statement;
                },
                (row, n) -> new ClaimKey(row.getObject(1, UUID.class), row.getLong(2))));
    }

    private int complete(UUID node, List<Finish> finishes, String patience) {
        return jdbc.update(schema.sql("""
                UPDATE ~.forge_jobs j
                SET status = 'completed', finished_at = clock_timestamp(), lease_expires_at = NULL,
                    result = d.result::jsonb,
                    started_at = coalesce(j.started_at, clock_timestamp() - d.ran * interval '1 millisecond')
                FROM %sunnest((SELECT ?::uuid[]), (SELECT ?::bigint[]), (SELECT ?::text[]), (SELECT ?::bigint[])) AS d (id, epoch, result, ran)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(patience, OURS)), statement -> {
            Connection connection = statement.getConnection();
            statement.setArray(1, array(connection, "uuid", finishes, finish -> finish.key.id));
            statement.setArray(2, array(connection, "int8", finishes, finish -> finish.key.epoch));
            statement.setArray(3, array(connection, "text", finishes, Finish::result));
            statement.setArray(4, array(connection, "int8", finishes, Finish::ranMillis));
            statement.setObject(5, node);
        });
    }

    private int delete(UUID node, List<Finish> finishes, String patience) {
        return jdbc.update(schema.sql("""
                DELETE FROM ~.forge_jobs j USING %sunnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(patience, OURS)), statement -> {
            Connection connection = statement.getConnection();
            statement.setArray(1, array(connection, "uuid", finishes, finish -> finish.key.id));
            statement.setArray(2, array(connection, "int8", finishes, finish -> finish.key.epoch));
            statement.setObject(3, node);
        });
    }

    private int end(UUID node, List<Finish> finishes, String patience) {
        return jdbc.update(schema.sql("""
                UPDATE ~.forge_jobs j
                SET status = d.status, lease_expires_at = NULL,
                    worker_id = CASE WHEN d.status <> 'pending' THEN j.worker_id END,
                    finished_at = CASE WHEN d.status <> 'pending' THEN clock_timestamp() END,
                    scheduled_at = CASE WHEN d.status <> 'pending' THEN j.scheduled_at
                                        ELSE clock_timestamp() + d.delay * interval '1 millisecond' END,
                    attempts = greatest(j.attempts - d.given_back, 0),
                    -- A handler that ended an attempt by itself does not bring its nodes down.
                    recoveries = CASE WHEN d.status = 'pending' AND d.ran IS NOT NULL THEN 0 ELSE j.recoveries END,
                    started_at = coalesce(j.started_at, clock_timestamp() - d.ran * interval '1 millisecond'),
                    result = coalesce(d.result::jsonb, j.result), last_error = coalesce(d.error, j.last_error),
                    checkpoint = coalesce(d.checkpoint::jsonb, j.checkpoint),
                    checkpoint_bytes = coalesce(octet_length(d.checkpoint::jsonb::text), j.checkpoint_bytes),
                    progress = coalesce(d.progress::jsonb, j.progress),
                    attempt_history = CASE WHEN d.error IS NOT NULL AND d.given_back = 0 THEN %s ELSE j.attempt_history END,
                    retention = d.retention * interval '1 millisecond'
                FROM %sunnest((SELECT ?::uuid[]), (SELECT ?::bigint[]), (SELECT ?::text[]), (SELECT ?::text[]), (SELECT ?::text[]), (SELECT ?::bigint[]), (SELECT ?::int[]), (SELECT ?::text[]),
                            (SELECT ?::text[]), (SELECT ?::bigint[]), (SELECT ?::bigint[]), (SELECT ?::bool[]))
                    AS d (id, epoch, status, result, error, delay, given_back, checkpoint, progress, retention, ran, timed_out)
                WHERE j.id = d.id AND j.claim_epoch = d.epoch AND %s
                """.formatted(HISTORY_WITH_FAILURE, patience, OURS)), statement -> {
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
            statement.setArray(12, array(connection, "bool", finishes, Finish::timedOut));
            statement.setObject(13, node);
        });
    }

    /** What came of the last statement of a handler's own transaction. */
    public enum LastStatement {
        /** The claim is not this node's any more: nothing was written. */
        CLAIM_LOST,
        /** The claim has ended, if the transaction commits. */
        WRITTEN,
        /** So it has, but the transaction's snapshot hides a successor: {@link #freeSuccessorOf} after the commit. */
        WRITTEN_BLINDLY
    }

    /** How long the last statement of a handler's transaction waits for a row that somebody else has locked. */
    private static final Duration LAST_STATEMENT_PATIENCE = Duration.ofSeconds(5);

    /**
     * Ends a claim with the last statement of its handler's own transaction.
     *
     * @throws DataAccessException that {@linkplain #isLocked says so} if another transaction has locked the row for too long
     */
    public LastStatement finishInTransaction(UUID node, Finish finish) {
        // Should the node be cut off before it commits, the row must not stay locked for as long as the network lasts.
        // Nor does
        // the transaction, with all that it has locked, wait for as long as somebody else has the row; whatever the
        // application
        // runs after this statement has the lock_timeout that it had before.
        boolean blind = client.sql(schema.sql("""
                WITH former AS MATERIALIZED (
                    SELECT current_setting('lock_timeout') AS patience,
                           set_config('idle_in_transaction_session_timeout', '5s', true),
                           CASE WHEN current_setting('lock_timeout')::interval
                                    BETWEEN interval '1 millisecond' AND interval '%1$d milliseconds'
                               THEN '' ELSE set_config('lock_timeout', '%1$dms', true) END
                ), held AS MATERIALIZED (
                    SELECT j.unique_key FROM former CROSS JOIN ~.forge_jobs j
                    WHERE j.id = ? AND j.claim_epoch = ? FOR NO KEY UPDATE OF j)
                SELECT coalesce(current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
                                AND held.unique_key IS NOT NULL, false),
                       set_config('lock_timeout', former.patience, true)
                FROM former LEFT JOIN held ON true
                """.formatted(LAST_STATEMENT_PATIENCE.toMillis())))
                .params(finish.key.id, finish.key.epoch)
                .query((row, n) -> row.getBoolean(1))
                .single();
        // Only this statement decides: a row that has ended otherwise, even by this node's own hand, must not let the
        // transaction commit.
        if (write(node, List.of(finish), "") != 1) {
            return LastStatement.CLAIM_LOST;
        }
        return blind ? LastStatement.WRITTEN_BLINDLY : LastStatement.WRITTEN;
    }

    /** Whether a statement was cancelled because it took too long. */
    public static boolean isTimeout(Throwable failure) {
        return "57014".equals(state(failure));
    }

    /** Whether somebody else has locked what was to be written. */
    public static boolean isLocked(Throwable failure) {
        return "55P03".equals(state(failure));
    }

    static @Nullable String state(Throwable failure) {
        for (Throwable cause : Causes.of(failure)) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                return sql.getSQLState();
            }
        }
        return null;
    }

    /** Whether an error has aborted the transaction before the statement. */
    public static boolean isAborted(Throwable failure) {
        return "25P02".equals(state(failure));
    }

    /** Whether the server rejects the values themselves, so that no repetition helps. */
    public static boolean isRefusal(Throwable failure) {
        String state = state(failure);
        return state != null && (state.startsWith("22") || state.startsWith("23") || state.startsWith("54"));
    }

    /**
     * Marks claimed jobs as running; answers those that are. The others are not this node's any more, or another transaction
     * has locked them.
     */
    public Set<ClaimKey> start(UUID node, Collection<ClaimKey> keys) {
        return new HashSet<>(byKey("""
                UPDATE ~.forge_jobs SET status = 'running', started_at = coalesce(started_at, clock_timestamp())
                WHERE id = ANY (ARRAY(
                    SELECT j.id FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                    JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                    WHERE %s
                    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED))
                RETURNING id, claim_epoch
                """.formatted(OURS), node, sorted(keys)));
    }

    /** Says how far a job is, unless its row is locked or not this node's any more: then false. */
    public boolean noteUnlocked(UUID node, ClaimKey key, String progress) {
        return jdbc.update(schema.sql("""
                UPDATE ~.forge_jobs SET progress = ?::jsonb
                WHERE id = (SELECT id FROM ~.forge_jobs WHERE id = ? AND claim_epoch = ? AND worker_id = ? AND status IN %s
                            FOR UPDATE SKIP LOCKED)
                """.formatted(HELD)), progress, key.id, key.epoch, node) == 1;
    }

    /** Says how far a job is; false if it is not this node's any more. */
    public boolean note(UUID node, ClaimKey key, @Nullable String progress, @Nullable String checkpoint) {
        return jdbc.update(
                        schema.sql("""
                UPDATE ~.forge_jobs
                SET progress = coalesce(?::jsonb, progress), checkpoint = coalesce(?::jsonb, checkpoint),
                    checkpoint_bytes = coalesce(?, checkpoint_bytes)
                WHERE id = ? AND claim_epoch = ? AND worker_id = ? AND status IN %s
                """.formatted(HELD)),
                        new Object[] {
                            progress,
                            checkpoint,
                            checkpoint == null ? null : (int) PrintedJson.bytes(checkpoint),
                            key.id,
                            key.epoch,
                            node
                        },
                        new int[] {Types.VARCHAR, Types.VARCHAR, Types.INTEGER, Types.OTHER, Types.BIGINT, Types.OTHER})
                == 1;
    }

    /**
     * Extends the leases of jobs that this node is working on; answers which it has extended. The others are not its any
     * more, or somebody has locked them: their leases go on as they were.
     */
    public Set<ClaimKey> renew(UUID node, Collection<ClaimKey> keys, Duration lease) {
        return new HashSet<>(byKey("""
                UPDATE ~.forge_jobs
                SET last_heartbeat = clock_timestamp(),
                    lease_expires_at = clock_timestamp() + %d * interval '1 millisecond'
                WHERE id = ANY (ARRAY(
                    SELECT j.id FROM unnest((SELECT ?::uuid[]), (SELECT ?::bigint[])) AS d (id, epoch)
                    JOIN ~.forge_jobs j ON j.id = d.id AND j.claim_epoch = d.epoch
                    WHERE %s
                    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED))
                RETURNING id, claim_epoch
                """.formatted(lease.toMillis(), OURS), node, sorted(keys)));
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

    /** Whether a job was cancelled while it was claimed in that epoch. */
    public boolean isCancelled(ClaimKey key) {
        return client.sql(schema.sql("""
                SELECT EXISTS (SELECT FROM ~.forge_jobs WHERE id = ? AND claim_epoch = ? AND status = 'cancelled')
                """))
                .params(key.id(), key.epoch())
                .query((row, n) -> row.getBoolean(1))
                .single();
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
                SET status = 'pending', worker_id = NULL, lease_expires_at = NULL, attempts = greatest(attempts - 1, 0)
                WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs
                    WHERE worker_id = :node AND status IN %1$s AND id <> ALL (:known::uuid[])
                      AND claimed_at < clock_timestamp() - :age * interval '1 millisecond'
                    ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED))
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

    /** For how long a job has been without a sign of life; {@code alias} is that of its row. */
    static String silentMillis(String alias) {
        return SILENT_MILLIS.formatted(alias);
    }

    /** What becomes of a job that is taken from its node; the alias of its row is {@code j}. */
    static String recovery(CrashRule rule) {
        String reason = rule.spendsAttempt
                ? "'its node died under the last of its attempts'"
                : "'its node died under it more than %d times; see forge.cluster.job.max-recoveries'"
                        .formatted(rule.maxRecoveries);
        String history =
                "CASE WHEN j.status = 'running' THEN %s ELSE j.attempt_history END".formatted(HISTORY_WITH_LOST_NODE);
        return recovery(rule, "j.status = 'running'", reason, "j.last_error", history);
    }

    /**
     * The same.
     *
     * @param counts whether it counts, in SQL
     * @param last what is kept as its error if this was its last chance, in SQL
     * @param earlier the same if it was not
     * @param history what becomes of its attempt history, in SQL
     */
    private static String recovery(CrashRule rule, String counts, String last, String earlier, String history) {
        String over = counts
                + (rule.spendsAttempt
                        ? " AND j.attempts >= coalesce(j.max_attempts, %d)".formatted(rule.maxAttempts)
                        : " AND j.recoveries >= %d".formatted(rule.maxRecoveries));
        return """
                status = CASE WHEN %1$s THEN '%2$s' ELSE 'pending' END,
                finished_at = CASE WHEN %1$s THEN clock_timestamp() END,
                last_error = CASE WHEN %1$s THEN %3$s ELSE %6$s END,
                recoveries = least(j.recoveries + CASE WHEN %5$s THEN 1 ELSE 0 END, %8$d),
                attempts = greatest(j.attempts - CASE WHEN %5$s AND %4$s THEN 0 ELSE 1 END, 0),
                attempt_history = %7$s,
                -- A job that brings its nodes down must not take the next one with it at once; and those that ran beside
                -- it should not do so every time.
                scheduled_at = greatest(j.scheduled_at, clock_timestamp() + interval '500 milliseconds'
                                   + random() * j.recoveries * interval '2 seconds'),
                worker_id = NULL, lease_expires_at = NULL, started_at = NULL
                """.formatted(
                        over,
                        rule.spendsAttempt ? "failed" : "abandoned",
                        last,
                        rule.spendsAttempt,
                        counts,
                        earlier,
                        history,
                        MOST_COUNTED);
    }

    /**
     * Takes jobs from nodes that are dead or gone, and (unless in grace) those whose lease is over or that were claimed
     * too long ago without a start. One statement: what it decides on, it has locked.
     */
    public List<Recovered> sweep(CrashRule rule, Duration claimStartTimeout, boolean grace) {
        return sweep(rule, claimStartTimeout, grace, null);
    }

    private static final String OVERDUE = """
            SELECT j.id, j.worker_id, j.last_heartbeat FROM ~.forge_jobs j
            WHERE j.status IN %s
              AND (NOT EXISTS (SELECT FROM ~.forge_nodes n WHERE n.id = j.worker_id AND n.status <> 'dead')
                   OR NOT :grace AND (j.lease_expires_at < clock_timestamp()
                       OR j.status = 'claimed'
                          AND j.claimed_at < clock_timestamp() - :unstarted * interval '1 millisecond'))
            """.formatted(HELD);

    /** Jobs that {@link #sweep} would take now, as many as it takes at once. */
    public List<UUID> overdue(Duration claimStartTimeout, boolean grace) {
        return client.sql(schema.sql("SELECT id FROM (%s ORDER BY j.id LIMIT 1000) AS overdue".formatted(OVERDUE)))
                .param("grace", grace)
                .param("unstarted", claimStartTimeout.toMillis())
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /**
     * See {@link #sweep(CrashRule, Duration, boolean)}.
     *
     * @param among only these jobs; null: all
     */
    public List<Recovered> sweep(
            CrashRule rule, Duration claimStartTimeout, boolean grace, @Nullable Collection<UUID> among) {
        return client.sql(schema.sql("""
                WITH overdue AS MATERIALIZED (
                    %s AND (:among::uuid[] IS NULL OR j.id = ANY (:among::uuid[]))
                    ORDER BY j.id LIMIT 1000 FOR UPDATE SKIP LOCKED)
                UPDATE ~.forge_jobs j SET %s
                FROM overdue o WHERE j.id = o.id
                RETURNING j.id, j.name, o.worker_id, %s, j.recoveries, j.status
                """.formatted(OVERDUE, recovery(rule), silentMillis("o"))))
                .param("grace", grace)
                .param("unstarted", claimStartTimeout.toMillis())
                .param("among", among == null ? null : among.toArray(UUID[]::new), Types.ARRAY)
                .query((row, n) -> new Recovered(
                        row.getObject(1, UUID.class),
                        row.getString(2),
                        row.getObject(3, UUID.class),
                        row.getLong(4),
                        row.getInt(5),
                        status(row.getString(6))))
                .list();
    }

    /** What time it is for leases. */
    public Instant clock() {
        return client.sql("SELECT clock_timestamp()")
                .query(OffsetDateTime.class)
                .single()
                .toInstant();
    }

    // Orders ------------------------------------------------------------------------------------------------

    /** Tells every node that listens. */
    public void notifyOthers(String news) {
        client.sql("SELECT pg_notify(?, ?)")
                .params(schema.channel(), news)
                .query((row, n) -> true)
                .list();
    }

    /** Calls a job off; nothing if there is no such active job, or it carries a run of a workflow. */
    public Optional<Cancelled> cancel(UUID id) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs j
                SET status = 'cancelled', finished_at = clock_timestamp(), lease_expires_at = NULL, waits_for = NULL
                WHERE id = ? AND status IN %s AND NOT starts_with(name, '%s')
                RETURNING j.worker_id, j.unique_key IS NOT NULL
                """.formatted(ACTIVE, WorkflowStore.PREFIX)))
                .param(id)
                .query((row, n) -> new Cancelled(row.getObject(1, UUID.class), row.getBoolean(2)))
                .optional();
    }

    /**
     * A job that was called off.
     *
     * @param node who had it
     * @param hasKey whether another job may have waited for its end
     */
    public record Cancelled(@Nullable UUID node, boolean hasKey) {}

    /**
     * Begins a failed, cancelled or abandoned job anew, unless an active one has its key by now, or it carries a run of a
     * workflow.
     */
    public boolean retry(UUID id) {
        return Boolean.TRUE.equals(jdbc.execute((ConnectionCallback<Boolean>) connection -> {
            // Somebody may be enqueueing its key at this moment; the caller's transaction must survive that.
            Savepoint before = connection.getAutoCommit() ? null : connection.setSavepoint();
            try (PreparedStatement statement =
                    connection.prepareStatement(schema.sql("""
                    UPDATE ~.forge_jobs j
                    SET status = 'pending', scheduled_at = clock_timestamp(), attempts = 0, recoveries = 0, finished_at = NULL,
                        started_at = NULL, worker_id = NULL, retention = NULL, waits_for = NULL
                    WHERE id = ? AND status IN ('failed', 'cancelled', 'abandoned') AND NOT starts_with(name, '%s')
                      AND NOT EXISTS (SELECT FROM ~.forge_jobs a WHERE a.name = j.name AND a.unique_key = j.unique_key
                                      AND a.waits_for IS NULL AND a.status IN ('pending', 'claimed', 'running'))
                    """.formatted(WorkflowStore.PREFIX)))) {
                statement.setObject(1, id);
                boolean begun = statement.executeUpdate() == 1;
                if (before != null) {
                    connection.releaseSavepoint(before);
                }
                return begun;
            } catch (SQLException e) {
                if (!UNIQUE_VIOLATION.equals(e.getSQLState())) {
                    throw e;
                }
                if (before != null) {
                    connection.rollback(before);
                }
                return false;
            }
        }));
    }

    // -------------------------------------------------------------------------------------------------------

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

    /** Parts whose elements have together about {@link #STATEMENT_LENGTH}, each with at least one. */
    private static <T> List<List<T>> inParts(List<T> all, ToLongFunction<T> length) {
        List<List<T>> parts = new ArrayList<>();
        int from = 0;
        long size = 0;
        for (int i = 0; i < all.size(); i++) {
            size += length.applyAsLong(all.get(i));
            if (size > STATEMENT_LENGTH || i == all.size() - 1) {
                parts.add(all.subList(from, i + 1));
                from = i + 1;
                size = 0;
            }
        }
        return parts;
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

    static String word(JobStatus status) {
        return status.name().toLowerCase(Locale.ROOT);
    }

    static JobStatus status(String word) {
        return JobStatus.valueOf(word.toUpperCase(Locale.ROOT));
    }
}
