package dev.forge.cluster.internal.store;

import dev.forge.cluster.CronInfo;
import dev.forge.cluster.CronRun;
import dev.forge.cluster.CronTarget;
import dev.forge.cluster.JobStatus;
import dev.forge.cluster.Misfire;
import dev.forge.cluster.Overlap;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * The rows of {@code forge_crons}, their ledger {@code forge_cron_runs}, and what builds of applications declare.
 *
 * <p><b>Exactly once.</b> A slot is decided by the row it gets in the ledger, whose key is (cron, slot); its job is inserted
 * by the same transaction, only if that row was. The leader's transactions end with its fence besides.
 */
public final class CronStore {

    private static final String ACTIVE = "('pending', 'claimed', 'running')";

    private final Schema schema;
    private final JdbcTemplate jdbc;
    private final JdbcClient client;
    private final TransactionOperations transaction;

    /** @param source the application's for changes that join its transactions; ours for the rest */
    public CronStore(Schema schema, DataSource source) {
        this.schema = schema;
        this.jdbc = new JdbcTemplate(source);
        this.client = JdbcClient.create(jdbc);
        this.transaction = new TransactionTemplate(new OwnTransactions(source));
    }

    /** A transaction on the same source; joins one that is under way. */
    public TransactionOperations transaction() {
        return transaction;
    }

    /** What time it is. */
    public Instant now() {
        return client.sql("SELECT clock_timestamp()")
                .query((row, n) -> instant(row, 1))
                .single();
    }

    // Definitions -------------------------------------------------------------------------------------------

    /**
     * A cron as it was defined.
     *
     * @param handler the name of the job that runs
     * @param misfire never {@link Misfire#DEFAULT}
     */
    public record Definition(
            String name,
            String handler,
            String expression,
            String zone,
            CronTarget target,
            @Nullable String capability,
            Misfire misfire,
            int catchUpLimit,
            Overlap overlap,
            long jitterMillis,
            @Nullable Integer maxAttempts) {}

    /** Makes known what a build of an application declares. */
    public void declare(String digest, List<Definition> definitions) {
        jdbc.update(schema.sql("""
                INSERT INTO ~.forge_cron_sets (digest, definitions)
                SELECT ?, coalesce(jsonb_agg(to_jsonb(d)), '[]')
                FROM unnest(%s) AS d (%s)
                ON CONFLICT (digest) DO UPDATE SET last_seen_at = clock_timestamp()
                """.formatted(TYPES, COLUMNS)), statement -> {
            statement.setString(1, digest);
            bind(statement, 2, definitions);
        });
    }

    private static final String COLUMNS =
            "name, handler, expression, zone, target, worker_capability, misfire, catch_up_limit, overlap, jitter_millis,"
                    + " max_attempts";
    private static final String TYPES =
            "?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::int[], ?::text[], ?::bigint[],"
                    + " ?::int[]";
    private static final String COLUMN_TYPES =
            "name text, handler text, expression text, zone text, target text, worker_capability text, misfire text,"
                    + " catch_up_limit int, overlap text, jitter_millis bigint, max_attempts int";

    private static int bind(PreparedStatement statement, int from, List<Definition> definitions) throws SQLException {
        int at = from;
        at = array(statement, at, "text", definitions, Definition::name);
        at = array(statement, at, "text", definitions, Definition::handler);
        at = array(statement, at, "text", definitions, Definition::expression);
        at = array(statement, at, "text", definitions, Definition::zone);
        at = array(statement, at, "text", definitions, d -> word(d.target));
        at = array(statement, at, "text", definitions, Definition::capability);
        at = array(statement, at, "text", definitions, d -> word(d.misfire));
        at = array(statement, at, "int4", definitions, Definition::catchUpLimit);
        at = array(statement, at, "text", definitions, d -> word(d.overlap));
        at = array(statement, at, "int8", definitions, Definition::jitterMillis);
        return array(statement, at, "int4", definitions, Definition::maxAttempts);
    }

    /**
     * The sets that live nodes name.
     *
     * @param complete whether each of them is there; a node that joins names its set a moment before it declares it
     */
    public record LiveSets(Set<String> digests, boolean complete) {}

    /** Which sets live nodes name. */
    public LiveSets liveSets() {
        Map<String, Boolean> live =
                client
                        .sql(schema.sql("""
                SELECT DISTINCT n.info ->> 'crons', s.digest IS NOT NULL
                FROM ~.forge_nodes n LEFT JOIN ~.forge_cron_sets s ON s.digest = n.info ->> 'crons'
                WHERE n.status <> 'dead' AND n.info ->> 'crons' IS NOT NULL
                """))
                        .query((row, n) -> Map.entry(row.getString(1), row.getBoolean(2)))
                        .list()
                        .stream()
                        .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
        return new LiveSets(live.keySet(), !live.containsValue(false));
    }

