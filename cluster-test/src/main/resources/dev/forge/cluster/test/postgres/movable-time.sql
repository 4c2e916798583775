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

-- Tables -------------------------------------------------------------------------------------------------------
--
-- keep() copies the rows of the tables that have any, restore() returns them. Most tables are empty at first or are never written,
-- so neither of them is read: an empty table has a file without a byte, and a trigger counts the statements that write to a table
-- with rows. Its counter is a sequence, which no rollback returns. It is set rather than asked for its next value, because
-- lastval() belongs to the application.

-- Tables and partitions that tests can write to.
CREATE VIEW forge_test_clock.resettable AS
SELECT c.oid AS relation, c.relkind AS kind, c.relfilenode AS file, c.relpersistence = 'u' AS unlogged, c.relhassubclass AS divided,
       format('%I.%I', n.nspname, c.relname) AS name,
       -- With the numbers: a column that was dropped and added again has lost its values.
       coalesce((SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated), ', '
                                   ORDER BY a.attnum)
                 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '') AS shape
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('information_schema', 'forge_test_clock', 'forge_test_kept') AND n.nspname NOT LIKE 'pg\_%';

CREATE FUNCTION forge_test_clock.mark() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.setval(TG_ARGV[0]::oid, coalesce(pg_catalog.pg_sequence_last_value(TG_ARGV[0]::oid), 0) + 1);
    RETURN NULL;
END
$$;

-- Names the sessions that have locked a table, or any table if it is null, and may block restore().
CREATE FUNCTION forge_test_clock.holders(of_table oid) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(DISTINCT coalesce(format('session %s of %s (%s, last statement: %s)', a.pid, a.application_name, a.state,
                                               left(a.query, 200)), 'a prepared transaction'), '; ')
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND l.mode <> 'AccessShareLock'
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.relation IN (SELECT relation FROM forge_test_clock.resettable WHERE relation = coalesce(of_table, relation))
$$;

-- Returns a text that changes with the rows of a materialized view.
CREATE FUNCTION forge_test_clock.state_of(view oid) RETURNS text LANGUAGE plpgsql AS $state$
DECLARE
    state text;
BEGIN
    SELECT CASE WHEN NOT c.relispopulated THEN 'empty' WHEN NOT c.relhasindex THEN c.relfilenode::text END
    INTO state FROM pg_class c WHERE c.oid = view;
    IF state IS NULL THEN
        -- REFRESH ... CONCURRENTLY, which needs an index, changes rows instead of the file.
        EXECUTE format('SELECT concat_ws('' '', count(*), max(xmin::text::bigint)) FROM %s', view::regclass) INTO state;
    END IF;
    RETURN state;
END
$state$;

-- Remembers the present rows of all tables, and the values of the sequences of their columns, for restore().
CREATE FUNCTION forge_test_clock.keep() RETURNS void LANGUAGE plpgsql SET lock_timeout = '10s' AS $keep$
#variable_conflict use_column
DECLARE
    t record;
    number int := 0;
    filled boolean;
    columns text;
    whole_row text;
    copied text;
    marker text;
    value bigint;
    called boolean;
