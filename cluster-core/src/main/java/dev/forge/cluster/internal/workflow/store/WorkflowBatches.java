// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import static dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.array;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRun;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RecordedRuns;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RunClaim;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.RunRow;
import dev.forge.cluster.internal.workflow.store.WorkflowHistoryStore.WriteResult;
import dev.forge.cluster.internal.workflow.store.WorkflowRunStore.End;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * Reads and writes many runs of a node with one statement, as {@link WorkflowHistoryStore} and {@link WorkflowRunStore} do for one
 * run. It waits for no lock. The result lacks runs whose rows are locked, whose claim is lost or which need another write;
 * nothing was written for them.
 */
public final class WorkflowBatches {

    private final Tables tables;

    public WorkflowBatches(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
    }

    /** A run with more bytes is read with a statement of its own. */
    private static final int SMALL_RUN_BYTES = 100_000;

    /** Reads runs with their history: those that are small, and that are marked as running already. */
    public Map<RunClaim, RecordedRun> load(Collection<RunClaim> claims) {
        Map<UUID, RunClaim> byRun = claims.stream().collect(Collectors.toMap(RunClaim::run, claim -> claim));
        var rows = new RecordedRuns();
        tables.sql(LOAD).param("runs", byRun.keySet().toArray(UUID[]::new)).query(rows);
        var loaded = new HashMap<RunClaim, RecordedRun>();
        byRun.forEach((run, claim) -> {
            RecordedRun recorded = rows.find(run);
            if (recorded != null && isRunning(recorded.status())) {
                loaded.put(claim, recorded);
            }
        });
        return loaded;
    }

    /** Bytes of a row beside the columns that are measured. */
    private static final int ROW_BYTES = 100;

    // The sizes at this moment: rows that a drained or failed execution has written count, and so do new signals. A
    // value of unknown size counts as large.
    private static final String LOAD =
            """
            WITH small AS MATERIALIZED (SELECT ARRAY(
                SELECT r.id FROM ~.forge_workflow_runs r
                WHERE r.id = ANY (:runs::uuid[])
                  AND CASE WHEN r.input IS NULL THEN 0 ELSE coalesce(r.input_bytes, %1$d + 1) END
                    + (SELECT coalesce(sum(%2$d + octet_length(s.name) + coalesce(octet_length(s.last_error), 0)
                                           + CASE WHEN s.result IS NULL THEN 0 ELSE coalesce(s.result_bytes, %1$d + 1) END), 0)
                       FROM ~.forge_workflow_steps s WHERE s.run_id = r.id)
                    + (SELECT coalesce(sum(%2$d + octet_length(g.name)
                                           + CASE WHEN g.payload_bytes <= %3$d THEN g.payload_bytes ELSE 0 END), 0)
                       FROM ~.forge_workflow_signals g WHERE g.run_id = r.id) <= %1$d) AS ids)
            """.formatted(SMALL_RUN_BYTES, ROW_BYTES, WorkflowHistoryStore.SMALL_SIGNAL_BYTES)
                    + WorkflowHistoryStore.selectRuns("= ANY ((SELECT ids FROM small)::uuid[])");

    private static boolean isRunning(WorkflowStatus status) {
        return status == WorkflowStatus.RUNNING || status == WorkflowStatus.COMPENSATING;
    }

    private static final String CLAIMS =
            "unnest((SELECT :runs::uuid[]), (SELECT :epochs::bigint[]), (SELECT :nodes::uuid[])) AS c (run, epoch, node)";

    private static final String CLAIM_HELD =
            "j.id = c.run AND j.claim_epoch = c.epoch AND j.worker_id = c.node AND j.status IN " + JobRows.HELD;

    private static final String RECORD = """
            WITH held AS MATERIALIZED (
                SELECT j.id FROM %s JOIN ~.forge_jobs j ON %s FOR SHARE OF j SKIP LOCKED),
            saved AS (%s)
            SELECT r.id, (SELECT count(*) FROM saved WHERE saved.run_id = r.id AND saved.kind = 'step'), r.unwinding
            FROM held JOIN ~.forge_workflow_runs r ON r.id = held.id
            """.formatted(CLAIMS, CLAIM_HELD, WorkflowHistoryStore.upsertSteps("held"));

