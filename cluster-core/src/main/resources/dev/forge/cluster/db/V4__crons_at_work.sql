-- Forge Cluster, schema version 4: what firing crons needs beyond their rows.
-- Run like version 1; see there.

ALTER TABLE forge_crons
    -- In the code of an application; otherwise it was made at run time.
    ADD COLUMN declared boolean NOT NULL DEFAULT true,
    -- The name of the job that runs; NULL: the cron's own.
    ADD COLUMN handler text,
    ADD COLUMN payload jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN jitter_millis bigint NOT NULL DEFAULT 0,
    ADD COLUMN max_attempts int,
    -- The latest run: as long as it has not ended, another one would overlap.
    ADD COLUMN last_job_id uuid,
    -- One row that cannot be fired would fail the batch it is in, and so all others.
    ADD CONSTRAINT forge_crons_handler CHECK (name <> '' AND handler <> ''),
    ADD CONSTRAINT forge_crons_limits CHECK (catch_up_limit >= 1 AND max_attempts >= 1 AND jitter_millis >= 0),
    ADD CONSTRAINT forge_crons_next_fire_at CHECK (next_fire_at >= '1970-01-01 00:00:00+00');

-- Paused ones too: their slots pass, and the ledger says so.
CREATE INDEX forge_crons_next ON forge_crons (next_fire_at, name);
DROP INDEX forge_crons_due;

-- What one build of an application declares, under a digest of it; its nodes name that digest in their rows. Where
-- builds differ about a cron, the one that was seen first at the later time is the newer one, and counts as long as a
-- node of it lives: an old node that restarts changes nothing.
CREATE TABLE forge_cron_sets (
    digest        text PRIMARY KEY,
    definitions   jsonb NOT NULL,
    first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

INSERT INTO forge_schema_versions (version, needs_library) VALUES (4, 1);
