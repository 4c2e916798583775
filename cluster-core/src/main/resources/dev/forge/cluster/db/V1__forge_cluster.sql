-- Forge Cluster, schema version 1.
--
-- Runs as it stands with psql too (forge.cluster.schema.mode=validate):
--   psql -v ON_ERROR_STOP=1 -1 -c 'SET search_path TO my_schema' -f V1__forge_cluster.sql
-- Everything is created in the first schema of the search path. Migrations only ever add: nodes of the
-- previous version keep working on the new schema.

CREATE TABLE forge_schema_versions (
    version       int PRIMARY KEY,
    -- The oldest library (by its own newest version) that may work on this schema.
    needs_library int NOT NULL,
    installed_at  timestamptz NOT NULL DEFAULT now()
);

-- Settings ------------------------------------------------------------------------------------------------

CREATE TABLE forge_settings (
    only_row          boolean PRIMARY KEY DEFAULT true,
    -- On which nodes notify each other. Every role that may connect can send on a channel whose name it knows, and a flood would
    -- fill the memory of all nodes. So the name has 122 random bits, and only roles that may read this table know it.
    channel           text NOT NULL DEFAULT 'forge_cluster_'
                          || pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-', ''),
    -- Bytes that forge_enqueue accepts. A table, because any role can change a parameter of its session.
    max_payload_bytes bigint NOT NULL DEFAULT pg_catalog.pg_size_bytes('1MB'),
    CONSTRAINT forge_settings_only_row CHECK (only_row),
    -- Longer names of channels are rejected by NOTIFY.
    CONSTRAINT forge_settings_channel CHECK (pg_catalog.octet_length(channel) BETWEEN 1 AND 63),
    CONSTRAINT forge_settings_max_payload_bytes CHECK (max_payload_bytes BETWEEN 1 AND 100000000)
);
-- Default privileges may have granted it.
REVOKE ALL ON forge_settings FROM PUBLIC;
INSERT INTO forge_settings DEFAULT VALUES;

-- Nodes ---------------------------------------------------------------------------------------------------

-- Statements that count further never fail at the limit, whoever has written the row: counters that only have to change begin anew,
-- and a role whose term is the last one is not led.
CREATE DOMAIN forge_counter AS bigint CONSTRAINT forge_counter CHECK (VALUE BETWEEN 0 AND 1000000000000000000);