    /** Records steps. */
    public Map<RunClaim, WriteResult> record(Map<RunClaim, List<StepRow>> rowsByClaim) {
        List<RunClaim> claims = List.copyOf(rowsByClaim.keySet());
        Map<UUID, WriteResult> written = new HashMap<>();
        Map<UUID, Long> steps = new HashMap<>();
        var rows = new ArrayList<RunRow>();
        rowsByClaim.forEach((claim, rowsOfRun) -> {
            steps.put(claim.run(), WorkflowHistoryStore.countSteps(rowsOfRun));
            rowsOfRun.forEach(row -> rows.add(new RunRow(claim.run(), row)));
        });
        WorkflowHistoryStore.bindRows(bindClaims(tables.sql(RECORD), claims), rows)
                .query((row, n) -> {
                    UUID run = row.getObject(1, UUID.class);
                    return written.put(
                            run, WriteResult.of(row.getLong(2) == steps.getOrDefault(run, 0L), row.getBoolean(3)));
                })
                .list();
        return byClaim(claims, written);
    }

    private static final String END = """
            WITH wanted AS MATERIALIZED (
                SELECT * FROM unnest((SELECT :runs::uuid[]), (SELECT :ends::text[]), (SELECT :outcomes::text[]),
                                     (SELECT :failures::text[]), (SELECT :progresses::text[]),
                                     (SELECT :unwindings::boolean[]))
                              AS w (run, status, result, error, progress, unwinding)),
            -- The run before its job, like all other statements.
            open AS MATERIALIZED (
                SELECT r.id FROM wanted w JOIN ~.forge_workflow_runs r ON r.id = w.run
                WHERE r.status NOT IN %1$s AND r.unwinding = w.unwinding FOR UPDATE OF r SKIP LOCKED),
            held AS MATERIALIZED (
                SELECT j.id FROM %2$s JOIN open ON open.id = c.run JOIN ~.forge_jobs j ON %3$s
                FOR UPDATE OF j SKIP LOCKED),
            job AS (%5$s),
            saved AS (%4$s)
            UPDATE ~.forge_workflow_runs r
            SET status = w.status, result = w.result::jsonb,
                last_error = CASE WHEN w.status <> 'completed' THEN coalesce(w.error, r.last_error) END,
                finished_at = clock_timestamp(), updated_at = clock_timestamp(), awaits = NULL
            FROM held JOIN wanted w ON w.run = held.id
            WHERE r.id = held.id
            RETURNING r.id
            """.formatted(
                    WorkflowRunStore.FINAL,
                    CLAIMS,
                    CLAIM_HELD,
                    WorkflowHistoryStore.upsertSteps("held"),
                    JobFinishStore.endingCarrier(
                            "CASE WHEN w.status = 'completed' THEN 'completed' ELSE 'failed' END",
                            "w.error",
                            "w.progress",
                            "FROM held JOIN wanted w ON w.run = held.id WHERE j.id = held.id"));

    /** Ends runs and their jobs. */
    public Map<RunClaim, WriteResult> end(Map<RunClaim, End> ends) {
        List<RunClaim> claims = List.copyOf(ends.keySet());
        List<End> inOrder = claims.stream().map(ends::get).toList();
        Map<UUID, WriteResult> written = new HashMap<>();
        var rows = new ArrayList<RunRow>();
        ends.forEach((claim, end) -> end.rows().forEach(row -> rows.add(new RunRow(claim.run(), row))));
        WorkflowHistoryStore.bindRows(
                        bindClaims(tables.sql(END), claims)
                                .param("ends", array(inOrder, end -> EnumText.underscored(end.status()), String[]::new))
                                .param("outcomes", array(inOrder, End::result, String[]::new))
                                .param("failures", array(inOrder, End::error, String[]::new))
                                .param("progresses", array(inOrder, End::progress, String[]::new))
                                .param("unwindings", array(inOrder, End::compensating, Boolean[]::new)),
                        rows)
                .query((row, n) -> written.put(row.getObject(1, UUID.class), WriteResult.WRITTEN))
                .list();
        return byClaim(claims, written);
    }

    private static JdbcClient.StatementSpec bindClaims(JdbcClient.StatementSpec statement, List<RunClaim> claims) {
        return statement
                .param("runs", array(claims, RunClaim::run, UUID[]::new))
                .param("epochs", array(claims, claim -> claim.key().epoch(), Long[]::new))
                .param("nodes", array(claims, RunClaim::node, UUID[]::new));
    }

    private static Map<RunClaim, WriteResult> byClaim(List<RunClaim> claims, Map<UUID, WriteResult> written) {
        var results = new HashMap<RunClaim, WriteResult>();
        for (RunClaim claim : claims) {
            WriteResult result = written.get(claim.run());
            if (result != null) {
                results.put(claim, result);
            }
        }
        return results;
    }
}