    /** Forgets sets that no node has named, and crons that have been gone, for that long; notes that the others were seen. */
    public void keepSets(Collection<String> live, Duration retention) {
        client.sql(schema.sql(
                        "UPDATE ~.forge_cron_sets SET last_seen_at = clock_timestamp() WHERE digest = ANY (:live)"))
                .param("live", live.toArray(String[]::new))
                .update();
        client.sql(schema.sql("""
                DELETE FROM ~.forge_cron_sets WHERE digest = ANY (ARRAY(
                    SELECT digest FROM ~.forge_cron_sets
                    WHERE last_seen_at < clock_timestamp() - :millis * interval '1 millisecond' LIMIT 1000))
                """)).param("millis", retention.toMillis()).update();
        client.sql(schema.sql("""
                DELETE FROM ~.forge_cron_memories WHERE name = ANY (ARRAY(
                    SELECT name FROM ~.forge_cron_memories
                    WHERE removed_at < clock_timestamp() - :millis * interval '1 millisecond' LIMIT 5000))
                """)).param("millis", retention.toMillis()).update();
    }

    /** What those sets declare; where they differ about a cron, as the newest of them says. */
    public List<Definition> definitions(Collection<String> digests) {
        return client.sql(schema.sql("""
                SELECT DISTINCT ON (d.name) d.*
                FROM ~.forge_cron_sets s, jsonb_to_recordset(s.definitions) AS d (%s)
                WHERE s.digest = ANY (:digests)
                ORDER BY d.name, s.first_seen_at DESC, s.digest
                """.formatted(COLUMN_TYPES)))
                .param("digests", digests.toArray(String[]::new))
                .query((row, n) -> definition(row))
                .list();
    }

    /** The crons about which those sets differ. */
    public Set<String> disputed(Collection<String> digests) {
        return new HashSet<>(client.sql(schema.sql("""
                SELECT d ->> 'name' FROM ~.forge_cron_sets s, jsonb_array_elements(s.definitions) AS d
                WHERE s.digest = ANY (:digests)
                GROUP BY d ->> 'name' HAVING count(DISTINCT d) > 1
                """))
                .param("digests", digests.toArray(String[]::new))
                .query((row, n) -> row.getString(1))
                .list());
    }

    /**
     * A cron in the table.
     *
     * @param next its next slot; null: never
     * @param problem why it does not fire, as a leader found
     */
    public record Stored(
            Definition definition,
            boolean declared,
            boolean paused,
            @Nullable Instant next,
            @Nullable String problem) {

        /** Whether that one fires at the same times. */
        public boolean hasSlotsOf(Definition other) {
            return definition.expression.equals(other.expression) && definition.zone.equals(other.zone);
        }
    }

    private static final String STORED = COLUMNS.replace("handler", "coalesce(handler, name) AS handler")
            + ", declared, paused, next_fire_at, problem";

    /** All crons in the table. */
    public List<Stored> stored() {
        return client.sql(schema.sql("SELECT %s FROM ~.forge_crons".formatted(STORED)))
                .query((row, n) -> stored(row))
                .list();
    }

    /** Locks one cron. */
    public Optional<Stored> lockRow(String name) {
        return client.sql(schema.sql("SELECT %s FROM ~.forge_crons WHERE name = ? FOR UPDATE".formatted(STORED)))
                .param(name)
                .query((row, n) -> stored(row))
                .optional();
    }

    /** Locks crons that have no next slot though their expression has some: somebody could not read them. */
    public List<Stored> lockStopped() {
        return client.sql(schema.sql("""
                SELECT %s FROM ~.forge_crons WHERE next_fire_at IS NULL AND expression <> '-' FOR UPDATE SKIP LOCKED
                """.formatted(STORED)))
                .query((row, n) -> stored(row))
                .list();
    }

    /** Locks those crons that nobody else has locked; answers their names. */
    public Set<String> lockFree(Collection<String> names) {
        return new HashSet<>(client.sql(schema.sql("""
                SELECT name FROM ~.forge_crons WHERE name = ANY (:names) ORDER BY name FOR UPDATE SKIP LOCKED
                """))
                .param("names", names.toArray(String[]::new))
                .query((row, n) -> row.getString(1))
                .list());
    }

    /** A definition with its next slot. */
    public record Scheduled(Definition definition, @Nullable Instant next) {}

