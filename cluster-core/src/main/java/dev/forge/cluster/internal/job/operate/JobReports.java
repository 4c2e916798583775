// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Timestamps;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import java.sql.Array;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.Function;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Queries about jobs, for the API, the endpoints and metrics. A query reads at most about ten thousand rows of each kind and name,
 * however many there are; results state where they are limited.
 */
public final class JobReports {

    /** Counts stop at this number. */
    public static final int MOST_COUNTED = 10_000;

    /** How many names of pending jobs are counted separately. */
    private static final int MOST_NAMES = 1_000;

    /** The name under which {@link #unfinished} counts jobs together if there are too many names. */
    public static final String OTHER_NAMES = Names.OTHERS;

    /** One array of texts for each entry; tolerates a column that was edited by hand. */
    static final String HISTORY = """
            ARRAY(SELECT ARRAY[h ->> 'attempt', h ->> 'epoch', h ->> 'node', h ->> 'startedAt', h ->> 'millis',
                               h ->> 'outcome', h ->> 'error']
                  FROM jsonb_array_elements(CASE jsonb_typeof(attempt_history) WHEN 'array' THEN attempt_history
                                                 ELSE '[]' END) WITH ORDINALITY AS e (h, n) ORDER BY n)""";

    static final String COLUMNS = """
            id, name, status, payload::text, priority, worker_capability, scheduled_at, attempts, max_attempts, recoveries,
            worker_id, claim_epoch, started_at, finished_at, progress::text, result::text, last_error, unique_key,
            ARRAY(SELECT key FROM jsonb_each_text(%1$s) ORDER BY key),
            ARRAY(SELECT coalesce(value, '') FROM jsonb_each_text(%1$s) ORDER BY key), created_at, %2$s, job_group, tags,
            batch_id"""
            // Tolerates metadata that were edited by hand.
            .formatted("CASE jsonb_typeof(metadata) WHEN 'object' THEN metadata ELSE '{}' END", HISTORY);

    private final Schema schema;
    private final JdbcClient client;

    public JobReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /** Returns a job; empty if there is none with that id. */
    public Optional<JobInfo> find(UUID id) {
        return client.sql(schema.sql("SELECT %s FROM ~.forge_jobs WHERE id = ?".formatted(COLUMNS)))
                .param(id)
                .query((row, n) -> info(row))
                .optional();
    }

    /** Returns how long the current attempt has been running, by the database's clock; zero if the job does not run. */
    public Duration runningFor(UUID id) {
        return Duration.ofMillis(client.sql(schema.sql("""
                SELECT (extract(epoch FROM clock_timestamp() - started_at) * 1000)::bigint FROM ~.forge_jobs
                WHERE id = ? AND status = 'running' AND isfinite(started_at)
                """))
                .param(id)
                .query(Long.class)
                .optional()
                .orElse(0L));
    }

    /** Returns the result of a completed job; empty if there is none. */
    public Optional<String> result(UUID id) {
        return client.sql(schema.sql("SELECT result::text FROM ~.forge_jobs WHERE id = ? AND status = 'completed'"))
                .param(id)
                .query((row, n) -> Optional.ofNullable(row.getString(1)))
                .optional()
                .flatMap(Function.identity());
    }

    /**
     * The number of jobs of a name with a status.
     *
     * @param jobs for pending jobs at most {@link #MOST_COUNTED}, which means that many or more
     */
    public record Count(String name, JobStatus status, long jobs) {}

