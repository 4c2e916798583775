-- Forge Cluster, schema version 8: what running workflows needs beyond their rows.
-- Run like version 1; see there.

-- A run is carried by one job, whose id is the run's own.
ALTER TABLE forge_workflow_runs
    ADD COLUMN parent_id uuid,
    -- The signal it waits for: only that one needs to wake it.
    ADD COLUMN awaits text,
    -- What it has done is being undone, whatever its status says (it may be blocked meanwhile).
    ADD COLUMN unwinding boolean NOT NULL DEFAULT false,
    -- How long its input is when printed; NULL: unknown.
    ADD COLUMN input_bytes int;
ALTER TABLE forge_workflow_runs SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

ALTER TABLE forge_workflow_steps
    ADD COLUMN kind text NOT NULL DEFAULT 'step',
    -- When a sleep, a wait or the pause before the next attempt is over.
    ADD COLUMN wake_at timestamptz,
    -- The job or the child run that it waits for.
    ADD COLUMN ref uuid,
    ADD COLUMN compensation_attempts int NOT NULL DEFAULT 0,
    -- The first of the steps that ran side by side with it.
    ADD COLUMN beside int,
    -- How long its result is when printed; NULL: unknown.
    ADD COLUMN result_bytes int,
    -- The last 20 attempts that failed, to do it and to undo it, as a JSON array; NULL: there was none.
    ADD COLUMN attempt_history jsonb,
    ADD CONSTRAINT forge_workflow_steps_kind CHECK
        (kind IN ('step', 'sleep', 'signal', 'job', 'child', 'now', 'uuid', 'state')),
    ADD CONSTRAINT forge_workflow_steps_status CHECK
        (status IN ('waiting', 'retrying', 'completed', 'failed', 'timed_out', 'compensated', 'compensation_failed'));

CREATE INDEX forge_workflow_runs_finished ON forge_workflow_runs (finished_at)
    WHERE status IN ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator');
-- With the status: so many runs of each are counted without touching the table.
DROP INDEX forge_workflow_runs_in_flight;
CREATE INDEX forge_workflow_runs_in_flight ON forge_workflow_runs (workflow_name, workflow_version, status)
    WHERE status NOT IN ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator');
-- The leader goes through them slice by slice, and meets none that has ended.
CREATE INDEX forge_workflow_runs_in_flight_by_id ON forge_workflow_runs (id)
    WHERE status NOT IN ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator');
CREATE INDEX forge_workflow_runs_blocked ON forge_workflow_runs (workflow_name, workflow_version)
    WHERE status = 'blocked_missing_version';
-- Jobs are kept until the run that waits for them has taken what they returned.
CREATE INDEX forge_workflow_steps_awaited ON forge_workflow_steps (ref) WHERE ref IS NOT NULL AND status = 'waiting';
CREATE INDEX forge_workflow_runs_children ON forge_workflow_runs (parent_id) WHERE parent_id IS NOT NULL;

-- An operator's word is obeyed in the transaction in which it is given: the run's job ends with it, and with the job
-- the right of whoever has it to write anything more. With the rights of the tables' owner: who may change runs need not
-- be allowed to change jobs.
CREATE FUNCTION forge_workflow_resolve() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.finished_at := coalesce(NEW.finished_at, clock_timestamp());
    NEW.awaits := NULL;
    RETURN NEW;
END
$$;
CREATE TRIGGER forge_workflow_runs_resolve BEFORE UPDATE OF status ON forge_workflow_runs FOR EACH ROW
    WHEN (NEW.status IN ('retired_unresumable', 'cancelled_by_operator') AND NEW.status <> OLD.status)
    EXECUTE FUNCTION forge_workflow_resolve();

-- A function that runs with its owner's rights serves its own table only. Otherwise anybody could attach it to a temporary
-- table and run SQL of their own as the owner: so nobody else may attach it, and it refuses every other table.
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
            SET status = 'cancelled', finished_at = clock_timestamp(), lease_expires_at = NULL, waits_for = NULL
            -- Not job_id, which the role that resolves runs could point at any job.
            WHERE id = OLD.id AND name LIKE 'workflow:%%' AND status IN ('pending', 'claimed', 'running');
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema(), pg_catalog.format('%I.forge_workflow_runs', pg_catalog.current_schema()));
END
$create$;
REVOKE ALL ON FUNCTION forge_workflow_resolved() FROM PUBLIC;
CREATE TRIGGER forge_workflow_runs_resolved AFTER UPDATE OF status ON forge_workflow_runs FOR EACH ROW
    WHEN (NEW.status IN ('retired_unresumable', 'cancelled_by_operator') AND NEW.status <> OLD.status)
    EXECUTE FUNCTION forge_workflow_resolved();

-- A run whose job ends without it (abandoned after too many crashes, ended by hand) has failed; it can be retried, or
-- cancelled, which undoes what it has done. Everybody else locks the run before its job: whoever has locked the run may be
-- waiting for the job, and must not be waited for. The library fails such a run as soon as its lock is gone.
DO $create$
BEGIN
    EXECUTE pg_catalog.format($function$
        CREATE FUNCTION forge_workflow_job_ended() RETURNS trigger LANGUAGE plpgsql
            SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $body$
        BEGIN
            IF TG_RELID <> %2$L::regclass THEN
                RAISE insufficient_privilege USING MESSAGE = 'forge_workflow_job_ended serves no table but ' || %2$L;
            END IF;
            UPDATE %1$I.forge_workflow_runs
            SET status = 'failed', finished_at = clock_timestamp(), updated_at = clock_timestamp(), awaits = NULL,
                last_error = 'its job was ' || NEW.status || coalesce(': ' || NEW.last_error, '')
            WHERE id = (SELECT r.id FROM %1$I.forge_workflow_runs r
                        WHERE r.id = OLD.id AND r.status NOT IN
                            ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator')
                        FOR NO KEY UPDATE SKIP LOCKED);
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema(), pg_catalog.format('%I.forge_jobs', pg_catalog.current_schema()));
END
$create$;
REVOKE ALL ON FUNCTION forge_workflow_job_ended() FROM PUBLIC;
CREATE TRIGGER forge_jobs_workflow_ended AFTER UPDATE OF status ON forge_jobs FOR EACH ROW
    WHEN (OLD.status IN ('pending', 'claimed', 'running') AND NEW.name LIKE 'workflow:%'
          AND (NEW.status IN ('failed', 'cancelled', 'abandoned')
               -- By hand: whoever completes a run takes its job's lease away, and the run has ended by then.
               OR NEW.status = 'completed' AND (OLD.status = 'pending' OR NEW.lease_expires_at IS NOT NULL)))
    EXECUTE FUNCTION forge_workflow_job_ended();

INSERT INTO forge_schema_versions (version, needs_library) VALUES (8, 1);