    // A row that comes back knows its last run, and goes on where it was if its slots are the same.
    private static final String REMEMBERED_COLUMNS = COLUMNS + ", next_fire_at, last_fire_at, last_job_id, declared";

    private static final String FRESH_COLUMNS = "d." + COLUMNS.replace(", ", ", d.");

    private static final String REMEMBERED = """
            WITH m AS (DELETE FROM ~.forge_cron_memories WHERE name = ANY (?::text[]) RETURNING *)
            """;

    /** Adds or changes declared crons. What was made at run time under such a name stays as it is. */
    public int put(List<Scheduled> crons) {
        return jdbc.update(
                schema.sql(REMEMBERED + """
                INSERT INTO ~.forge_crons AS c (%s)
                SELECT %s, CASE WHEN m.expression = d.expression AND m.zone = d.zone
                                THEN coalesce(m.next_fire_at, d.next_fire_at) ELSE d.next_fire_at END,
                       m.last_fire_at, m.last_job_id, true
                FROM unnest(%s, ?::timestamptz[]) AS d (%s, next_fire_at)
                LEFT JOIN m ON m.name = d.name
                ON CONFLICT (name) DO UPDATE
                SET handler = excluded.handler, expression = excluded.expression, zone = excluded.zone,
                    target = excluded.target, worker_capability = excluded.worker_capability,
                    misfire = excluded.misfire, catch_up_limit = excluded.catch_up_limit, overlap = excluded.overlap,
                    jitter_millis = excluded.jitter_millis, max_attempts = excluded.max_attempts,
                    next_fire_at = excluded.next_fire_at, problem = NULL, updated_at = clock_timestamp()
                WHERE c.declared
                """.formatted(REMEMBERED_COLUMNS, FRESH_COLUMNS, TYPES, COLUMNS)),
                statement -> {
                    int at = array(statement, 1, "text", crons, scheduled -> scheduled.definition.name);
                    at = bind(
                            statement,
                            at,
                            crons.stream().map(Scheduled::definition).toList());
                    array(statement, at, "timestamptz", crons, scheduled -> offset(scheduled.next));
                });
    }

    // What another one of that name has to know.
    private static final String REMEMBER = """
            INSERT INTO ~.forge_cron_memories (name, expression, zone, next_fire_at, last_fire_at, last_job_id)
            SELECT name, expression, zone, CASE WHEN declared THEN next_fire_at END, last_fire_at, last_job_id FROM gone
            ON CONFLICT (name) DO UPDATE
            SET expression = excluded.expression, zone = excluded.zone, next_fire_at = excluded.next_fire_at,
                last_fire_at = excluded.last_fire_at, last_job_id = excluded.last_job_id, removed_at = excluded.removed_at
            """;

    /**
     * Deletes declared crons, and remembers them; those that an operator has paused stay, so that nothing ends the pause
     * unseen, and those that somebody has locked go another time.
     */
    public int remove(Collection<String> names) {
        return client.sql(schema.sql("""
                WITH gone AS (
                    DELETE FROM ~.forge_crons WHERE name = ANY (ARRAY(
                        SELECT name FROM ~.forge_crons WHERE name = ANY (:names) AND declared AND NOT paused
                        ORDER BY name FOR UPDATE SKIP LOCKED))
                    RETURNING *)
                """ + REMEMBER))
                .param("names", names.toArray(String[]::new))
                .update();
    }

    /** Makes a cron at run time; false if there is one of that name. */
    public boolean insert(Scheduled cron, String payload) {
        return jdbc.update(
                        schema.sql(REMEMBERED + """
                INSERT INTO ~.forge_crons (%s, payload)
                SELECT %s, d.next_fire_at, m.last_fire_at, m.last_job_id, false, ?::jsonb
                FROM unnest(%s, ?::timestamptz[]) AS d (%s, next_fire_at)
                LEFT JOIN m ON m.name = d.name
                ON CONFLICT DO NOTHING
                """.formatted(REMEMBERED_COLUMNS, FRESH_COLUMNS, TYPES, COLUMNS)),
                        statement -> {
                            int at = array(statement, 1, "text", List.of(cron), scheduled -> scheduled.definition.name);
                            statement.setString(at, payload);
                            at = bind(statement, at + 1, List.of(cron.definition));
                            array(statement, at, "timestamptz", List.of(cron), scheduled -> offset(scheduled.next));
                        })
                == 1;
    }

