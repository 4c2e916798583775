// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Timestamps;
import dev.forge.cluster.internal.runtime.Cursors;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.workflow.store.WorkflowSearchReports.Found;
import dev.forge.cluster.workflow.StepKind;
import dev.forge.cluster.workflow.StepStatus;
import dev.forge.cluster.workflow.WorkflowExport;
import dev.forge.cluster.workflow.WorkflowFilter;
import dev.forge.cluster.workflow.WorkflowInfo;
import dev.forge.cluster.workflow.WorkflowRejectedException;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.sql.Array;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.ResultSetExtractor;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Reads runs for the API, the Actuator and the metrics. A search looks at ten thousand runs at most. */
public final class WorkflowReports {

    private static final String COLUMNS = """
            r.id, r.workflow_name, r.workflow_version, r.status, r.run_key, r.parent_id, %s, %s, %s, %s,
            %s, (SELECT j.scheduled_at FROM ~.forge_jobs j
                       WHERE j.id = r.id AND j.status = 'pending' AND isfinite(j.scheduled_at)
                         AND j.waits_for IS NULL AND r.status NOT IN %s),
            r.created_at, r.finished_at, %s""";

    /** A signal that was sent is no longer awaited, whenever the run continues. */
    private static final String AWAITS = """
            CASE WHEN NOT EXISTS (SELECT FROM ~.forge_workflow_signals g WHERE g.run_id = r.id AND g.name = r.awaits)
                 THEN r.awaits END""";

    private static final String PROGRESS = "(SELECT j.progress::text FROM ~.forge_jobs j WHERE j.id = r.id)";

    /** Roles that resolve runs may store a text of any length. */
    private static final String REASON = "left(r.resolution_reason, %d)".formatted(ErrorText.LONGEST_MESSAGE);

    private static final int MOST_COUNTED = 10_000;

    private static final int MOST_SIGNALS = 100;

    private static final int MOST_EXPORTED_STEPS = 10_000;
    private static final long MOST_EXPORTED_BYTES = 8 << 20;

    /** One array of texts for each entry; operators may have edited the column by hand. */
    private static final String HISTORY = """
            ARRAY(SELECT ARRAY[h ->> 'attempt', h ->> 'undoing', h ->> 'endedAt', h ->> 'millis', h ->> 'error']
                  FROM jsonb_array_elements(CASE jsonb_typeof(attempt_history) WHEN 'array' THEN attempt_history
                                                 ELSE '[]' END) WITH ORDINALITY AS e (h, n) ORDER BY n)""";

    private final Schema schema;
    private final JdbcClient client;
    private final WorkflowSearchReports searches;

