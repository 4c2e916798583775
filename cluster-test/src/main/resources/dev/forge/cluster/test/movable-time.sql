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

-- Functions with a search path of their own would see the time of the server, and so would defaults of columns that were created
-- under one, such as those of a dump.
CREATE FUNCTION forge_test_clock.adopt() RETURNS void LANGUAGE plpgsql SET lock_timeout = '10s' AS $adopt$
#variable_conflict use_column
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT p.oid::regprocedure AS routine, string_agg(quote_literal(e.name), ', ' ORDER BY e.number) AS path
        FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace
        CROSS JOIN LATERAL (SELECT substr(s.setting, length('search_path=') + 1) FROM unnest(p.proconfig) AS s (setting)
                            WHERE starts_with(s.setting, 'search_path=')) AS s (path)
        CROSS JOIN LATERAL forge_test_clock.path_with_time(s.path) AS e
        WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'forge_test_clock')
        GROUP BY p.oid, s.path
        -- One that names the schema already stays as it is.
        HAVING count(*) FILTER (WHERE e.name = 'forge_test_clock') = 1
    LOOP
        EXECUTE format('ALTER ROUTINE %s SET search_path = %s', r.routine, r.path);
    END LOOP;
    FOR r IN
        SELECT t.name, a.attname,
               -- Named with its schema, because the function of the test hides it.
               regexp_replace(d.expression, '\mpg_catalog\.((now|(transaction|statement|clock)_timestamp)\(\))',
                              'forge_test_clock.\1', 'g') AS moved, d.expression
        FROM forge_test_clock.resettable t
        JOIN pg_attribute a ON a.attrelid = t.relation AND a.atthasdef AND a.attgenerated = '' AND NOT a.attisdropped
        JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
        CROSS JOIN LATERAL pg_get_expr(f.adbin, f.adrelid) AS d (expression)
    LOOP
        IF r.moved <> r.expression THEN
            EXECUTE format('ALTER TABLE ONLY %s ALTER COLUMN %I SET DEFAULT %s', r.name, r.attname, r.moved);
        END IF;
    END LOOP;
END
$adopt$;

-- Returns the schemas of a search path as it is stored, and that of the time: before pg_catalog, or with it at the end.
CREATE FUNCTION forge_test_clock.path_with_time(path text) RETURNS TABLE (name text, number bigint) LANGUAGE sql AS $$
    WITH named AS (
        SELECT CASE WHEN m.part[1] LIKE '"%' THEN replace(substr(m.part[1], 2, length(m.part[1]) - 2), '""', '"')
                    ELSE lower(m.part[1]) END AS name, m.number
        FROM regexp_matches(path, '("(?:[^"]|"")*"|[^\s,"]+)', 'g') WITH ORDINALITY AS m (part, number)
    ), place AS (
        SELECT coalesce((SELECT min(n.number) FROM named n WHERE n.name = 'pg_catalog'), 1000) AS number
    )
    SELECT e.name, row_number() OVER (ORDER BY e.number, e.within)
    FROM (SELECT n.name, n.number, 1 AS within FROM named n WHERE n.name <> ''
          UNION ALL SELECT 'forge_test_clock', p.number, 0 FROM place p
          UNION ALL SELECT 'pg_catalog', p.number, 1 FROM place p WHERE p.number = 1000) e
$$;

-- Tables and partitions that tests can write to.
CREATE VIEW forge_test_clock.resettable AS
SELECT c.oid AS relation, c.relkind AS kind, c.relfilenode AS file, c.relpersistence = 'u' AS unlogged, c.relhassubclass AS divided,
       format('%I.%I', n.nspname, c.relname) AS name,
       -- With the numbers: a column that was dropped and added again has lost its values.
       coalesce((SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated), ', ' ORDER BY a.attnum)
                 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '') AS shape
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('information_schema', 'forge_test_clock', 'forge_test_kept') AND n.nspname NOT LIKE 'pg\_%';

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
