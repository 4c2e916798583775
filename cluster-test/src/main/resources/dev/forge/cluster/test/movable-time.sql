-- A time that tests move, and tables that return to their first rows between tests.
--
-- The functions below have the names of those that tell the time. The search path of a test database names this schema before
-- pg_catalog, so every statement that calls now() gets the time of the test: those of the cluster and those of the application,
-- in queries, defaults and views. CURRENT_TIMESTAMP is not a function and cannot be replaced.

CREATE SCHEMA forge_test_clock;

-- Sequences, because a change of them is seen at once by every transaction, whatever its snapshot is. Microseconds.
CREATE SEQUENCE forge_test_clock.moved MINVALUE -9223372036854775808 START 0;
CREATE SEQUENCE forge_test_clock.stopped MINVALUE -9223372036854775808 START 0;
SELECT setval('forge_test_clock.moved', 0), setval('forge_test_clock.stopped', 0);

CREATE FUNCTION forge_test_clock.of(running timestamptz) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN s.last_value <> 0 THEN timestamptz 'epoch' + s.last_value * interval '1 microsecond'
                ELSE running + m.last_value * interval '1 microsecond' END
    FROM forge_test_clock.stopped s, forge_test_clock.moved m
$$;

CREATE FUNCTION forge_test_clock.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
    'SELECT forge_test_clock.of(pg_catalog.now())';
CREATE FUNCTION forge_test_clock.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
    'SELECT forge_test_clock.of(pg_catalog.now())';
CREATE FUNCTION forge_test_clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
    'SELECT forge_test_clock.of(pg_catalog.statement_timestamp())';
CREATE FUNCTION forge_test_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE AS
    'SELECT forge_test_clock.of(pg_catalog.clock_timestamp())';

-- Roles of the application need them, too.
GRANT USAGE ON SCHEMA forge_test_clock TO PUBLIC;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA forge_test_clock TO PUBLIC;

-- Functions with a search path of their own would see the time of the server.
CREATE FUNCTION forge_test_clock.adopt() RETURNS void LANGUAGE plpgsql AS $adopt$
DECLARE
    f record;
BEGIN
    FOR f IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p, unnest(p.proconfig) AS setting
        WHERE setting IN ('search_path=pg_catalog, pg_temp', 'search_path=pg_catalog')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = forge_test_clock, pg_catalog, pg_temp', f.name);
    END LOOP;
END
$adopt$;

-- Remembers the present rows of all tables, and the values of their identity columns, for restore().
CREATE FUNCTION forge_test_clock.keep() RETURNS void LANGUAGE plpgsql AS $keep$
DECLARE
    t record;
    columns text;
    copy text;
    number int := 0;
    filled boolean;
    value bigint;
    called boolean;
    body text := '';
BEGIN
    DROP SCHEMA IF EXISTS forge_test_kept CASCADE;
    CREATE SCHEMA forge_test_kept;
    FOR t IN
        SELECT c.oid, c.relkind, format('%I.%I', n.nspname, c.relname) AS name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relpersistence <> 't'
          -- Other sequences stay: Hibernate keeps values that it has taken from them.
          AND (c.relkind = 'r' OR c.relkind = 'S' AND EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i'))
          AND n.nspname NOT IN ('information_schema', 'forge_test_clock', 'forge_test_kept') AND n.nspname NOT LIKE 'pg\_%'
        ORDER BY c.oid
    LOOP
        IF t.relkind = 'S' THEN
            EXECUTE format('SELECT last_value, is_called FROM %s', t.name) INTO value, called;
            body := body || format(
                E'IF EXISTS (SELECT FROM %1$s WHERE last_value <> %2$s OR is_called <> %3$L::bool) THEN'
                ' PERFORM setval(%4$L, %2$s, %3$L::bool); END IF;\n', t.name, value, called, t.name);
            CONTINUE;
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', t.name) INTO filled;
        IF NOT filled THEN
            body := body || format(E'IF EXISTS (SELECT FROM %1$s) THEN DELETE FROM %1$s; END IF;\n', t.name);
            CONTINUE;
        END IF;
        SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns FROM pg_attribute a
        WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';
        number := number + 1;
        copy := 'forge_test_kept.t' || number;
        EXECUTE format('CREATE TABLE %s AS SELECT %s FROM %s', copy, columns, t.name);
        body := body || format(
            E'IF EXISTS ((SELECT forge_row::text FROM (SELECT %2$s FROM %1$s) forge_row EXCEPT ALL SELECT forge_row::text FROM %3$s forge_row)\n'
            ' UNION ALL (SELECT forge_row::text FROM %3$s forge_row EXCEPT ALL SELECT forge_row::text FROM (SELECT %2$s FROM %1$s) forge_row)) THEN\n'
            ' DELETE FROM %1$s; INSERT INTO %1$s (%2$s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM %3$s; END IF;\n',
            t.name, columns, copy);
    END LOOP;
    -- Without triggers and foreign keys: the kept rows satisfy them.
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION forge_test_clock.restore() RETURNS void LANGUAGE plpgsql'
        ' SET session_replication_role = replica SET lock_timeout = ''10s'' AS %L', E'BEGIN\n' || body || 'END');
END
$keep$;
