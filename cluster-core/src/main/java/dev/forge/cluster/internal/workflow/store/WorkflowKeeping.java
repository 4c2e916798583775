// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.Tables;
import dev.forge.cluster.internal.job.row.JobInsertStore;
import dev.forge.cluster.internal.job.row.JobRows;
import dev.forge.cluster.internal.job.row.JobScheduleStore;
import dev.forge.cluster.internal.purge.UndeletableStore;
import java.sql.Types;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Maintains {@code forge_workflow_runs}: finds the versions in flight and on live nodes, blocks and repairs runs that cannot
 * continue, deletes ended runs.
 */
public final class WorkflowKeeping {

    private final Tables tables;
    private final TransactionOperations transaction;
    private final WorkflowRunStore runs;

    public WorkflowKeeping(Schema schema, DataSource source) {
        this.tables = new Tables(schema, source);
        this.transaction = new TransactionTemplate(new OwnTransactions(source));
        this.runs = new WorkflowRunStore(schema, source);
    }

    /** Returns transactions on the same source: the changes of a leader are rolled back if its term is over. */
    public TransactionOperations transaction() {
        return transaction;
    }

    // Versions ----------------------------------------------------------------------------------------------

    /** Returns the versions that have runs in flight, with one probe of the index per version. */
    public Set<WorkflowVersion> versionsInFlight() {
        return versions("status NOT IN " + WorkflowRunStore.FINAL);
    }

    /** Returns the versions that have runs which are blocked because no live node had the version. */
    public Set<WorkflowVersion> blockedVersions() {
        return versions("status = 'blocked_missing_version'");
    }

    private Set<WorkflowVersion> versions(String condition) {
        return new HashSet<>(tables.sql("""
                WITH RECURSIVE version AS (
                    (SELECT workflow_name, workflow_version FROM ~.forge_workflow_runs WHERE %1$s
                     ORDER BY workflow_name, workflow_version LIMIT 1)
                    UNION ALL
                    SELECT next.* FROM version v CROSS JOIN LATERAL (
                        SELECT r.workflow_name, r.workflow_version FROM ~.forge_workflow_runs r
                        WHERE r.%1$s AND (r.workflow_name, r.workflow_version) > (v.workflow_name, v.workflow_version)
                        ORDER BY r.workflow_name, r.workflow_version LIMIT 1) AS next)
                SELECT * FROM version
                """.formatted(condition))
                .query((row, n) -> new WorkflowVersion(row.getString(1), row.getString(2)))
                .list());
    }

    /** Counts the runs of a version that are in flight. */
    public long countInFlight(WorkflowVersion version) {
        return tables.sql("""
                SELECT count(*) FROM ~.forge_workflow_runs
                WHERE workflow_name = ? AND workflow_version = ? AND status NOT IN %s
                """.formatted(WorkflowRunStore.FINAL))
                .params(version.workflow(), version.version())
                .query(Long.class)
                .single();
    }

    /** Returns the versions that live workers have, and whether one of these declares the version deprecated. */
    public Map<WorkflowVersion, Boolean> versionsOfLiveWorkers() {
        var versions = new HashMap<WorkflowVersion, Boolean>();
        tables.sql("""
                SELECT h.handler, bool_or(h.handler = ANY (string_to_array(coalesce(n.info ->> 'workflows.deprecated', ''), E'\\n')))
                FROM ~.forge_nodes n CROSS JOIN LATERAL unnest(n.handlers) AS h (handler)
                WHERE n.status <> 'dead' AND 'worker' = ANY (n.roles) AND starts_with(h.handler, ?)
                GROUP BY h.handler
                """)
                .param(WorkflowVersion.JOB_PREFIX)
                .query((row, n) -> Map.entry(row.getString(1), row.getBoolean(2)))
                .list()
                .forEach(entry -> WorkflowVersion.ofJob(entry.getKey())
                        .ifPresent(version -> versions.put(version, entry.getValue())));
        return versions;
    }

    /** Returns the versions of a workflow that any node has ever had. */
    public Set<WorkflowVersion> versionsEverSeen(String workflow) {
        return tables
                .sql("SELECT name FROM ~.forge_job_names WHERE starts_with(name, ?)")
                .param(WorkflowVersion.JOB_PREFIX + workflow + "@")
                .query(String.class)
                .list()
                .stream()
                .flatMap(name -> WorkflowVersion.ofJob(Objects.requireNonNull(name)).stream())
                .filter(version -> version.workflow().equals(workflow))
                .collect(Collectors.toSet());
    }

    // Runs that cannot continue -----------------------------------------------------------------------------

