package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.JobRows;
import dev.forge.cluster.internal.workflow.WorkflowStore.Claim;
import dev.forge.cluster.internal.workflow.WorkflowStore.End;
import dev.forge.cluster.internal.workflow.WorkflowStore.Loaded;
import dev.forge.cluster.internal.workflow.WorkflowStore.RunRow;
import dev.forge.cluster.internal.workflow.WorkflowStore.Written;
import dev.forge.cluster.workflow.WorkflowStatus;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.core.simple.JdbcClient;

/**
 * What {@link WorkflowStore} does for one run, for many runs of a node in one statement. It waits for nobody: a run whose rows
 * somebody has locked is not in the answer, nor is one whose claim is lost or for which there is something else to do; nothing
 * was written for it then.
 */
public final class WorkflowBatches {

    private final Schema schema;
    private final JdbcClient client;

    public WorkflowBatches(Schema schema, DataSource source) {
        this.schema = schema;
        this.client = JdbcClient.create(source);
    }

    /** Those that have more to read than this many bytes are read alone. */
    private static final int SMALL_RUN = 100_000;

    /** Runs with all that is remembered of them; those that are running, and need not be marked as such, and are small. */
    public Map<Claim, Loaded> load(Collection<Claim> claims) {
        Map<UUID, Claim> byRun =
                claims.stream().collect(Collectors.toMap(claim -> claim.key().id(), claim -> claim));
        var reading = new WorkflowStore.Reading();
        client.sql(schema.sql(LOAD))
                .param("runs", byRun.keySet().toArray(UUID[]::new))
                .query(reading);
        var loaded = new HashMap<Claim, Loaded>();
        byRun.forEach((run, claim) -> {
            Loaded one = reading.loaded(run);
            if (one != null && isRunning(one.status())) {
                loaded.put(claim, one);
            }
        });
        return loaded;
    }

    /** Bytes that a row takes beside what is counted. */
    private static final int ROW = 100;

    // As they are now: what a drained or failed execution has written is read again, too, and so are signals. What is
    // of
    // unknown size is large.
    private static final String LOAD = """
            WITH small AS MATERIALIZED (SELECT ARRAY(
                SELECT r.id FROM ~.forge_workflow_runs r
                WHERE r.id = ANY (:runs::uuid[])
                  AND CASE WHEN r.input IS NULL THEN 0 ELSE coalesce(r.input_bytes, %1$d + 1) END
                    + (SELECT coalesce(sum(%2$d + octet_length(s.name) + coalesce(octet_length(s.last_error), 0)
                                           + CASE WHEN s.result IS NULL THEN 0 ELSE coalesce(s.result_bytes, %1$d + 1) END), 0)
                       FROM ~.forge_workflow_steps s WHERE s.run_id = r.id)
                    + (SELECT coalesce(sum(%2$d + octet_length(g.name)
                                           + CASE WHEN g.payload_bytes <= %3$d THEN g.payload_bytes ELSE 0 END), 0)
                       FROM ~.forge_workflow_signals g WHERE g.run_id = r.id AND g.consumed_at IS NULL) <= %1$d) AS ids)
            """.formatted(SMALL_RUN, ROW, WorkflowStore.SMALL_SIGNAL)
            + WorkflowStore.reading("= ANY ((SELECT ids FROM small)::uuid[])");

    private static boolean isRunning(WorkflowStatus status) {
        return status == WorkflowStatus.RUNNING || status == WorkflowStatus.COMPENSATING;
    }

    /** Remembers steps. */
    public Map<Claim, Written> remember(Map<Claim, List<StepRow>> memories) {
        List<Claim> claims = List.copyOf(memories.keySet());
        Map<UUID, Written> written = new HashMap<>();
        Map<UUID, Long> steps = new HashMap<>();
        var rows = new ArrayList<RunRow>();
        memories.forEach((claim, of) -> {
            UUID run = claim.key().id();
            steps.put(run, WorkflowStore.steps(of));
            of.forEach(row -> rows.add(new RunRow(run, row)));
        });
        WorkflowStore.bindRows(
                        bind(client.sql(schema.sql("""
                WITH held AS MATERIALIZED (
                    SELECT j.id FROM %s JOIN ~.forge_jobs j ON %s FOR SHARE OF j SKIP LOCKED),
                saved AS (%s)
                SELECT r.id, (SELECT count(*) FROM saved WHERE saved.run_id = r.id AND saved.kind = 'step'), r.unwinding
                FROM held JOIN ~.forge_workflow_runs r ON r.id = held.id
                """.formatted(CLAIMS, OURS, WorkflowStore.upsert("held")))), claims),
                        rows)
                .query((row, n) -> {
                    UUID run = row.getObject(1, UUID.class);
                    return written.put(
                            run, Written.of(row.getLong(2) == steps.getOrDefault(run, 0L), row.getBoolean(3)));
                })
                .list();
        return byClaim(claims, written);
    }

