package dev.forge.cluster.internal.store;

import dev.forge.cluster.WorkflowInfo;
import dev.forge.cluster.WorkflowStatus;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/** What people ask about runs of workflows. However many there are, a list looks through the newest ten thousand. */
public final class WorkflowReports {

    private static final String COLUMNS = """
            r.id, r.workflow_name, r.workflow_version, r.status, r.run_key, r.parent_id, %s, %s, %s, r.resolution_reason,
            r.awaits, (SELECT j.scheduled_at FROM ~.forge_jobs j
                       WHERE j.id = r.id AND j.status = 'pending' AND isfinite(j.scheduled_at)
                         AND j.waits_for IS NULL AND r.status NOT IN %s),
            r.created_at, r.finished_at""";

    private final Schema schema;
    private final JdbcClient client;

    public WorkflowReports(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /** A run with its steps. */
    public Optional<WorkflowInfo> find(UUID id) {
        return client.sql(schema.sql("SELECT %s FROM ~.forge_workflow_runs r WHERE r.id = ?"
                        .formatted(COLUMNS.formatted(
                                "r.input::text", "r.result::text", "r.last_error", WorkflowStore.FINAL))))
                .param(id)
                .query((row, n) -> info(row))
                .optional()
                // Not while the first answer is read: that would take a second connection.
                .map(run -> withSteps(run, steps(id)));
    }

    private List<WorkflowInfo.Step> steps(UUID run) {
        return client.sql(schema.sql("""
                SELECT position, name, kind, status, attempts, result::text, last_error, started_at, finished_at
                FROM ~.forge_workflow_steps WHERE run_id = ? ORDER BY position
                """))
                .param(run)
                .query((row, n) -> new WorkflowInfo.Step(
                        row.getInt(1),
                        row.getString(2),
                        row.getString(3),
                        row.getString(4),
                        row.getInt(5),
                        row.getString(6),
                        row.getString(7),
                        WorkflowStore.instant(row, "started_at"),
                        WorkflowStore.instant(row, "finished_at")))
                .list();
    }

    /** The newest runs, without what may be large. */
    public List<WorkflowInfo> list(@Nullable String workflow, @Nullable WorkflowStatus status, int limit) {
        return client.sql(schema.sql("""
                SELECT %s FROM (SELECT * FROM ~.forge_workflow_runs ORDER BY id DESC LIMIT 10000) AS r
                WHERE (:name::text IS NULL OR r.workflow_name = :name) AND (:status::text IS NULL OR r.status = :status)
                ORDER BY r.id DESC LIMIT :limit
                """.formatted(
                                COLUMNS.formatted("NULL::text", "NULL::text", "NULL::text", WorkflowStore.FINAL))))
                .param("name", workflow, Types.VARCHAR)
                .param("status", status == null ? null : WorkflowStore.word(status), Types.VARCHAR)
                .param("limit", limit)
                .query((row, n) -> info(row))
                .list();
    }

    private static WorkflowInfo withSteps(WorkflowInfo run, List<WorkflowInfo.Step> steps) {
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
                run.createdAt(),
                run.finishedAt(),
                steps);
    }

    private static WorkflowInfo info(ResultSet row) throws SQLException {
        OffsetDateTime wakeAt = row.getObject(12, OffsetDateTime.class);
        return new WorkflowInfo(
                row.getObject(1, UUID.class),
                row.getString(2),
                row.getString(3),
                WorkflowStore.status(row.getString(4)),
                row.getString(5),
                row.getObject(6, UUID.class),
                row.getString(7),
                row.getString(8),
                row.getString(9),
                row.getString(10),
                row.getString(11),
                wakeAt == null ? null : wakeAt.toInstant(),
                Objects.requireNonNull(WorkflowStore.instant(row, "created_at")),
                WorkflowStore.instant(row, "finished_at"),
                List.of());
    }
}
