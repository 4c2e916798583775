// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.springframework.jdbc.core.JdbcTemplate;

/**
 * Rows of all tables whose texts are markup that sets {@code window.xss} wherever a page does not treat it as text. Each column has a
 * text of its own, by which a page that shows it is recognised.
 */
final class MarkupRows {

    /** The scheme is for links, the closing quote for attributes. At most 100 characters with its number, for tags. */
    static final String START = "javascript:window.xss=1//\"><script>window.xss=1</script>";

    private static final String END = "<img src=x onerror=window.xss=1>";

    /** What a JSON value needs to look like an element to Preact, if Preact did not check. */
    private static final String ELEMENT = """
            {"constructor": null, "type": "img", "key": null, "ref": null, "__v": 1, "text": "%1$s",
             "props": {"src": "x", "onerror": "window.xss=1", "dangerouslySetInnerHTML": {"__html": "%1$s"}}}""";

    /** A column in a statement: its text as a literal, or as a JSON value. */
    private static final Pattern PLACE = Pattern.compile("<(json )?(forge_\\w+\\.\\w+)>");

    private final JdbcTemplate jdbc;
    private final Map<String, Integer> numbers = new LinkedHashMap<>();

    final UUID node = UUID.randomUUID();
    final UUID formerNode = UUID.randomUUID();
    final UUID failed = UUID.randomUUID();
    final UUID pending = UUID.randomUUID();
    final UUID batch = UUID.randomUUID();
    final UUID waitingRun = UUID.randomUUID();
    final UUID failedRun = UUID.randomUUID();

    MarkupRows(JdbcTemplate jdbc) {
        this.jdbc = jdbc;
    }

    /** Returns the text of a column. */
    String text(String column) {
        return START + end(column);
    }

    /** Returns the last part of the text of a column, which is the same in JSON. */
    String end(String column) {
        return END + "~%d~".formatted(numbers.computeIfAbsent(column, c -> numbers.size()));
    }

    /** Returns the columns that have a text of their own. */
    Set<String> columns() {
        return numbers.keySet().stream()
                .filter(column -> column.startsWith("forge_"))
                .collect(Collectors.toSet());
    }

    private void execute(String statement) {
        jdbc.execute(PLACE.matcher(statement).replaceAll(place -> {
            String text = text(place.group(2));
            String literal = place.group(1) == null ? text : ELEMENT.formatted(text.replace("\"", "\\\""));
            return Matcher.quoteReplacement("'%s'".formatted(literal));
        }));
    }

    void insert() {
        insertNode();
        insertJobs();
        insertJobNames();
        insertCronsAndDaemons();
        insertWorkflows();
        execute("INSERT INTO forge_locks (lock_name, owner_node, expires_at) VALUES (<forge_locks.lock_name>, '%s', %s)"
                .formatted(node, LATER));
        execute(
                "INSERT INTO forge_state (state_key, state_value, expires_at) VALUES (<forge_state.state_key>, <json forge_state.state_value>, %s)"
                        .formatted(LATER));
        execute("""
                INSERT INTO forge_startup_actions (name, version, node_id, node_name, token, started_at)
                VALUES (<forge_startup_actions.name>, <forge_startup_actions.version>, '%s', <forge_startup_actions.node_name>, 1, now())
                """.formatted(node));
        execute("""
                INSERT INTO forge_rate_limits (bucket, spent, capacity, per_second, granted, updated_at)
                VALUES (<forge_rate_limits.bucket>, 50, 100, 0.0001, 1, now())
                """);
        for (String target : List.of("<forge_audit.target>", "'%s'".formatted(failed))) {
            execute("""
                    INSERT INTO forge_audit (who, address, source, action, target, detail, count, reason)
                    VALUES (<forge_audit.who>, <forge_audit.address>, 'dashboard', <forge_audit.action>, %s, <forge_audit.detail>, 1,
                            <forge_audit.reason>)
                    """.formatted(target));
        }
        // Short, because names of channels are.
        jdbc.update("UPDATE forge_settings SET channel = ?", END);
    }

    private static final String LATER = "now() + interval '1 day'";

