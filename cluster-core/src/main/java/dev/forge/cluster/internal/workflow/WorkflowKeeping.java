package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.database.OwnTransactions;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobRows;
import dev.forge.cluster.internal.workflow.WorkflowStore.Version;
import java.sql.Types;
import java.time.Duration;
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
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionOperations;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * What keeps {@code forge_workflow_runs} in order: which versions there are and who has them, runs that cannot go on, runs
 * without a job, deleting.
 */
public final class WorkflowKeeping {

    private final Schema schema;
    private final JdbcClient client;
    private final TransactionOperations transaction;

    public WorkflowKeeping(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
        this.transaction = new TransactionTemplate(new OwnTransactions(source));
    }

    /** A transaction on the same source: what the leader changes is undone if its term is over. */
    public TransactionOperations transaction() {
        return transaction;
    }

    // Versions ----------------------------------------------------------------------------------------------

    /** Versions that have runs in flight; however many, one probe of the index each. */
    public Set<Version> inFlight() {
        return versions("status NOT IN " + WorkflowStore.FINAL);
    }

    /** Versions that have runs which are blocked because no node had them. */
    public Set<Version> blocked() {
        return versions("status = 'blocked_missing_version'");
    }

    private Set<Version> versions(String which) {
        return new HashSet<>(client.sql(schema.sql("""
                WITH RECURSIVE version AS (
                    (SELECT workflow_name, workflow_version FROM ~.forge_workflow_runs WHERE %1$s
                     ORDER BY workflow_name, workflow_version LIMIT 1)
                    UNION ALL
                    SELECT next.* FROM version v CROSS JOIN LATERAL (
                        SELECT r.workflow_name, r.workflow_version FROM ~.forge_workflow_runs r
                        WHERE r.%1$s AND (r.workflow_name, r.workflow_version) > (v.workflow_name, v.workflow_version)
                        ORDER BY r.workflow_name, r.workflow_version LIMIT 1) AS next)
                SELECT * FROM version
                """.formatted(which)))
                .query((row, n) -> new Version(row.getString(1), row.getString(2)))
                .list());
    }

    /** How many runs of a version are in flight. */
    public long countInFlight(Version version) {
        return client.sql(schema.sql("""
                SELECT count(*) FROM ~.forge_workflow_runs
                WHERE workflow_name = ? AND workflow_version = ? AND status NOT IN %s
                """.formatted(WorkflowStore.FINAL)))
                .params(version.workflow(), version.version())
                .query(Long.class)
                .single();
    }

    /** What live nodes can run, and whether one of them says that it is deprecated. */
    public Map<Version, Boolean> advertised() {
        var versions = new HashMap<Version, Boolean>();
        client.sql(schema.sql("""
                SELECT h.handler, bool_or(h.handler = ANY (string_to_array(coalesce(n.info ->> 'workflows.deprecated', ''), E'\\n')))
                FROM ~.forge_nodes n CROSS JOIN LATERAL unnest(n.handlers) AS h (handler)
                WHERE n.status <> 'dead' AND 'worker' = ANY (n.roles) AND starts_with(h.handler, ?)
                GROUP BY h.handler
                """))
                .param(WorkflowStore.PREFIX)
                .query((row, n) -> Map.entry(row.getString(1), row.getBoolean(2)))
                .list()
                .forEach(entry ->
                        Version.of(entry.getKey()).ifPresent(version -> versions.put(version, entry.getValue())));
        return versions;
    }

    // Runs that cannot go on --------------------------------------------------------------------------------

    /** The versions of a workflow that nodes have had, also after those nodes have gone. */
    public Set<Version> everAdvertised(String workflow) {
        return client
                .sql(schema.sql("SELECT name FROM ~.forge_job_names WHERE starts_with(name, ?)"))
                .param(WorkflowStore.PREFIX + workflow + "@")
                .query(String.class)
                .list()
                .stream()
                .flatMap(name -> Version.of(Objects.requireNonNull(name)).stream())
                .filter(version -> version.workflow().equals(workflow))
                .collect(Collectors.toSet());
    }