    /** Marks runs as blocked because no live node has their version, up to that many; their jobs stay as they are. */
    public int block(WorkflowVersion version, int limit) {
        return tables.sql("""
                UPDATE ~.forge_workflow_runs r SET status = 'blocked_missing_version', updated_at = clock_timestamp()
                WHERE r.id = ANY (ARRAY(
                    SELECT b.id FROM ~.forge_workflow_runs b
                    WHERE b.workflow_name = :name AND b.workflow_version = :version AND b.status NOT IN %s
                      AND b.status IN ('running', 'waiting', 'compensating')
                      AND NOT EXISTS (SELECT FROM ~.forge_jobs j WHERE j.id = b.job_id AND j.status IN %s)
                    LIMIT :limit FOR UPDATE SKIP LOCKED))
                """.formatted(WorkflowRunStore.FINAL, JobRows.HELD))
                .param("name", version.workflow())
                .param("version", version.version())
                .param("limit", limit)
                .update();
    }

    /** Unblocks runs, up to that many: a live node has their version again. */
    public int unblock(WorkflowVersion version, int limit) {
        return tables.sql("""
                UPDATE ~.forge_workflow_runs r
                SET status = CASE WHEN r.unwinding THEN 'compensating' ELSE 'waiting' END, updated_at = clock_timestamp()
                WHERE r.id = ANY (ARRAY(
                    SELECT id FROM ~.forge_workflow_runs
                    WHERE workflow_name = :name AND workflow_version = :version AND status = 'blocked_missing_version'
                    LIMIT :limit FOR UPDATE SKIP LOCKED))
                """)
                .param("name", version.workflow())
                .param("version", version.version())
                .param("limit", limit)
                .update();
    }

    /**
     * The result of {@link #repairNext}.
     *
     * @param last the last run that was checked; null: the next call starts from the beginning
     */
    public record Repairs(int repaired, @Nullable UUID last) {}