    /** The node knows the workflow and the job: others would declare the run and the job stranded. */
    private void insertNode() {
        execute("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, worker_capabilities, handlers, executors, status, version,
                                         stale_at, dead_at, info, limited_names)
                VALUES ('%s', <forge_nodes.node_key>, <forge_nodes.name>, <forge_nodes.hostname>, ARRAY['worker', <forge_nodes.roles>],
                        ARRAY[<forge_nodes.worker_capabilities>],
                        ARRAY[<forge_jobs.name>, 'daemon:' || <forge_daemons.name>,
                              'workflow:' || <forge_workflow_runs.workflow_name> || '@' || <forge_workflow_runs.workflow_version>],
                        ARRAY[<forge_nodes.executors> || E'\\t5',
                              <forge_jobs.name> || E'\\t' || <forge_jobs.name> || E'\\t' || <forge_nodes.executors> || E'\\t1\\t'],
                        'active', <forge_nodes.version>, %2$s, %2$s,
                        jsonb_build_object('mode', <forge_nodes.info>, 'slots', '5', <forge_nodes.info>, <forge_nodes.info>),
                        ARRAY[<forge_jobs.name>])
                """.formatted(node, LATER));
        execute("INSERT INTO forge_former_nodes (id, name) VALUES ('%s', <forge_former_nodes.name>)"
                .formatted(formerNode));
        execute(
                "INSERT INTO forge_leaders (role, node_id, current_term, acquired_at) VALUES (<forge_leaders.role>, '%s', 1, now())"
                        .formatted(node));
        execute("INSERT INTO forge_leader_leases (role, node_id, lease_until) VALUES (<forge_leaders.role>, '%s', %s)"
                .formatted(node, LATER));
    }

    private void insertJobs() {
        for (UUID job : List.of(failed, pending)) {
            boolean ended = job.equals(failed);
            execute("""
                    INSERT INTO forge_jobs (id, name, status, worker_id, started_at, finished_at, attempts, worker_capability, unique_key,
                                            job_group, tags, payload, metadata, progress, checkpoint, result, last_error,
                                            attempt_history)
                    VALUES ('%1$s', <forge_jobs.name>, '%2$s', '%3$s', now(), %4$s, 2, <forge_jobs.worker_capability>,
                            <forge_jobs.unique_key>, <forge_jobs.job_group>, ARRAY[<forge_jobs.tags>], <json forge_jobs.payload>,
                            jsonb_build_object(<forge_jobs.metadata>, <forge_jobs.metadata>, 'traceparent',
                                               %5$s),
                            <json forge_jobs.progress>, <json forge_jobs.checkpoint>, <json forge_jobs.result>, <forge_jobs.last_error>,
                            jsonb_build_array(jsonb_build_object(
                                'attempt', 1, 'epoch', 1, 'node', '%3$s', 'startedAt', now(), 'millis', 5, 'outcome', 'failed',
                                'error', <forge_jobs.attempt_history>),
                                jsonb_build_object('attempt', 1, 'epoch', 1, 'node', '%6$s', 'startedAt', now(), 'millis', 5,
                                                   'outcome', 'failed')))
                    """.formatted(
                    job,
                    ended ? "failed" : "pending",
                    node,
                    ended ? "now()" : "NULL",
                    ended ? "'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'" : "<forge_jobs.metadata>",
                    formerNode));
            execute("INSERT INTO forge_job_tags (tag, job_id) VALUES (<forge_jobs.tags>, '%s')".formatted(job));
            execute("""
                    INSERT INTO forge_job_logs (job_id, epoch, line, attempt, logged_at, message)
                    VALUES ('%s', 1, 1, 1, now(), <forge_job_logs.message>)
                    """.formatted(job));
        }
        execute("INSERT INTO forge_job_batches (id, name) VALUES ('%s', <forge_job_batches.name>)".formatted(batch));
        execute("INSERT INTO forge_job_batch_parts (batch_id, jobs, failed) VALUES ('%s', 2, 1)".formatted(batch));
    }

    private void insertJobNames() {
        execute("INSERT INTO forge_job_names (name) VALUES (<forge_jobs.name>)");
        execute("INSERT INTO forge_job_pauses (name) VALUES (<forge_jobs.name>)");
        execute("INSERT INTO forge_job_limits (name, concurrency, overridden) VALUES (<forge_jobs.name>, 1, true)");
        execute(
                "INSERT INTO forge_job_weights (name, job_group, weight) VALUES (<forge_jobs.name>, <forge_job_weights.job_group>, 2)");
        execute(
                "INSERT INTO forge_job_rates (name, job_group, next_at) VALUES (<forge_jobs.name>, <forge_job_rates.job_group>, %s)"
                        .formatted(LATER));
        execute("""
                INSERT INTO forge_job_windows (name, unique_key, job_id, opened_at, ends_at)
                VALUES (<forge_jobs.name>, <forge_job_windows.unique_key>, '%s', now(), %s)
                """.formatted(failed, LATER));
        execute("""
                INSERT INTO forge_undeletable_rows (table_name, row_id, retry_at, reason)
                VALUES ('forge_jobs', '%s', %s, <forge_undeletable_rows.reason>)
                """.formatted(failed, LATER));
        execute("""
                INSERT INTO forge_job_history (name, slot, minutes, completed, failed, due, running, waits, runs)
                VALUES (<forge_job_history.name>, date_trunc('minute', now()), 1, 5, 5, 5, 5, '{0,5}', '{0,5}')
                """);
    }

    /** The leader replaces the problem of the cron by one that contains the expression. */
    private void insertCronsAndDaemons() {
        execute("""
                INSERT INTO forge_crons (name, handler, payload, expression, zone, worker_capability, job_group, declared, problem)
                VALUES (<forge_crons.name>, <forge_crons.handler>, <json forge_crons.payload>, <forge_crons.expression>,
                        <forge_crons.zone>, <forge_crons.worker_capability>, <forge_crons.job_group>, false, <forge_crons.expression>)
                """);
        execute("""
                INSERT INTO forge_cron_runs (cron, slot, outcome, reason, job_status, last_error)
                VALUES (<forge_crons.name>, now(), 'ran', <forge_cron_runs.reason>, <forge_cron_runs.job_status>,
                        <forge_cron_runs.last_error>)
                """);
        execute(
                "INSERT INTO forge_cron_sets (digest, definitions) VALUES (<forge_cron_sets.digest>, <json forge_cron_sets.definitions>)");
        execute("""
                INSERT INTO forge_cron_memories (name, expression, zone)
                VALUES (<forge_cron_memories.name>, <forge_cron_memories.expression>, <forge_cron_memories.zone>)
                """);
        execute("""
                INSERT INTO forge_daemons (name, status, node_id, term, started_at, last_error, note)
                VALUES (<forge_daemons.name>, 'failed', '%s', 1, now(), <forge_daemons.last_error>, <forge_daemons.note>)
                """.formatted(node));
        execute("INSERT INTO forge_daemon_pauses (name) VALUES (<forge_daemon_pauses.name>)");
    }

    private void insertWorkflows() {
        execute("""
                INSERT INTO forge_jobs (id, name, carries_run, progress, scheduled_at)
                VALUES ('%s', 'workflow:' || <forge_workflow_runs.workflow_name> || '@' || <forge_workflow_runs.workflow_version>, true,
                        <json forge_jobs.progress>, %s)
                """.formatted(waitingRun, LATER));
        execute("""
                INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, run_key, status, awaits, input)
                VALUES ('%s', <forge_workflow_runs.workflow_name>, <forge_workflow_runs.workflow_version>, <forge_workflow_runs.run_key>,
                        'waiting', <forge_workflow_runs.awaits>, <json forge_workflow_runs.input>)
                """.formatted(waitingRun));
        execute("""
                INSERT INTO forge_workflow_runs (id, workflow_name, workflow_version, status, result, last_error, resolution_reason,
                                                 finished_at)
                VALUES ('%s', <forge_workflow_runs.workflow_name>, <forge_workflow_runs.workflow_version>, 'failed',
                        <json forge_workflow_runs.result>, <forge_workflow_runs.last_error>, <forge_workflow_runs.resolution_reason>,
                        now())
                """.formatted(failedRun));
        for (UUID run : List.of(waitingRun, failedRun)) {
            execute("""
                    INSERT INTO forge_workflow_steps (run_id, position, name, status, attempts, result, last_error, attempt_history,
                                                      started_at)
                    VALUES ('%s', 1, <forge_workflow_steps.name>, 'failed', 2, <json forge_workflow_steps.result>,
                            <forge_workflow_steps.last_error>,
                            jsonb_build_array(jsonb_build_object('attempt', 1, 'endedAt', now(), 'millis', 5,
                                                                 'error', <forge_workflow_steps.attempt_history>)), now())
                    """.formatted(run));
        }
        execute("""
                INSERT INTO forge_workflow_signals (id, run_id, name, payload)
                VALUES (gen_random_uuid(), '%s', <forge_workflow_signals.name>, <json forge_workflow_signals.payload>)
                """.formatted(waitingRun));
    }
}
