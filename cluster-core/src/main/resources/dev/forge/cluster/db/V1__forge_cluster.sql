-- Forge Cluster, schema version 1.
--
-- This script runs under Flyway and, unchanged, under psql (then set forge.cluster.schema.mode=validate):
--   psql -v ON_ERROR_STOP=1 -1 -c 'SET search_path TO my_schema' -f V1__forge_cluster.sql
-- It creates all objects in the first schema of the search path. Run it in one transaction.
--
-- Contents: versions, settings, nodes, leaders, locks, one-time state, start-up actions, jobs, windows of unique keys, limits and groups
-- of jobs, the history of jobs, crons, daemons, workflows, rate limits, audit trail, functions for other roles, views for operators,
-- rights.
--
-- Conventions:
-- * The database clock decides: all times are written with now() or clock_timestamp().
-- * Functions contain the name of this schema and have a fixed search path. They work for callers whose search path does not contain
--   the schema, and no object in a caller's search path can replace an object that they use. For the same reason this script
--   qualifies the functions that it calls (pg_catalog.format): an overload with the exact argument types would be preferred.
-- * Functions with the rights of the owner (SECURITY DEFINER) are closed to PUBLIC.
-- * Trigger functions that search a table set plan_cache_mode = force_custom_plan: a cached plan from the time when the table was
--   small would read the whole table.

-- Versions ---------------------------------------------------------------------------------------------------------------------------

CREATE TABLE forge_schema_versions (
    version       int PRIMARY KEY,
    needs_library int NOT NULL,
    installed_at  timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE forge_schema_versions IS
    'Versions of the Forge Cluster schema that are installed. The last statement of each script adds a row.';
COMMENT ON COLUMN forge_schema_versions.version IS 'Number of the script.';
COMMENT ON COLUMN forge_schema_versions.needs_library IS 'Oldest library that can use this version, as the newest version that library knows.';
COMMENT ON COLUMN forge_schema_versions.installed_at IS 'Start of the transaction that installed this version.';

-- Retention --------------------------------------------------------------------------------------------------------------------------

CREATE TABLE forge_undeletable_rows (
    table_name text NOT NULL,
    row_id     uuid NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    retry_at   timestamptz NOT NULL,
    failures   int NOT NULL DEFAULT 1,
    reason     text NOT NULL,
    PRIMARY KEY (table_name, row_id),
    CONSTRAINT forge_undeletable_rows_table_name CHECK
        (table_name IN ('forge_jobs', 'forge_job_batches', 'forge_workflow_runs')),
    CONSTRAINT forge_undeletable_rows_times CHECK (pg_catalog.isfinite(since) AND pg_catalog.isfinite(retry_at))
);
COMMENT ON TABLE forge_undeletable_rows IS
    'Rows whose retention has passed and that cannot be deleted, for example because a foreign key of the application references them.';
COMMENT ON COLUMN forge_undeletable_rows.table_name IS 'Table of the row.';
COMMENT ON COLUMN forge_undeletable_rows.row_id IS 'Id of the row.';
COMMENT ON COLUMN forge_undeletable_rows.since IS 'Time of the first attempt.';
COMMENT ON COLUMN forge_undeletable_rows.retry_at IS
    'Time of the next attempt. If this entry is deleted, the next clean-up tries again.';
COMMENT ON COLUMN forge_undeletable_rows.failures IS 'Number of attempts.';
COMMENT ON COLUMN forge_undeletable_rows.reason IS 'SQLSTATE of the last attempt, and the constraint that it names.';

-- Settings ---------------------------------------------------------------------------------------------------------------------------

CREATE TABLE forge_settings (
    only_row          boolean PRIMARY KEY DEFAULT true,
    channel           text NOT NULL DEFAULT 'forge_cluster_'
                          || pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-', ''),
    max_payload_bytes bigint NOT NULL DEFAULT pg_catalog.pg_size_bytes('1MB'),
    CONSTRAINT forge_settings_only_row CHECK (only_row),
    -- NOTIFY rejects longer names.
    CONSTRAINT forge_settings_channel CHECK (pg_catalog.octet_length(channel) BETWEEN 1 AND 63),
    CONSTRAINT forge_settings_max_payload_bytes CHECK (max_payload_bytes BETWEEN 1 AND 100000000)
);
COMMENT ON TABLE forge_settings IS
    'Settings of this cluster, in one row. The table contains a secret: grant SELECT to the role of the nodes only.';
COMMENT ON COLUMN forge_settings.only_row IS 'Always true, so that the table has at most one row.';
-- Every role that may connect can send on a channel whose name it knows, and a flood would fill the memory of all nodes.
COMMENT ON COLUMN forge_settings.channel IS
    'Name of the channel on which nodes notify each other. It contains 122 random bits and is secret. Nodes read it when they start.';
-- A column, because every role can change the parameters of its own session.
COMMENT ON COLUMN forge_settings.max_payload_bytes IS
    'Largest payload that forge_enqueue accepts, in bytes of printed JSON. Should equal forge.cluster.job.max-payload-size.';

-- Default privileges (ALTER DEFAULT PRIVILEGES) of the installing role may have granted rights on the new table. Roles that may not
-- insert rows cannot run a node, so they must not read the channel.
REVOKE ALL ON forge_settings FROM PUBLIC;
DO $revoke$
DECLARE
    reader text;
BEGIN
    FOR reader IN
        SELECT pg_catalog.quote_ident(r.rolname::text)
        FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) a
        JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE n.nspname = pg_catalog.current_schema() AND c.relname = 'forge_settings'::name AND a.grantee <> c.relowner
        GROUP BY r.rolname
        HAVING NOT pg_catalog.bool_or(a.privilege_type = 'INSERT'::text)
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON %I.forge_settings FROM %s', pg_catalog.current_schema(), reader);
    END LOOP;
END
$revoke$;
INSERT INTO forge_settings DEFAULT VALUES;

-- Nodes ------------------------------------------------------------------------------------------------------------------------------

CREATE DOMAIN forge_counter AS bigint CONSTRAINT forge_counter CHECK (VALUE BETWEEN 0 AND 1000000000000000000);
COMMENT ON DOMAIN forge_counter IS
    'Counter that statements can always increase without an overflow: beats and wake_seq start again at 0, and no node leads a role whose term is the last one.';

