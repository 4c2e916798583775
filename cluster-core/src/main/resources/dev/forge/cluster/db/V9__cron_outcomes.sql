-- Forge Cluster, schema version 9: what became of a cron's runs is known for as long as the ledger is.
-- Run like version 1; see there.

-- Filled when the job's row is deleted, which may be days before the ledger's; until then the job's row says it.
ALTER TABLE forge_cron_runs
    ADD COLUMN job_status  text,
    ADD COLUMN attempts    int,
    ADD COLUMN last_error  text,
    ADD COLUMN started_at  timestamptz,
    ADD COLUMN finished_at timestamptz;

-- Whoever deletes it: the worker at completion, the log compactor, a person.
CREATE FUNCTION forge_cron_job_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE %I.forge_cron_runs
                    SET job_status = $1, attempts = $2, last_error = left($3, 2000), started_at = $4, finished_at = $5
                    WHERE cron = $6 AND slot = $7::timestamptz AND job_id = $8', TG_TABLE_SCHEMA)
        USING OLD.status, OLD.attempts, OLD.last_error, OLD.started_at, OLD.finished_at,
              OLD.metadata ->> 'cron', OLD.metadata ->> 'slot', OLD.id;
    RETURN NULL;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow THEN
    -- A job of the application's that has metadata of these names.
    RETURN NULL;
END
$$;
CREATE TRIGGER forge_jobs_cron_deleted AFTER DELETE ON forge_jobs FOR EACH ROW
    WHEN (OLD.metadata ? 'cron' AND OLD.metadata ? 'slot')
    EXECUTE FUNCTION forge_cron_job_deleted();

INSERT INTO forge_schema_versions (version, needs_library) VALUES (9, 1);
