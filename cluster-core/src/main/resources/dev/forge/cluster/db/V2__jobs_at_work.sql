-- Forge Cluster, schema version 2: what running jobs needs beyond their rows.
-- Run like version 1; see there.

-- Added to the time of a job's end, which must remain a time.
CREATE DOMAIN forge_job_retention AS interval CONSTRAINT forge_jobs_retention CHECK
    (VALUE BETWEEN interval '0 seconds' AND interval '1000 years');
ALTER TABLE forge_jobs
    -- The active job of the same key that must end before this one may run.
    ADD COLUMN waits_for uuid,
    -- How long to keep it once it is finished; NULL: as the cluster is configured.
    ADD COLUMN retention forge_job_retention;

-- One index serves every claim: each asks for one name, capability and priority, oldest first, and so never meets
-- a row that it may not take.
CREATE INDEX forge_jobs_due ON forge_jobs (name, coalesce(worker_capability, ''), priority DESC, scheduled_at)
    WHERE status = 'pending' AND waits_for IS NULL;
DROP INDEX forge_jobs_pending;
DROP INDEX forge_jobs_pending_by_name;

-- One active job for a key, and at most one that waits for it.
CREATE UNIQUE INDEX forge_jobs_active_key ON forge_jobs (name, unique_key)
    WHERE unique_key IS NOT NULL AND waits_for IS NULL AND status IN ('pending', 'claimed', 'running');
CREATE UNIQUE INDEX forge_jobs_successor_key ON forge_jobs (name, unique_key)
    WHERE unique_key IS NOT NULL AND waits_for IS NOT NULL AND status = 'pending';
CREATE INDEX forge_jobs_successors ON forge_jobs (waits_for) WHERE waits_for IS NOT NULL;
DROP INDEX forge_jobs_unique_key;

-- Whoever ends a job, the engine or an operator by hand, frees its successor in the same transaction.
-- Planned anew for each call, here and below: a plan from when the table was small would read all of it.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_free_successor() RETURNS trigger LANGUAGE plpgsql
            SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $body$
        BEGIN
            UPDATE %1$I.forge_jobs SET waits_for = NULL WHERE waits_for = OLD.id AND status = 'pending';
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema());
END
$create$;
CREATE TRIGGER forge_jobs_ended AFTER UPDATE OF status ON forge_jobs FOR EACH ROW
    WHEN (OLD.unique_key IS NOT NULL AND OLD.status IN ('pending', 'claimed', 'running')
          AND NEW.status NOT IN ('pending', 'claimed', 'running'))
    EXECUTE FUNCTION forge_free_successor();
CREATE TRIGGER forge_jobs_deleted AFTER DELETE ON forge_jobs FOR EACH ROW
    WHEN (OLD.unique_key IS NOT NULL AND OLD.status IN ('pending', 'claimed', 'running'))
    EXECUTE FUNCTION forge_free_successor();

CREATE TABLE forge_job_pauses (
    name      text PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO forge_schema_versions (version, needs_library) VALUES (2, 1);
