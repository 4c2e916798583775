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
            -- A job of the application's that has metadata of these names.
            RETURN NULL;
        END
        $body$
    $function$, pg_catalog.current_schema());
END
$create$;
CREATE TRIGGER forge_jobs_cron_deleted AFTER DELETE ON forge_jobs FOR EACH ROW
    WHEN (OLD.metadata ? 'cron' AND OLD.metadata ? 'slot')
    EXECUTE FUNCTION forge_cron_job_deleted();

-- PUBLIC may use every new type. So any role that may use the schema, without a right on a table, could make a table of its own,
-- a temporary one too, with a column of the type of our rows or of a domain; ALTER TABLE and ALTER DOMAIN refuse to change ours
-- as long as that table exists. Nobody needs this right to read or write.
DO $revoke$
DECLARE
    own text;
BEGIN
    FOR own IN
        SELECT pg_catalog.quote_ident(t.typname::text) FROM pg_catalog.pg_type t
        WHERE t.typnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = pg_catalog.current_schema())
          AND t.typowner = (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
          AND t.typtype IN ('c', 'd') AND t.typname ~ '^(forge_|scheduler_(node|lock|job)$)'
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON TYPE %I.%s FROM PUBLIC', pg_catalog.current_schema(), own);
    END LOOP;
END
$revoke$;

INSERT INTO forge_schema_versions (version, needs_library) VALUES (9, 1);