    /** Changes a cron that was made at run time; false if there is none of that name. */
    public boolean update(Scheduled cron, String payload) {
        return jdbc.update(schema.sql("""
                UPDATE ~.forge_crons c
                SET (%s, next_fire_at) = (SELECT d.* FROM unnest(%s, ?::timestamptz[]) AS d),
                    payload = ?::jsonb, problem = NULL, updated_at = clock_timestamp()
                WHERE c.name = ? AND NOT c.declared
                """.formatted(COLUMNS, TYPES)), statement -> {
                    int at = bind(statement, 1, List.of(cron.definition));
                    at = array(statement, at, "timestamptz", List.of(cron), scheduled -> offset(scheduled.next));
                    statement.setString(at, payload);
                    statement.setString(at + 1, cron.definition.name);
                })
                == 1;
    }

    /** Deletes a cron that was made at run time. */
    public boolean delete(String name) {
        return client.sql(schema.sql("""
                        WITH gone AS (DELETE FROM ~.forge_crons WHERE name = ? AND NOT declared RETURNING *)
                        """ + REMEMBER)).param(name).update() == 1;
    }

    /** Pauses or resumes; false if there is no such cron in the other state. */
    public boolean pause(String name, boolean paused) {
        return client.sql(schema.sql("""
                        UPDATE ~.forge_crons SET paused = :paused, updated_at = clock_timestamp()
                        WHERE name = :name AND paused <> :paused
                        """))
                        .param("paused", paused)
                        .param("name", name)
                        .update()
                == 1;
    }

    // Firing ------------------------------------------------------------------------------------------------

    /** What runs, and who must run it. */
    public record Handler(CronTarget target, String name) {}

    /**
     * Crons that are not looked at for now, though slots of theirs may be due.
     *
     * @param names which could not be fired
     * @param handlers which nobody could run; paused ones are looked at, they need none
     */
    public record LeftAlone(Set<String> names, Set<Handler> handlers) {}

    private static final String NOT_LEFT_ALONE = """
            c.name <> ALL (:names)
                AND (c.paused OR c.target || ' ' || coalesce(c.handler, c.name) <> ALL (:handlers))""";

    private JdbcClient.StatementSpec leaving(LeftAlone out, String sql) {
        return client.sql(schema.sql(sql.formatted(NOT_LEFT_ALONE)))
                .param("names", out.names.toArray(String[]::new))
                .param(
                        "handlers",
                        out.handlers.stream()
                                .map(handler -> word(handler.target) + " " + handler.name)
                                .toArray(String[]::new));
    }

    /** How long until the next slot of all, negative if it has passed; empty if there is none. */
    public Optional<Duration> untilNext(LeftAlone out) {
        return leaving(out, """
                SELECT (extract(epoch FROM min(c.next_fire_at) - clock_timestamp()) * 1000)::bigint
                FROM ~.forge_crons c WHERE c.next_fire_at < clock_timestamp() + interval '1 day' AND %s
                """)
                .query((row, n) ->
                        Optional.ofNullable(row.getObject(1, Long.class)).map(Duration::ofMillis))
                .single();
    }

    /**
     * A cron that has slots to decide.
     *
     * @param next the first of them
     * @param lastSlot the last one that ran
     * @param lastJob the former run, ended or not; see {@link #active}
     * @param now when it was read
     * @param payloadBytes what the payload of each run takes
     */
    public record Due(
            Definition definition,
            boolean paused,
            Instant next,
            @Nullable Instant lastSlot,
            @Nullable UUID lastJob,
            Instant now,
            int payloadBytes) {}

    /** Where a page of crons ends. */
    public record Place(Instant next, String name) {
        /** Before all. */
        public static final Place FIRST = new Place(Instant.EPOCH, "");
    }

    private static final String DUE = "SELECT "
            + COLUMNS.replace("handler", "coalesce(handler, name) AS handler")
            + ", c.paused, coalesce(c.next_fire_at, now()), c.last_fire_at, c.last_job_id, now(), pg_column_size(c.payload)"
            + " FROM ~.forge_crons c ";

    /** Locks crons that have slots to decide, from that place on; those that somebody changes just now come later. */
    public List<Due> due(Place after, int limit, LeftAlone out) {
        return leaving(out, DUE + """
                WHERE c.next_fire_at <= now() AND (c.next_fire_at, c.name) > (:next, :name) AND %s
                ORDER BY c.next_fire_at, c.name LIMIT :limit FOR UPDATE SKIP LOCKED
                """)
                .param("next", offset(after.next), Types.TIMESTAMP_WITH_TIMEZONE)
                .param("name", after.name)
                .param("limit", limit)
                .query((row, n) -> due(row))
                .list();
    }