CREATE TABLE forge_nodes (
    id                  uuid PRIMARY KEY,
    node_key            text NOT NULL,
    name                text NOT NULL,
    hostname            text NOT NULL,
    roles               text[] NOT NULL,
    worker_capabilities text[] NOT NULL DEFAULT '{}',
    handlers            text[] NOT NULL DEFAULT '{}',
    executors           text[] NOT NULL DEFAULT '{}',
    status              text NOT NULL DEFAULT 'joining',
    version             text NOT NULL,
    started_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_heartbeat      timestamptz NOT NULL DEFAULT clock_timestamp(),
    beats               forge_counter NOT NULL DEFAULT 0,
    stale_at            timestamptz NOT NULL,
    dead_at             timestamptz NOT NULL,
    current_connections int NOT NULL DEFAULT 0,
    current_jobs        int NOT NULL DEFAULT 0,
    cpu_usage           double precision,
    memory_usage        double precision,
    info                jsonb NOT NULL DEFAULT '{}',
    liveness_key        int,
    limited_names       text[],
    draining_since      timestamptz,
    CONSTRAINT forge_nodes_status CHECK (status IN ('joining', 'active', 'stale', 'draining', 'dead'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
-- At most one live node has a given node.id.
CREATE UNIQUE INDEX forge_nodes_live_key ON forge_nodes (node_key) WHERE status <> 'dead';
COMMENT ON TABLE forge_nodes IS
    'Nodes of the cluster. A node updates its row with each heartbeat and deletes it when it leaves; dead nodes are deleted later.';
COMMENT ON COLUMN forge_nodes.id IS 'Identity of one registration. A node that was declared dead registers again with a new id.';
COMMENT ON COLUMN forge_nodes.node_key IS 'Configured forge.cluster.node.id, or the name with a random suffix.';
COMMENT ON COLUMN forge_nodes.name IS 'Name of the node in logs and reports.';
COMMENT ON COLUMN forge_nodes.hostname IS 'Name of the host.';
COMMENT ON COLUMN forge_nodes.roles IS 'Roles of the node: gateway, function, worker, scheduler.';
COMMENT ON COLUMN forge_nodes.worker_capabilities IS 'Capabilities that jobs can require.';
COMMENT ON COLUMN forge_nodes.handlers IS 'Names of the jobs, crons, daemons and workflows that the node has handlers for.';
-- Not in info: each observation reads info of all nodes.
COMMENT ON COLUMN forge_nodes.executors IS
    'Executors of a worker: executor and slots, or name, handler, executor, jobs per call and capability of a job, separated by tabs.';
COMMENT ON COLUMN forge_nodes.status IS
    'joining, active, stale (heartbeats are late), draining (finishes its work and leaves) or dead. Operators may set draining.';
COMMENT ON COLUMN forge_nodes.version IS 'Version of the Forge Cluster library.';
COMMENT ON COLUMN forge_nodes.started_at IS 'Time of the registration.';
COMMENT ON COLUMN forge_nodes.last_heartbeat IS 'Time of the last heartbeat.';
COMMENT ON COLUMN forge_nodes.beats IS 'Number of heartbeats. Other nodes check whether this counter changes.';
COMMENT ON COLUMN forge_nodes.stale_at IS 'Time at which other nodes may declare this node stale unless it sends a heartbeat.';
COMMENT ON COLUMN forge_nodes.dead_at IS 'Time at which other nodes may declare this node dead unless it sends a heartbeat.';
COMMENT ON COLUMN forge_nodes.current_connections IS 'Open connections of the pool of the application. 0 if unknown.';
COMMENT ON COLUMN forge_nodes.current_jobs IS 'Jobs that the node is running.';
COMMENT ON COLUMN forge_nodes.cpu_usage IS 'CPU usage between 0 and 1. NULL: unknown.';
COMMENT ON COLUMN forge_nodes.memory_usage IS 'Memory usage between 0 and 1. NULL: unknown.';
COMMENT ON COLUMN forge_nodes.info IS
    'Texts by key: mode, slots, the digest of the declared crons (see forge_cron_sets) and forge.cluster.node.info.';
COMMENT ON COLUMN forge_nodes.liveness_key IS
    'Key of the advisory lock that the session of the node holds while the node lives. NULL: the node holds no such lock.';

COMMENT ON COLUMN forge_nodes.limited_names IS
    'Names of handlers whose jobs the node claims one limit at a time, see forge_job_limits.concurrency. NULL: the node has claimed nothing yet.';
COMMENT ON COLUMN forge_nodes.draining_since IS 'Time at which the node began to drain. NULL: it has not.';

-- For the pages of jobs, which name the node that ran them long after it has left.
CREATE TABLE forge_former_nodes (
    id      uuid PRIMARY KEY,
    name    text NOT NULL,
    left_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX forge_former_nodes_age ON forge_former_nodes (left_at);
COMMENT ON TABLE forge_former_nodes IS 'Names of nodes that have left or died. Kept for 30 days.';
COMMENT ON COLUMN forge_former_nodes.id IS 'Identity of the registration, see forge_nodes.';
COMMENT ON COLUMN forge_former_nodes.name IS 'Name of the node.';
COMMENT ON COLUMN forge_former_nodes.left_at IS 'Time at which the row of the node was deleted.';

-- Leaders ----------------------------------------------------------------------------------------------------------------------------

-- Two tables: fenced transactions hold a share lock on rows of forge_leaders, which therefore change only when a leader is elected
-- or resigns. Leases are renewed every second.
CREATE TABLE forge_leaders (
    role         text PRIMARY KEY,
    node_id      uuid,
    current_term forge_counter NOT NULL DEFAULT 0,
    acquired_at  timestamptz
);
COMMENT ON TABLE forge_leaders IS 'Current leader and term of each role. Fenced writes check the term under a share lock.';
COMMENT ON COLUMN forge_leaders.role IS 'Name of the role.';
COMMENT ON COLUMN forge_leaders.node_id IS 'Leader. NULL: the role has none.';
COMMENT ON COLUMN forge_leaders.current_term IS 'Number of the current or last term. It increases with each election.';
COMMENT ON COLUMN forge_leaders.acquired_at IS 'Start of the current or last term.';

CREATE TABLE forge_leader_leases (
    role           text PRIMARY KEY,
    node_id        uuid,
    lease_until    timestamptz NOT NULL,
    backend_pid    int,
    backend_start  timestamptz,
    disputed_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE forge_leader_leases IS 'Leases of the leaders.';
COMMENT ON COLUMN forge_leader_leases.role IS 'Name of the role.';
COMMENT ON COLUMN forge_leader_leases.node_id IS 'Holder of the lease. NULL: the leader has resigned.';
COMMENT ON COLUMN forge_leader_leases.lease_until IS 'End of the lease.';
COMMENT ON COLUMN forge_leader_leases.backend_pid IS
    'Process id of the session that holds the advisory lock of the role. NULL: the leader holds only the lease.';
COMMENT ON COLUMN forge_leader_leases.backend_start IS 'Start of that session: process ids are reused.';
COMMENT ON COLUMN forge_leader_leases.disputed_until IS
    'Time until which a former leader whose session ended without a resignation may still act as the leader.';

-- Locks ------------------------------------------------------------------------------------------------------------------------------

CREATE SEQUENCE forge_lock_tokens;
COMMENT ON SEQUENCE forge_lock_tokens IS
    'Fencing tokens. All locks share the sequence, so a token is never used again, even after the row of its lock was deleted.';

CREATE TABLE forge_locks (
    lock_name  text PRIMARY KEY,
    owner_node uuid NOT NULL,
    token      bigint NOT NULL DEFAULT nextval('forge_lock_tokens'),
    locked_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
-- Rows of released locks stay for a day: the locks of a dead node and the rows to delete must be found without reading all of them.
CREATE INDEX forge_locks_expiry ON forge_locks (expires_at, owner_node);
COMMENT ON TABLE forge_locks IS
    'Locks of ClusterLocks and of start-up actions. A lock whose expiry time has passed is free; its row is deleted later.';
COMMENT ON COLUMN forge_locks.lock_name IS 'Name of the lock.';
COMMENT ON COLUMN forge_locks.owner_node IS 'Node that took the lock last.';
COMMENT ON COLUMN forge_locks.token IS 'Fencing token of the last holder, larger than all earlier ones.';
COMMENT ON COLUMN forge_locks.locked_at IS 'Time at which the last holder took the lock.';
COMMENT ON COLUMN forge_locks.expires_at IS 'End of the lease. A release sets it to the current time.';

-- One-time state ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE forge_state (
    state_key   text PRIMARY KEY,
    state_value jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL
);
CREATE INDEX forge_state_expiry ON forge_state (expires_at);
-- Pending OAuth2 logins, which are counted before a new login is stored.
CREATE INDEX forge_state_logins ON forge_state (expires_at) WHERE state_key LIKE '@oauth2/%';
COMMENT ON TABLE forge_state IS 'Values of ClusterStateStore, each of which can be taken once. Also pending OAuth2 logins.';
COMMENT ON COLUMN forge_state.state_key IS 'Key of the value. Keys of pending OAuth2 logins begin with @oauth2/.';
COMMENT ON COLUMN forge_state.state_value IS 'Value as JSON.';
COMMENT ON COLUMN forge_state.created_at IS 'Time at which the value was stored, for operators.';
COMMENT ON COLUMN forge_state.expires_at IS 'Time from which the value can no longer be taken.';

-- Start-up actions -------------------------------------------------------------------------------------------------------------------

CREATE TABLE forge_startup_actions (
    name         text NOT NULL,
    version      text NOT NULL,
    node_id      uuid NOT NULL,
    node_name    text NOT NULL,
    token        bigint NOT NULL,
    started_at   timestamptz NOT NULL,
    completed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, version)
);
COMMENT ON TABLE forge_startup_actions IS
    'Actions that StartupCoordinator.once has completed. Only the holder of the lock of an action adds its row.';
COMMENT ON COLUMN forge_startup_actions.name IS 'Name of the action.';
COMMENT ON COLUMN forge_startup_actions.version IS 'Version of the action. Each version runs once.';
COMMENT ON COLUMN forge_startup_actions.node_id IS 'Node that ran the action.';
COMMENT ON COLUMN forge_startup_actions.node_name IS 'Name of that node, whose row may have been deleted.';
COMMENT ON COLUMN forge_startup_actions.token IS 'Fencing token of the lock.';
COMMENT ON COLUMN forge_startup_actions.started_at IS 'Time at which the node took the lock.';
COMMENT ON COLUMN forge_startup_actions.completed_at IS 'Time at which the action was completed.';

-- Jobs -------------------------------------------------------------------------------------------------------------------------------

-- Domains instead of CHECK constraints of the table: PostgreSQL parses the constraints of a table again for each statement and evaluates
-- them for each changed row, which made the insertion of one job half as expensive again. It caches the constraints of a domain
-- and evaluates them only for the columns that a statement sets. Each of them still costs every insertion half a microsecond, so
-- counters and sizes have none: statements compute with them in a way that no value makes them fail for the other rows.
CREATE DOMAIN forge_job_status AS text CONSTRAINT forge_jobs_status CHECK
    (VALUE IN ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled', 'abandoned'));
CREATE DOMAIN forge_job_name AS text CONSTRAINT forge_jobs_name CHECK
    (VALUE <> '' AND VALUE <> '(other)' AND pg_catalog.char_length(VALUE) <= 1000 AND VALUE !~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]');
CREATE DOMAIN forge_job_key AS text CONSTRAINT forge_jobs_key CHECK
    (pg_catalog.char_length(VALUE) <= 500 AND VALUE !~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]');
CREATE DOMAIN forge_job_capability AS text CONSTRAINT forge_jobs_capability CHECK
    (VALUE <> '(other)' AND pg_catalog.char_length(VALUE) <= 500 AND VALUE !~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]');
-- Groups take turns in the order of their bytes, whatever the collation of the database.
CREATE DOMAIN forge_job_group AS text COLLATE "C" CONSTRAINT forge_jobs_group CHECK
    (VALUE <> '' AND pg_catalog.char_length(VALUE) <= 500 AND VALUE !~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]');
CREATE DOMAIN forge_job_priority AS int CONSTRAINT forge_jobs_priority CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN forge_job_time AS timestamptz CONSTRAINT forge_jobs_time CHECK (VALUE >= '1970-01-01 00:00:00+00');
CREATE DOMAIN forge_job_retention AS interval CONSTRAINT forge_jobs_retention CHECK
    (VALUE BETWEEN interval '0 seconds' AND interval '1000 years');
COMMENT ON DOMAIN forge_job_status IS 'Status of a job. Pending, claimed and running jobs are active; the others are finished.';
COMMENT ON DOMAIN forge_job_name IS
    'Name of a job, with room for the prefix and the version of a workflow. Names are logged, so control characters and line separators are refused. Reports sum up further names as (other).';
COMMENT ON DOMAIN forge_job_key IS 'Unique key of a job. Keys are logged, so control characters and line separators are refused.';
COMMENT ON DOMAIN forge_job_capability IS 'Capability that a job requires. Capabilities are logged, so control characters and line separators are refused. Reports sum up further ones as (other).';
COMMENT ON DOMAIN forge_job_group IS 'Group of a job. Groups are logged, so control characters and line separators are refused.';
COMMENT ON DOMAIN forge_job_priority IS 'Priority of a job: 100 is the most urgent.';
COMMENT ON DOMAIN forge_job_time IS 'Time of a job, not before 1970.';
COMMENT ON DOMAIN forge_job_retention IS 'Retention. The sum of it and the time at which a job finished must be a valid time.';

-- Each change of a job reads all columns and writes them again. Columns of fixed length that are never NULL come first, because
-- PostgreSQL knows where they begin; then those that claims and ends of jobs set; values that may be large come last.
CREATE TABLE forge_jobs (
    id                uuid PRIMARY KEY,
    scheduled_at      forge_job_time NOT NULL DEFAULT now(),
    created_at        timestamptz NOT NULL DEFAULT now(),
    claim_epoch       bigint NOT NULL DEFAULT 0,
    priority          forge_job_priority NOT NULL DEFAULT 50,
    attempts          int NOT NULL DEFAULT 0,
    recoveries        int NOT NULL DEFAULT 0,
    status            forge_job_status NOT NULL DEFAULT 'pending',
    name              forge_job_name NOT NULL,
    worker_id         uuid,
    claimed_at        timestamptz,
    started_at        timestamptz,
    last_heartbeat    timestamptz,
    lease_expires_at  timestamptz,
    finished_at       timestamptz,
    max_attempts      int,
    body_bytes        int,
    checkpoint_bytes  int,
    waits_for         uuid,
    retention         forge_job_retention,
    carries_run       boolean,
    worker_capability forge_job_capability,
    unique_key        forge_job_key,
    job_group         forge_job_group,
    batch_id          uuid,
    tags              text[],
    payload           jsonb NOT NULL DEFAULT '{}',
    metadata          jsonb NOT NULL DEFAULT '{}',
    progress          jsonb,
    checkpoint        jsonb,
    result            jsonb,
    last_error        text,
    attempt_history   jsonb
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05);
COMMENT ON TABLE forge_jobs IS 'Jobs: waiting, running and finished ones. Finished jobs are deleted after their retention.';
COMMENT ON COLUMN forge_jobs.id IS 'UUID of version 7. The id of a job that carries a workflow run is the id of the run.';
COMMENT ON COLUMN forge_jobs.name IS
    'Name of the handler. workflow:NAME@VERSION names jobs that carry workflow runs.';
COMMENT ON COLUMN forge_jobs.payload IS 'Input of the handler.';
COMMENT ON COLUMN forge_jobs.status IS 'pending -> claimed -> running -> completed, failed, cancelled or abandoned.';
COMMENT ON COLUMN forge_jobs.priority IS 'Priority from 0 to 100. Jobs of higher priority are claimed first.';
COMMENT ON COLUMN forge_jobs.worker_capability IS
    'Capability that the node must have. NULL: none. Values that begin with @ are reserved (@leader).';
COMMENT ON COLUMN forge_jobs.scheduled_at IS 'Earliest time at which the job may be claimed.';
COMMENT ON COLUMN forge_jobs.attempts IS 'Number of attempts, including the current one.';
COMMENT ON COLUMN forge_jobs.max_attempts IS 'Attempts after which the job fails. NULL: the first claim sets the number that its node is configured with.';
COMMENT ON COLUMN forge_jobs.recoveries IS 'Number of claims that were taken from nodes that died or stopped renewing the lease.';
COMMENT ON COLUMN forge_jobs.worker_id IS 'Node that holds the claim, or held it last.';
COMMENT ON COLUMN forge_jobs.claim_epoch IS 'Number of claims so far. A node that writes a result proves with it that the claim is still its own. A job with 10^18 or more is not claimed.';
COMMENT ON COLUMN forge_jobs.claimed_at IS 'Time of the last claim.';
COMMENT ON COLUMN forge_jobs.started_at IS 'Start of the last attempt; NULL if the job was cancelled after the end of that attempt.';
COMMENT ON COLUMN forge_jobs.last_heartbeat IS 'Last renewal of the lease.';
COMMENT ON COLUMN forge_jobs.lease_expires_at IS 'Time at which other nodes may take over the job. NULL: nobody holds it.';
COMMENT ON COLUMN forge_jobs.finished_at IS 'Time at which the job finished for good.';
COMMENT ON COLUMN forge_jobs.progress IS 'Progress that the handler reported.';
COMMENT ON COLUMN forge_jobs.checkpoint IS 'Checkpoint that the handler saved. The next attempt receives it.';
COMMENT ON COLUMN forge_jobs.result IS 'Value that the handler returned.';
COMMENT ON COLUMN forge_jobs.last_error IS 'Error of the last failed attempt, or the reason of a cancellation.';
COMMENT ON COLUMN forge_jobs.attempt_history IS
    'Last 20 attempts that failed or whose node was lost, as a JSON array. NULL: there were none.';
COMMENT ON COLUMN forge_jobs.unique_key IS 'At most one active job with this name has this key, and at most one more waits for it.';
COMMENT ON COLUMN forge_jobs.job_group IS
    'Group of the job, such as a customer. Groups of one name take turns, and limits may apply to each of them. NULL: none.';
COMMENT ON COLUMN forge_jobs.batch_id IS 'Batch that the job belongs to. NULL: none.';
COMMENT ON COLUMN forge_jobs.tags IS
    'Tags by which operators find the job; see forge_job_tags. NULL: none. Insert jobs with tags by forge_enqueue, which adds both. If tags are added by hand, add them there, too.';
COMMENT ON COLUMN forge_jobs.metadata IS 'Texts by key, such as cron, slot and the trace of the enqueuer. Keys that begin with forge. are reserved.';
COMMENT ON COLUMN forge_jobs.created_at IS 'Time at which the job was enqueued.';
-- The writer of the row measures: printing the values again for each claim would be expensive.
COMMENT ON COLUMN forge_jobs.body_bytes IS
    'Size of the printed payload and metadata. It bounds how much a claim reads, so only nodes and forge_enqueue may write it. NULL: unknown, the job is measured and read alone.';
COMMENT ON COLUMN forge_jobs.checkpoint_bytes IS 'Size of the printed checkpoint. NULL: unknown.';
COMMENT ON COLUMN forge_jobs.waits_for IS 'Job that must finish before this one may run: the active job with the same key, or a job that a workflow run awaits. Or the batch whose callback this job is, or that a workflow run awaits. Or the job itself, if it is in forge_job_dependencies.';
COMMENT ON COLUMN forge_jobs.retention IS 'Time to keep the finished job. NULL: as configured for the cluster.';
-- Besides the name, because the condition of a trigger costs every statement that changes a status, and this is the shortest one.
COMMENT ON COLUMN forge_jobs.carries_run IS 'True if the job carries a workflow run. NULL: it does not.';

-- Claims. A claim searches for one name, capability and priority, oldest first, and so reads no row that it may not take.
-- With the id, a claim among many jobs of the same time continues where the last one ended. Jobs with a group come after the
-- others of their priority: one expression instead of two columns, so that a search finds the next one with one comparison.
CREATE INDEX forge_jobs_due ON forge_jobs
    (name, coalesce(worker_capability, ''), (priority * 2 + CASE WHEN job_group IS NULL THEN 1 ELSE 0 END) DESC, scheduled_at, id)
    WHERE status = 'pending' AND waits_for IS NULL;
-- Groups with pending jobs, to take turns among them.
CREATE INDEX forge_jobs_turns ON forge_jobs (name, coalesce(worker_capability, ''), priority, job_group, scheduled_at, id)
    WHERE job_group IS NOT NULL AND status = 'pending' AND waits_for IS NULL;
-- Jobs of a group in the order in which they were enqueued, the active ones apart: the first of them decides in an ordered group.
-- The condition is one that statements must repeat, so that none reads it to count the jobs that nodes hold.
CREATE INDEX forge_jobs_grouped ON forge_jobs
    (job_group, name, (status IN ('pending', 'claimed', 'running')), created_at, id) WHERE job_group <> '';
-- Jobs that nodes hold. By name and group, because limits count them. Without the lease, so that renewals stay heap-only; the
-- sweeper scans this small index completely.
CREATE INDEX forge_jobs_held ON forge_jobs (name, job_group, worker_id) WHERE status IN ('claimed', 'running');
-- One active job per key, and at most one successor that waits for it. One index for both: each costs every change of a job.
CREATE UNIQUE INDEX forge_jobs_key ON forge_jobs (name, unique_key, (waits_for IS NULL))
    WHERE unique_key IS NOT NULL AND status IN ('pending', 'claimed', 'running');
-- Jobs of a batch that have not completed: active ones (0), failed ones (1) and cancelled ones (2). With the id, because the last job
-- is likely to be active as long as any is: a search from the end does not read what the jobs that have ended left behind.
CREATE INDEX forge_jobs_batch ON forge_jobs
    (batch_id, (CASE WHEN status IN ('pending', 'claimed', 'running') THEN 0 WHEN status IN ('failed', 'abandoned') THEN 1 ELSE 2 END), id)
    WHERE batch_id IS NOT NULL AND status <> 'completed';
CREATE INDEX forge_jobs_successors ON forge_jobs (waits_for) WHERE waits_for IS NOT NULL;
-- Deletion of finished jobs. The retention depends on the status unless the job has its own. The deletion reads only rows that are due;
-- each finished job is in one index.
CREATE INDEX forge_jobs_finished ON forge_jobs (status, finished_at)
    WHERE status IN ('completed', 'failed', 'cancelled', 'abandoned') AND retention IS NULL;
-- In UTC: the sum of a time and an interval depends on the time zone of the session, and an index needs one that does not.
CREATE INDEX forge_jobs_retained ON forge_jobs (((finished_at AT TIME ZONE 'UTC') + retention))
    WHERE retention IS NOT NULL AND finished_at IS NOT NULL;

-- Under REPEATABLE READ and SERIALIZABLE the successor may be invisible to the snapshot, or replaced since, which would fail the
-- transaction. The node that finished the job, or the sweeper, then releases the successor after the commit.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_free_successor() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
        BEGIN
            IF OLD.status IN ('pending', 'claimed', 'running')
               AND (TG_OP = 'DELETE' OR NEW.status NOT IN ('pending', 'claimed', 'running'))
               AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
                -- EXECUTE plans the statement each time: a plan from the time when the table was empty would read all jobs.
                EXECUTE $update$UPDATE %1$I.forge_jobs SET waits_for = NULL WHERE waits_for = $1 AND status = 'pending'$update$
                    USING OLD.id;
            END IF;
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema());
END
$create$;
COMMENT ON FUNCTION forge_free_successor() IS
    'Trigger: releases the job that waits for a finished or deleted job, in the same transaction, also if an operator changed the row.';
-- Short conditions: PostgreSQL parses them again for each statement, and the full ones made up half of the cost of the statement that
-- ends a single job. The functions check the rest.
CREATE TRIGGER forge_jobs_ended AFTER UPDATE OF status ON forge_jobs FOR EACH ROW
    WHEN (OLD.unique_key IS NOT NULL)
    EXECUTE FUNCTION forge_free_successor();
-- The deletion of old jobs must not call the function for each of them.
CREATE TRIGGER forge_jobs_deleted AFTER DELETE ON forge_jobs FOR EACH ROW
    WHEN (OLD.unique_key IS NOT NULL AND OLD.finished_at IS NULL)
    EXECUTE FUNCTION forge_free_successor();

-- A table instead of an index on the array: a job has one entry for each tag however often its status changes, and a search reads the
-- newest jobs of a tag in their order. An inverted index would add entries with each change of a status, and read all jobs of a tag.
CREATE TABLE forge_job_tags (
    tag    text COLLATE "C" NOT NULL,
    job_id uuid NOT NULL,
    PRIMARY KEY (tag, job_id),
    -- Here and not on forge_jobs, where each insertion would pay for it, also without tags.
    CONSTRAINT forge_job_tags_tag CHECK (tag <> '' AND pg_catalog.char_length(tag) <= 100 AND tag !~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]')
);
COMMENT ON TABLE forge_job_tags IS 'Jobs by their tags. Statements that insert jobs with tags write it, triggers keep it up to date.';
COMMENT ON COLUMN forge_job_tags.tag IS 'A tag in forge_jobs.tags.';
COMMENT ON COLUMN forge_job_tags.job_id IS 'Id of the job.';

DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_retag_job() RETURNS trigger LANGUAGE plpgsql
            SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $body$
        BEGIN
            IF TG_RELID <> %2$L::regclass THEN
                RAISE insufficient_privilege USING MESSAGE = 'forge_retag_job serves no table but ' || %2$L;
            END IF;
            IF TG_OP = 'DELETE' OR OLD.tags IS DISTINCT FROM NEW.tags THEN
                DELETE FROM %1$I.forge_job_tags t WHERE t.tag = ANY (OLD.tags) AND t.job_id = OLD.id;
            END IF;
            IF TG_OP = 'UPDATE' THEN
                INSERT INTO %1$I.forge_job_tags (tag, job_id)
                SELECT n.tag, NEW.id FROM unnest(NEW.tags) AS n (tag)
                ON CONFLICT DO NOTHING;
            END IF;
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema(), pg_catalog.format('%I.forge_jobs', pg_catalog.current_schema()));
END
$create$;
REVOKE ALL ON FUNCTION forge_retag_job() FROM PUBLIC;
COMMENT ON FUNCTION forge_retag_job() IS
    'Trigger: keeps forge_job_tags up to date when a job is deleted or its tags change. Runs with the rights of its owner.';
-- One trigger, because each statement that changes forge_jobs copies the definitions of all its triggers, and only for jobs that had
-- tags, because the condition must suit deletions, too: the statements that add tags write both tables.
CREATE TRIGGER forge_jobs_retagged AFTER UPDATE OF tags OR DELETE ON forge_jobs FOR EACH ROW
    WHEN (OLD.tags IS NOT NULL)
    EXECUTE FUNCTION forge_retag_job();

-- No foreign key: it would cost the deletion of each job a search here. Lines of deleted jobs are swept.
CREATE TABLE forge_job_logs (
    job_id    uuid NOT NULL,
    epoch     bigint NOT NULL,
    line      int NOT NULL,
    attempt   int NOT NULL,
    logged_at timestamptz NOT NULL,
    message   text NOT NULL,
    PRIMARY KEY (job_id, epoch, line)
);
COMMENT ON TABLE forge_job_logs IS 'Lines that handlers logged for their jobs (JobContext.log): the last 500 of each job.';
COMMENT ON COLUMN forge_job_logs.job_id IS 'Id of the job. Lines of jobs that no longer exist are deleted within a minute or so.';
COMMENT ON COLUMN forge_job_logs.epoch IS 'Claim under which the line was logged, see forge_jobs.claim_epoch.';
COMMENT ON COLUMN forge_job_logs.line IS 'Number of the line within its claim. Missing numbers are lines that were not kept.';
COMMENT ON COLUMN forge_job_logs.attempt IS 'Attempt in which the line was logged.';
COMMENT ON COLUMN forge_job_logs.logged_at IS 'Time at which the line was logged.';
COMMENT ON COLUMN forge_job_logs.message IS 'Text of the line.';

CREATE TABLE forge_job_pauses (
    name      forge_job_name PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE forge_job_pauses IS 'Names of jobs that are paused: no node claims them. Pauses survive restarts.';
COMMENT ON COLUMN forge_job_pauses.name IS 'Name of the jobs.';
COMMENT ON COLUMN forge_job_pauses.paused_at IS 'Time of the pause, for operators.';

CREATE TABLE forge_job_names (
    name forge_job_name PRIMARY KEY
);
-- The names in forge_jobs do not count: SQL accepts any name.
COMMENT ON TABLE forge_job_names IS 'Names that a node has had a handler for at any time, also after that node has left.';
COMMENT ON COLUMN forge_job_names.name IS 'Name of a job, cron, daemon or workflow version.';

-- Batches of jobs ------------------------------------------------------------------------------------------------------------------------

-- There is no counter that could be wrong: a batch has ended when it is closed and no active job belongs to it. Each of the times is set
-- once, by the statement that releases the callback.
CREATE TABLE forge_job_batches (
    id            uuid PRIMARY KEY,
    name          text NOT NULL,
    parent_id     uuid,
    on_failure    uuid,
    on_end        uuid,
    on_success    uuid,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at     timestamptz,
    failed_at     timestamptz,
    ended_at      timestamptz,
    succeeded_at  timestamptz,
    cancelled_at  timestamptz,
    retry_up_to   timestamptz,
    retried_at    timestamptz
);
-- Batches that nodes look after.
CREATE INDEX forge_job_batches_unended ON forge_job_batches (id) WHERE ended_at IS NULL;
CREATE INDEX forge_job_batches_unsuccessful ON forge_job_batches (id) WHERE ended_at IS NOT NULL AND succeeded_at IS NULL;
-- Three indexes, so that the question whether one of thousands of parts has failed, or has not ended, is one step in an index.
CREATE INDEX forge_job_batches_failed_parts ON forge_job_batches (parent_id) WHERE failed_at IS NOT NULL;
CREATE INDEX forge_job_batches_unended_parts ON forge_job_batches (parent_id) WHERE ended_at IS NULL;
CREATE INDEX forge_job_batches_unsuccessful_parts ON forge_job_batches (parent_id) WHERE succeeded_at IS NULL;
-- Deletion of old batches.
CREATE INDEX forge_job_batches_ended ON forge_job_batches (ended_at) WHERE ended_at IS NOT NULL;
COMMENT ON TABLE forge_job_batches IS
    'Batches of jobs. Callbacks are jobs that wait for their batch. Ended batches are deleted after the retention of failed jobs.';
COMMENT ON COLUMN forge_job_batches.id IS 'UUID of version 7. Jobs of the batch have it in batch_id.';
COMMENT ON COLUMN forge_job_batches.name IS 'Name for operators. It need not be unique.';
COMMENT ON COLUMN forge_job_batches.parent_id IS 'Batch that this one is part of. NULL: none.';
COMMENT ON COLUMN forge_job_batches.on_failure IS 'Callback job that runs when the first job has failed for good. NULL: none.';
COMMENT ON COLUMN forge_job_batches.on_end IS 'Callback job that runs when all jobs have ended. NULL: none.';
COMMENT ON COLUMN forge_job_batches.on_success IS 'Callback job that runs when all jobs have completed. NULL: none.';
COMMENT ON COLUMN forge_job_batches.created_at IS 'Time at which the batch was opened.';
COMMENT ON COLUMN forge_job_batches.closed_at IS 'Time from which no job can be added. NULL: the batch is open.';
COMMENT ON COLUMN forge_job_batches.failed_at IS 'Time at which the first failed job was noticed. NULL: none has failed.';
COMMENT ON COLUMN forge_job_batches.ended_at IS 'Time at which all jobs had ended for the first time. NULL: not yet.';
COMMENT ON COLUMN forge_job_batches.succeeded_at IS 'Time at which all jobs had completed, perhaps after retries. NULL: not yet.';
COMMENT ON COLUMN forge_job_batches.cancelled_at IS 'Time at which the batch was cancelled. Its active jobs are cancelled then. NULL: it was not.';
COMMENT ON COLUMN forge_job_batches.retry_up_to IS
    'Nodes are retrying the jobs that failed before this time. NULL: no retry was requested, or all jobs have been retried.';
COMMENT ON COLUMN forge_job_batches.retried_at IS 'Time of the last request to retry failed jobs. NULL: there was none.';

-- Transactions that add jobs only add rows, so that they do not wait for each other. The leader adds up the rows of a batch now and then.
CREATE TABLE forge_job_batch_parts (
    batch_id  uuid NOT NULL,
    jobs      int NOT NULL DEFAULT 0,
    failed    int NOT NULL DEFAULT 0,
    cancelled int NOT NULL DEFAULT 0
);
CREATE INDEX forge_job_batch_parts_batch ON forge_job_batch_parts (batch_id);
CREATE INDEX forge_job_batch_parts_purged ON forge_job_batch_parts (batch_id) WHERE jobs = 0;
COMMENT ON TABLE forge_job_batch_parts IS 'Numbers of jobs that were added to batches or purged. Their sums are the numbers of a batch.';
COMMENT ON COLUMN forge_job_batch_parts.batch_id IS 'The batch.';
COMMENT ON COLUMN forge_job_batch_parts.jobs IS 'Number of jobs that were added together. 0: jobs were purged.';
COMMENT ON COLUMN forge_job_batch_parts.failed IS 'Number of failed jobs that were purged together.';
COMMENT ON COLUMN forge_job_batch_parts.cancelled IS 'Number of cancelled jobs that were purged together.';

-- A callback without its batch would wait for ever, or run although the jobs have not ended.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_forget_batch() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
        BEGIN
            -- EXECUTE plans the statements each time: a plan from the time when the tables were empty would read all rows.
            EXECUTE $delete$DELETE FROM %1$I.forge_jobs WHERE id IN ($1, $2, $3) AND waits_for = $4 AND status = 'pending'$delete$
                USING OLD.on_failure, OLD.on_end, OLD.on_success, OLD.id;
            EXECUTE $delete$DELETE FROM %1$I.forge_job_batch_parts WHERE batch_id = $1$delete$ USING OLD.id;
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema());
END
$create$;
COMMENT ON FUNCTION forge_forget_batch() IS 'Trigger: deletes the callbacks of a deleted batch that still wait for it, and its numbers.';
REVOKE ALL ON FUNCTION forge_forget_batch() FROM PUBLIC;
CREATE TRIGGER forge_job_batches_deleted AFTER DELETE ON forge_job_batches FOR EACH ROW EXECUTE FUNCTION forge_forget_batch();

-- Jobs that run after other jobs ---------------------------------------------------------------------------------------------------------

CREATE TABLE forge_job_dependencies (
    job_id   uuid NOT NULL,
    after_id uuid NOT NULL,
    anyway   boolean NOT NULL,
    PRIMARY KEY (job_id, after_id)
);
CREATE INDEX forge_job_dependencies_after ON forge_job_dependencies (after_id, job_id);
COMMENT ON TABLE forge_job_dependencies IS
    'Jobs that run after other jobs. Such a job waits for itself (waits_for) until the last of the others has ended.';
COMMENT ON COLUMN forge_job_dependencies.job_id IS 'Job that waits.';
COMMENT ON COLUMN forge_job_dependencies.after_id IS 'Job that must end first. If it does not exist, it has completed.';
COMMENT ON COLUMN forge_job_dependencies.anyway IS
    'Whether the job runs even if the other one fails or is cancelled. False: it is cancelled, too.';

-- Windows of unique keys ---------------------------------------------------------------------------------------------------------------

-- Not in forge_jobs: a window outlives the row of its job.
CREATE TABLE forge_job_windows (
    name       forge_job_name NOT NULL,
    unique_key forge_job_key NOT NULL,
    job_id     uuid NOT NULL,
    opened_at  timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL,
    PRIMARY KEY (name, unique_key)
);
-- Windows that have ended are deleted.
CREATE INDEX forge_job_windows_end ON forge_job_windows (ends_at);
COMMENT ON TABLE forge_job_windows IS
    'Windows (JobOptions.withUniqueFor) in which no second job with the same name and key is enqueued. To end a window, delete its row.';
COMMENT ON COLUMN forge_job_windows.name IS 'Name of the job.';
COMMENT ON COLUMN forge_job_windows.unique_key IS 'Unique key of the job.';
COMMENT ON COLUMN forge_job_windows.job_id IS
    'Job that was enqueued in the window. Its row may have been deleted. The window ends early if the job is failed, cancelled or abandoned.';
COMMENT ON COLUMN forge_job_windows.opened_at IS 'Time at which the job was enqueued.';
COMMENT ON COLUMN forge_job_windows.ends_at IS 'End of the window.';

-- One function for nodes and for forge_enqueue: a window and its job are written together, also if the caller has no transaction.
-- The locks are taken in one order, the window before the job, so calls for one key cannot deadlock. Callers with several keys sort
-- them. A call that finds a window open takes no lock. Under READ COMMITTED each statement sees what was committed before it began,
-- and a statement that met an uncommitted row of another caller is repeated. Under REPEATABLE READ and SERIALIZABLE such a row is a
-- serialization failure.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_enqueue_unique(
            new_id uuid, new_name text, new_payload jsonb, new_priority int, new_capability text, not_before timestamptz,
            delay interval, new_max_attempts int, new_metadata jsonb, new_key text, new_bytes int, new_group text,
            replaces boolean, unique_for interval, debounce_max interval, new_tags text[])
        RETURNS uuid LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
        AS $forge_enqueue_unique$
        DECLARE
            overwrites CONSTANT boolean := replaces OR debounce_max IS NOT NULL;
            -- The role that called forge_enqueue. NULL: a node enqueues.
            role CONSTANT text := new_metadata ->> 'forge.role';
            opened boolean := false;
            is_first boolean;
            running uuid;
            result uuid;
            tries int := 0;
        BEGIN
            LOOP
                tries := tries + 1;
                IF tries > 1000 THEN
                    RAISE EXCEPTION 'job %%: the active job with the unique key %% changed again and again, or its row is inconsistent',
                        quote_literal(new_name), quote_literal(new_key) USING ERRCODE = 'serialization_failure';
                END IF;
                IF overwrites THEN
                    -- A job that waits for another one comes first: that other one may be pending again.
                    FOREACH is_first IN ARRAY ARRAY[false, true] LOOP
                        UPDATE %1$I.forge_jobs j
                        SET payload = new_payload, priority = new_priority, worker_capability = new_capability,
                            scheduled_at = CASE
                                WHEN debounce_max IS NULL THEN greatest(not_before, clock_timestamp() + delay)
                                -- A time in the past would put the job ahead of all others.
                                ELSE greatest(clock_timestamp(), least(clock_timestamp() + delay,
                                    coalesce(j.started_at, j.created_at) + debounce_max)) END,
                            max_attempts = new_max_attempts, metadata = new_metadata, body_bytes = new_bytes,
                            job_group = new_group, attempts = 0, recoveries = 0, progress = NULL, checkpoint = NULL,
                            checkpoint_bytes = NULL, last_error = NULL, attempt_history = NULL, tags = new_tags
                        WHERE j.name = new_name AND j.unique_key = new_key AND j.status = 'pending'
                          AND (j.waits_for IS NULL) = is_first
                          -- A role that may only enqueue changes no jobs of others.
                          AND (role IS NULL OR j.metadata ->> 'forge.role' = role)
                        RETURNING j.id INTO result;
                        EXIT WHEN FOUND;
                    END LOOP;
                ELSE
                    SELECT j.id INTO result FROM %1$I.forge_jobs j
                    WHERE j.name = new_name AND j.unique_key = new_key AND j.status IN ('pending', 'claimed', 'running')
                    ORDER BY j.waits_for NULLS FIRST LIMIT 1;
                END IF;
                IF overwrites AND result IS NOT NULL THEN
                    INSERT INTO %1$I.forge_job_tags (tag, job_id) SELECT u.tag, result FROM unnest(new_tags) AS u (tag)
                    ON CONFLICT DO NOTHING;
                END IF;
                EXIT WHEN result IS NOT NULL;

                IF unique_for IS NOT NULL AND NOT opened THEN
                    SELECT w.job_id INTO result FROM %1$I.forge_job_windows w
                    WHERE w.name = new_name AND w.unique_key = new_key
                      AND least(w.ends_at, w.opened_at + unique_for) > clock_timestamp()
                      AND NOT EXISTS (SELECT FROM %1$I.forge_jobs j
                                      WHERE j.id = w.job_id AND j.status IN ('failed', 'cancelled', 'abandoned'));
                    EXIT WHEN FOUND;
                    -- Finds no row if a concurrent caller has opened the window since.
                    INSERT INTO %1$I.forge_job_windows AS w (name, unique_key, job_id, opened_at, ends_at)
                    VALUES (new_name, new_key, new_id, clock_timestamp(), clock_timestamp() + unique_for)
                    ON CONFLICT ON CONSTRAINT forge_job_windows_pkey DO UPDATE
                    SET job_id = EXCLUDED.job_id, opened_at = EXCLUDED.opened_at, ends_at = EXCLUDED.ends_at
                    WHERE least(w.ends_at, w.opened_at + unique_for) <= clock_timestamp()
                       OR EXISTS (SELECT FROM %1$I.forge_jobs j
                                  WHERE j.id = w.job_id AND j.status IN ('failed', 'cancelled', 'abandoned'));
                    opened := FOUND;
                    CONTINUE WHEN NOT opened;
                END IF;

                running := NULL;
                FOR attempt IN 1..2 LOOP
                    INSERT INTO %1$I.forge_jobs
                        (id, name, payload, priority, worker_capability, scheduled_at, max_attempts, metadata, unique_key, waits_for,
                         body_bytes, job_group, tags)
                    VALUES (new_id, new_name, new_payload, new_priority, new_capability,
                            greatest(not_before, clock_timestamp() + delay, clock_timestamp()), new_max_attempts, new_metadata, new_key,
                            running,
                            new_bytes, new_group, new_tags)
                    ON CONFLICT DO NOTHING;
                    IF FOUND THEN
                        INSERT INTO %1$I.forge_job_tags (tag, job_id) SELECT u.tag, new_id FROM unnest(new_tags) AS u (tag);
                        RETURN new_id;
                    END IF;
                    EXIT WHEN NOT overwrites;
                    SELECT j.id INTO running FROM %1$I.forge_jobs j
                    WHERE j.name = new_name AND j.unique_key = new_key AND j.waits_for IS NULL AND j.status IN ('claimed', 'running');
                    -- The job has ended or is pending again.
                    EXIT WHEN NOT FOUND;
                END LOOP;
                IF role IS NOT NULL THEN
                    -- A pending job of another role has the key.
                    SELECT j.id INTO result FROM %1$I.forge_jobs j
                    WHERE j.name = new_name AND j.unique_key = new_key AND j.status IN ('pending', 'claimed', 'running')
                    ORDER BY j.waits_for NULLS FIRST LIMIT 1;
                    EXIT WHEN result IS NOT NULL;
                END IF;
            END LOOP;
            IF opened THEN
                -- Another job got the key meanwhile.
                UPDATE %1$I.forge_job_windows w SET job_id = result WHERE w.name = new_name AND w.unique_key = new_key;
            END IF;
            RETURN result;
        END
        $forge_enqueue_unique$
    $function$, pg_catalog.current_schema());
END
$create$;
COMMENT ON FUNCTION forge_enqueue_unique(
    uuid, text, jsonb, int, text, timestamptz, interval, int, jsonb, text, int, text, boolean, interval, interval, text[]) IS
    'Enqueues a job whose unique key has a window or a debounce, and returns its id or that of the existing job. For the nodes of the cluster and forge_enqueue.';

-- Limits and groups of jobs --------------------------------------------------------------------------------------------------------------

-- Without months, which have no fixed length, and with bounded fields: large ones of opposite signs have a small sum, but are out of
-- range when they are added to a time.
CREATE DOMAIN forge_rate_period AS interval CONSTRAINT forge_rate_period CHECK
    (extract(year FROM VALUE) = 0 AND extract(month FROM VALUE) = 0 AND extract(day FROM VALUE) BETWEEN 0 AND 366
     AND extract(epoch FROM VALUE) BETWEEN 0.001 AND 366 * 86400);
COMMENT ON DOMAIN forge_rate_period IS 'Period of a rate: one millisecond to 366 days, without months.';

CREATE TABLE forge_job_limits (
    name                       forge_job_name PRIMARY KEY,
    concurrency                int,
    group_concurrency          int,
    group_rate                 bigint,
    group_period               forge_rate_period,
    group_burst                bigint,
    ordered                    boolean NOT NULL DEFAULT false,
    overridden                 boolean NOT NULL DEFAULT false,
    declared_concurrency       int,
    declared_group_concurrency int,
    declared_group_rate        bigint,
    declared_group_period      forge_rate_period,
    declared_group_burst       bigint,
    changed_at                 timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT forge_job_limits_concurrency CHECK (concurrency >= 1),
    CONSTRAINT forge_job_limits_group_concurrency CHECK (group_concurrency >= 1),
    CONSTRAINT forge_job_limits_group_rate CHECK
        (pg_catalog.num_nulls(group_rate, group_period, group_burst) = 3
         OR (pg_catalog.num_nulls(group_rate, group_period, group_burst) = 0
             AND group_rate BETWEEN 1 AND 1000000000 AND group_burst BETWEEN 1 AND 1000000000
             -- A microsecond is the shortest interval.
             AND extract(epoch FROM group_period) / group_rate >= 0.000001
             -- A hundred years: the sum of it and the current time must be a valid time.
             AND extract(epoch FROM group_period) / group_rate * group_burst <= 3200000000)),
    -- What a handler declares becomes its limits when an operator resets them.
    CONSTRAINT forge_job_limits_declared CHECK (declared_concurrency >= 1 AND declared_group_concurrency >= 1),
    CONSTRAINT forge_job_limits_declared_group_rate CHECK
        (pg_catalog.num_nulls(declared_group_rate, declared_group_period, declared_group_burst) = 3
         OR (pg_catalog.num_nulls(declared_group_rate, declared_group_period, declared_group_burst) = 0
             AND declared_group_rate BETWEEN 1 AND 1000000000 AND declared_group_burst BETWEEN 1 AND 1000000000
             AND extract(epoch FROM declared_group_period) / declared_group_rate >= 0.000001
             AND extract(epoch FROM declared_group_period) / declared_group_rate * declared_group_burst <= 3200000000))
);
COMMENT ON TABLE forge_job_limits IS
    'Limits of jobs. All nodes obey them, whatever their own handlers declare: a node that starts records what it declares here.';
COMMENT ON COLUMN forge_job_limits.name IS 'Name of the handler. The limits apply to jobs with one of its former names, too.';
COMMENT ON COLUMN forge_job_limits.concurrency IS 'Jobs that may run at the same time in the cluster. NULL: any number.';
COMMENT ON COLUMN forge_job_limits.group_concurrency IS 'Jobs of one group that may run at the same time in the cluster. NULL: any number.';
COMMENT ON COLUMN forge_job_limits.group_rate IS 'Starts in one group per period, spread evenly. NULL: any number.';
COMMENT ON COLUMN forge_job_limits.group_period IS 'Period of the rate.';
COMMENT ON COLUMN forge_job_limits.group_burst IS 'Starts in one group at once after a quiet time.';
COMMENT ON COLUMN forge_job_limits.ordered IS
    'Whether the jobs of a group run one after the other, in the order in which they were enqueued.';
COMMENT ON COLUMN forge_job_limits.overridden IS 'Whether the limits were set at run time. Declarations do not change them then.';
COMMENT ON COLUMN forge_job_limits.declared_concurrency IS 'What the handler declares, according to the node that started last.';
COMMENT ON COLUMN forge_job_limits.declared_group_concurrency IS 'What the handler declares.';
COMMENT ON COLUMN forge_job_limits.declared_group_rate IS 'What the handler declares.';
COMMENT ON COLUMN forge_job_limits.declared_group_period IS 'What the handler declares.';
COMMENT ON COLUMN forge_job_limits.declared_group_burst IS 'What the handler declares.';
COMMENT ON COLUMN forge_job_limits.changed_at IS 'Time of the last change, for operators.';

CREATE TABLE forge_job_weights (
    name      forge_job_name NOT NULL,
    job_group forge_job_group NOT NULL,
    weight    int NOT NULL,
    PRIMARY KEY (name, job_group),
    CONSTRAINT forge_job_weights_weight CHECK (weight BETWEEN 1 AND 1000)
);
COMMENT ON TABLE forge_job_weights IS 'Weights of groups. Groups without a row have the weight 1.';
COMMENT ON COLUMN forge_job_weights.name IS 'Name of the handler.';
COMMENT ON COLUMN forge_job_weights.job_group IS 'Name of the group.';
COMMENT ON COLUMN forge_job_weights.weight IS 'Number of jobs that the group may start whenever its turn comes.';

CREATE TABLE forge_job_rates (
    name      forge_job_name NOT NULL,
    job_group forge_job_group NOT NULL,
    next_at   timestamptz NOT NULL,
    PRIMARY KEY (name, job_group)
) WITH (fillfactor = 70);
-- Rows of the past no longer matter and are deleted.
CREATE INDEX forge_job_rates_age ON forge_job_rates (next_at);
COMMENT ON TABLE forge_job_rates IS 'Groups whose starts a rate limits, as far as they have started jobs recently.';
COMMENT ON COLUMN forge_job_rates.name IS 'Name of the handler.';
COMMENT ON COLUMN forge_job_rates.job_group IS 'Name of the group.';
COMMENT ON COLUMN forge_job_rates.next_at IS 'Time of the next start if starts were spread evenly. The burst allows earlier ones.';

-- A claim locks the groups from which it takes jobs, so that no other claim counts their jobs at the same time. Rows instead of
-- advisory locks, which any session can take; a fixed number of rows, because groups come and go. Groups may share a lock.
CREATE TABLE forge_job_group_locks (
    number int PRIMARY KEY
);
INSERT INTO forge_job_group_locks SELECT pg_catalog.generate_series(0, 4095);
COMMENT ON TABLE forge_job_group_locks IS 'Rows that claims lock while they count the jobs of groups. They never change.';
COMMENT ON COLUMN forge_job_group_locks.number IS 'Last 12 bits of a hash of handler and group.';

-- Limits are exact because the jobs of a group are counted by a statement that begins after its lock was taken, and so sees
-- what earlier holders of the lock have claimed. There is no counter that could leak.
-- The settings make sure that a plan from the time when the table was empty suits a large one, too.
-- No pending job of the queue is older than since. The index tells so without a look at the rows of the jobs that have ended, whose
-- entries an old snapshot keeps.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_pick_jobs(
            node uuid, handler text, names text[], queue text, capability text, priority int, grouped boolean, most int,
            since timestamptz, after_group text, credit int, hinted text[],
            OUT ids uuid[], OUT last_group text, OUT last_credit int, OUT blocked int, OUT wait_millis bigint, OUT contended boolean,
            OUT complete boolean)
        LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
        -- What is switched off costs so much in the eyes of the planner that it would compile the plan. Planning takes longer than
        -- the rest: the plans are kept, and no index but the right one suits any of the statements.
        SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan AS $forge_pick_jobs$
        #variable_conflict use_variable
        DECLARE
            most_visited CONSTANT int := 1000;
            l %1$I.forge_job_limits;
            spacing interval;
            groups text[];
            numbers int[];
            room int;
            walked int;
            last_visited text;
            visits int;
        BEGIN
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE EXCEPTION 'forge_pick_jobs needs the isolation level read committed, not %%',
                    current_setting('transaction_isolation');
            END IF;
            SELECT * INTO l FROM %1$I.forge_job_limits d WHERE d.name = handler;
            IF l.ordered THEN
                l.group_concurrency := 1;
            END IF;
            spacing := l.group_period / l.group_rate;
            ids := '{}';
            last_group := after_group;
            last_credit := credit;
            blocked := 0;
            contended := false;
            complete := true;

            IF l.concurrency IS NOT NULL THEN
                PERFORM FROM %1$I.forge_job_group_locks k
                WHERE k.number = (hashtextextended(handler, 0) & 4095)::int FOR UPDATE SKIP LOCKED;
                IF NOT FOUND THEN
                    contended := true;
                    INSERT INTO %1$I.forge_job_group_locks (number)
                    SELECT (hashtextextended(handler, 0) & 4095)::int
                    WHERE NOT EXISTS (SELECT FROM %1$I.forge_job_group_locks k
                                      WHERE k.number = (hashtextextended(handler, 0) & 4095)::int)
                    ON CONFLICT DO NOTHING;
                    RETURN;
                END IF;
                SELECT d.concurrency INTO l.concurrency FROM %1$I.forge_job_limits d WHERE d.name = handler;
                SELECT coalesce(l.concurrency - count(*), most) INTO room FROM (
                    SELECT FROM %1$I.forge_jobs j WHERE j.status IN ('claimed', 'running') AND j.name = ANY (names)
                    LIMIT coalesce(l.concurrency, 0)) AS held;
                -- A node that does not know of the limit yet may be claiming without this lock.
                IF room <= 0 OR EXISTS (
                    SELECT FROM %1$I.forge_nodes n
                    WHERE n.status <> 'dead' AND n.limited_names IS NOT NULL AND n.handlers && names
                      AND handler <> ALL (n.limited_names)) THEN
                    blocked := 1;
                    RETURN;
                END IF;
                most := least(most, room);
            END IF;

            IF NOT grouped THEN
                ids := ARRAY(
                    SELECT j.id FROM %1$I.forge_jobs j
                    WHERE j.status = 'pending' AND j.waits_for IS NULL AND j.name = queue
                      AND coalesce(j.worker_capability, '') = capability
                      AND (j.priority * 2 + CASE WHEN j.job_group IS NULL THEN 1 ELSE 0 END) = priority * 2 + 1
                      AND j.scheduled_at BETWEEN since AND now() AND j.claim_epoch < 1000000000000000000
                      AND EXISTS (SELECT FROM %1$I.forge_nodes n WHERE n.id = node AND n.status = 'active')
                      AND NOT EXISTS (SELECT FROM %1$I.forge_job_pauses p WHERE p.name = queue)
                    ORDER BY j.scheduled_at, j.id LIMIT most FOR UPDATE SKIP LOCKED);
                RETURN;
            END IF;

            -- Go around the groups, beginning after the one that had the last turn. What may start is a guess until it is locked.
            WITH RECURSIVE walk (job_group, wrapped, visited, found, due, eligible, ready_at) AS (
                SELECT after_group COLLATE "C", false, 0, 0, false, false, NULL::timestamptz
                UNION ALL
                SELECT g.job_group, g.wrapped, w.visited + 1, w.found + CASE WHEN g.eligible THEN 1 ELSE 0 END, g.due, g.eligible,
                       g.ready_at
                FROM walk w
                CROSS JOIN LATERAL (
                    SELECT h.job_group::text, h.wrapped, h.scheduled_at <= now() AS due,
                           CASE WHEN h.scheduled_at <= now() THEN r.ready_at END AS ready_at,
                           h.scheduled_at <= now() AND coalesce(r.ready_at <= now(), true)
                           AND (l.group_concurrency IS NULL OR l.group_concurrency > (
                               SELECT count(*) FROM (
                                   SELECT FROM %1$I.forge_jobs j
                                   WHERE j.status IN ('claimed', 'running') AND j.name = ANY (names) AND j.job_group = h.job_group
                                   LIMIT l.group_concurrency) AS held))
                           AND (NOT coalesce(l.ordered, false) OR (
                               SELECT f.status = 'pending' AND f.scheduled_at <= now() AND f.waits_for IS NULL AND f.name = queue
                                      AND coalesce(f.worker_capability, '') = capability AND f.priority = priority
                               FROM unnest(names) AS n (name)
                               CROSS JOIN LATERAL (
                                   SELECT j.* FROM %1$I.forge_jobs j
                                   WHERE j.job_group = h.job_group AND j.job_group <> '' AND j.name = n.name
                                     AND j.status IN ('pending', 'claimed', 'running') AND j.waits_for IS NULL
                                   ORDER BY j.created_at, j.id LIMIT 1) AS f
                               ORDER BY f.created_at, f.id LIMIT 1)) AS eligible
                    FROM (
                        (SELECT j.job_group, j.scheduled_at, w.wrapped FROM %1$I.forge_jobs j
                         WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL AND j.name = queue
                           AND coalesce(j.worker_capability, '') = capability AND j.priority = priority
                           AND j.job_group > w.job_group AND j.scheduled_at >= since
                         ORDER BY j.job_group, j.scheduled_at, j.id LIMIT 1)
                        UNION ALL
                        (SELECT j.job_group, j.scheduled_at, true FROM %1$I.forge_jobs j
                         WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL AND j.name = queue
                           AND coalesce(j.worker_capability, '') = capability AND j.priority = priority
                           AND NOT w.wrapped AND j.scheduled_at >= since
                         ORDER BY j.job_group, j.scheduled_at, j.id LIMIT 1)
                        LIMIT 1) AS h
                    LEFT JOIN LATERAL (
                        SELECT least(s.next_at, now() + spacing * l.group_burst)
                               - spacing * (l.group_burst - 1) AS ready_at
                        FROM %1$I.forge_job_rates s
                        WHERE spacing IS NOT NULL AND s.name = handler AND s.job_group = h.job_group) AS r ON true
                    WHERE NOT h.wrapped OR h.job_group <= after_group COLLATE "C"
                    -- Otherwise PostgreSQL would find out twice what is eligible.
                    OFFSET 0) AS g
                WHERE w.found < most AND w.visited < most_visited
            )
            SELECT coalesce(array_agg(w.job_group ORDER BY w.visited) FILTER (WHERE w.eligible), '{}'),
                   (array_agg(w.job_group ORDER BY w.visited DESC))[1], max(w.visited),
                   count(*) FILTER (WHERE w.due AND NOT w.eligible),
                   (extract(epoch FROM greatest(min(w.ready_at) FILTER (WHERE NOT w.eligible), now()) - now()) * 1000)::bigint
            INTO groups, last_visited, visits, blocked, wait_millis
            FROM walk w;

            -- A group with a weight continues its turn. Groups whose jobs have just ended may be beyond what was visited.
            IF credit > 0 THEN
                groups := after_group || array_remove(groups, after_group);
            END IF;
            walked := cardinality(groups);
            complete := visits < most_visited OR walked >= most;
            IF walked < most THEN
                groups := groups || ARRAY(SELECT h.hint FROM unnest(hinted) AS h (hint) WHERE h.hint <> ALL (groups));
            END IF;

            IF cardinality(groups) = 0 THEN
                last_group := last_visited;
                last_credit := 0;
                RETURN;
            END IF;

            -- Another claim that holds the lock of a group takes what there is.
            numbers := ARRAY(
                SELECT (hashtextextended(handler || E'\n' || g.job_group, 0) & 4095)::int
                FROM unnest(groups) WITH ORDINALITY AS g (job_group, position) ORDER BY g.position);
            SELECT ARRAY(
                SELECT CASE WHEN lock.number IS NOT NULL THEN g.job_group END
                FROM unnest(groups, numbers) WITH ORDINALITY AS g (job_group, number, position)
                LEFT JOIN LATERAL (
                    SELECT k.number FROM %1$I.forge_job_group_locks k WHERE k.number = g.number
                    FOR UPDATE SKIP LOCKED) AS lock ON true
                ORDER BY g.position)
            INTO groups;
            contended := array_position(groups, NULL) IS NOT NULL;
            IF contended THEN
                -- Somebody may have emptied the table.
                INSERT INTO %1$I.forge_job_group_locks (number)
                SELECT DISTINCT n.number FROM unnest(numbers) AS n (number)
                WHERE NOT EXISTS (SELECT FROM %1$I.forge_job_group_locks k WHERE k.number = n.number)
                ORDER BY n.number
                ON CONFLICT DO NOTHING;
            END IF;

            -- Now the count is exact. The limits may have changed since the walk began.
            SELECT * INTO l FROM %1$I.forge_job_limits d WHERE d.name = handler;
            IF l.ordered THEN
                l.group_concurrency := 1;
            END IF;
            spacing := l.group_period / l.group_rate;
            WITH member AS MATERIALIZED (
                SELECT g.job_group, g.position::int AS position, coalesce(w.weight, 1) AS weight,
                       CASE WHEN credit > 0 AND g.position = 1 THEN greatest(coalesce(w.weight, 1) - credit, 0) ELSE 0 END AS served,
                       greatest(least(coalesce(s.next_at, now()), now() + spacing * l.group_burst), now()) AS next_at,
                       (SELECT count(*) FROM (
                            SELECT FROM %1$I.forge_jobs j
                            WHERE l.group_concurrency IS NOT NULL AND j.status IN ('claimed', 'running') AND j.name = ANY (names)
                              AND j.job_group = g.job_group
                            LIMIT l.group_concurrency) AS counted)::int AS held,
                       f.scheduled_at AS first_at, f.id AS first_id
                FROM unnest(groups) WITH ORDINALITY AS g (job_group, position)
                LEFT JOIN %1$I.forge_job_weights w ON w.name = handler AND w.job_group = g.job_group
                LEFT JOIN %1$I.forge_job_rates s ON spacing IS NOT NULL AND s.name = handler AND s.job_group = g.job_group
                -- The only job that may start in an ordered group. One that waits for other jobs, or for a batch, might wait for
                -- jobs behind it.
                LEFT JOIN LATERAL (
                    SELECT a.scheduled_at, a.id
                    FROM unnest(names) AS n (name)
                    CROSS JOIN LATERAL (
                        SELECT j.scheduled_at, j.created_at, j.id FROM %1$I.forge_jobs j
                        WHERE j.job_group = g.job_group AND j.job_group <> '' AND j.name = n.name
                          AND j.status IN ('pending', 'claimed', 'running') AND j.waits_for IS NULL
                        ORDER BY j.created_at, j.id LIMIT 1) AS a
                    WHERE l.ordered
                    ORDER BY a.created_at, a.id LIMIT 1) AS f ON true
                WHERE g.job_group IS NOT NULL
            ), share AS MATERIALIZED (
                SELECT m.*, least(m.room, ceil(most::numeric * m.weight / sum(m.weight) OVER ())::int) AS quota
                FROM (SELECT m.*, least(
                                most, l.group_concurrency - m.held,
                                floor(l.group_burst - extract(epoch FROM m.next_at - now()) / extract(epoch FROM spacing))) AS room
                      FROM member m) AS m
                WHERE m.room > 0 AND (NOT coalesce(l.ordered, false) OR m.first_id IS NOT NULL)
            ), offered AS MATERIALIZED (
                SELECT s.job_group, s.position, s.weight, s.next_at, j.id,
                       s.served + row_number() OVER (PARTITION BY s.position ORDER BY j.scheduled_at, j.id) - 1 AS turn
                FROM share s
                CROSS JOIN LATERAL (
                    SELECT j.id, j.scheduled_at FROM %1$I.forge_jobs j
                    WHERE j.job_group IS NOT NULL AND j.status = 'pending' AND j.waits_for IS NULL AND j.name = queue
                      AND coalesce(j.worker_capability, '') = capability AND j.priority = priority
                      AND j.job_group = s.job_group AND j.scheduled_at BETWEEN since AND now() AND j.claim_epoch < 1000000000000000000
                      AND EXISTS (SELECT FROM %1$I.forge_nodes n WHERE n.id = node AND n.status = 'active')
                      AND NOT EXISTS (SELECT FROM %1$I.forge_job_pauses p WHERE p.name = queue)
                      AND (j.scheduled_at, j.id)
                          >= (coalesce(s.first_at, '-infinity'), coalesce(s.first_id, '00000000-0000-0000-0000-000000000000'))
                      AND (j.scheduled_at, j.id)
                          <= (coalesce(s.first_at, 'infinity'), coalesce(s.first_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
                    ORDER BY j.scheduled_at, j.id LIMIT s.quota FOR UPDATE SKIP LOCKED) AS j
            ), picked AS MATERIALIZED (
                SELECT o.*, row_number() OVER (ORDER BY o.turn / o.weight, o.position, o.turn) AS place FROM offered o
            ), spent AS (
                INSERT INTO %1$I.forge_job_rates AS s (name, job_group, next_at)
                SELECT handler, p.job_group, p.next_at + spacing * count(*)
                FROM picked p WHERE p.place <= most AND spacing IS NOT NULL
                GROUP BY p.job_group, p.next_at
                ON CONFLICT (name, job_group) DO UPDATE SET next_at = EXCLUDED.next_at
            )
            SELECT coalesce(array_agg(p.id ORDER BY p.place), '{}'),
                   (array_agg(p.job_group::text ORDER BY p.place DESC) FILTER (WHERE p.position <= walked))[1],
                   (array_agg(p.weight - 1 - p.turn %% p.weight ORDER BY p.place DESC) FILTER (WHERE p.position <= walked))[1]
            INTO ids, last_group, last_credit
            FROM picked p WHERE p.place <= most;
            last_credit := coalesce(last_credit, 0);
            last_group := coalesce(last_group, last_visited);
        END
        $forge_pick_jobs$
    $function$, pg_catalog.current_schema());
END
$create$;
COMMENT ON FUNCTION forge_pick_jobs(uuid, text, text[], text, text, int, boolean, int, timestamptz, text, int, text[]) IS
    'Locks pending jobs that may start now according to their limits; groups take turns. For the nodes of the cluster, which claim these jobs in the same statement.';

-- History of jobs ------------------------------------------------------------------------------------------------------------------------

-- Nodes add what they have ended every ten seconds, so a row changes up to six times for each node. No index contains a column that
-- changes: the updates stay heap-only.
CREATE TABLE forge_job_history (
    name              text NOT NULL,
    slot              timestamptz NOT NULL,
    minutes           smallint NOT NULL,
    completed         bigint NOT NULL DEFAULT 0,
    failed            bigint NOT NULL DEFAULT 0,
    retried           bigint NOT NULL DEFAULT 0,
    recovered         bigint NOT NULL DEFAULT 0,
    due               bigint,
    oldest_due_millis bigint,
    running           bigint,
    waits             int[] NOT NULL DEFAULT '{}',
    runs              int[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (name, slot, minutes),
    CONSTRAINT forge_job_history_minutes CHECK (minutes IN (1, 10))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
-- Rows that are rolled up or deleted.
CREATE INDEX forge_job_history_age ON forge_job_history (minutes, slot);
COMMENT ON TABLE forge_job_history IS
    'Numbers and times of jobs by minute, and after six hours by ten minutes, for charts. Kept for forge.cluster.history.retention.';
COMMENT ON COLUMN forge_job_history.name IS
    'Name of the jobs. Empty: all jobs. (other): jobs of names beyond the largest number that a node counts separately.';
COMMENT ON COLUMN forge_job_history.slot IS 'Beginning of the time, by the clock of the database.';
COMMENT ON COLUMN forge_job_history.minutes IS 'Length of the time: 1 or 10 minutes.';
COMMENT ON COLUMN forge_job_history.completed IS 'Number of jobs that completed.';
COMMENT ON COLUMN forge_job_history.failed IS 'Number of jobs that failed or were abandoned: there is no further attempt.';
COMMENT ON COLUMN forge_job_history.retried IS 'Number of failed attempts after which the job is tried again.';
COMMENT ON COLUMN forge_job_history.recovered IS 'Number of times that a job was taken from a dead or silent node.';
COMMENT ON COLUMN forge_job_history.due IS
    'Largest number of due jobs that had not started, of the samples that the leader takes once a minute. NULL: no sample.';
COMMENT ON COLUMN forge_job_history.oldest_due_millis IS 'Largest age of the oldest due job, in milliseconds, of the same samples.';
COMMENT ON COLUMN forge_job_history.running IS 'Largest number of running jobs, of the same samples.';
COMMENT ON COLUMN forge_job_history.waits IS
    'Number of attempts by the time that they had been due at their start. First element: less than 1 ms; element n: less than 2^((n - 1) / 2) ms; element 64: all longer ones. Missing elements are 0.';
COMMENT ON COLUMN forge_job_history.runs IS 'Number of attempts that completed or failed, by the time that they ran; as in waits.';

-- Crons ------------------------------------------------------------------------------------------------------------------------------

CREATE TABLE forge_crons (
    -- One row that cannot be fired would fail its batch, and with it all other crons of the batch.
    name              forge_job_name PRIMARY KEY,
    handler           forge_job_name,
    payload           jsonb NOT NULL DEFAULT '{}',
    expression        text NOT NULL,
    zone              text NOT NULL DEFAULT 'UTC',
    target            text NOT NULL DEFAULT 'leader',
    worker_capability forge_job_capability,
    misfire           text NOT NULL DEFAULT 'fire-once',
    overlap           text NOT NULL DEFAULT 'skip',
    catch_up_limit    int NOT NULL DEFAULT 10,
    jitter_millis     bigint NOT NULL DEFAULT 0,
    max_attempts      int,
    priority          forge_job_priority NOT NULL DEFAULT 50,
    timeout_millis    bigint,
    retention_millis  bigint,
    job_group         forge_job_group,
    declared          boolean NOT NULL DEFAULT true,
    paused            boolean NOT NULL DEFAULT false,
    next_fire_at      timestamptz,
    last_fire_at      timestamptz,
    last_job_id       uuid,
    problem           text,
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT forge_crons_target CHECK (target IN ('leader', 'any-worker')),
    CONSTRAINT forge_crons_misfire CHECK (misfire IN ('skip', 'fire-once', 'catch-up')),
    CONSTRAINT forge_crons_overlap CHECK (overlap IN ('skip', 'allow')),
    CONSTRAINT forge_crons_limits CHECK (catch_up_limit BETWEEN 1 AND 1000 AND max_attempts >= 1 AND jitter_millis >= 0
        AND timeout_millis >= 1 AND retention_millis >= 0),
    CONSTRAINT forge_crons_next_fire_at CHECK (next_fire_at >= '1970-01-01 00:00:00+00')
) WITH (fillfactor = 80);
-- Includes paused crons: their slots are recorded as skipped.
CREATE INDEX forge_crons_next ON forge_crons (next_fire_at, name);
COMMENT ON TABLE forge_crons IS 'Crons: schedules that enqueue a job for each slot.';
COMMENT ON COLUMN forge_crons.name IS 'Name of the cron.';
COMMENT ON COLUMN forge_crons.handler IS 'Name of the job that runs. NULL: the name of the cron.';
COMMENT ON COLUMN forge_crons.payload IS 'Payload of the jobs.';
COMMENT ON COLUMN forge_crons.expression IS 'Cron expression.';
COMMENT ON COLUMN forge_crons.zone IS 'Time zone of the expression.';
COMMENT ON COLUMN forge_crons.target IS 'Nodes that may run the jobs: leader (of the scheduler role) or any-worker.';
COMMENT ON COLUMN forge_crons.worker_capability IS 'Capability that the node must have. NULL: none.';
COMMENT ON COLUMN forge_crons.misfire IS 'Handling of slots that nobody fired in time: skip, fire-once or catch-up.';
COMMENT ON COLUMN forge_crons.overlap IS 'Handling of a slot whose predecessor still runs: skip or allow.';
COMMENT ON COLUMN forge_crons.catch_up_limit IS 'Largest number of missed slots that catch-up fires.';
COMMENT ON COLUMN forge_crons.jitter_millis IS 'Largest random delay of a job, in milliseconds.';
COMMENT ON COLUMN forge_crons.max_attempts IS 'Attempts of a job. NULL: as configured on the node that runs it.';
COMMENT ON COLUMN forge_crons.priority IS 'Priority of the jobs.';
COMMENT ON COLUMN forge_crons.timeout_millis IS 'Longest duration of an attempt, in milliseconds. NULL: as the handler declares.';
COMMENT ON COLUMN forge_crons.retention_millis IS 'How long a finished job is kept, in milliseconds. NULL: as the handler declares.';
COMMENT ON COLUMN forge_crons.job_group IS 'Group of the jobs. NULL: as the handler declares.';
COMMENT ON COLUMN forge_crons.declared IS 'Whether the code of an application declares the cron. False: it was created at run time.';
COMMENT ON COLUMN forge_crons.paused IS 'Whether the cron is paused. Pauses survive restarts.';
COMMENT ON COLUMN forge_crons.next_fire_at IS 'First slot that was not decided yet. NULL: the expression has no further slot.';
COMMENT ON COLUMN forge_crons.last_fire_at IS 'Last slot that ran. NULL: none.';
COMMENT ON COLUMN forge_crons.last_job_id IS 'Job of the last run. As long as it is active, another run would overlap.';
COMMENT ON COLUMN forge_crons.problem IS 'Reason why the cron does not fire, as the leader reported it. NULL: it fires.';
COMMENT ON COLUMN forge_crons.updated_at IS 'Time of the last change to the definition or the pause, for operators.';

CREATE TABLE forge_cron_runs (
    cron        text NOT NULL,
    slot        timestamptz NOT NULL,
    outcome     text NOT NULL,
    reason      text,
    job_id      uuid,
    term        bigint,
    fired_at    timestamptz NOT NULL DEFAULT now(),
    job_status  text,
    attempts    int,
    last_error  text,
    started_at  timestamptz,
    finished_at timestamptz,
    PRIMARY KEY (cron, slot),
    CONSTRAINT forge_cron_runs_outcome CHECK (outcome IN ('ran', 'skipped', 'missed'))
);
CREATE INDEX forge_cron_runs_age ON forge_cron_runs (fired_at);
-- Finds the last run of a cron, however many slots were skipped since.
CREATE INDEX forge_cron_runs_ran ON forge_cron_runs (cron, slot) WHERE outcome = 'ran';
COMMENT ON TABLE forge_cron_runs IS
    'Decisions about slots: one row for each slot of each cron, kept for forge.cluster.cron.retention. While the row of the job exists, that row holds the status of the run.';
COMMENT ON COLUMN forge_cron_runs.cron IS 'Name of the cron.';
COMMENT ON COLUMN forge_cron_runs.slot IS 'Planned time.';
COMMENT ON COLUMN forge_cron_runs.outcome IS 'ran (a job was enqueued), skipped (on purpose) or missed (no node could fire it in time).';
COMMENT ON COLUMN forge_cron_runs.reason IS 'Reason why the slot did not run, or ran outside the schedule. NULL: it ran as planned.';
COMMENT ON COLUMN forge_cron_runs.job_id IS 'Job of the run. NULL: there was none.';
COMMENT ON COLUMN forge_cron_runs.term IS 'Term of the leader that decided. NULL: a caller of Crons did.';
COMMENT ON COLUMN forge_cron_runs.fired_at IS 'Time of the decision.';
COMMENT ON COLUMN forge_cron_runs.job_status IS 'Last status of the job. Set when its row is deleted, like the columns below.';
COMMENT ON COLUMN forge_cron_runs.attempts IS 'Attempts of the job.';
COMMENT ON COLUMN forge_cron_runs.last_error IS 'Last error of the job, at most 2000 characters.';
COMMENT ON COLUMN forge_cron_runs.started_at IS 'Start of the last attempt of the job.';
COMMENT ON COLUMN forge_cron_runs.finished_at IS 'Time at which the job finished.';

DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_cron_job_deleted() RETURNS trigger LANGUAGE plpgsql
            SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $body$
        BEGIN
            UPDATE %1$I.forge_cron_runs
            SET job_status = OLD.status, attempts = OLD.attempts, last_error = left(OLD.last_error, 2000),
                started_at = OLD.started_at, finished_at = OLD.finished_at
            WHERE cron = OLD.metadata ->> 'cron' AND slot = (OLD.metadata ->> 'slot')::timestamptz AND job_id = OLD.id;
            RETURN NULL;
        EXCEPTION WHEN data_exception THEN
            -- A job of the application that uses these keys in its own metadata.
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema());
END
$create$;
COMMENT ON FUNCTION forge_cron_job_deleted() IS
    'Trigger: copies the outcome of a job to the row of its slot when the job is deleted by a worker, the log compactor or an operator.';
CREATE TRIGGER forge_jobs_cron_deleted AFTER DELETE ON forge_jobs FOR EACH ROW
    WHEN (OLD.metadata ? 'cron' AND OLD.metadata ? 'slot')
    EXECUTE FUNCTION forge_cron_job_deleted();

CREATE TABLE forge_cron_sets (
    digest        text PRIMARY KEY,
    definitions   jsonb NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- If live nodes declare a cron differently, the set that was first seen last is the newest build and wins. So an old node that
-- restarts during a deployment changes nothing.
COMMENT ON TABLE forge_cron_sets IS
    'Crons that one build of an application declares. Nodes of that build carry the digest in forge_nodes.info.';
COMMENT ON COLUMN forge_cron_sets.digest IS 'Digest of the definitions.';
COMMENT ON COLUMN forge_cron_sets.definitions IS 'Declared crons as a JSON array.';
COMMENT ON COLUMN forge_cron_sets.first_seen_at IS 'Start of the first node that declared them.';
COMMENT ON COLUMN forge_cron_sets.last_seen_at IS 'Last time at which a live node declared them. Old sets are deleted.';

-- Not in forge_crons, where the rows would fire.
CREATE TABLE forge_cron_memories (
    name         text PRIMARY KEY,
    expression   text NOT NULL,
    zone         text NOT NULL,
    next_fire_at timestamptz,
    last_fire_at timestamptz,
    last_job_id  uuid,
    removed_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE forge_cron_memories IS 'Removed crons, so that a cron that is declared or created again continues where it stopped.';
COMMENT ON COLUMN forge_cron_memories.name IS 'Name of the cron.';
COMMENT ON COLUMN forge_cron_memories.expression IS 'Cron expression at that time. The cron continues only if expression and zone are unchanged.';
COMMENT ON COLUMN forge_cron_memories.zone IS 'Time zone of the expression.';
COMMENT ON COLUMN forge_cron_memories.next_fire_at IS
    'First slot that was not decided. NULL: a caller deleted the cron, so it starts with the next slot from now on.';
COMMENT ON COLUMN forge_cron_memories.last_fire_at IS 'Last slot that ran.';
COMMENT ON COLUMN forge_cron_memories.last_job_id IS 'Job of the last run.';
COMMENT ON COLUMN forge_cron_memories.removed_at IS 'Time of the removal.';

-- Daemons ----------------------------------------------------------------------------------------------------------------------------

-- Notes are written once a second, hence the storage parameters.
CREATE TABLE forge_daemons (
    name       text NOT NULL,
    instance   int NOT NULL DEFAULT 0,
    scope      text NOT NULL DEFAULT 'cluster',
    status     text NOT NULL DEFAULT 'pending',
    node_id    uuid,
    term       bigint NOT NULL DEFAULT 0,
    started_at timestamptz,
    restarts   int NOT NULL DEFAULT 0,
    last_error text,
    note       text,
    PRIMARY KEY (name, instance),
    CONSTRAINT forge_daemons_scope CHECK (scope IN ('cluster', 'node')),
    CONSTRAINT forge_daemons_status CHECK
        (status IN ('pending', 'acquiring', 'running', 'stopping', 'stopped', 'failed', 'restarting'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE forge_daemons IS 'Instances of daemons.';
COMMENT ON COLUMN forge_daemons.name IS 'Name of the daemon.';
COMMENT ON COLUMN forge_daemons.instance IS 'Number of the instance, from 0.';
COMMENT ON COLUMN forge_daemons.scope IS
    'cluster: instances are assigned by election. node: one instance for each node that runs the daemon; its row is deleted with the node.';
COMMENT ON COLUMN forge_daemons.status IS
    'pending, acquiring, running, restarting, stopping, stopped (its method returned) or failed (it threw too often).';
COMMENT ON COLUMN forge_daemons.node_id IS 'Node that runs the instance. NULL: none.';
COMMENT ON COLUMN forge_daemons.term IS 'Term of the election. 0 in scope node.';
COMMENT ON COLUMN forge_daemons.started_at IS 'Start of the current run of the method.';
COMMENT ON COLUMN forge_daemons.restarts IS 'Number of restarts after failures.';
COMMENT ON COLUMN forge_daemons.last_error IS 'Error that the method threw last. NULL: none since it recovered.';
COMMENT ON COLUMN forge_daemons.note IS 'Last note that the daemon wrote about its work.';

-- A table of its own: instances of scope node come and go, and a pause must outlive them.
CREATE TABLE forge_daemon_pauses (
    name      forge_job_name PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE forge_daemon_pauses IS 'Names of daemons that are paused. Pauses survive restarts.';
COMMENT ON COLUMN forge_daemon_pauses.name IS 'Name of the daemon.';
COMMENT ON COLUMN forge_daemon_pauses.paused_at IS 'Time of the pause, for operators.';

-- Workflows --------------------------------------------------------------------------------------------------------------------------

CREATE TABLE forge_workflow_runs (
    id                uuid PRIMARY KEY,
    workflow_name     text NOT NULL,
    workflow_version  text NOT NULL,
    run_key           text,
    parent_id         uuid,
    job_id            uuid,
    status            text NOT NULL DEFAULT 'running',
    unwinding         boolean NOT NULL DEFAULT false,
    awaits            text,
    wake_seq          forge_counter NOT NULL DEFAULT 0,
    input             jsonb,
    input_bytes       int,
    result            jsonb,
    last_error        text,
    resolution_reason text,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    finished_at       timestamptz,
    CONSTRAINT forge_workflow_runs_status CHECK (status IN
        ('running', 'waiting', 'compensating', 'completed', 'compensated', 'failed', 'blocked_missing_version',
         'blocked_signature_mismatch', 'retired_unresumable', 'cancelled_by_operator'))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
COMMENT ON TABLE forge_workflow_runs IS 'Runs of workflows. A job with the same id carries each run.';
COMMENT ON COLUMN forge_workflow_runs.id IS 'Identity of the run and of its job.';
COMMENT ON COLUMN forge_workflow_runs.workflow_name IS 'Name of the workflow.';
COMMENT ON COLUMN forge_workflow_runs.workflow_version IS 'Version of the workflow that the run started with and keeps.';
COMMENT ON COLUMN forge_workflow_runs.run_key IS 'Key that identifies the run for its starter, unique for each workflow. NULL: none.';
COMMENT ON COLUMN forge_workflow_runs.parent_id IS 'Run that started this one as a child. NULL: none.';
COMMENT ON COLUMN forge_workflow_runs.job_id IS 'Job that carries the run: always its own id.';
COMMENT ON COLUMN forge_workflow_runs.status IS
    'running, waiting or compensating; blocked_missing_version, blocked_signature_mismatch; completed, compensated or failed. Operators may set retired_unresumable and cancelled_by_operator, which end the run and its job.';
COMMENT ON COLUMN forge_workflow_runs.unwinding IS 'Whether the run compensates its steps. Remains true while the run is blocked.';
COMMENT ON COLUMN forge_workflow_runs.awaits IS 'Name of the signal that the run waits for: only that signal wakes it. NULL: none.';
COMMENT ON COLUMN forge_workflow_runs.wake_seq IS
    'Number of wake-ups. A run that is about to wait compares it with the number that it has seen, so no signal is lost.';
COMMENT ON COLUMN forge_workflow_runs.input IS 'Input of the workflow.';
COMMENT ON COLUMN forge_workflow_runs.input_bytes IS 'Size of the printed input. NULL: unknown.';
COMMENT ON COLUMN forge_workflow_runs.result IS 'Value that the workflow returned.';
COMMENT ON COLUMN forge_workflow_runs.last_error IS 'Last error of the run.';
COMMENT ON COLUMN forge_workflow_runs.resolution_reason IS 'Reason of a cancellation, or of the status that an operator set.';
COMMENT ON COLUMN forge_workflow_runs.created_at IS 'Time at which the run was started.';
COMMENT ON COLUMN forge_workflow_runs.updated_at IS 'Time of the last change.';
COMMENT ON COLUMN forge_workflow_runs.finished_at IS 'Time at which the run finished. NULL: it is in flight.';

CREATE UNIQUE INDEX forge_workflow_runs_key ON forge_workflow_runs (workflow_name, run_key)
    WHERE run_key IS NOT NULL;
CREATE INDEX forge_workflow_runs_children ON forge_workflow_runs (parent_id) WHERE parent_id IS NOT NULL;
-- Contains the status, so that runs are counted without reading the table.
CREATE INDEX forge_workflow_runs_in_flight ON forge_workflow_runs (workflow_name, workflow_version, status)
    WHERE status NOT IN ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator');
-- The leader checks runs in flight in slices and reads no finished run.
CREATE INDEX forge_workflow_runs_in_flight_by_id ON forge_workflow_runs (id)
    WHERE status NOT IN ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator');
CREATE INDEX forge_workflow_runs_blocked ON forge_workflow_runs (workflow_name, workflow_version)
    WHERE status = 'blocked_missing_version';
-- Deletion of finished runs. Completed runs and the others have retentions of their own; the deletion reads only runs that are due.
CREATE INDEX forge_workflow_runs_finished ON forge_workflow_runs ((status = 'completed'), finished_at)
    WHERE status IN ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator');

CREATE TABLE forge_workflow_steps (
    run_id                uuid NOT NULL,
    position              int NOT NULL,
    name                  text NOT NULL,
    kind                  text NOT NULL DEFAULT 'step',
    status                text NOT NULL,
    attempts              int NOT NULL DEFAULT 0,
    compensation_attempts int NOT NULL DEFAULT 0,
    beside                int,
    wake_at               timestamptz,
    ref                   uuid,
    result                jsonb,
    result_bytes          int,
    last_error            text,
    attempt_history       jsonb,
    started_at            timestamptz,
    finished_at           timestamptz,
    compensation_started_at timestamptz,
    compensated_at        timestamptz,
    PRIMARY KEY (run_id, position),
    CONSTRAINT forge_workflow_steps_kind CHECK
        (kind IN ('step', 'sleep', 'signal', 'job', 'batch', 'child', 'now', 'uuid', 'state')),
    CONSTRAINT forge_workflow_steps_status CHECK
        (status IN ('waiting', 'retrying', 'completed', 'failed', 'timed_out', 'compensated', 'compensation_failed'))
);
-- A job is kept until the run that awaits it has recorded its result.
CREATE INDEX forge_workflow_steps_awaited ON forge_workflow_steps (ref) WHERE ref IS NOT NULL AND status = 'waiting';
COMMENT ON TABLE forge_workflow_steps IS 'Recorded history of workflow runs. A run that continues replays it.';
COMMENT ON COLUMN forge_workflow_steps.run_id IS 'Run of the step.';
COMMENT ON COLUMN forge_workflow_steps.position IS 'Position in the history of the run.';
COMMENT ON COLUMN forge_workflow_steps.name IS 'Name of the step. Replay checks it.';
COMMENT ON COLUMN forge_workflow_steps.kind IS
    'step (code), sleep, signal (wait for one), job (enqueue and await), batch (await), child (run and await), now, uuid (recorded values) or state (saved with saveState).';
COMMENT ON COLUMN forge_workflow_steps.status IS
    'waiting, retrying, completed, failed or timed_out; after compensation: compensated or compensation_failed.';
COMMENT ON COLUMN forge_workflow_steps.attempts IS 'Number of attempts.';
COMMENT ON COLUMN forge_workflow_steps.compensation_attempts IS 'Number of attempts to compensate the step.';
COMMENT ON COLUMN forge_workflow_steps.beside IS 'Position of the first step of the parallel group. NULL: the step ran alone.';
COMMENT ON COLUMN forge_workflow_steps.wake_at IS 'End of the sleep, of the wait or of the pause before the next attempt.';
COMMENT ON COLUMN forge_workflow_steps.ref IS 'Job or child run that the step awaits.';
COMMENT ON COLUMN forge_workflow_steps.result IS 'Recorded result.';
COMMENT ON COLUMN forge_workflow_steps.result_bytes IS 'Size of the printed result. NULL: unknown.';
COMMENT ON COLUMN forge_workflow_steps.last_error IS 'Error of the last failed attempt.';
COMMENT ON COLUMN forge_workflow_steps.attempt_history IS
    'Last 20 failed attempts to run or to compensate the step, as a JSON array. NULL: there were none.';
COMMENT ON COLUMN forge_workflow_steps.started_at IS 'Start of the first attempt.';
COMMENT ON COLUMN forge_workflow_steps.finished_at IS 'Time at which the step finished.';
COMMENT ON COLUMN forge_workflow_steps.compensation_started_at IS 'Start of the first attempt to compensate the step. NULL: there was none.';
COMMENT ON COLUMN forge_workflow_steps.compensated_at IS 'Time at which the compensation of the step succeeded, or failed for good.';

CREATE TABLE forge_workflow_signals (
    id            uuid PRIMARY KEY,
    run_id        uuid NOT NULL,
    name          text NOT NULL,
    payload       jsonb,
    payload_bytes int,
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT forge_workflow_signals_name CHECK
        (name <> '' AND char_length(name) <= 500 AND name !~ '[\x01-\x1f\x7f-\x9f\u2028\u2029]')
);
CREATE INDEX forge_workflow_signals_run ON forge_workflow_signals (run_id, name);
COMMENT ON TABLE forge_workflow_signals IS
    'Signals that were sent to workflow runs and not consumed yet. A consumed signal is part of the step that awaited it.';
COMMENT ON COLUMN forge_workflow_signals.id IS 'Identity of the signal. It orders the signals of a run.';
COMMENT ON COLUMN forge_workflow_signals.run_id IS 'Run that receives the signal.';
COMMENT ON COLUMN forge_workflow_signals.name IS 'Name of the signal.';
COMMENT ON COLUMN forge_workflow_signals.payload IS 'Value of the signal.';
COMMENT ON COLUMN forge_workflow_signals.payload_bytes IS 'Size of the printed payload. NULL: unknown.';
COMMENT ON COLUMN forge_workflow_signals.created_at IS 'Time at which the signal was sent.';

-- An operator who resolves a run by SQL ends its job in the same transaction. Without the job its holder can write nothing more.
CREATE FUNCTION forge_workflow_resolve() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.finished_at := coalesce(NEW.finished_at, clock_timestamp());
    NEW.awaits := NULL;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION forge_workflow_resolve() IS 'Trigger: completes the row of a run that an operator resolves.';
CREATE TRIGGER forge_workflow_runs_resolve BEFORE UPDATE OF status ON forge_workflow_runs FOR EACH ROW
    WHEN (NEW.status IN ('retired_unresumable', 'cancelled_by_operator') AND NEW.status <> OLD.status)
    EXECUTE FUNCTION forge_workflow_resolve();

-- The two functions below have the rights of the owner, so a role that may change runs need not be allowed to change jobs, nor the
-- other way round. Any role could attach such a function to a temporary table and run its own SQL as the owner. Therefore no other
-- role may execute them, and they refuse every table but their own.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_workflow_resolved() RETURNS trigger LANGUAGE plpgsql
            SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $body$
        BEGIN
            IF TG_RELID <> %2$L::regclass THEN
                RAISE insufficient_privilege USING MESSAGE = 'forge_workflow_resolved serves no table but ' || %2$L;
            END IF;
            UPDATE %1$I.forge_jobs
            SET status = 'cancelled', finished_at = clock_timestamp(), lease_expires_at = NULL, waits_for = NULL,
                started_at = CASE WHEN worker_id IS NOT NULL THEN started_at END
            -- Not job_id: the role that resolves runs could set it to any job.
            WHERE id = OLD.id AND name LIKE 'workflow:%%' AND status IN ('pending', 'claimed', 'running');
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema(), pg_catalog.format('%I.forge_workflow_runs', pg_catalog.current_schema()));
END
$create$;
REVOKE ALL ON FUNCTION forge_workflow_resolved() FROM PUBLIC;
COMMENT ON FUNCTION forge_workflow_resolved() IS
    'Trigger: cancels the job of a run that an operator resolves. Runs with the rights of its owner.';
CREATE TRIGGER forge_workflow_runs_resolved AFTER UPDATE OF status ON forge_workflow_runs FOR EACH ROW
    WHEN (NEW.status IN ('retired_unresumable', 'cancelled_by_operator') AND NEW.status <> OLD.status)
    EXECUTE FUNCTION forge_workflow_resolved();

-- All other statements lock a run before its job. This one has locked the job already, so it must not wait for the run: SKIP LOCKED.
-- The library fails a run that was skipped as soon as its lock is free.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_workflow_job_ended() RETURNS trigger LANGUAGE plpgsql
            SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $body$
        BEGIN
            IF TG_RELID <> %2$L::regclass THEN
                RAISE insufficient_privilege USING MESSAGE = 'forge_workflow_job_ended serves no table but ' || %2$L;
            END IF;
            IF OLD.name LIKE 'workflow:%%' AND OLD.status IN ('pending', 'claimed', 'running')
               AND (NEW.status IN ('failed', 'cancelled', 'abandoned')
                    -- Completed by an operator. A node that completes a run has finished the run before and clears the lease of the job.
                    OR NEW.status = 'completed' AND (OLD.status = 'pending' OR NEW.lease_expires_at IS NOT NULL)) THEN
                UPDATE %1$I.forge_workflow_runs
                SET status = 'failed', finished_at = clock_timestamp(), updated_at = clock_timestamp(), awaits = NULL,
                    last_error = 'its job was ' || NEW.status || coalesce(': ' || NEW.last_error, '')
                WHERE id = (SELECT r.id FROM %1$I.forge_workflow_runs r
                            WHERE r.id = OLD.id AND r.status NOT IN
                                ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator')
                            FOR NO KEY UPDATE SKIP LOCKED);
            END IF;
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema(), pg_catalog.format('%I.forge_jobs', pg_catalog.current_schema()));
END
$create$;
REVOKE ALL ON FUNCTION forge_workflow_job_ended() FROM PUBLIC;
COMMENT ON FUNCTION forge_workflow_job_ended() IS
    'Trigger: fails a run whose job ended without it (abandoned, or changed by an operator). The run can be retried or cancelled. Runs with the rights of its owner.';
-- A short condition, as for forge_jobs_ended.
CREATE TRIGGER forge_jobs_workflow_ended AFTER UPDATE OF status ON forge_jobs FOR EACH ROW
    WHEN (NEW.carries_run)
    EXECUTE FUNCTION forge_workflow_job_ended();

-- Rate limits ------------------------------------------------------------------------------------------------------------------------

-- UNLOGGED: after a crash of the server every bucket is full again. Stores the spent tokens, not the remaining ones, so that a
-- changed limit applies at once. No index but the key: every call updates a row in place.
CREATE UNLOGGED TABLE forge_rate_limits (
    bucket     text PRIMARY KEY,
    spent      double precision NOT NULL,
    capacity   double precision NOT NULL,
    per_second double precision NOT NULL,
    granted    integer NOT NULL,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE forge_rate_limits IS 'Token buckets of rate limits. A bucket without a row is full.';
COMMENT ON COLUMN forge_rate_limits.bucket IS 'Name of the bucket.';
COMMENT ON COLUMN forge_rate_limits.spent IS 'Tokens that were spent and had not been refilled at updated_at.';
COMMENT ON COLUMN forge_rate_limits.capacity IS 'Tokens in a full bucket, according to the last caller.';
COMMENT ON COLUMN forge_rate_limits.per_second IS 'Tokens that are refilled each second, according to the last caller.';
COMMENT ON COLUMN forge_rate_limits.granted IS 'Number of calls that the last statement admitted. That statement returns it.';
COMMENT ON COLUMN forge_rate_limits.updated_at IS 'Time to which spent refers.';

-- Audit trail ------------------------------------------------------------------------------------------------------------------------

CREATE TABLE forge_audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    who     text NOT NULL,
    address text,
    source  text NOT NULL,
    action  text NOT NULL,
    target  text NOT NULL,
    detail  text,
    count   bigint NOT NULL,
    reason  text,
    call    uuid,
    CONSTRAINT forge_audit_source CHECK (source IN ('dashboard', 'endpoint', 'http', 'java', 'sql')),
    CONSTRAINT forge_audit_count CHECK (count >= 1),
    CONSTRAINT forge_audit_texts CHECK
        (pg_catalog.char_length(who) <= 500 AND pg_catalog.char_length(address) <= 100 AND pg_catalog.char_length(action) <= 100
         AND pg_catalog.char_length(target) <= 500 AND pg_catalog.char_length(detail) <= 1000
         AND pg_catalog.char_length(reason) <= 1000)
);
-- The primary key serves lists, newest first.
CREATE INDEX forge_audit_target ON forge_audit (target, id);
CREATE INDEX forge_audit_age ON forge_audit (at);
COMMENT ON TABLE forge_audit IS
    'Operations on the cluster: who changed what. Rows are only added. Only the owner may change them, or delete rows of the last seven days.';
COMMENT ON COLUMN forge_audit.id IS 'Number of the row. Newer rows have larger numbers.';
COMMENT ON COLUMN forge_audit.at IS 'Time of the change.';
COMMENT ON COLUMN forge_audit.who IS 'Principal of the operator. Source sql: the role that opened the session.';
COMMENT ON COLUMN forge_audit.address IS 'Address of the client. NULL: unknown.';
COMMENT ON COLUMN forge_audit.source IS 'Way on which the operation came: dashboard, endpoint, http, java or sql.';
COMMENT ON COLUMN forge_audit.action IS 'What was done, such as job.cancel.';
COMMENT ON COLUMN forge_audit.target IS 'Id or name of what was changed, or text of the filter of a bulk operation.';
COMMENT ON COLUMN forge_audit.detail IS 'New value, such as a limit or a time. NULL: none.';
COMMENT ON COLUMN forge_audit.count IS 'Number of jobs, runs or other things that were changed.';
COMMENT ON COLUMN forge_audit.reason IS 'Reason that the operator gave. NULL: none.';
COMMENT ON COLUMN forge_audit.call IS
    'Call of a bulk operation, which adds a row with each batch of jobs that it commits. NULL: the row is the only one of its call.';
COMMENT ON SEQUENCE forge_audit_id_seq IS 'Numbers of forge_audit.id.';

-- Default privileges may have granted rights on the new table.
DO $revoke$
DECLARE
    other text;
BEGIN
    FOR other IN
        SELECT DISTINCT CASE WHEN a.grantee = 0::oid THEN 'PUBLIC'::text ELSE pg_catalog.quote_ident(r.rolname::text) END
        FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) a
        LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE n.nspname = pg_catalog.current_schema() AND c.relname = 'forge_audit'::name AND a.grantee <> c.relowner
    LOOP
        EXECUTE pg_catalog.format('REVOKE UPDATE, TRUNCATE, REFERENCES, TRIGGER ON %I.forge_audit FROM %s',
                                  pg_catalog.current_schema(), other);
    END LOOP;
END
$revoke$;

-- A grant on all tables of the schema includes this one, therefore a trigger enforces what the rights do not.
CREATE FUNCTION forge_keep_audit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Nodes delete rows after their retention, which is longer.
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < clock_timestamp() - interval '7 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    IF NOT pg_has_role(current_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
        RAISE insufficient_privilege USING MESSAGE =
            'permission denied: only the owner of forge_audit may change its rows, or delete rows of the last seven days';
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION forge_keep_audit() IS 'Trigger: rejects changes of the audit trail by roles that do not own it.';
CREATE TRIGGER forge_audit_deleted BEFORE DELETE ON forge_audit FOR EACH ROW EXECUTE FUNCTION forge_keep_audit();
CREATE TRIGGER forge_audit_changed BEFORE UPDATE OR TRUNCATE ON forge_audit FOR EACH STATEMENT EXECUTE FUNCTION forge_keep_audit();

-- The statement may give both columns (OVERRIDING SYSTEM VALUE): an entry in the future would never be deleted, one of the past could
-- be deleted at once, and the number of the next entry would make the operation fail that needs it. The owner restores dumps.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_stamp_audit() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
        BEGIN
            IF NOT pg_has_role(current_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
                NEW.id := nextval(%1$L::regclass);
                NEW.at := clock_timestamp();
            END IF;
            RETURN NEW;
        END
        $body$
    $function$, pg_catalog.format('%I.forge_audit_id_seq', pg_catalog.current_schema()));
END
$create$;
COMMENT ON FUNCTION forge_stamp_audit() IS 'Trigger: sets number and time of entries that roles add which do not own the audit trail.';
CREATE TRIGGER forge_audit_added BEFORE INSERT ON forge_audit FOR EACH ROW EXECUTE FUNCTION forge_stamp_audit();

-- Changes by SQL to the small tables that operators edit. Statements of nodes begin with a comment by which they are recognised: that
-- costs nothing, applies to one statement only, and needs no setting of the session, which a pooler might give to another client. Every
-- role can copy the comment, so it counts only for roles that may write the trail, as nodes must. A role without that right cannot hide,
-- and cannot execute the function on tables of its own.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_audit_statement() RETURNS trigger LANGUAGE plpgsql
            SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
        DECLARE
            -- The role that is in effect outside of this function: none means the one that has logged in.
            acting CONSTANT text := current_setting('role');
            what text;
            which text;
            how text;
        BEGIN
            IF TG_RELID NOT IN (%3$L::regclass, %4$L::regclass, %5$L::regclass, %6$L::regclass, %7$L::regclass) THEN
                RAISE insufficient_privilege USING MESSAGE = 'forge_audit_statement serves tables of Forge Cluster only';
            END IF;
            IF strpos(current_query(), '/* by a node of Forge Cluster */') > 0
               AND has_table_privilege(CASE acting WHEN 'none' THEN session_user ELSE acting::name END,
                                       %2$L::regclass, 'INSERT') THEN
                RETURN NULL;
            END IF;
            which := CASE TG_OP WHEN 'DELETE' THEN OLD.name ELSE NEW.name END;
            CASE TG_TABLE_NAME
                WHEN 'forge_job_limits' THEN
                    IF TG_OP = 'DELETE' THEN
                        what := 'limit.reset';
                    ELSIF TG_OP = 'UPDATE' AND (OLD.name, OLD.overridden, OLD.concurrency, OLD.group_concurrency, OLD.group_rate,
                                                OLD.group_period, OLD.group_burst)
                          IS NOT DISTINCT FROM (NEW.name, NEW.overridden, NEW.concurrency, NEW.group_concurrency, NEW.group_rate,
                                                NEW.group_period, NEW.group_burst) THEN
                        what := 'limit.declare';
                        how := coalesce(nullif(concat_ws(', ', CASE WHEN NEW.ordered THEN 'ordered' END,
                                                         'concurrency ' || NEW.declared_concurrency,
                                                         'group concurrency ' || NEW.declared_group_concurrency,
                                                         'group rate ' || NEW.declared_group_rate
                                                             || ' per ' || NEW.declared_group_period,
                                                         'burst ' || nullif(NEW.declared_group_burst, 1)), ''), 'no limits');
                    ELSE
                        what := CASE WHEN NEW.overridden THEN 'limit.change' ELSE 'limit.reset' END;
                        how := coalesce(nullif(concat_ws(', ', 'concurrency ' || NEW.concurrency,
                                                         'group concurrency ' || NEW.group_concurrency,
                                                         'group rate ' || NEW.group_rate || ' per ' || NEW.group_period,
                                                         'burst ' || nullif(NEW.group_burst, 1)), ''), 'no limits');
                    END IF;
                WHEN 'forge_job_weights' THEN
                    what := 'weight.change';
                    IF TG_OP = 'DELETE' THEN
                        how := format('group %%s: 1', OLD.job_group);
                    ELSE
                        how := format('group %%s: %%s', NEW.job_group, NEW.weight);
                    END IF;
                WHEN 'forge_crons' THEN
                    what := CASE WHEN NEW.paused THEN 'cron.pause' ELSE 'cron.resume' END;
                ELSE
                    what := CASE TG_TABLE_NAME WHEN 'forge_job_pauses' THEN 'name.' ELSE 'daemon.' END
                        || CASE TG_OP WHEN 'DELETE' THEN 'resume' ELSE 'pause' END;
                    IF TG_OP = 'UPDATE' THEN
                        how := format('instead of %%s', OLD.name);
                    END IF;
            END CASE;
            INSERT INTO %1$I.forge_audit (who, address, source, action, target, detail, count)
            VALUES (session_user, host(inet_client_addr()), 'sql', what, left(which, 500), left(how, 1000), 1);
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema(),
        pg_catalog.format('%I.forge_audit', pg_catalog.current_schema()),
        pg_catalog.format('%I.forge_job_pauses', pg_catalog.current_schema()),
        pg_catalog.format('%I.forge_job_limits', pg_catalog.current_schema()),
        pg_catalog.format('%I.forge_job_weights', pg_catalog.current_schema()),
        pg_catalog.format('%I.forge_daemon_pauses', pg_catalog.current_schema()),
        pg_catalog.format('%I.forge_crons', pg_catalog.current_schema()));
END
$create$;
REVOKE ALL ON FUNCTION forge_audit_statement() FROM PUBLIC;
COMMENT ON FUNCTION forge_audit_statement() IS
    'Trigger: records changes by SQL in the audit trail, unless a node made them. Runs with the rights of its owner.';
CREATE TRIGGER forge_job_pauses_audit AFTER INSERT OR UPDATE OF name OR DELETE ON forge_job_pauses FOR EACH ROW
    EXECUTE FUNCTION forge_audit_statement();
CREATE TRIGGER forge_daemon_pauses_audit AFTER INSERT OR UPDATE OF name OR DELETE ON forge_daemon_pauses FOR EACH ROW
    EXECUTE FUNCTION forge_audit_statement();
CREATE TRIGGER forge_job_weights_audit AFTER INSERT OR UPDATE OR DELETE ON forge_job_weights FOR EACH ROW
    EXECUTE FUNCTION forge_audit_statement();
CREATE TRIGGER forge_job_limits_added AFTER INSERT OR DELETE ON forge_job_limits FOR EACH ROW
    EXECUTE FUNCTION forge_audit_statement();
CREATE TRIGGER forge_job_limits_changed AFTER UPDATE ON forge_job_limits FOR EACH ROW
    WHEN ((OLD.name, OLD.overridden, OLD.concurrency, OLD.group_concurrency, OLD.group_rate, OLD.group_period, OLD.group_burst,
           OLD.ordered, OLD.declared_concurrency, OLD.declared_group_concurrency, OLD.declared_group_rate,
           OLD.declared_group_period, OLD.declared_group_burst)
          IS DISTINCT FROM
          (NEW.name, NEW.overridden, NEW.concurrency, NEW.group_concurrency, NEW.group_rate, NEW.group_period, NEW.group_burst,
           NEW.ordered, NEW.declared_concurrency, NEW.declared_group_concurrency, NEW.declared_group_rate,
           NEW.declared_group_period, NEW.declared_group_burst))
    EXECUTE FUNCTION forge_audit_statement();
-- Only for statements that name the column: the leader updates the row of a cron with each slot.
CREATE TRIGGER forge_crons_paused AFTER UPDATE OF paused ON forge_crons FOR EACH ROW
    WHEN (OLD.paused IS DISTINCT FROM NEW.paused)
    EXECUTE FUNCTION forge_audit_statement();

-- Functions for other roles ----------------------------------------------------------------------------------------------------------

-- Has the rights of the owner: a role that enqueues needs EXECUTE and no right on forge_jobs, so it can neither write rows that the
-- function would reject nor a wrong size. The limits and the messages about reserved names are those of Jobs in Java.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_enqueue(
            name text, payload jsonb DEFAULT '{}', priority int DEFAULT 50, capability text DEFAULT NULL,
            scheduled_at timestamptz DEFAULT now(), unique_key text DEFAULT NULL, max_attempts int DEFAULT NULL,
            job_group text DEFAULT NULL, unique_for interval DEFAULT NULL, debounce interval DEFAULT NULL,
            debounce_max interval DEFAULT NULL, tags text[] DEFAULT NULL)
        RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $forge_enqueue$
        DECLARE
            -- UUID of version 7: ids that begin with the time keep the index compact.
            new_id uuid := encode(set_bit(set_bit(
                overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
                52, 1), 53, 1), 'hex')::uuid;
            job_id uuid;
            max_bytes bigint := coalesce((SELECT s.max_payload_bytes FROM %1$I.forge_settings s), pg_size_bytes('1MB'));
            bytes bigint;
            problem text;
            -- A debounce replaces pending jobs, but only those of the same role.
            metadata CONSTANT jsonb :=
                CASE WHEN debounce IS NULL THEN '{}' ELSE jsonb_build_object('forge.role', session_user) END;
            control CONSTANT text := '[\x01-\x1f\x7f-\x9f\u2028\u2029]';
        BEGIN
            problem := CASE
                WHEN name IS NULL OR btrim(name) = '' OR char_length(name) > 500 OR name ~ control
                    THEN 'name must have 1 to 500 characters, no control characters among them'
                WHEN name = '(other)'
                    THEN 'job name ''(other)'' is reserved: reports and metrics sum up further ones under it'
                WHEN capability = '(other)'
                    THEN 'capability ''(other)'' is reserved: reports and metrics sum up further ones under it'
                WHEN starts_with(name, 'workflow:')
                    THEN format('job name ''%%s'': names that begin with workflow: are those of runs of workflows;'
                                || ' Workflows.start begins one', name)
                WHEN starts_with(name, 'daemon:')
                    THEN format('job name ''%%s'': names that begin with daemon: are those of daemons; use another name', name)
                WHEN priority IS NULL OR priority NOT BETWEEN 0 AND 100
                    THEN format('priority %%s must lie between 0 and 100', coalesce(priority::text, 'NULL'))
                WHEN btrim(capability) = '' OR char_length(capability) > 500 OR capability ~ control
                    THEN 'capability must have 1 to 500 characters, no control characters among them'
                WHEN starts_with(capability, '@')
                    THEN format('capability %%s: those that begin with @ are the cluster''s own', capability)
                WHEN btrim(unique_key) = '' OR char_length(unique_key) > 500 OR unique_key ~ control
                    THEN 'unique_key must have 1 to 500 characters, no control characters among them'
                WHEN starts_with(unique_key, '@http/')
                    THEN format('unique key ''%%s'': keys that begin with @http/ are those of jobs submitted over HTTP;'
                                || ' use another key', unique_key)
                WHEN starts_with(unique_key, 'workflow:')
                    THEN format('unique key ''%%s'': keys that begin with workflow: are those of jobs that runs of workflows'
                                || ' wait for; use another key', unique_key)
                WHEN btrim(job_group) = '' OR char_length(job_group) > 500 OR job_group ~ control
                    THEN 'job_group must have 1 to 500 characters, no control characters among them'
                -- What an entry of an index holds, with some room. The row of a job that waits is not in that index before its turn.
                WHEN octet_length(name) + coalesce(octet_length(capability), 0) + coalesce(octet_length(job_group), 0) > 2400
                    THEN 'name, capability and job_group have more than 2400 bytes together'
                WHEN max_attempts < 1
                    THEN format('max_attempts %%s must be at least 1', max_attempts)
                WHEN scheduled_at IS NULL
                    THEN 'scheduled_at must not be NULL'
                WHEN scheduled_at NOT BETWEEN '1970-01-01 00:00:00+00' AND '3000-01-01 00:00:00+00'
                    THEN 'scheduled_at must lie between 1970-01-01 and 3000-01-01'
                WHEN payload IS NULL
                    THEN 'payload must not be NULL; leave it out if there is none'
                WHEN unique_for IS NOT NULL AND unique_key IS NULL
                    THEN 'unique_for needs a unique_key'
                -- In seconds: years with negative days compare as less than they add to a time.
                WHEN extract(epoch FROM unique_for) NOT BETWEEN 0.001 AND 366 * 86400
                    THEN format('unique_for %%s must lie between 1 millisecond and 366 days', unique_for)
                WHEN num_nulls(debounce, debounce_max) = 1
                    THEN 'debounce and debounce_max need each other'
                WHEN debounce IS NOT NULL AND unique_key IS NULL
                    THEN 'debounce needs a unique_key'
                WHEN extract(epoch FROM debounce) < 0.001 OR extract(epoch FROM debounce_max) > 366 * 86400
                     OR extract(epoch FROM debounce) > extract(epoch FROM debounce_max)
                    THEN format('debounce %%s must lie between 1 millisecond and debounce_max (%%s), which must not exceed 366 days',
                                debounce, debounce_max)
                WHEN debounce IS NOT NULL AND unique_for IS NOT NULL
                    THEN 'debounce and unique_for exclude each other'
                WHEN debounce IS NOT NULL AND scheduled_at > clock_timestamp()
                    THEN 'debounce and scheduled_at exclude each other'
            END;
            -- Apart from the conditions above: a query would make all of them expensive.
            IF problem IS NULL AND tags IS NOT NULL THEN
                IF cardinality(tags) > 10 THEN
                    problem := format('%%s tags; at most 10 are possible', cardinality(tags));
                ELSIF EXISTS (SELECT FROM unnest(tags) AS u (tag)
                              WHERE u.tag IS NULL OR btrim(u.tag) = '' OR char_length(u.tag) > 100 OR u.tag ~ control) THEN
                    problem := 'each tag must have 1 to 100 characters, no control characters among them';
                ELSE
                    -- Each tag once, in one dimension; none: NULL.
                    tags := (SELECT array_agg(DISTINCT u.tag) FROM unnest(tags) AS u (tag));
                END IF;
            END IF;
            -- A value that was read from a table may be compressed, and 848 compressed bytes can print as 393 MB. The operator #> with
            -- an empty path returns the same value uncompressed; only then pg_column_size is the size that the checks below need.
            IF problem IS NULL AND pg_column_size(payload) <= 8 * max_bytes THEN
                payload := payload #> '{}';
            END IF;
            -- Small numbers take up to five times as many bytes in jsonb as in print.
            IF problem IS NULL AND pg_column_size(payload) > 8 * max_bytes THEN
                problem := format('payload has more than %%s bytes (forge_settings.max_payload_bytes, which should equal'
                                  || ' forge.cluster.job.max-payload-size); store large data elsewhere and say where it is', max_bytes);
            END IF;
            -- A number of a few bytes prints with up to 131,001 digits, so a payload is printed only if it is short or if all of its
            -- numbers are.
            IF problem IS NULL AND pg_column_size(payload) <= 1000 THEN
                bytes := octet_length(payload::text);
            END IF;
            IF problem IS NULL AND (bytes IS NULL OR bytes > 1000) THEN
                IF jsonb_path_exists(payload, '$.** ? (@.type() == "number"
                        && (@ >= 1e1000 || @ <= -1e1000 || (@ < 1e-1000 && @ > -1e-1000 && @ != 0)))') THEN
                    problem := 'payload holds a number that is printed with more than 1000 digits; store it as a string';
                ELSE
                    bytes := octet_length(payload::text);
                END IF;
            END IF;
            IF problem IS NULL AND bytes > max_bytes THEN
                problem := format('payload has %%s bytes when printed, more than %%s (forge_settings.max_payload_bytes, which should equal'
                                  || ' forge.cluster.job.max-payload-size); store large data elsewhere and say where it is',
                                  bytes, max_bytes);
            END IF;
            IF problem IS NOT NULL THEN
                RAISE EXCEPTION 'forge_enqueue: job %% rejected: %%', quote_nullable(left(name, 100)), problem
                    USING ERRCODE = 'check_violation';
            END IF;
            IF unique_for IS NOT NULL OR debounce IS NOT NULL THEN
                -- In seconds: a day would have 23 hours where the clocks of the session change.
                RETURN %1$I.forge_enqueue_unique(
                    new_id, name, payload, priority, capability, scheduled_at,
                    coalesce(extract(epoch FROM debounce), 0) * interval '1 second', max_attempts, metadata, unique_key,
                    (bytes + octet_length(metadata::text))::int, job_group, false, extract(epoch FROM unique_for) * interval '1 second',
                    extract(epoch FROM debounce_max) * interval '1 second', tags);
            END IF;
            LOOP
                INSERT INTO %1$I.forge_jobs AS j
                    (id, name, payload, priority, worker_capability, scheduled_at, unique_key, max_attempts, body_bytes, job_group, tags)
                VALUES (new_id, forge_enqueue.name, forge_enqueue.payload, forge_enqueue.priority,
                        -- With a time in the past the job would overtake all jobs that were enqueued before it.
                        forge_enqueue.capability, greatest(forge_enqueue.scheduled_at, clock_timestamp()),
                        forge_enqueue.unique_key, forge_enqueue.max_attempts, bytes + 2, forge_enqueue.job_group, forge_enqueue.tags)
                ON CONFLICT DO NOTHING
                RETURNING j.id INTO job_id;
                IF job_id IS NOT NULL THEN
                    IF forge_enqueue.tags IS NOT NULL THEN
                        INSERT INTO %1$I.forge_job_tags (tag, job_id) SELECT u.tag, new_id FROM unnest(forge_enqueue.tags) AS u (tag);
                    END IF;
                    EXIT;
                END IF;
                -- An active job has the key: return its id, unless it has just finished.
                SELECT j.id INTO job_id FROM %1$I.forge_jobs j
                WHERE j.name = forge_enqueue.name AND j.unique_key = forge_enqueue.unique_key
                  AND j.status IN ('pending', 'claimed', 'running');
                EXIT WHEN job_id IS NOT NULL;
            END LOOP;
            RETURN job_id;
        END
        $forge_enqueue$
    $function$, pg_catalog.current_schema());
END
$create$;
REVOKE ALL ON FUNCTION forge_enqueue(text, jsonb, int, text, timestamptz, text, int, text, interval, interval, interval, text[])
    FROM PUBLIC;
COMMENT ON FUNCTION forge_enqueue(text, jsonb, int, text, timestamptz, text, int, text, interval, interval, interval, text[]) IS
    'Enqueues a job and returns its id, or the id of the active job with the same name and unique key, or that of its window (unique_for). Runs with the rights of its owner: a role that enqueues needs EXECUTE only.';

-- Views for operators ----------------------------------------------------------------------------------------------------------------

-- A node declares its own deadline, so one query fits nodes that send heartbeats every second or every minute.
CREATE VIEW scheduler_node AS
SELECT id::text AS node_id,
       CASE WHEN status <> 'dead' AND stale_at > now() THEN now() ELSE last_heartbeat END AS heartbeat_ts,
       started_at,
       info || pg_catalog.jsonb_build_object('name', name, 'key', node_key, 'hostname', hostname, 'status', status,
                                             'roles', roles, 'version', version) AS node_info
FROM forge_nodes;
COMMENT ON VIEW scheduler_node IS 'Nodes, for operators.';
COMMENT ON COLUMN scheduler_node.node_id IS 'Identity of the registration.';
COMMENT ON COLUMN scheduler_node.heartbeat_ts IS 'Current time if the node meets its deadline, otherwise the time of its last heartbeat.';
COMMENT ON COLUMN scheduler_node.started_at IS 'Time of the registration.';
COMMENT ON COLUMN scheduler_node.node_info IS 'Name, key, hostname, status, roles, version and forge_nodes.info.';

CREATE VIEW scheduler_lock AS
SELECT lock_name, owner_node::text AS owner_node, locked_at, expires_at
FROM forge_locks
UNION ALL
SELECT 'leader:' || l.role, l.node_id::text, l.acquired_at, e.lease_until
FROM forge_leaders l
JOIN forge_leader_leases e ON e.role = l.role AND e.node_id = l.node_id;
COMMENT ON VIEW scheduler_lock IS 'Locks and leaders, for operators. Rows whose expires_at has passed are not held.';
COMMENT ON COLUMN scheduler_lock.lock_name IS 'Name of the lock, or leader:ROLE.';
COMMENT ON COLUMN scheduler_lock.owner_node IS 'Node that holds the lock or leads.';
COMMENT ON COLUMN scheduler_lock.locked_at IS 'Time at which the node took the lock or became the leader.';
COMMENT ON COLUMN scheduler_lock.expires_at IS 'End of the lease.';

-- Casts to built-in types, which every role may use: a report can store what it selects in a table of its own (see Rights).
CREATE VIEW scheduler_job AS
SELECT id AS job_id, name::text AS job_name, upper(status) AS status, worker_id::text AS picked_by,
       claimed_at AS picked_at, last_heartbeat AS heartbeat_ts, priority::int AS priority,
       scheduled_at::timestamptz AS scheduled_at, started_at, finished_at, attempts::int AS attempts, last_error, created_at
FROM forge_jobs;
COMMENT ON VIEW scheduler_job IS 'Jobs without payloads and results, for operators.';
COMMENT ON COLUMN scheduler_job.job_id IS 'Identity of the job.';
COMMENT ON COLUMN scheduler_job.job_name IS 'Name of the handler.';
COMMENT ON COLUMN scheduler_job.status IS 'PENDING, CLAIMED, RUNNING, COMPLETED, FAILED, CANCELLED or ABANDONED.';
COMMENT ON COLUMN scheduler_job.picked_by IS 'Node that holds the claim, or held it last.';
COMMENT ON COLUMN scheduler_job.picked_at IS 'Time of the last claim.';
COMMENT ON COLUMN scheduler_job.heartbeat_ts IS 'Last renewal of the lease.';
COMMENT ON COLUMN scheduler_job.priority IS 'Priority from 0 to 100.';
COMMENT ON COLUMN scheduler_job.scheduled_at IS 'Earliest time at which the job may be claimed.';
COMMENT ON COLUMN scheduler_job.started_at IS 'Start of the last attempt.';
COMMENT ON COLUMN scheduler_job.finished_at IS 'Time at which the job finished for good.';
COMMENT ON COLUMN scheduler_job.attempts IS 'Number of attempts.';
COMMENT ON COLUMN scheduler_job.last_error IS 'Error of the last failed attempt.';
COMMENT ON COLUMN scheduler_job.created_at IS 'Time at which the job was enqueued.';

-- Rights -----------------------------------------------------------------------------------------------------------------------------

-- PostgreSQL lets PUBLIC use every new type. So any role that may use the schema could create a table, even a temporary one, with a
-- column of the type of our rows or domains, and ALTER TABLE and ALTER DOMAIN would refuse to change ours as long as that table exists.
-- Reading and writing rows needs no right on types. Includes the history table of Flyway.
DO $revoke$
DECLARE
    own text;
BEGIN
    FOR own IN
        SELECT pg_catalog.quote_ident(t.typname::text) FROM pg_catalog.pg_type t
        WHERE t.typnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = pg_catalog.current_schema())
          AND t.typowner = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
          AND t.typtype IN ('c', 'd') AND t.typname::text ~ '^(forge_|scheduler_(node|lock|job)$)'::text
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON TYPE %I.%s FROM PUBLIC', pg_catalog.current_schema(), own);
    END LOOP;
END
$revoke$;

INSERT INTO forge_schema_versions (version, needs_library) VALUES (1, 1);