BEGIN
    FOR t IN SELECT tgrelid::regclass AS name FROM pg_trigger WHERE tgname = 'forge_test_mark' LOOP
        EXECUTE format('DROP TRIGGER forge_test_mark ON %s', t.name);
    END LOOP;
    DROP SCHEMA IF EXISTS forge_test_kept CASCADE;
    CREATE SCHEMA forge_test_kept;
    -- count: of the marker, when restore() began; seen: when the rows were last known to be the first ones.
    CREATE TABLE forge_test_kept.tables (relation oid PRIMARY KEY, name text NOT NULL, shape text NOT NULL, columns text,
        whole_row text, copied text, marker oid, count bigint, seen bigint, file oid NOT NULL);
    CREATE TABLE forge_test_kept.sequences (relation oid PRIMARY KEY, value bigint NOT NULL, called boolean NOT NULL);
    CREATE TABLE forge_test_kept.views (relation oid PRIMARY KEY, name text NOT NULL, state text NOT NULL);
    CREATE TABLE forge_test_kept.parts AS SELECT inhparent AS parent, inhrelid AS part FROM pg_inherits;
    FOR t IN SELECT * FROM forge_test_clock.resettable ORDER BY relation LOOP
        number := number + 1;
        filled := false;
        columns := NULL;
        whole_row := NULL;
        copied := NULL;
        marker := NULL;
        IF t.kind = 'r' THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', t.name) INTO filled;
        END IF;
        IF filled OR t.kind = 'p' OR t.divided THEN
            marker := 'forge_test_kept.m' || number;
            EXECUTE format('CREATE SEQUENCE %s', marker);
            EXECUTE format('GRANT SELECT, UPDATE ON SEQUENCE %s TO PUBLIC', marker);
            -- For each name by which rows are written: triggers of partitions do not see statements on the whole table.
            EXECUTE format('CREATE TRIGGER forge_test_mark BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT'
                           ' WHEN (pg_catalog.current_setting(''forge_test_clock.restoring'', true) IS DISTINCT FROM ''on'')'
                           ' EXECUTE FUNCTION forge_test_clock.mark(%L)', t.name, marker::regclass::oid);
            EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER forge_test_mark', t.name);
        END IF;
        IF filled THEN
            copied := 'forge_test_kept.t' || number;
            SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
                   string_agg('forge_row.' || quote_ident(a.attname), ', ' ORDER BY a.attnum)
            INTO columns, whole_row FROM pg_attribute a
            WHERE a.attrelid = t.relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';
            EXECUTE format('CREATE TABLE %s AS SELECT %s FROM ONLY %s', copied, columns, t.name);
        END IF;
        INSERT INTO forge_test_kept.tables (relation, name, shape, columns, whole_row, copied, marker, file)
        VALUES (t.relation, t.name, t.shape, columns, format('ROW(%s)::text', whole_row), copied, to_regclass(marker), t.file);
    END LOOP;
    FOR t IN
        SELECT c.oid AS relation, format('%I.%I', n.nspname, c.relname) AS name
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_sequence s ON s.seqrelid = c.oid
        -- Those of columns only, and without values that sessions keep. Hibernate keeps values of other sequences, and of those
        -- with larger increments.
        WHERE c.relpersistence <> 't' AND s.seqcache = 1
          AND EXISTS (SELECT FROM pg_depend d
                      WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass
                        AND d.refobjsubid > 0 AND (d.deptype = 'i' OR d.deptype = 'a' AND s.seqincrement = 1))
    LOOP
        EXECUTE format('SELECT last_value, is_called FROM %s', t.name) INTO value, called;
        INSERT INTO forge_test_kept.sequences VALUES (t.relation, value, called);
    END LOOP;
    INSERT INTO forge_test_kept.views
    SELECT c.oid, format('%I.%I', n.nspname, c.relname), forge_test_clock.state_of(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'm';
EXCEPTION
    WHEN lock_not_available THEN
        RAISE EXCEPTION USING ERRCODE = 'FT001', MESSAGE = format(
            'The rows of the tables cannot be kept for later tests, because other transactions are open: %s. End them before the '
            'context has started.', coalesce(forge_test_clock.holders(NULL), 'unknown'));
END
$keep$;

-- Returns all tables to the rows that were kept. Without triggers, rules and foreign keys: the kept rows satisfy them.
CREATE FUNCTION forge_test_clock.restore() RETURNS void LANGUAGE plpgsql
    SET session_replication_role = replica SET lock_timeout = '10s' SET forge_test_clock.restoring = 'on' AS $restore$
#variable_conflict use_column
DECLARE
    t record;
    at_table oid;
    at_name text;
    problem text;
    writing oid[];
    differs boolean;
    disable_triggers text;
    enable_triggers text;
BEGIN
    SELECT string_agg(k.name, ', ' ORDER BY k.name) INTO problem
    FROM forge_test_kept.tables k LEFT JOIN forge_test_clock.resettable t USING (relation)
    WHERE (t.name, t.shape) IS DISTINCT FROM (k.name, k.shape);
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'FT001', MESSAGE = format(
            'An earlier test has dropped or altered these tables, so their first rows cannot be restored: %s. Change tables in '
            'migrations only, or annotate that test with @DirtiesContext.', problem);
    END IF;

    -- In this order: a writer locks the table, then counts, then writes. If none holds a lock now, all writers that were counted
    -- before have ended, and the comparison sees their rows.
    UPDATE forge_test_kept.tables SET count = pg_sequence_last_value(marker)
    WHERE marker IS NOT NULL AND pg_sequence_last_value(marker) IS DISTINCT FROM count;
    SELECT coalesce(array_agg(l.relation), '{}') INTO writing FROM pg_locks l
    WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
      AND l.relation IN (SELECT relation FROM forge_test_kept.tables WHERE marker IS NOT NULL);

    FOR t IN
        WITH RECURSIVE moved AS (
            SELECT k.relation FROM forge_test_kept.tables k JOIN forge_test_clock.resettable r USING (relation)
            WHERE k.marker IS NOT NULL
              -- A promoted standby has lost the rows of unlogged tables. A new file may have been written with other values.
              AND (k.count IS DISTINCT FROM k.seen OR r.unlogged OR r.file <> k.file
                   OR NOT EXISTS (SELECT FROM pg_trigger g
                                  WHERE g.tgrelid = k.relation AND g.tgname = 'forge_test_mark' AND g.tgenabled = 'A'))
            UNION
            SELECT p.part FROM moved m
            JOIN (SELECT parent, part FROM forge_test_kept.parts UNION ALL SELECT inhparent, inhrelid FROM pg_inherits) p
              ON p.parent = m.relation
        )
        SELECT r.relation, r.name, k.columns, k.whole_row, k.copied
        FROM forge_test_clock.resettable r LEFT JOIN forge_test_kept.tables k USING (relation)
        WHERE r.kind = 'r'
          AND CASE WHEN k.copied IS NOT NULL THEN r.relation IN (SELECT relation FROM moved)
                   -- The table of an extension that a test has created comes with rows.
                   ELSE pg_relation_size(r.relation) > 0
                        AND (k.relation IS NOT NULL OR NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass
                                                                   AND d.objid = r.relation AND d.deptype = 'e')) END
    LOOP
        at_table := t.relation;
        at_name := t.name;
        IF t.copied IS NULL THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', t.name) INTO differs;
        ELSE
            EXECUTE format('SELECT (SELECT count(*) FROM ONLY %1$s) <> (SELECT count(*) FROM %2$s) OR EXISTS ('
                           'SELECT %3$s FROM ONLY %1$s forge_row EXCEPT ALL SELECT %3$s FROM %2$s forge_row)',
                           t.name, t.copied, t.whole_row) INTO differs;
        END IF;
        CONTINUE WHEN NOT differs;
        SELECT string_agg(format('ALTER TABLE ONLY %s DISABLE TRIGGER %I;', t.name, g.tgname), ''),
               string_agg(format('ALTER TABLE ONLY %s ENABLE %s TRIGGER %I;', t.name,
                                 CASE g.tgenabled WHEN 'A' THEN 'ALWAYS' ELSE 'REPLICA' END, g.tgname), '')
        INTO disable_triggers, enable_triggers
        FROM pg_trigger g
        WHERE g.tgrelid = t.relation AND g.tgenabled IN ('A', 'R') AND NOT g.tgisinternal AND g.tgname <> 'forge_test_mark';
        IF disable_triggers IS NOT NULL THEN
            EXECUTE disable_triggers;
        END IF;
        EXECUTE format('DELETE FROM ONLY %s', t.name);
        IF t.copied IS NOT NULL THEN
            EXECUTE format('INSERT INTO %s %s SELECT %s FROM %s', t.name,
                           '(' || t.columns || ') OVERRIDING SYSTEM VALUE', t.columns, t.copied);
        END IF;
        IF enable_triggers IS NOT NULL THEN
            EXECUTE enable_triggers;
        END IF;
    END LOOP;
    at_table := NULL;
    at_name := NULL;

    PERFORM setval(s.relation, s.value, s.called)
    FROM forge_test_kept.sequences s JOIN pg_class c ON c.oid = s.relation
    WHERE NOT s.called OR pg_sequence_last_value(s.relation) IS DISTINCT FROM s.value;

    FOR t IN
        SELECT v.relation, v.name, v.state = 'empty' AS was_empty
        FROM forge_test_kept.views v JOIN pg_class c ON c.oid = v.relation
        WHERE forge_test_clock.state_of(v.relation) <> v.state ORDER BY v.relation
    LOOP
        EXECUTE format('REFRESH MATERIALIZED VIEW %s %s', t.name, CASE WHEN t.was_empty THEN 'WITH NO DATA' END);
        UPDATE forge_test_kept.views SET state = forge_test_clock.state_of(t.relation) WHERE relation = t.relation;
    END LOOP;

    UPDATE forge_test_kept.tables k SET seen = k.count, file = c.relfilenode FROM pg_class c
    WHERE c.oid = k.relation AND k.marker IS NOT NULL AND k.relation <> ALL (writing)
      AND (k.seen IS DISTINCT FROM k.count OR k.file <> c.relfilenode);
EXCEPTION
    WHEN lock_not_available THEN
        RAISE EXCEPTION USING ERRCODE = 'FT001', MESSAGE = format(
            '%s cannot be returned to the first rows: other transactions are still open after %s: %s. End them in the test that '
            'began them.', coalesce('Table ' || at_name, 'Tables'), current_setting('lock_timeout'),
            coalesce(forge_test_clock.holders(at_table), 'unknown'));
END
$restore$;
