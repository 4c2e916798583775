-- Forge Cluster, schema version 7: what is known of crons that have gone, and of those that cannot be fired.
-- Run like version 1; see there.

ALTER TABLE forge_crons
    -- Why it does not fire, in the words of the leader that tried.
    ADD COLUMN problem text;

-- A cron whose row has gone, should it come back. Apart from the rows: a node of the previous version would fire it.
CREATE TABLE forge_cron_memories (
    name         text PRIMARY KEY,
    expression   text NOT NULL,
    zone         text NOT NULL,
    -- Where it goes on, if its slots are the same. NULL: somebody has deleted it, then it begins anew.
    next_fire_at timestamptz,
    last_fire_at timestamptz,
    last_job_id  uuid,
    removed_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The last run of a cron, however many slots were skipped since.
CREATE INDEX forge_cron_runs_ran ON forge_cron_runs (cron, slot) WHERE outcome = 'ran';

INSERT INTO forge_schema_versions (version, needs_library) VALUES (7, 1);