    /** Locks that cron, if it has slots to decide and nobody else has locked it. */
    public List<Due> due(String name) {
        return client.sql(schema.sql(DUE + "WHERE c.next_fire_at <= now() AND c.name = ? FOR UPDATE SKIP LOCKED"))
                .param(name)
                .query((row, n) -> due(row))
                .list();
    }

    /** The names of crons that have slots to decide. */
    public List<String> dueNames(Place after, int limit, LeftAlone out) {
        return leaving(out, """
                SELECT c.name FROM ~.forge_crons c
                WHERE c.next_fire_at <= now() AND (c.next_fire_at, c.name) > (:next, :name) AND %s
                ORDER BY c.next_fire_at, c.name LIMIT :limit
                """)
                .param("next", offset(after.next), Types.TIMESTAMP_WITH_TIMEZONE)
                .param("name", after.name)
                .param("limit", limit)
                .query((row, n) -> row.getString(1))
                .list();
    }

    private static Due due(ResultSet row) throws SQLException {
        return new Due(
                definition(row),
                row.getBoolean(12),
                instant(row, 13),
                time(row, 14),
                row.getObject(15, UUID.class),
                instant(row, 16),
                row.getInt(17));
    }

    /** Locks one cron, due or not. */
    public Optional<Due> lock(String name) {
        return client.sql(schema.sql(DUE + "WHERE c.name = ? FOR UPDATE"))
                .param(name)
                .query((row, n) -> due(row))
                .optional();
    }

    /**
     * A run that has not ended.
     *
     * @param slot its slot; null if its row does not say
     * @param since since when it runs; while it waits, until when at least
     */
    public record Active(
            UUID job,
            JobStatus status,
            int attempts,
            @Nullable String slot,
            Instant since) {

        /** Whether it has failed and only waits for another try. */
        public boolean isRetry() {
            return status == JobStatus.PENDING && attempts > 0;
        }
    }

    /**
     * Which of those runs have not ended. Asked once their crons are locked, by a statement of its own: one that had to wait for
     * a lock sees the row as it is then, but all else as it was before.
     */
    public Map<UUID, Active> active(Collection<UUID> jobs) {
        if (jobs.isEmpty()) {
            return Map.of();
        }
        return client
                .sql(schema.sql("""
                SELECT id, status, attempts, metadata ->> 'slot',
                       CASE status WHEN 'pending' THEN scheduled_at ELSE coalesce(started_at, claimed_at, now()) END
                FROM ~.forge_jobs WHERE id = ANY (:ids) AND status IN %s
                """.formatted(ACTIVE)))
                .param("ids", jobs.toArray(UUID[]::new))
                .query((row, n) -> new Active(
                        row.getObject(1, UUID.class),
                        constant(JobStatus.class, row.getString(2)),
                        row.getInt(3),
                        row.getString(4),
                        instant(row, 5)))
                .list()
                .stream()
                .collect(Collectors.toMap(Active::job, Function.identity()));
    }

    /** Calls off runs that only wait for another try, unless a node has taken them by now; answers those that are. */
    public Set<UUID> cancelRetries(Collection<UUID> jobs, String reason) {
        return cancel(jobs, "attempts > 0", reason);
    }

    /** Calls off the latest run of a cron if its time, put off by chance, has not come. */
    public void cancelUnbegun(String cron, String reason) {
        client.sql(schema.sql("SELECT last_job_id FROM ~.forge_crons WHERE name = ? AND last_job_id IS NOT NULL"))
                .param(cron)
                .query(UUID.class)
                .optional()
                .ifPresent(job -> cancel(List.of(job), "attempts = 0 AND scheduled_at > clock_timestamp()", reason));
    }

    private Set<UUID> cancel(Collection<UUID> jobs, String condition, String reason) {
        return new HashSet<>(client.sql(schema.sql("""
                UPDATE ~.forge_jobs
                SET status = 'cancelled', finished_at = clock_timestamp(), lease_expires_at = NULL, waits_for = NULL,
                    last_error = :reason || coalesce('; ' || last_error, '')
                WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs WHERE id = ANY (:ids) AND status = 'pending' AND %s
                    ORDER BY id FOR UPDATE SKIP LOCKED))
                RETURNING id
                """.formatted(condition)))
                .param("reason", reason)
                .param("ids", jobs.toArray(UUID[]::new))
                .query(UUID.class)
                .list());
    }

    /**
     * What becomes of a slot.
     *
     * @param job the run; null if there is none
     * @param capability what a node must offer to run it
     * @param previous the slot that ran before
     */
    public record Slot(
            String cron,
            Instant slot,
            CronRun.Outcome outcome,
            @Nullable String reason,
            @Nullable UUID job,
            @Nullable String capability,
            long delayMillis,
            @Nullable Instant previous) {}