    /** Says that no live node can run these, up to that many runs; their jobs stay as they are. */
    public int block(Version version, int limit) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_workflow_runs r SET status = 'blocked_missing_version', updated_at = clock_timestamp()
                WHERE r.id = ANY (ARRAY(
                    SELECT b.id FROM ~.forge_workflow_runs b
                    WHERE b.workflow_name = :name AND b.workflow_version = :version AND b.status NOT IN %s
                      AND b.status IN ('running', 'waiting', 'compensating')
                      AND NOT EXISTS (SELECT FROM ~.forge_jobs j WHERE j.id = b.job_id AND j.status IN %s)
                    LIMIT :limit FOR UPDATE SKIP LOCKED))
                """.formatted(WorkflowStore.FINAL, JobRows.HELD)))
                .param("name", version.workflow())
                .param("version", version.version())
                .param("limit", limit)
                .update();
    }

    /** A live node can run these again. */
    public int unblock(Version version, int limit) {
        return client.sql(schema.sql("""
                UPDATE ~.forge_workflow_runs r
                SET status = CASE WHEN r.unwinding THEN 'compensating' ELSE 'waiting' END, updated_at = clock_timestamp()
                WHERE r.id = ANY (ARRAY(
                    SELECT id FROM ~.forge_workflow_runs
                    WHERE workflow_name = :name AND workflow_version = :version AND status = 'blocked_missing_version'
                    LIMIT :limit FOR UPDATE SKIP LOCKED))
                """))
                .param("name", version.workflow())
                .param("version", version.version())
                .param("limit", limit)
                .update();
    }

    /**
     * What a look for runs that nothing would wake has come to.
     *
     * @param revived how many it found
     * @param next from where on to look next; null: from the beginning
     */
    public record Slice(int revived, @Nullable UUID next) {}

    /**
     * Gives runs a job that have lost theirs (somebody has deleted it), fails those whose job has ended while somebody had
     * locked the run, and wakes those that wait for a signal which is there (somebody has inserted it). Looks at the next few in flight only, so that it costs the same however many there are. The
     * job of a child is made such that its end frees the parent.
     */
    public Slice revive(@Nullable UUID from, int limit) {
        List<UUID> slice = client.sql(schema.sql("""
                SELECT id FROM ~.forge_workflow_runs
                WHERE id > coalesce(:from, '00000000-0000-0000-0000-000000000000'::uuid) AND status NOT IN %s
                ORDER BY id LIMIT :limit
                """.formatted(WorkflowStore.FINAL)))
                .param("from", from, Types.OTHER)
                .param("limit", limit)
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
        if (slice.isEmpty()) {
            return new Slice(0, null);
        }
        int revived = client.sql(
                        schema.sql("""
                INSERT INTO ~.forge_jobs (id, name, scheduled_at, unique_key, metadata)
                SELECT r.id, '%1$s' || r.workflow_name || '@' || r.workflow_version,
                       CASE WHEN r.status = 'blocked_signature_mismatch' THEN 'infinity' ELSE clock_timestamp() END,
                       '%1$s' || p.run_id || ':' || p.position,
                       CASE WHEN p.run_id IS NULL THEN '{}' ELSE jsonb_build_object('%3$s', p.run_id::text) END
                FROM ~.forge_workflow_runs r
                LEFT JOIN ~.forge_workflow_steps p ON p.ref = r.id AND p.status = 'waiting' AND p.kind = 'child'
                WHERE r.id = ANY (:slice::uuid[]) AND r.status NOT IN %2$s
                  AND NOT EXISTS (SELECT FROM ~.forge_jobs j WHERE j.id = r.id)
                  -- Not one that is being started: its job comes with the same commit.
                  AND r.updated_at < clock_timestamp() - interval '1 second'
                ON CONFLICT DO NOTHING
                """.formatted(WorkflowStore.PREFIX, WorkflowStore.FINAL, WorkflowStore.AWAITED)))
                .param("slice", slice.toArray(UUID[]::new))
                .update();
        revived += client.sql(schema.sql("""
                UPDATE ~.forge_jobs j SET scheduled_at = clock_timestamp(), waits_for = NULL
                FROM ~.forge_workflow_runs r
                WHERE r.id = ANY (:slice::uuid[]) AND r.status = 'waiting' AND j.id = r.id AND j.status = 'pending'
                  AND j.scheduled_at > clock_timestamp()
                  AND EXISTS (SELECT FROM ~.forge_workflow_signals g
                              WHERE g.run_id = r.id AND g.name = r.awaits AND g.consumed_at IS NULL)
                """))
                .param("slice", slice.toArray(UUID[]::new))
                .update();
        List<UUID> ended = client.sql(schema.sql("""
                SELECT r.id FROM ~.forge_workflow_runs r JOIN ~.forge_jobs j ON j.id = r.id
                WHERE r.id = ANY (:slice::uuid[]) AND r.status NOT IN %s
                  AND j.status NOT IN ('pending', 'claimed', 'running')
                """.formatted(WorkflowStore.FINAL)))
                .param("slice", slice.toArray(UUID[]::new))
                .query((row, n) -> row.getObject(1, UUID.class))
                .list();
        for (UUID run : ended) {
            revived += WorkflowStore.failIfJobEnded(schema, client, transaction, run) ? 1 : 0;
        }
        return new Slice(revived, slice.size() < limit ? null : slice.get(slice.size() - 1));
    }

    // Deleting ----------------------------------------------------------------------------------------------

    /** Deletes ended runs that were kept long enough, with all that is remembered of them; not while a parent is in flight. */
    public int purge(Duration completed, Duration failed, int limit) {
        return client.sql(schema.sql("""
                WITH old AS MATERIALIZED (
                    SELECT r.id FROM ~.forge_workflow_runs r
                    WHERE r.status IN %1$s
                      AND r.finished_at < now() - CASE WHEN r.status = 'completed' THEN :completed ELSE :failed END
                                                  * interval '1 millisecond'
                      AND NOT EXISTS (SELECT FROM ~.forge_workflow_runs p
                                      WHERE p.id = r.parent_id AND p.status NOT IN %1$s)
                    ORDER BY r.finished_at LIMIT :limit FOR UPDATE SKIP LOCKED),
                steps AS (DELETE FROM ~.forge_workflow_steps WHERE run_id IN (SELECT id FROM old)),
                signals AS (DELETE FROM ~.forge_workflow_signals WHERE run_id IN (SELECT id FROM old))
                DELETE FROM ~.forge_workflow_runs WHERE id IN (SELECT id FROM old)
                """.formatted(WorkflowStore.FINAL)))
                .param("completed", completed.toMillis())
                .param("failed", failed.toMillis())
                .param("limit", limit)
                .update();
    }
}
