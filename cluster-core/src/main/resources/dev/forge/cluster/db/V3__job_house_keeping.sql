-- Forge Cluster, schema version 3: what looking after many jobs needs.
-- Run like version 1; see there.

-- How long a finished job is kept depends on how it ended, unless it says so itself. Apart, so that deleting the ones
-- that are due never meets the others. Each finished job is in one of these, as it was in the one before.
CREATE INDEX forge_jobs_completed ON forge_jobs (finished_at)
    WHERE status IN ('completed', 'cancelled') AND retention IS NULL;
CREATE INDEX forge_jobs_failed ON forge_jobs (finished_at)
    WHERE status IN ('failed', 'abandoned') AND retention IS NULL;
-- In UTC: with time zones the sum would not be the same for everybody.
CREATE INDEX forge_jobs_retained ON forge_jobs (((finished_at AT TIME ZONE 'UTC') + retention))
    WHERE status IN ('completed', 'failed', 'cancelled', 'abandoned') AND retention IS NOT NULL;
DROP INDEX forge_jobs_finished;

-- Names that nodes have had handlers for, also after those nodes have gone. Names of jobs do not count: SQL does not check them.
CREATE TABLE forge_job_names (
    name     text PRIMARY KEY,
    added_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO forge_job_names (name)
SELECT DISTINCT pg_catalog.unnest(handlers) FROM forge_nodes;

-- As before, but under a snapshot that began earlier (REPEATABLE READ, SERIALIZABLE) the successor may not be visible,
-- or may have been replaced since, which would fail the whole transaction: then it is freed after the commit, by whoever
-- ended the job or by the sweeper.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE OR REPLACE FUNCTION forge_free_successor() RETURNS trigger LANGUAGE plpgsql
            SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $body$
        BEGIN
            IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
                UPDATE %1$I.forge_jobs SET waits_for = NULL WHERE waits_for = OLD.id AND status = 'pending';
            END IF;
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema());
END
$create$;

INSERT INTO forge_schema_versions (version, needs_library) VALUES (3, 1);