    /**
     * Repairs runs that nothing would wake. It inserts the job of a run whose job was deleted, such that the end of a child's job
     * frees its parent. It wakes runs that wait for a signal which was inserted by hand. It fails runs whose job has ended
     * while another transaction had locked the run. Checks the next few runs in flight only, so that the cost does not depend
     * on their number.
     *
     * @param after the last run that was checked before; null: from the beginning
     */
    public Repairs repairNext(@Nullable UUID after, int limit) {
        List<UUID> slice = tables.sql("""
                SELECT id FROM ~.forge_workflow_runs
                WHERE id > coalesce(:from, '00000000-0000-0000-0000-000000000000'::uuid) AND status NOT IN %s
                ORDER BY id LIMIT :limit
                """.formatted(WorkflowRunStore.FINAL))
                .param("from", after, Types.OTHER)
                .param("limit", limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
        if (slice.isEmpty()) {
            return new Repairs(0, null);
        }
        int repaired = tables.sql(JobInsertStore.insertingCarrier(", unique_key, metadata", """
                r.id, %1$s,
                       CASE WHEN r.status = 'blocked_signature_mismatch' THEN 'infinity' ELSE clock_timestamp() END,
                       '%4$s' || p.run_id || ':' || p.position,
                       CASE WHEN p.run_id IS NULL THEN '{}' ELSE jsonb_build_object('%3$s', p.run_id::text) END
                FROM ~.forge_workflow_runs r
                LEFT JOIN ~.forge_workflow_steps p ON p.ref = r.id AND p.status = 'waiting' AND p.kind = 'child'
                WHERE r.id = ANY (:slice::uuid[]) AND r.status NOT IN %2$s
                  AND NOT EXISTS (SELECT FROM ~.forge_jobs j WHERE j.id = r.id)
                  -- Not a run that is being started: its job is committed together with it.
                  AND r.updated_at < clock_timestamp() - interval '1 second'
                ON CONFLICT DO NOTHING
                """.formatted(
                                WorkflowRunStore.JOB_NAME,
                                WorkflowRunStore.FINAL,
                                WorkflowJobs.AWAITED_KEY,
                                WorkflowVersion.JOB_PREFIX)))
                .param("slice", slice.toArray(UUID[]::new))
                .update();
        repaired += tables.sql(JobScheduleStore.waking("""
                FROM ~.forge_workflow_runs r
                WHERE r.id = ANY (:slice::uuid[]) AND r.status = 'waiting' AND j.id = r.id AND j.status = 'pending'
                  AND j.scheduled_at > clock_timestamp()
                  AND EXISTS (SELECT FROM ~.forge_workflow_signals g
                              WHERE g.run_id = r.id AND g.name = r.awaits)
                """))
                .param("slice", slice.toArray(UUID[]::new))
                .update();
        List<UUID> ended = tables.sql("""
                SELECT r.id FROM ~.forge_workflow_runs r JOIN ~.forge_jobs j ON j.id = r.id
                WHERE r.id = ANY (:slice::uuid[]) AND r.status NOT IN %s
                  AND j.status NOT IN ('pending', 'claimed', 'running')
                """.formatted(WorkflowRunStore.FINAL))
                .param("slice", slice.toArray(UUID[]::new))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
        for (UUID run : ended) {
            repaired += runs.failIfJobEnded(run) ? 1 : 0;
        }
        return new Repairs(repaired, slice.size() < limit ? null : slice.get(slice.size() - 1));
    }

    // Retention ---------------------------------------------------------------------------------------------

    /** How long ended runs are kept: completed ones, and the others. */
    public record Expiry(Duration completed, Duration failed) {}

    /** Finds the run {@code u.row_id} if it has finished. */
    public static final String FINISHED_RUN =
            "SELECT FROM ~.forge_workflow_runs r WHERE r.id = u.row_id AND r.status IN " + WorkflowRunStore.FINAL;

    private static final String COMPLETED = "(r.status = 'completed')";
    private static final String OTHERS = "NOT (r.status = 'completed')";

    /** Deletes ended runs whose retention has passed, with their history; not while their parent is in flight. */
    public int purge(Expiry expiry, int limit) {
        int deleted = purge(COMPLETED, expiry.completed, limit);
        return deleted < limit ? deleted + purge(OTHERS, expiry.failed, limit - deleted) : deleted;
    }

    private int purge(String kind, Duration retention, int limit) {
        return tables.sql(deleting(expired(kind) + " FOR UPDATE SKIP LOCKED"))
                .param("retention", retention.toMillis())
                .param("limit", limit)
                .update();
    }

    /** Returns the runs that {@link #purge(Expiry, int)} would delete. */
    public List<UUID> expired(Expiry expiry, int limit) {
        var ids = new ArrayList<>(expired(COMPLETED, expiry.completed, limit));
        if (ids.size() < limit) {
            ids.addAll(expired(OTHERS, expiry.failed, limit - ids.size()));
        }
        return ids;
    }

    private List<UUID> expired(String kind, Duration retention, int limit) {
        return tables.sql(expired(kind))
                .param("retention", retention.toMillis())
                .param("limit", limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
    }

    /** Deletes those of these ended runs whose retention has passed, with their history. */
    public int purge(Expiry expiry, Collection<UUID> among) {
        return tables.sql(deleting("""
                        SELECT r.id FROM ~.forge_workflow_runs r
                        WHERE r.id = ANY (:among::uuid[]) AND %s
                          AND r.finished_at < now() - CASE WHEN r.status = 'completed' THEN :completed ELSE :failed END
                                                      * interval '1 millisecond'
                        ORDER BY r.id FOR UPDATE SKIP LOCKED
                        """.formatted(PURGEABLE)))
                .param("among", among.toArray(UUID[]::new))
                .param("completed", expiry.completed.toMillis())
                .param("failed", expiry.failed.toMillis())
                .update();
    }

    private static final String PURGEABLE = """
            r.status IN %1$s AND NOT EXISTS (SELECT FROM ~.forge_workflow_runs p
                                             WHERE p.id = r.parent_id AND p.status NOT IN %1$s)
            """.formatted(WorkflowRunStore.FINAL);

    private static String expired(String kind) {
        return """
                SELECT r.id FROM ~.forge_workflow_runs r
                WHERE %s AND %s AND r.finished_at < now() - :retention * interval '1 millisecond' AND %s
                ORDER BY r.finished_at LIMIT (SELECT :limit)
                """.formatted(kind, PURGEABLE, UndeletableStore.notSetAside("forge_workflow_runs", "r.id"));
    }

    private static String deleting(String old) {
        return """
                WITH old AS MATERIALIZED (%s),
                -- Arrays: the planner, which expects a tenth of all runs to be old, would join them with all steps.
                steps AS (DELETE FROM ~.forge_workflow_steps WHERE run_id = ANY (ARRAY(SELECT id FROM old))),
                signals AS (DELETE FROM ~.forge_workflow_signals WHERE run_id = ANY (ARRAY(SELECT id FROM old)))
                DELETE FROM ~.forge_workflow_runs WHERE id = ANY (ARRAY(SELECT id FROM old))
                """.formatted(old);
    }
}