CREATE TABLE forge_nodes (
    id                  uuid PRIMARY KEY,
    node_key            text NOT NULL,
    name                text NOT NULL,
    hostname            text NOT NULL,
    roles               text[] NOT NULL,
    worker_capabilities text[] NOT NULL DEFAULT '{}',
    handlers            text[] NOT NULL DEFAULT '{}',
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
    -- The advisory lock that this node's session holds while it lives; NULL: it holds none.
    liveness_key        int,
    CONSTRAINT forge_nodes_status CHECK (status IN ('joining', 'active', 'stale', 'draining', 'dead'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- A node.id belongs to one live node.
CREATE UNIQUE INDEX forge_nodes_live_key ON forge_nodes (node_key) WHERE status <> 'dead';

-- Leadership ----------------------------------------------------------------------------------------------

-- Changed only by election and release: fenced transactions hold a share lock on these rows.
CREATE TABLE forge_leaders (
    role         text PRIMARY KEY,
    node_id      uuid,
    current_term forge_counter NOT NULL DEFAULT 0,
    acquired_at  timestamptz
);

-- Renewed every second, hence apart from the rows that fences lock.
CREATE TABLE forge_leader_leases (
    role           text PRIMARY KEY,
    node_id        uuid,
    lease_until    timestamptz NOT NULL,
    backend_pid    int,
    backend_start  timestamptz,
    -- Until when a former leader, whose session ended without a release, may still believe that it leads.
    disputed_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Jobs ----------------------------------------------------------------------------------------------------

-- What a column may hold is said by its type, not by a CHECK of the table. The checks of a table are parsed anew for each statement
-- and evaluated for each row that changes: here they made the insertion of one job half as expensive again. Those of a domain
-- are cached, and evaluated for the columns that a statement sets.
CREATE DOMAIN forge_job_status AS text CONSTRAINT forge_jobs_status CHECK
    (VALUE IN ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled', 'abandoned'));
-- Room for the prefix and the version of a workflow. No control characters: names and keys are logged.
CREATE DOMAIN forge_job_name AS text CONSTRAINT forge_jobs_name CHECK
    (VALUE <> '' AND pg_catalog.char_length(VALUE) <= 1000 AND VALUE !~ '[\x01-\x1f\x7f-\x9f]');
CREATE DOMAIN forge_job_key AS text CONSTRAINT forge_jobs_key CHECK
    (pg_catalog.char_length(VALUE) <= 500 AND VALUE !~ '[\x01-\x1f\x7f-\x9f]');
CREATE DOMAIN forge_job_capability AS text CONSTRAINT forge_jobs_capability CHECK
    (pg_catalog.char_length(VALUE) <= 500 AND VALUE !~ '[\x01-\x1f\x7f-\x9f]');
CREATE DOMAIN forge_job_priority AS int CONSTRAINT forge_jobs_priority CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN forge_job_time AS timestamptz CONSTRAINT forge_jobs_time CHECK (VALUE >= '1970-01-01 00:00:00+00');
CREATE DOMAIN forge_job_limit AS int CONSTRAINT forge_jobs_limit CHECK (VALUE >= 1);
-- Statements that count further stop at these, so that no row makes them fail, nor the rows beside it.
CREATE DOMAIN forge_job_count AS int CONSTRAINT forge_jobs_count CHECK (VALUE BETWEEN 0 AND 1000000000);
CREATE DOMAIN forge_job_epoch AS bigint CONSTRAINT forge_jobs_epoch CHECK (VALUE BETWEEN 0 AND 1000000000000000000);

CREATE TABLE forge_jobs (
    id                uuid PRIMARY KEY,
    name              forge_job_name NOT NULL,
    payload           jsonb NOT NULL DEFAULT '{}',
    status            forge_job_status NOT NULL DEFAULT 'pending',
    priority          forge_job_priority NOT NULL DEFAULT 50,
    worker_capability forge_job_capability,
    scheduled_at      forge_job_time NOT NULL DEFAULT now(),
    attempts          forge_job_count NOT NULL DEFAULT 0,
    -- NULL: whatever the node that runs it is configured to allow.
    max_attempts      forge_job_limit,
    recoveries        forge_job_count NOT NULL DEFAULT 0,
    worker_id         uuid,
    claim_epoch       forge_job_epoch NOT NULL DEFAULT 0,
    claimed_at        timestamptz,
    started_at        timestamptz,
    last_heartbeat    timestamptz,
    lease_expires_at  timestamptz,
    finished_at       timestamptz,
    progress          jsonb,
    checkpoint        jsonb,
    result            jsonb,
    last_error        text,
    -- The last 20 attempts that failed or whose node was lost, as a JSON array; NULL: there was none.
    attempt_history   jsonb,
    unique_key        forge_job_key,
    metadata          jsonb NOT NULL DEFAULT '{}',
    created_at        timestamptz NOT NULL DEFAULT now(),
    -- How long payload and metadata are when printed, and the checkpoint: a claim reads so many bytes and no more. Whoever
    -- writes them says it, since to print them for each claim would be expensive: nodes and forge_enqueue, so that no other
    -- role should be granted these columns. NULL: unknown, then they are read one by one.
    body_bytes        forge_job_count,
    checkpoint_bytes  forge_job_count
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05);

-- The fast path of a claim, and the selective one taken when it meets too many rows of others.
CREATE INDEX forge_jobs_pending ON forge_jobs (priority DESC, scheduled_at) WHERE status = 'pending';
CREATE INDEX forge_jobs_pending_by_name ON forge_jobs (name, worker_capability, priority DESC, scheduled_at)
    WHERE status = 'pending';
-- Leases are not in the index, so that renewals stay heap-only; the sweeper scans this small index whole.
CREATE INDEX forge_jobs_held ON forge_jobs (worker_id) WHERE status IN ('claimed', 'running');
CREATE INDEX forge_jobs_finished ON forge_jobs (finished_at)
    WHERE status IN ('completed', 'failed', 'cancelled', 'abandoned');
CREATE UNIQUE INDEX forge_jobs_unique_key ON forge_jobs (name, unique_key)
    WHERE unique_key IS NOT NULL AND status IN ('pending', 'claimed', 'running');

-- Cron ----------------------------------------------------------------------------------------------------

CREATE TABLE forge_crons (
    name              text PRIMARY KEY,
    expression        text NOT NULL,
    zone              text NOT NULL DEFAULT 'UTC',
    target            text NOT NULL DEFAULT 'leader',
    worker_capability text,
    misfire           text NOT NULL DEFAULT 'fire-once',
    overlap           text NOT NULL DEFAULT 'skip',
    catch_up_limit    int NOT NULL DEFAULT 10,
    paused            boolean NOT NULL DEFAULT false,
    next_fire_at      timestamptz,
    last_fire_at      timestamptz,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT forge_crons_target CHECK (target IN ('leader', 'any-worker')),
    CONSTRAINT forge_crons_misfire CHECK (misfire IN ('skip', 'fire-once', 'catch-up')),
    CONSTRAINT forge_crons_overlap CHECK (overlap IN ('skip', 'allow'))
) WITH (fillfactor = 80);
CREATE INDEX forge_crons_due ON forge_crons (next_fire_at) WHERE NOT paused;

-- The ledger: exactly one row for every slot of every cron.
CREATE TABLE forge_cron_runs (
    cron     text NOT NULL,
    slot     timestamptz NOT NULL,
    outcome  text NOT NULL,
    reason   text,
    job_id   uuid,
    term     bigint,
    fired_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (cron, slot),
    CONSTRAINT forge_cron_runs_outcome CHECK (outcome IN ('ran', 'skipped', 'missed'))
);
CREATE INDEX forge_cron_runs_age ON forge_cron_runs (fired_at);

-- Daemons -------------------------------------------------------------------------------------------------

CREATE TABLE forge_daemons (
    name       text NOT NULL,
    instance   int NOT NULL DEFAULT 0,
    status     text NOT NULL DEFAULT 'pending',
    node_id    uuid,
    term       bigint NOT NULL DEFAULT 0,
    started_at timestamptz,
    restarts   int NOT NULL DEFAULT 0,
    last_error text,
    note       text,
    PRIMARY KEY (name, instance),
    CONSTRAINT forge_daemons_status CHECK
        (status IN ('pending', 'acquiring', 'running', 'stopping', 'stopped', 'failed', 'restarting'))
);

-- Locks, rate limits, one-time state ------------------------------------------------------------------------

-- One sequence for all locks: a token never repeats, even after a lock's row was purged.
CREATE SEQUENCE forge_lock_tokens;

CREATE TABLE forge_locks (
    lock_name  text PRIMARY KEY,
    owner_node uuid NOT NULL,
    token      bigint NOT NULL DEFAULT nextval('forge_lock_tokens'),
    locked_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);

-- What StartupCoordinator.once has completed. Written by the holder of the action's lock only.
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

-- UNLOGGED: after a crash of the server every bucket is full again.
CREATE UNLOGGED TABLE forge_rate_limits (
    bucket     text PRIMARY KEY,
    tokens     double precision NOT NULL,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX forge_rate_limits_idle ON forge_rate_limits (updated_at);

CREATE TABLE forge_state (
    state_key   text PRIMARY KEY,
    state_value jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL
);
CREATE INDEX forge_state_expiry ON forge_state (expires_at);
-- Pending OAuth2 logins, which are counted before another one begins.
CREATE INDEX forge_state_logins ON forge_state (expires_at) WHERE state_key LIKE '@oauth2/%';

-- Workflows -----------------------------------------------------------------------------------------------

CREATE TABLE forge_workflow_runs (
    id                uuid PRIMARY KEY,
    workflow_name     text NOT NULL,
    workflow_version  text NOT NULL,
    status            text NOT NULL DEFAULT 'running',
    run_key           text,
    input             jsonb,
    result            jsonb,
    last_error        text,
    resolution_reason text,
    wake_seq          forge_counter NOT NULL DEFAULT 0,
    job_id            uuid,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    finished_at       timestamptz,
    CONSTRAINT forge_workflow_runs_status CHECK (status IN
        ('running', 'waiting', 'compensating', 'completed', 'compensated', 'failed', 'blocked_missing_version',
         'blocked_signature_mismatch', 'retired_unresumable', 'cancelled_by_operator'))
);
CREATE UNIQUE INDEX forge_workflow_runs_key ON forge_workflow_runs (workflow_name, run_key)
    WHERE run_key IS NOT NULL;
CREATE INDEX forge_workflow_runs_in_flight ON forge_workflow_runs (workflow_name, workflow_version)
    WHERE status NOT IN ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator');

CREATE TABLE forge_workflow_steps (
    run_id      uuid NOT NULL,
    position    int NOT NULL,
    name        text NOT NULL,
    status      text NOT NULL,
    attempts    int NOT NULL DEFAULT 0,
    result      jsonb,
    last_error  text,
    started_at  timestamptz,
    finished_at timestamptz,
    PRIMARY KEY (run_id, position)
);

CREATE TABLE forge_workflow_signals (
    id            uuid PRIMARY KEY,
    run_id        uuid NOT NULL,
    name          text NOT NULL,
    payload       jsonb,
    created_at    timestamptz NOT NULL DEFAULT now(),
    consumed_at   timestamptz,
    -- How long the payload is when printed; NULL: unknown.
    payload_bytes int,
    CONSTRAINT forge_workflow_signals_name CHECK
        (name <> '' AND char_length(name) <= 500 AND name !~ '[\x01-\x1f\x7f-\x9f]')
);
CREATE INDEX forge_workflow_signals_waiting ON forge_workflow_signals (run_id, name) WHERE consumed_at IS NULL;

-- Views for operators --------------------------------------------------------------------------------------

-- A node declares its own deadline, so that one query fits nodes that beat every second or every minute.
CREATE VIEW scheduler_node AS
SELECT id::text AS node_id,
       CASE WHEN status <> 'dead' AND stale_at > now() THEN now() ELSE last_heartbeat END AS heartbeat_ts,
       started_at,
       info || pg_catalog.jsonb_build_object('name', name, 'key', node_key, 'hostname', hostname, 'status', status,
                                             'roles', roles, 'version', version) AS node_info
FROM forge_nodes;

CREATE VIEW scheduler_lock AS
SELECT lock_name, owner_node::text AS owner_node, locked_at, expires_at
FROM forge_locks
UNION ALL
SELECT 'leader:' || l.role, l.node_id::text, l.acquired_at, e.lease_until
FROM forge_leaders l
JOIN forge_leader_leases e ON e.role = l.role AND e.node_id = l.node_id;

-- Types that everybody may use: a report may store what it selects in a table of its own (see version 9).
CREATE VIEW scheduler_job AS
SELECT id AS job_id, name::text AS job_name, upper(status) AS status, worker_id::text AS picked_by,
       claimed_at AS picked_at, last_heartbeat AS heartbeat_ts, priority::int AS priority,
       scheduled_at::timestamptz AS scheduled_at, started_at, finished_at, attempts::int AS attempts, last_error, created_at
FROM forge_jobs;

-- Enqueue from SQL -----------------------------------------------------------------------------------------

-- Functions name this schema themselves and have a fixed search path: they work for callers whose search path does not
-- contain the schema, and nobody can put functions or operators of the same name in front of ours. pg_catalog.format and
-- the like for the same reason: an overload with exactly these argument types would otherwise be preferred.
-- With the rights of the tables' owner: a role that enqueues needs EXECUTE on the function and nothing else, and so cannot write
-- rows that the function would refuse, nor lie about their size.
-- The limits are those of Jobs in Java. A payload may have 1 MB, as forge.cluster.job.max-payload-size allows by default; who
-- raises that one raises this one: UPDATE forge_settings SET max_payload_bytes = pg_size_bytes('5MB').
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_enqueue(
            name text, payload jsonb DEFAULT '{}', priority int DEFAULT 50, capability text DEFAULT NULL,
            scheduled_at timestamptz DEFAULT now(), unique_key text DEFAULT NULL, max_attempts int DEFAULT NULL)
        RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $forge_enqueue$
        DECLARE
            -- Version 7: the time in front keeps the index compact.
            new_id uuid := encode(set_bit(set_bit(
                overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
                52, 1), 53, 1), 'hex')::uuid;
            job_id uuid;
            max_bytes bigint := coalesce((SELECT s.max_payload_bytes FROM %1$I.forge_settings s), pg_size_bytes('1MB'));
            bytes bigint;
            problem text;
            control CONSTANT text := '[\x01-\x1f\x7f-\x9f]';
        BEGIN
            problem := CASE
                WHEN name IS NULL OR btrim(name) = '' OR char_length(name) > 500 OR name ~ control
                    THEN 'name must have 1 to 500 characters, no control characters among them'
                -- In the words of Jobs.
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
                WHEN max_attempts < 1
                    THEN format('max_attempts %%s must be at least 1', max_attempts)
                WHEN scheduled_at IS NULL
                    THEN 'scheduled_at must not be NULL'
                WHEN scheduled_at < '1970-01-01 00:00:00+00'
                    THEN 'scheduled_at must not lie before 1970'
                WHEN payload IS NULL
                    THEN 'payload must not be NULL; leave it out if there is none'
                -- As stored, small numbers take up to five times as much.
                WHEN pg_column_size(payload) > 8 * max_bytes
                    THEN format('payload has more than %%s bytes (forge_settings.max_payload_bytes, which should equal'
                                || ' forge.cluster.job.max-payload-size); store large data elsewhere and say where it is', max_bytes)
            END;
            -- jsonb prints a number of a few bytes with up to 131,001 digits, so only a short payload is printed before all of
            -- its numbers are known to be short.
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
            LOOP
                INSERT INTO %1$I.forge_jobs AS j
                    (id, name, payload, priority, worker_capability, scheduled_at, unique_key, max_attempts, body_bytes)
                VALUES (new_id, forge_enqueue.name, forge_enqueue.payload, forge_enqueue.priority,
                        -- A time in the past would go before all that others have enqueued.
                        forge_enqueue.capability, greatest(forge_enqueue.scheduled_at, clock_timestamp()),
                        forge_enqueue.unique_key, forge_enqueue.max_attempts, bytes + 2)
                ON CONFLICT DO NOTHING
                RETURNING j.id INTO job_id;
                EXIT WHEN job_id IS NOT NULL;
                -- The key is taken: its active job answers, unless it has just finished.
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
REVOKE ALL ON FUNCTION forge_enqueue(text, jsonb, int, text, timestamptz, text, int) FROM PUBLIC;

INSERT INTO forge_schema_versions (version, needs_library) VALUES (1, 1);