    /** Writes slots into the ledger; answers those that were not in it yet. */
    public List<Slot> record(List<Slot> slots, @Nullable Long term) {
        record Key(String cron, Instant slot) {}
        Set<Key> fresh = new HashSet<>(jdbc.query(
                connection -> {
                    PreparedStatement statement = connection.prepareStatement(schema.sql("""
                            INSERT INTO ~.forge_cron_runs (cron, slot, outcome, reason, job_id, term, fired_at)
                            SELECT d.cron, d.slot, d.outcome, d.reason, d.job_id, ?, clock_timestamp()
                            FROM unnest(?::text[], ?::timestamptz[], ?::text[], ?::text[], ?::uuid[])
                                AS d (cron, slot, outcome, reason, job_id)
                            ON CONFLICT DO NOTHING
                            RETURNING cron, slot
                            """));
                    statement.setObject(1, term, Types.BIGINT);
                    int at = 2;
                    at = array(statement, at, "text", slots, Slot::cron);
                    at = array(statement, at, "timestamptz", slots, slot -> offset(slot.slot));
                    at = array(statement, at, "text", slots, slot -> word(slot.outcome));
                    at = array(statement, at, "text", slots, Slot::reason);
                    array(statement, at, "uuid", slots, Slot::job);
                    return statement;
                },
                (row, n) -> new Key(row.getString(1), instant(row, 2))));
        return slots.stream()
                .filter(slot -> fresh.contains(new Key(slot.cron, slot.slot)))
                .toList();
    }

    /** Enqueues the runs of slots. */
    public void enqueue(List<Slot> runs, @Nullable Long term) {
        jdbc.update(
                schema.sql("""
                INSERT INTO ~.forge_jobs
                    (id, name, payload, worker_capability, scheduled_at, max_attempts, metadata, body_bytes)
                SELECT d.job_id, coalesce(c.handler, c.name), c.payload, d.capability,
                       clock_timestamp() + d.delay * interval '1 millisecond', c.max_attempts,
                       jsonb_strip_nulls(jsonb_build_object(
                           'cron', c.name, 'slot', %1$s, 'firedAt', %2$s, 'previousSlot', %3$s, 'term', ?::text)),
                       -- With room for the metadata. A large payload is measured when it is claimed.
                       CASE WHEN pg_column_size(c.payload) <= 1000 THEN octet_length(c.payload::text) + 1000 END
                FROM unnest(?::text[], ?::timestamptz[], ?::uuid[], ?::text[], ?::bigint[], ?::timestamptz[])
                    AS d (cron, slot, job_id, capability, delay, previous)
                JOIN ~.forge_crons c ON c.name = d.cron
                """.formatted(iso("d.slot"), iso("clock_timestamp()"), iso("d.previous"))), statement -> {
                    statement.setString(1, term == null ? null : term.toString());
                    int at = 2;
                    at = array(statement, at, "text", runs, Slot::cron);
                    at = array(statement, at, "timestamptz", runs, slot -> offset(slot.slot));
                    at = array(statement, at, "uuid", runs, Slot::job);
                    at = array(statement, at, "text", runs, Slot::capability);
                    at = array(statement, at, "int8", runs, Slot::delayMillis);
                    array(statement, at, "timestamptz", runs, slot -> offset(slot.previous));
                });
    }

    private static String iso(String expression) {
        return "to_char(%s AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')".formatted(expression);
    }

    /**
     * A cron whose slots were decided.
     *
     * @param next its first slot that was not
     * @param lastSlot the last that ran; null: as before
     * @param lastJob its run
     * @param problem why it fires no more; null if it does
     */
    public record Advance(
            String name,
            @Nullable Instant next,
            @Nullable Instant lastSlot,
            @Nullable UUID lastJob,
            @Nullable String problem) {}

    /** Moves crons on, behind the slots that were decided. */
    public void advance(List<Advance> crons) {
        jdbc.update(schema.sql("""
                UPDATE ~.forge_crons c
                SET next_fire_at = d.next, last_fire_at = coalesce(d.last_slot, c.last_fire_at),
                    last_job_id = coalesce(d.last_job, c.last_job_id), problem = d.problem
                FROM unnest(?::text[], ?::timestamptz[], ?::timestamptz[], ?::uuid[], ?::text[])
                    AS d (name, next, last_slot, last_job, problem)
                WHERE c.name = d.name
                """), statement -> {
            int at = 1;
            at = array(statement, at, "text", crons, Advance::name);
            at = array(statement, at, "timestamptz", crons, cron -> offset(cron.next));
            at = array(statement, at, "timestamptz", crons, cron -> offset(cron.lastSlot));
            at = array(statement, at, "uuid", crons, Advance::lastJob);
            array(statement, at, "text", crons, Advance::problem);
        });
    }