    public WorkflowReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
        this.searches = new WorkflowSearchReports(schema, source);
    }

    /** Finds a run with its steps. */
    public Optional<WorkflowInfo> find(UUID id) {
        return client.sql(schema.sql("SELECT %s FROM ~.forge_workflow_runs r WHERE r.id = ?"
                        .formatted(COLUMNS.formatted(
                                "r.input::text",
                                "r.result::text",
                                "r.last_error",
                                REASON,
                                AWAITS,
                                WorkflowRunStore.FINAL,
                                PROGRESS))))
                .param(id)
                .query((row, n) -> info(row))
                .optional()
                // Not while the first result is read: that would take a second connection.
                .map(run -> with(run, steps(id), signals(id)));
    }

    private List<WorkflowInfo.Signal> signals(UUID run) {
        return client.sql(schema.sql("""
                SELECT name, created_at FROM ~.forge_workflow_signals WHERE run_id = ? ORDER BY created_at, id LIMIT %d
                """.formatted(MOST_SIGNALS)))
                .param(run)
                .query((row, n) -> new WorkflowInfo.Signal(
                        row.getString(1), Objects.requireNonNull(WorkflowHistoryStore.instant(row, "created_at"))))
                .list();
    }

    private List<WorkflowInfo.Step> steps(UUID run) {
        return client.sql(schema.sql("""
                SELECT position, name, kind, status, attempts, compensation_attempts, result::text, last_error, started_at,
                       finished_at, compensation_started_at,
                       CASE WHEN status IN ('compensated', 'compensation_failed') THEN compensated_at END AS compensated_at, %s
                FROM ~.forge_workflow_steps WHERE run_id = ? ORDER BY position
                """.formatted(HISTORY)))
                .param(run)
                .query((row, n) -> new WorkflowInfo.Step(
                        row.getInt(1),
                        row.getString(2),
                        EnumText.parse(StepKind.class, row.getString(3)),
                        EnumText.parse(StepStatus.class, row.getString(4)),
                        row.getInt(5),
                        row.getInt(6),
                        row.getString(7),
                        row.getString(8),
                        WorkflowHistoryStore.instant(row, "started_at"),
                        WorkflowHistoryStore.instant(row, "finished_at"),
                        WorkflowHistoryStore.instant(row, "compensation_started_at"),
                        WorkflowHistoryStore.instant(row, "compensated_at"),
                        history(row.getArray(13))))
                .list();
    }

    private static List<WorkflowInfo.Attempt> history(Array column) throws SQLException {
        var history = new ArrayList<WorkflowInfo.Attempt>();
        // An array without entries has one dimension only.
        if (column.getArray() instanceof String[][] entries) {
            for (String[] entry : entries) {
                attempt(entry).ifPresent(history::add);
            }
        }
        return List.copyOf(history);
    }

    /** Empty if the entry was edited by hand and cannot be read; the other entries still can. */
    private static Optional<WorkflowInfo.Attempt> attempt(@Nullable String[] entry) {
        try {
            return Optional.of(new WorkflowInfo.Attempt(
                    Integer.parseInt(String.valueOf(entry[0])),
                    Boolean.parseBoolean(entry[1]),
                    OffsetDateTime.parse(String.valueOf(entry[2])).toInstant(),
                    entry[3] == null ? null : Duration.ofMillis(Long.parseLong(entry[3])),
                    entry[4] == null ? "" : entry[4]));
        } catch (RuntimeException e) {
            return Optional.empty();
        }
    }

    /**
     * Reads the history of a run. The run is the first row, at position -1. Values of a history that is too large are not read.
     *
     * @throws WorkflowRejectedException if the history is too large
     */
    public Optional<WorkflowExport> export(UUID run) {
        ResultSetExtractor<Optional<WorkflowExport>> reader = rows -> exported(run, rows);
        return Objects.requireNonNull(client.sql(schema.sql("""
                WITH size AS MATERIALIZED (
                    SELECT r.id, s.steps, s.bytes + coalesce(r.input_bytes, octet_length(r.input::text), 0) AS bytes
                    FROM ~.forge_workflow_runs r CROSS JOIN LATERAL (
                        SELECT count(*) AS steps, coalesce(sum(
                                   coalesce(result_bytes, octet_length(result::text), 0)
                                   + coalesce(octet_length(last_error), 0)), 0) AS bytes
                        FROM ~.forge_workflow_steps WHERE run_id = r.id) AS s
                    WHERE r.id = :run),
                fitting AS MATERIALIZED (
                    SELECT id FROM size WHERE steps <= %1$d AND bytes <= %2$d)
                SELECT -1 AS position, r.workflow_name AS name, r.workflow_version AS kind, r.status, 0 AS attempts,
                       CASE WHEN r.id IN (SELECT id FROM fitting) THEN r.input::text END AS value, NULL AS error,
                       NULL::timestamptz AS wake_at, NULL::uuid AS ref, z.steps, z.bytes
                FROM ~.forge_workflow_runs r JOIN size z ON z.id = r.id
                UNION ALL
                SELECT s.position, s.name, s.kind, s.status, s.attempts, s.result::text, s.last_error, s.wake_at, s.ref, 0, 0
                FROM fitting f JOIN ~.forge_workflow_steps s ON s.run_id = f.id
                ORDER BY position
                """.formatted(MOST_EXPORTED_STEPS, MOST_EXPORTED_BYTES)))
                .param("run", run)
                .query(reader));
    }

    private static Optional<WorkflowExport> exported(UUID run, ResultSet rows) throws SQLException {
        if (!rows.next()) {
            return Optional.empty();
        }
        requireExportable(run, rows.getLong("steps"), rows.getLong("bytes"));
        String name = rows.getString("name");
        String version = rows.getString("kind");
        WorkflowStatus status = EnumText.parse(WorkflowStatus.class, rows.getString("status"));
        String input = rows.getString("value");
        var steps = new ArrayList<WorkflowExport.Step>();
        while (rows.next()) {
            steps.add(new WorkflowExport.Step(
                    rows.getInt("position"),
                    rows.getString("name"),
                    EnumText.parse(StepKind.class, rows.getString("kind")),
                    EnumText.parse(StepStatus.class, rows.getString("status")),
                    rows.getInt("attempts"),
                    rows.getString("value"),
                    rows.getString("error"),
                    WorkflowHistoryStore.instant(rows, "wake_at"),
                    rows.getObject("ref", UUID.class)));
        }
        return Optional.of(new WorkflowExport(run, name, version, status, input, steps));
    }

    private static void requireExportable(UUID run, long steps, long bytes) {
        if (steps > MOST_EXPORTED_STEPS || bytes > MOST_EXPORTED_BYTES) {
            throw new WorkflowRejectedException(
                    "Run %s cannot be exported: it has %d steps with %d bytes, and at most %d steps with %d bytes are possible. Export it with SQL."
                            .formatted(run, steps, bytes, MOST_EXPORTED_STEPS, MOST_EXPORTED_BYTES));
        }
    }

    /**
     * What the run of a pending job waits for.
     *
     * @param signal the name of the awaited signal; null: none
     * @param until when the wait ends by itself; null: it does not
     */
    public record Wait(
            WorkflowVersion version,
            WorkflowStatus status,
            @Nullable String signal,
            @Nullable Instant until) {}

    /** Returns what a run waits for; empty if there is no such run, or its job is not pending. */
    public Optional<Wait> waitOf(UUID run) {
        return client.sql(schema.sql("""
                SELECT r.workflow_name, r.workflow_version, r.status, %s, j.scheduled_at
                FROM ~.forge_workflow_runs r JOIN ~.forge_jobs j ON j.id = r.id AND j.status = 'pending'
                WHERE r.id = ?
                """.formatted(AWAITS)))
                .param(run)
                .query((row, n) -> new Wait(
                        new WorkflowVersion(row.getString(1), row.getString(2)),
                        EnumText.parse(WorkflowStatus.class, row.getString(3)),
                        row.getString(4),
                        Timestamps.finite(Timestamps.instant(row.getObject(5, OffsetDateTime.class)))))
                .optional();
    }

    /**
     * Returns a page of runs, newest first; see {@link dev.forge.cluster.workflow.WorkflowOperations#search}.
     *
     * @param call the method of the API, for messages
     */
    public Page<WorkflowInfo> search(String call, WorkflowFilter filter, int limit, @Nullable String cursor) {
        var cursors = new Cursors(call, "workflow runs " + filter);
        Found found = searches.find(filter, cursors.decodeOne(cursor, UUID::fromString), limit);
        UUID next = found.next();
        return new Page<>(read(found.ids()), next == null ? null : cursors.encode(List.of(next.toString())));
    }

    /** Returns runs, newest first, without input, result, error, reason, progress and steps. */
    private List<WorkflowInfo> read(List<UUID> ids) {
        return ids.isEmpty()
                ? List.of()
                : client.sql(schema.sql(
                                "SELECT %s FROM ~.forge_workflow_runs r WHERE r.id = ANY (:ids::uuid[]) ORDER BY r.id DESC"
                                        .formatted(COLUMNS.formatted(
                                                "NULL::text",
                                                "NULL::text",
                                                "NULL::text",
                                                "NULL::text",
                                                AWAITS,
                                                WorkflowRunStore.FINAL,
                                                "NULL::text"))))
                        .param("ids", ids.toArray(UUID[]::new))
                        .query((row, n) -> info(row))
                        .list();
    }

    /**
     * The number of runs with a version and a status.
     *
     * @param runs ten thousand means that many or more
     */
    public record Count(WorkflowVersion version, WorkflowStatus status, long runs) {}

    /** The groups of runs in flight, {@code kind}: name, version and status. Steps from group to group of the partial index. */
    static final String KINDS_IN_FLIGHT = """
            WITH RECURSIVE kind AS (
                (SELECT workflow_name, workflow_version, status FROM ~.forge_workflow_runs WHERE status NOT IN %1$s
                 ORDER BY workflow_name, workflow_version, status LIMIT 1)
                UNION ALL
                SELECT next.* FROM kind k CROSS JOIN LATERAL (
                    SELECT r.workflow_name, r.workflow_version, r.status FROM ~.forge_workflow_runs r
                    WHERE r.status NOT IN %1$s
                      AND (r.workflow_name, r.workflow_version, r.status) > (k.workflow_name, k.workflow_version, k.status)
                    ORDER BY r.workflow_name, r.workflow_version, r.status LIMIT 1) AS next)
            """.formatted(WorkflowRunStore.FINAL);

    /** Counts runs that have not ended. The cost is that of the groups. */
    public List<Count> unfinished() {
        return client.sql(schema.sql(KINDS_IN_FLIGHT + """
                SELECT k.workflow_name, k.workflow_version, k.status, (
                    SELECT count(*) FROM (
                        SELECT FROM ~.forge_workflow_runs r
                        WHERE r.workflow_name = k.workflow_name AND r.workflow_version = k.workflow_version
                          AND r.status = k.status AND r.status NOT IN %1$s
                        -- A limit that the planner does not know: if it expects fewer rows, it reads them all.
                        ORDER BY r.workflow_name, r.workflow_version, r.status LIMIT (SELECT %2$d)) AS few)
                FROM kind k
                """.formatted(WorkflowRunStore.FINAL, MOST_COUNTED)))
                .query((row, n) -> new Count(
                        new WorkflowVersion(row.getString(1), row.getString(2)),
                        EnumText.parse(WorkflowStatus.class, row.getString(3)),
                        row.getLong(4)))
                .list();
    }

    /**
     * Counts runs that failed, or were compensated because they failed, within that time; without runs that others have started, which
     * handle their failure. Reads the last thousand that ended.
     */
    public List<Count> failed(Duration within) {
        return client.sql(schema.sql("""
                SELECT workflow_name, workflow_version, status, count(*)
                FROM (SELECT * FROM ~.forge_workflow_runs r WHERE r.status IN %s AND NOT (r.status = 'completed')
                      ORDER BY r.finished_at DESC LIMIT (SELECT 1000)) AS latest
                WHERE finished_at > now() - ? * interval '1 millisecond' AND parent_id IS NULL
                  -- A run that somebody cancelled has a reason.
                  AND (status = 'failed' OR status = 'compensated' AND resolution_reason IS NULL)
                GROUP BY workflow_name, workflow_version, status
                ORDER BY count(*) DESC, workflow_name, workflow_version
                """.formatted(WorkflowRunStore.FINAL)))
                .param(within.toMillis())
                .query((row, n) -> new Count(
                        new WorkflowVersion(row.getString(1), row.getString(2)),
                        EnumText.parse(WorkflowStatus.class, row.getString(3)),
                        row.getLong(4)))
                .list();
    }

    private static WorkflowInfo with(
            WorkflowInfo run, List<WorkflowInfo.Step> steps, List<WorkflowInfo.Signal> signals) {
        return new WorkflowInfo(
                run.id(),
                run.name(),
                run.version(),
                run.status(),
                run.key(),
                run.parent(),
                run.input(),
                run.result(),
                run.lastError(),
                run.resolutionReason(),
                run.awaits(),
                run.wakeAt(),
                run.progress(),
                run.createdAt(),
                run.finishedAt(),
                steps,
                signals);
    }

    private static WorkflowInfo info(ResultSet row) throws SQLException {
        OffsetDateTime wakeAt = row.getObject(12, OffsetDateTime.class);
        return new WorkflowInfo(
                row.getObject(1, UUID.class),
                row.getString(2),
                row.getString(3),
                EnumText.parse(WorkflowStatus.class, row.getString(4)),
                row.getString(5),
                row.getObject(6, UUID.class),
                row.getString(7),
                row.getString(8),
                row.getString(9),
                row.getString(10),
                row.getString(11),
                wakeAt == null ? null : wakeAt.toInstant(),
                row.getString(15),
                Objects.requireNonNull(WorkflowHistoryStore.instant(row, "created_at")),
                WorkflowHistoryStore.instant(row, "finished_at"),
                List.of(),
                List.of());
    }
}