    /**
     * Returns the numbers of unfinished jobs by name and status. If there are more than a thousand names, those that a node has or had
     * a handler for are still counted separately, and the others together as {@link #OTHER_NAMES}.
     */
    public List<Count> unfinished() {
        return client.sql(schema.sql("""
                WITH %1$s, handled (name) AS MATERIALIZED (SELECT name FROM ~.forge_job_names LIMIT %5$d),
                first (name) AS MATERIALIZED (SELECT name FROM pending WHERE name IS NOT NULL LIMIT %5$d),
                told (name) AS MATERIALIZED (SELECT name FROM handled UNION SELECT name FROM first),
                -- Materialized: otherwise each count would run twice.
                counted (name, status, jobs) AS MATERIALIZED (
                    SELECT p.name, 'pending', %4$s FROM told p
                    UNION ALL
                    -- Names after the last of the first names; none unless there are more names than are counted separately.
                    SELECT name, 'pending', count(*)
                    FROM (SELECT name FROM ~.forge_jobs
                          WHERE status = 'pending' AND waits_for IS NULL
                            AND name > (SELECT max(name) FROM first HAVING count(*) = %5$d)
                          ORDER BY name LIMIT (SELECT %3$d)) AS few
                    WHERE name NOT IN (SELECT name FROM told)
                    GROUP BY name
                    UNION ALL
                    SELECT name, 'pending', count(*)
                    FROM (SELECT name FROM ~.forge_jobs WHERE waits_for IS NOT NULL AND status = 'pending'
                          ORDER BY waits_for LIMIT (SELECT %3$d)) AS few
                    GROUP BY name
                    UNION ALL
                    -- Never more than the nodes have slots for.
                    SELECT name, status, count(*) FROM ~.forge_jobs WHERE status IN %2$s GROUP BY name, status),
                named (name, status, jobs) AS (
                    SELECT CASE WHEN status <> 'pending' OR (SELECT count(*) FROM first) < %5$d
                                     OR name IN (SELECT name FROM told) THEN name ELSE '%6$s' END, status, jobs
                    FROM counted WHERE jobs > 0)
                SELECT name, status, CASE status WHEN 'pending' THEN least(sum(jobs), %3$d) ELSE sum(jobs) END
                FROM named GROUP BY name, status ORDER BY name, status
                """.formatted(
                                JobNameStore.PENDING_NAMES,
                                JobRows.HELD,
                                MOST_COUNTED,
                                JobNameStore.PENDING_COUNT.formatted(MOST_COUNTED),
                                MOST_NAMES,
                                OTHER_NAMES)))
                .query((row, n) ->
                        new Count(row.getString(1), EnumText.parse(JobStatus.class, row.getString(2)), row.getLong(3)))
                .list();
    }

    /**
     * Returns how long the oldest due job has been waiting, among those that a node has had a handler for: SQL accepts any name, and
     * thousands of strange ones must not hide the others. Capabilities that nodes offer come first for the same reason.
     */
    public Duration oldestAge() {
        // From queue to queue, in all names at once: the first row of each is its oldest. Within a capability to the
        // next rank, otherwise to the next capability.
        return Duration.ofMillis(client.sql(schema.sql("""
                WITH RECURSIVE queue (name, capability, rank, head, roams) AS (
                    SELECT first.*, false FROM ~.forge_job_names n
                    CROSS JOIN (SELECT '' UNION SELECT unnest(worker_capabilities) FROM ~.forge_nodes WHERE status <> 'dead')
                        AS offered (capability)
                    CROSS JOIN LATERAL (
                        SELECT name, coalesce(worker_capability, ''), %1$s, scheduled_at FROM ~.forge_jobs
                        WHERE status = 'pending' AND waits_for IS NULL AND name = n.name
                          AND coalesce(worker_capability, '') = offered.capability
                        ORDER BY %1$s DESC, scheduled_at LIMIT 1) AS first
                    UNION ALL
                    SELECT first.*, true FROM ~.forge_job_names n
                    CROSS JOIN LATERAL (
                        SELECT name, coalesce(worker_capability, ''), %1$s, scheduled_at FROM ~.forge_jobs
                        WHERE status = 'pending' AND waits_for IS NULL AND name = n.name
                        ORDER BY coalesce(worker_capability, ''), %1$s DESC, scheduled_at LIMIT 1) AS first
                    UNION ALL
                    SELECT next.name, next.capability, next.rank, next.head, q.roams
                    FROM queue q
                    CROSS JOIN LATERAL (
                        SELECT * FROM (
                            (SELECT 1 AS step, name, coalesce(worker_capability, '') AS capability, %1$s AS rank,
                                    scheduled_at AS head
                             FROM ~.forge_jobs
                             WHERE status = 'pending' AND waits_for IS NULL AND name = q.name
                               AND coalesce(worker_capability, '') = q.capability AND %1$s < q.rank
                             ORDER BY %1$s DESC, scheduled_at LIMIT 1)
                            UNION ALL
                            (SELECT 2, name, coalesce(worker_capability, ''), %1$s, scheduled_at
                             FROM ~.forge_jobs
                             WHERE q.roams AND status = 'pending' AND waits_for IS NULL AND name = q.name
                               AND coalesce(worker_capability, '') > q.capability
                             ORDER BY coalesce(worker_capability, ''), %1$s DESC, scheduled_at LIMIT 1)
                        ) AS candidates ORDER BY step LIMIT 1) AS next)
                SELECT coalesce((extract(epoch FROM now() - min(head)) * 1000)::bigint, 0)
                FROM (SELECT head FROM queue LIMIT %2$d) AS few WHERE head <= now()
                """.formatted(Queue.RANK, MOST_COUNTED)))
                .query(Long.class)
                .single());
    }