    /** Ends runs and their jobs. */
    public Map<Claim, Written> end(Map<Claim, End> ends) {
        List<Claim> claims = List.copyOf(ends.keySet());
        List<End> inOrder = claims.stream().map(ends::get).toList();
        Map<UUID, Written> written = new HashMap<>();
        var rows = new ArrayList<RunRow>();
        ends.forEach((claim, end) ->
                end.rows().forEach(row -> rows.add(new RunRow(claim.key().id(), row))));
        WorkflowStore.bindRows(
                        bind(
                                        client.sql(schema.sql("""
                WITH wanted AS MATERIALIZED (
                    SELECT * FROM unnest((SELECT :runs::uuid[]), (SELECT :ends::text[]), (SELECT :outcomes::text[]),
                                         (SELECT :failures::text[]), (SELECT :progresses::text[]),
                                         (SELECT :unwindings::boolean[]))
                                  AS w (run, status, result, error, progress, unwinding)),
                -- The run before its job, as everybody does.
                open AS MATERIALIZED (
                    SELECT r.id FROM wanted w JOIN ~.forge_workflow_runs r ON r.id = w.run
                    WHERE r.status NOT IN %1$s AND r.unwinding = w.unwinding FOR UPDATE OF r SKIP LOCKED),
                held AS MATERIALIZED (
                    SELECT j.id FROM %2$s JOIN open ON open.id = c.run JOIN ~.forge_jobs j ON %3$s
                    FOR UPDATE OF j SKIP LOCKED),
                job AS (
                    UPDATE ~.forge_jobs j
                    SET status = CASE WHEN w.status = 'completed' THEN 'completed' ELSE 'failed' END,
                        finished_at = clock_timestamp(), lease_expires_at = NULL,
                        last_error = coalesce(w.error, j.last_error), started_at = coalesce(j.started_at, j.claimed_at),
                        progress = coalesce(w.progress::jsonb, j.progress)
                    FROM held JOIN wanted w ON w.run = held.id
                    WHERE j.id = held.id),
                saved AS (%4$s)
                UPDATE ~.forge_workflow_runs r
                SET status = w.status, result = w.result::jsonb,
                    last_error = CASE WHEN w.status <> 'completed' THEN coalesce(w.error, r.last_error) END,
                    finished_at = clock_timestamp(), updated_at = clock_timestamp(), awaits = NULL
                FROM held JOIN wanted w ON w.run = held.id
                WHERE r.id = held.id
                RETURNING r.id
                """.formatted(
                                                WorkflowStore.FINAL, CLAIMS, OURS, WorkflowStore.upsert("held")))),
                                        claims)
                                .param("ends", texts(inOrder, end -> WorkflowStore.word(end.status())))
                                .param("outcomes", texts(inOrder, End::result))
                                .param("failures", texts(inOrder, End::error))
                                .param("progresses", texts(inOrder, End::progress))
                                .param(
                                        "unwindings",
                                        inOrder.stream().map(End::unwinding).toArray(Boolean[]::new)),
                        rows)
                .query((row, n) -> written.put(row.getObject(1, UUID.class), Written.WRITTEN))
                .list();
        return byClaim(claims, written);
    }

    private static final String CLAIMS =
            "unnest((SELECT :runs::uuid[]), (SELECT :epochs::bigint[]), (SELECT :nodes::uuid[])) AS c (run, epoch, node)";

    private static final String OURS =
            "j.id = c.run AND j.claim_epoch = c.epoch AND j.worker_id = c.node AND j.status IN " + JobRows.HELD;

    private static JdbcClient.StatementSpec bind(JdbcClient.StatementSpec statement, List<Claim> claims) {
        return statement
                .param("runs", claims.stream().map(claim -> claim.key().id()).toArray(UUID[]::new))
                .param(
                        "epochs",
                        claims.stream().map(claim -> claim.key().epoch()).toArray(Long[]::new))
                .param("nodes", claims.stream().map(Claim::node).toArray(UUID[]::new));
    }

    private static @Nullable String[] texts(List<End> ends, Function<End, @Nullable String> text) {
        @Nullable String[] texts = new @Nullable String[ends.size()];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = text.apply(ends.get(i));
        }
        return texts;
    }

    private static Map<Claim, Written> byClaim(List<Claim> claims, Map<UUID, Written> written) {
        var answers = new HashMap<Claim, Written>();
        for (Claim claim : claims) {
            Written how = written.get(claim.key().id());
            if (how != null) {
                answers.put(claim, how);
            }
        }
        return answers;
    }
}