    /** Notes why a cron could not be fired. */
    public void setAside(String name, String problem) {
        client.sql(schema.sql("UPDATE ~.forge_crons SET problem = ? WHERE name = ?"))
                .params(problem, name)
                .update();
    }

    /** Notes a run beside the plan. */
    public void triggered(String name, UUID job) {
        client.sql(schema.sql("UPDATE ~.forge_crons SET last_job_id = ? WHERE name = ?"))
                .params(job, name)
                .update();
    }

    /** Who knows a handler. */
    public record Known(boolean schedulers, boolean workers) {

        /** Whether one of them may run it for a cron of that target. */
        public boolean mayRun(CronTarget target) {
            return workers || (schedulers && target == CronTarget.LEADER);
        }
    }

    private static final String TAKING =
            "n.status NOT IN ('dead', 'draining') AND coalesce(n.info ->> 'mode', 'auto') <> 'observer'";

    /** Which handlers nodes have that may take something. */
    public Map<String, Known> knownHandlers() {
        return client
                .sql(schema.sql("""
                SELECT h.name, bool_or('scheduler' = ANY (n.roles)), bool_or('worker' = ANY (n.roles))
                FROM ~.forge_nodes n, unnest(n.handlers) AS h (name)
                WHERE %s
                GROUP BY h.name
                """.formatted(TAKING)))
                .query((row, n) -> Map.entry(row.getString(1), new Known(row.getBoolean(2), row.getBoolean(3))))
                .list()
                .stream()
                .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    /**
     * Lets any node with the role scheduler take runs that only a leader with their handler could have taken: a thousand,
     * and the rest with later calls.
     */
    public int reroute(Collection<String> handlers, String from, String to) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_jobs SET worker_capability = :to
                WHERE id = ANY (ARRAY(
                    SELECT id FROM ~.forge_jobs
                    WHERE status = 'pending' AND waits_for IS NULL AND name = ANY (:names)
                      AND coalesce(worker_capability, '') = :from
                    ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED))
                """))
                .param("names", handlers.toArray(String[]::new))
                .param("from", from)
                .param("to", to)
                .update();
    }

    /** Whether that node still has that run; if so, until the transaction ends. */
    public boolean isHeld(UUID job, long epoch, UUID node) {
        return client.sql(schema.sql("""
                SELECT 1 FROM ~.forge_jobs
                WHERE id = ? AND claim_epoch = ? AND worker_id = ? AND status IN ('claimed', 'running') FOR SHARE
                """))
                .params(job, epoch, node)
                .query(Integer.class)
                .optional()
                .isPresent();
    }

    // For people --------------------------------------------------------------------------------------------

    /** Deletes ledger rows that were written before that, up to that many. */
    public int purge(Duration retention, int limit) {
        return client.sql(schema.sql("""
                DELETE FROM ~.forge_cron_runs WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM ~.forge_cron_runs
                    WHERE fired_at < clock_timestamp() - :millis * interval '1 millisecond'
                    ORDER BY fired_at LIMIT :limit))
                """))
                .param("millis", retention.toMillis())
                .param("limit", limit)
                .update();
    }

    private static final String RUN = """
            r.cron, r.slot, r.outcome, r.reason, r.job_id, coalesce(j.status, r.job_status) AS job_status,
            coalesce(j.attempts, r.attempts) AS attempts, coalesce(j.last_error, r.last_error) AS last_error,
            coalesce(j.started_at, r.started_at) AS started_at, coalesce(j.finished_at, r.finished_at) AS finished_at,
            r.term, r.fired_at""";

    private static final String RUNS = """
            SELECT %s FROM ~.forge_cron_runs r LEFT JOIN ~.forge_jobs j ON j.id = r.job_id
            """.formatted(RUN);

    /** Crons by name, all or that one. */
    public List<CronInfo> infos(@Nullable String name) {
        Map<String, CronRun> last = latest(name, "AND r.outcome = 'ran'");
        Map<String, CronRun> latest = latest(name, "");
        return client.sql(schema.sql(
                        """
                SELECT %s, c.declared, c.paused, c.next_fire_at, c.problem,
                       EXISTS (SELECT FROM ~.forge_nodes n
                               WHERE %s AND coalesce(c.handler, c.name) = ANY (n.handlers)
                                 AND ('worker' = ANY (n.roles) OR c.target = 'leader' AND 'scheduler' = ANY (n.roles)))
                           AS known
                FROM ~.forge_crons c
                WHERE (:name::text IS NULL OR c.name = :name)
                ORDER BY c.name
                """.formatted(COLUMNS.replace("handler", "coalesce(c.handler, c.name) AS handler"), TAKING)))
                .param("name", name, Types.VARCHAR)
                .query((row, n) -> info(row, last, latest))
                .list();
    }

    /** The latest rows of the ledger that meet a condition, by cron. */
    private Map<String, CronRun> latest(@Nullable String name, String condition) {
        return client
                .sql(schema.sql("""
                SELECT l.* FROM ~.forge_crons c,
                    LATERAL (%s WHERE r.cron = c.name %s ORDER BY r.slot DESC LIMIT 1) AS l
                WHERE (:name::text IS NULL OR c.name = :name)
                """.formatted(RUNS, condition)))
                .param("name", name, Types.VARCHAR)
                .query((row, n) -> run(row))
                .list()
                .stream()
                .collect(Collectors.toMap(CronRun::cron, Function.identity()));
    }

    /** What became of a cron's slots, the latest first. */
    public List<CronRun> runs(String cron, int limit) {
        return client.sql(schema.sql(RUNS + " WHERE r.cron = ? ORDER BY r.slot DESC LIMIT ?"))
                .params(cron, limit)
                .query((row, n) -> run(row))
                .list();
    }

    private static CronInfo info(ResultSet row, Map<String, CronRun> last, Map<String, CronRun> latest)
            throws SQLException {
        Stored stored = stored(row);
        Definition definition = stored.definition;
        return new CronInfo(
                definition.name,
                stored.declared,
                definition.handler,
                definition.expression,
                definition.zone,
                definition.target,
                definition.capability,
                definition.misfire,
                definition.catchUpLimit,
                definition.overlap,
                Duration.ofMillis(definition.jitterMillis),
                stored.paused,
                stored.next,
                row.getBoolean("known"),
                stored.problem,
                last.get(definition.name),
                latest.get(definition.name));
    }

    private static CronRun run(ResultSet row) throws SQLException {
        String jobStatus = row.getString("job_status");
        return new CronRun(
                row.getString("cron"),
                row.getObject("slot", OffsetDateTime.class).toInstant(),
                constant(CronRun.Outcome.class, row.getString("outcome")),
                row.getString("reason"),
                row.getObject("job_id", UUID.class),
                jobStatus == null ? null : constant(JobStatus.class, jobStatus),
                row.getObject("attempts", Integer.class),
                row.getString("last_error"),
                time(row, "started_at"),
                time(row, "finished_at"),
                row.getObject("term", Long.class),
                row.getObject("fired_at", OffsetDateTime.class).toInstant());
    }

    private static @Nullable Instant time(ResultSet row, String column) throws SQLException {
        return time(row, row.findColumn(column));
    }

    private static Stored stored(ResultSet row) throws SQLException {
        return new Stored(
                definition(row),
                row.getBoolean("declared"),
                row.getBoolean("paused"),
                time(row, 14),
                row.getString("problem"));
    }

    private static Definition definition(ResultSet row) throws SQLException {
        return new Definition(
                row.getString(1),
                row.getString(2),
                row.getString(3),
                row.getString(4),
                constant(CronTarget.class, row.getString(5)),
                row.getString(6),
                constant(Misfire.class, row.getString(7)),
                row.getInt(8),
                constant(Overlap.class, row.getString(9)),
                row.getLong(10),
                row.getObject(11, Integer.class));
    }

    // -------------------------------------------------------------------------------------------------------

    private static <T> int array(
            PreparedStatement statement, int at, String type, List<T> rows, Function<T, @Nullable Object> column)
            throws SQLException {
        @Nullable Object[] values = new @Nullable Object[rows.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = column.apply(rows.get(i));
        }
        Connection connection = statement.getConnection();
        statement.setArray(at, connection.createArrayOf(type, values));
        return at + 1;
    }

    private static @Nullable OffsetDateTime offset(@Nullable Instant time) {
        return time == null ? null : time.atOffset(ZoneOffset.UTC);
    }

    private static @Nullable Instant time(ResultSet row, int column) throws SQLException {
        OffsetDateTime time = row.getObject(column, OffsetDateTime.class);
        return time == null ? null : time.toInstant();
    }

    private static Instant instant(ResultSet row, int column) throws SQLException {
        return Objects.requireNonNull(time(row, column));
    }

    private static String word(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    private static <E extends Enum<E>> E constant(Class<E> type, String word) {
        return Enum.valueOf(type, word.toUpperCase(Locale.ROOT).replace('-', '_'));
    }
}