    /**
     * What keeps a pending job from running.
     *
     * @param waitsFor the predecessor that must end first; null: none
     * @param dueInMillis negative if it is due; a hundred years if no time makes it due
     * @param workers active workers, of which {@code knowing} have a handler; {@code capable} of these offer the capability, and
     *     {@code free} of these have a free slot
     */
    public record Obstacles(
            boolean paused,
            @Nullable UUID waitsFor,
            long dueInMillis,
            int workers,
            int knowing,
            int capable,
            int free) {}

    /** Whether node {@code n} offers the capability of job {@code j}; capabilities of the cluster depend on the leader. */
    private static final String CAPABLE = """
            (j.worker_capability IS NULL OR j.worker_capability = '@scheduler'
             OR j.worker_capability = ANY (n.worker_capabilities)
             OR j.worker_capability = '@leader'
                AND EXISTS (SELECT FROM ~.forge_leaders l WHERE l.role = 'scheduler' AND l.node_id = n.id))""";

    /** Returns what keeps a job from running; empty if it is not pending. */
    public Optional<Obstacles> obstacles(UUID id) {
        return client.sql(schema.sql("""
                SELECT EXISTS (SELECT FROM ~.forge_job_pauses p WHERE p.name = j.name), j.waits_for,
                       (extract(epoch FROM least(j.scheduled_at, now() + interval '100 years') - now()) * 1000)::bigint,
                       count(n.id), count(n.id) FILTER (WHERE j.name = ANY (n.handlers)),
                       count(n.id) FILTER (WHERE j.name = ANY (n.handlers) AND %1$s),
                       count(n.id) FILTER (WHERE j.name = ANY (n.handlers) AND %1$s
                           AND (j.worker_capability LIKE '@%%'
                                OR n.current_jobs < coalesce((n.info ->> 'slots')::int, 1)))
                FROM ~.forge_jobs j
                LEFT JOIN ~.forge_nodes n ON n.status = 'active' AND n.info ->> 'mode' <> 'observer'
                    AND CASE WHEN j.worker_capability LIKE '@%%' THEN 'scheduler' ELSE 'worker' END = ANY (n.roles)
                WHERE j.id = ? AND j.status = 'pending'
                GROUP BY j.id, j.name, j.waits_for, j.scheduled_at
                """.formatted(CAPABLE)))
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

    static JobInfo info(ResultSet row) throws SQLException {
        var metadata = new TreeMap<String, String>();
        String[] keys = (String[]) row.getArray(19).getArray();
        String[] values = (String[]) row.getArray(20).getArray();
        for (int i = 0; i < keys.length; i++) {
            metadata.put(keys[i], values[i]);
        }
        return new JobInfo(
                row.getObject(1, UUID.class),
                row.getString(2),
                EnumText.parse(JobStatus.class, row.getString(3)),
                row.getString(4),
                row.getInt(5),
                row.getString(6),
                Timestamps.instant(row.getObject(7, OffsetDateTime.class)),
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
                row.getString(23),
                row.getObject(25, UUID.class),
                metadata,
                tags(row.getArray(24)),
                row.getObject(21, OffsetDateTime.class).toInstant(),
                history(row.getArray(22)));
    }

    private static List<String> tags(@Nullable Array column) throws SQLException {
        return column == null ? List.of() : List.of((String[]) column.getArray());
    }

    private static List<JobAttempt> history(@Nullable Array column) throws SQLException {
        var history = new ArrayList<JobAttempt>();
        // An empty array has one dimension only.
        if (column != null && column.getArray() instanceof String[][] entries) {
            for (String[] entry : entries) {
                attempt(entry).ifPresent(history::add);
            }
        }
        return List.copyOf(history);
    }

    /** Returns an entry of the history; empty if it was edited by hand and cannot be read. */
    private static Optional<JobAttempt> attempt(@Nullable String[] entry) {
        try {
            return Optional.of(new JobAttempt(
                    Integer.parseInt(String.valueOf(entry[0])),
                    Long.parseLong(String.valueOf(entry[1])),
                    entry[2] == null ? null : UUID.fromString(entry[2]),
                    OffsetDateTime.parse(String.valueOf(entry[3])).toInstant(),
                    entry[4] == null ? null : Duration.ofMillis(Long.parseLong(entry[4])),
                    EnumText.parse(JobAttempt.Result.class, String.valueOf(entry[5])),
                    entry[6] == null ? "" : entry[6]));
        } catch (RuntimeException e) {
            return Optional.empty();
        }
    }

    private static @Nullable Instant instant(ResultSet row, int column) throws SQLException {
        OffsetDateTime time = row.getObject(column, OffsetDateTime.class);
        return time == null ? null : Timestamps.instant(time);
    }
}
