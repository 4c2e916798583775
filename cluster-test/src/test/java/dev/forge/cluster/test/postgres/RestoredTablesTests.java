// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatNoException;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Instant;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** The tables of a database between tests, without a cluster. */
class RestoredTablesTests {

    private final TestDatabase database = PostgresServer.shared().createDatabaseWithMovableTime("restored tables");
    private final MovableTime time = database.time();

    @AfterEach
    void drop() {
        database.close();
    }

    private void run(String sql) {
        new JdbcTemplate(database.dataSource()).execute(sql);
    }

    private String value(String select) {
        return database.jdbc()
                .sql("SELECT " + select)
                .query((row, n) -> row.getString(1))
                .single();
    }

    private String rows(String table) {
        return value(
                "coalesce(string_agg(t.tableoid::regclass || t::text, ' ' ORDER BY t.tableoid::regclass::text, t::text), '') FROM %s t"
                        .formatted(table));
    }

    private void assertRestored(String table, String created, String changed) {
        run(created);
        time.keep();
        String first = rows(table);
        for (int test = 0; test < 2; test++) {
            run(changed);
            time.restore();
            assertThat(rows(table)).as("after: " + changed).isEqualTo(first);
        }
    }

    // Rows --------------------------------------------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(
            strings = {
                "INSERT INTO par VALUES (3)",
                "UPDATE par SET id = id + 10",
                "DELETE FROM chi",
                "UPDATE ONLY par SET id = 7",
                "TRUNCATE par",
                "TRUNCATE chi"
            })
    void inherited_rows_are_not_doubled(String changed) {
        assertRestored("par", """
                CREATE TABLE par (id int); CREATE TABLE chi () INHERITS (par);
                INSERT INTO par VALUES (1); INSERT INTO chi VALUES (2)
                """, changed);
    }

    @Test
    void empty_parent_keeps_rows_of_its_child() {
        assertRestored(
                "par",
                "CREATE TABLE par (id int); CREATE TABLE chi () INHERITS (par); INSERT INTO chi VALUES (2)",
                "INSERT INTO par VALUES (3); UPDATE par SET id = 4");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "DELETE FROM par",
                "UPDATE par SET id = 3 WHERE id = 1",
                "INSERT INTO par VALUES (1), (4)",
                "UPDATE p1 SET note = 'x'",
                "MERGE INTO par USING (VALUES (2)) s (i) ON s.i = id WHEN MATCHED THEN UPDATE SET note = 'm'",
                "TRUNCATE par",
                "WITH d AS (DELETE FROM par RETURNING *) SELECT count(*) FROM d",
                "SET session_replication_role = replica; DELETE FROM par"
            })
    void partitions_that_are_written_through_their_table_are_restored(String changed) {
        assertRestored("par", """
                CREATE TABLE par (id int, note text) PARTITION BY LIST (id);
                CREATE TABLE p1 PARTITION OF par FOR VALUES IN (1);
                CREATE TABLE pd PARTITION OF par DEFAULT PARTITION BY LIST (id);
                CREATE TABLE pdd PARTITION OF pd DEFAULT;
                INSERT INTO par VALUES (1), (2)
                """, changed);
    }

    @Test
    void partition_that_was_detached_is_restored() {
        run("""
                CREATE TABLE par (id int) PARTITION BY LIST (id); CREATE TABLE p1 PARTITION OF par DEFAULT;
                INSERT INTO par VALUES (1)
                """);
        time.keep();
        run("UPDATE par SET id = 2; ALTER TABLE par DETACH PARTITION p1");
        time.restore();
        assertThat(rows("p1")).isEqualTo("p1(1)");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "DELETE FROM owner",
                "UPDATE owner SET id = 5 WHERE id = 1",
                "UPDATE owned_view SET note = 'x'",
                "TRUNCATE owner CASCADE",
                "BEGIN; SAVEPOINT s; DELETE FROM owned; ROLLBACK TO s; UPDATE owned SET note = 'y'; COMMIT",
                "ALTER TABLE owned DISABLE TRIGGER ALL; DELETE FROM owned; ALTER TABLE owned ENABLE TRIGGER ALL"
            })
    void cascades_views_and_disabled_triggers_are_restored(String changed) {
        assertRestored("owned", """
                CREATE TABLE owner (id int PRIMARY KEY);
                CREATE TABLE owned (owner int REFERENCES owner ON DELETE CASCADE ON UPDATE CASCADE, note text);
                CREATE VIEW owned_view AS SELECT * FROM owned;
                INSERT INTO owner VALUES (1), (2); INSERT INTO owned VALUES (1, 'a'), (1, 'a'), (2, 'b')
                """, changed);
    }

    @Test
    void table_that_was_rewritten_is_restored() {
        assertRestored(
                "t",
                "CREATE TABLE t (v text); INSERT INTO t VALUES ('a')",
                "ALTER TABLE t ALTER v TYPE text USING v || '!'");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "found boolean, value int",
                "forge_row text, value int",
                "t text, relation int",
                "columns text, count int",
                "\"a'b\"\"c%I$1\\\" text, \"select\" int GENERATED ALWAYS AS IDENTITY"
            })
    void names_of_columns_do_not_matter(String columns) {
        assertRestored(
                "lost",
                "CREATE TABLE lost (%s); INSERT INTO lost VALUES (NULL), (NULL)".formatted(columns),
                "INSERT INTO lost VALUES (NULL)");
        database.jdbc().sql("DELETE FROM lost").update();
        time.restore();
        assertThat(value("count(*) FROM lost")).isEqualTo("2");
    }

    @Test
    void change_beside_a_column_forge_row_is_seen() {
        assertRestored(
                "fr",
                "CREATE TABLE fr (forge_row text, b int); INSERT INTO fr VALUES ('same', 1)",
                "UPDATE fr SET b = 2");
    }

    @Test
    void tables_without_columns_that_can_be_written_are_restored() {
        assertRestored(
                "nothing",
                "CREATE TABLE nothing (); INSERT INTO nothing DEFAULT VALUES; INSERT INTO nothing DEFAULT VALUES",
                "DELETE FROM nothing");
        run("DROP TABLE nothing");
        assertRestored(
                "calculated",
                "CREATE TABLE calculated (a int GENERATED ALWAYS AS (1) STORED); INSERT INTO calculated DEFAULT VALUES",
                "INSERT INTO calculated DEFAULT VALUES");
    }

    @Test
    void triggers_that_are_always_enabled_do_not_fire() {
        run("""
                CREATE TABLE log (operation text); CREATE TABLE logged (id int);
                CREATE TABLE append_only (id int); INSERT INTO append_only VALUES (1);
                CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS
                    'BEGIN INSERT INTO log VALUES (TG_OP); RETURN NULL; END';
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''append only''; END';
                CREATE TRIGGER "a log" AFTER INSERT OR DELETE ON logged FOR EACH ROW EXECUTE FUNCTION log();
                CREATE TRIGGER refuse BEFORE DELETE ON append_only FOR EACH ROW EXECUTE FUNCTION refuse();
                ALTER TABLE logged ENABLE ALWAYS TRIGGER "a log"; ALTER TABLE append_only ENABLE REPLICA TRIGGER refuse
                """);
        time.keep();
        run("INSERT INTO logged VALUES (1); INSERT INTO append_only VALUES (2)");
        time.restore();
        assertThat(rows("log")).isEmpty();
        assertThat(rows("logged")).isEmpty();
        assertThat(rows("append_only")).isEqualTo("append_only(1)");
        assertThat(
                        value(
                                "string_agg(tgenabled::text, '' ORDER BY tgname) FROM pg_trigger WHERE tgname <> 'forge_test_mark'"))
                .isEqualTo("AR");
    }

    @Test
    void unchanged_large_table_is_not_read() throws SQLException {
        run(
                "CREATE TABLE zip (id int PRIMARY KEY, name text); INSERT INTO zip SELECT i, md5(i::text) FROM generate_series(1, 100000) i");
        time.keep();
        time.restore();
        restoreWithoutReading("zip");
        run("UPDATE zip SET name = 'x' WHERE id = 77");
        time.restore();
        assertThat(value("name FROM zip WHERE id = 77")).isEqualTo(value("md5('77')"));
        restoreWithoutReading("zip");
    }

    /** Restores while another session has locked the table: reading it would fail. */
    private void restoreWithoutReading(String table) throws SQLException {
        try (Connection other = database.newSessions().getConnection();
                Statement statement = other.createStatement()) {
            other.setAutoCommit(false);
            statement.execute("LOCK TABLE %s IN ACCESS EXCLUSIVE MODE".formatted(table));
            time.restore();
            other.rollback();
        }
    }

    @Test
    void marks_of_writes_change_nothing_for_the_application() {
        run("""
                CREATE TABLE marked (id int GENERATED ALWAYS AS IDENTITY, v text); INSERT INTO marked (v) VALUES ('a');
                GRANT INSERT ON marked TO pg_monitor
                """);
        time.keep();
        assertThat(value("nextval('marked_id_seq')")).isEqualTo("2");
        run("""
                DO $$ BEGIN PERFORM nextval('marked_id_seq'); UPDATE marked SET v = 'b';
                    ASSERT lastval() = 3; END $$;
                SET ROLE pg_monitor; INSERT INTO marked (v) VALUES ('c')
                """);
        assertThat(database.jdbc().sql("UPDATE marked SET v = 'd'").update()).isEqualTo(2);
        time.restore();
        assertThat(rows("marked")).isEqualTo("marked(1,a)");
    }

    @Test
    void keep_can_be_called_again() {
        run("CREATE TABLE twice (v int); INSERT INTO twice VALUES (1)");
        time.keep();
        run("UPDATE twice SET v = 2");
        time.keep();
        run("UPDATE twice SET v = 3");
        time.restore();
        assertThat(rows("twice")).isEqualTo("twice(2)");
    }

    // Transactions that are still open ----------------------------------------------------------------------

    @Test
    void message_names_the_session_that_blocks() throws SQLException {
        run("CREATE TABLE t (id int); INSERT INTO t VALUES (1)");
        time.keep();
        run("INSERT INTO t VALUES (2); ALTER FUNCTION forge_test_clock.restore() SET lock_timeout = '200ms'");
        try (Connection leaked = database.newSessions().getConnection();
                Statement statement = leaked.createStatement()) {
            leaked.setAutoCommit(false);
            statement.executeUpdate("UPDATE t SET id = 3");
            assertThatIllegalStateException()
                    .isThrownBy(time::restore)
                    .withMessageContaining("Table public.t")
                    .withMessageContaining("after 200ms")
                    .withMessageContaining("(idle in transaction, last statement: UPDATE t SET id = 3)");
            leaked.rollback();
        }
        time.restore();
        assertThat(rows("t")).isEqualTo("t(1)");
    }

    @Test
    void rows_that_an_open_transaction_commits_later_are_removed_at_the_next_test() throws SQLException {
        run("CREATE TABLE t (id int); INSERT INTO t VALUES (1)");
        time.keep();
        try (Connection leaked = database.newSessions().getConnection();
                Statement statement = leaked.createStatement()) {
            leaked.setAutoCommit(false);
            statement.executeUpdate("INSERT INTO t VALUES (7)");
            time.restore();
            leaked.commit();
        }
        time.restore();
        assertThat(rows("t")).isEqualTo("t(1)");
    }

    // Tables of tests ---------------------------------------------------------------------------------------

    @Test
    void tables_and_partitions_of_a_test_are_emptied() {
        run("CREATE TABLE par (id int) PARTITION BY LIST (id)");
        time.keep();
        run("""
                CREATE TABLE par1 PARTITION OF par FOR VALUES IN (1); INSERT INTO par VALUES (1);
                CREATE SCHEMA other; CREATE TABLE other.made AS SELECT 1
                """);
        time.restore();
        assertThat(rows("par")).isEmpty();
        assertThat(rows("other.made")).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "DROP TABLE t",
                "ALTER TABLE t RENAME TO other",
                "ALTER TABLE t DROP b",
                "ALTER TABLE t ADD c int",
                "ALTER TABLE t DROP b; ALTER TABLE t ADD b text",
                "ALTER TABLE t ALTER a TYPE bigint",
                "DROP TABLE t; CREATE TABLE t (a int, b text)"
            })
    void message_names_a_table_that_a_test_has_altered(String sql) {
        run("CREATE TABLE t (a int, b text); CREATE TABLE unaltered (a int)");
        time.keep();
        run(sql);
        assertThatIllegalStateException()
                .isThrownBy(time::restore)
                .withMessage(
                        "An earlier test has dropped or altered these tables, so their first rows cannot be restored: public.t."
                                + " Change tables in migrations only, or annotate that test with @DirtiesContext.");
    }

    // Views and sequences -----------------------------------------------------------------------------------

    @Test
    void materialized_views_are_refreshed() {
        run("""
                CREATE TABLE orders (id int); INSERT INTO orders VALUES (1);
                CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM orders;
                CREATE MATERIALIZED VIEW "all" AS SELECT id FROM orders; CREATE UNIQUE INDEX ON "all" (id);
                CREATE MATERIALIZED VIEW unpopulated AS SELECT 1 AS one WITH NO DATA
                """);
        time.keep();
        for (int test = 0; test < 2; test++) {
            run("""
                    INSERT INTO orders VALUES (2);
                    REFRESH MATERIALIZED VIEW total; REFRESH MATERIALIZED VIEW unpopulated
                    """);
            database.jdbc()
                    .sql("REFRESH MATERIALIZED VIEW CONCURRENTLY \"all\"")
                    .update();
            time.restore();
            assertThat(rows("total")).isEqualTo("total(1)");
            assertThat(rows("\"all\"")).isEqualTo("\"all\"(1)");
            assertThat(value("relispopulated FROM pg_class WHERE relname = 'unpopulated'"))
                    .isEqualTo("f");
        }
    }

    @Test
    void sequences_of_columns_are_reset_and_others_go_on() {
        run("""
                CREATE TABLE numbered (id serial, other int GENERATED BY DEFAULT AS IDENTITY (START 100 INCREMENT 10));
                CREATE SEQUENCE pooled INCREMENT 50 OWNED BY numbered.id; CREATE SEQUENCE cached CACHE 5 OWNED BY numbered.id;
                CREATE SEQUENCE free; CREATE TABLE used (id serial); INSERT INTO used DEFAULT VALUES
                """);
        time.keep();
        for (int test = 0; test < 2; test++) {
            run("INSERT INTO numbered DEFAULT VALUES; INSERT INTO used DEFAULT VALUES");
            assertThat(rows("numbered")).isEqualTo("numbered(1,100)");
            assertThat(rows("used")).isEqualTo("used(1) used(2)");
            assertThat(value("concat_ws(' ', nextval('pooled'), nextval('free'))"))
                    .isEqualTo(test == 0 ? "1 1" : "51 2");
            assertThat(value("nextval('cached')")).isEqualTo(test == 0 ? "1" : "6");
            time.restore();
        }
        run("SELECT setval('numbered_id_seq', 500, false); ALTER SEQUENCE used_id_seq RESTART 70");
        time.restore();
        assertThat(value("concat_ws(' ', nextval('numbered_id_seq'), nextval('used_id_seq'))"))
                .isEqualTo("1 2");
    }

    // Time --------------------------------------------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(
            strings = {
                "pg_catalog, pg_temp",
                "pg_catalog",
                "public",
                "''",
                "public, pg_temp",
                "\"Odd \"\"schema, x\", \"$user\", pg_catalog"
            })
    void routines_with_a_search_path_see_the_time(String path) {
        Instant begin = Instant.parse("2027-03-27T12:00:00Z");
        run("""
                CREATE SCHEMA "Odd ""schema, x";
                CREATE TABLE written (at timestamptz);
                CREATE FUNCTION "my time"() RETURNS timestamptz LANGUAGE sql SET search_path = %1$s AS 'SELECT now()';
                CREATE PROCEDURE write_time() LANGUAGE sql SET search_path = %1$s AS 'INSERT INTO public.written VALUES (now())'
                """.formatted(path));
        time.keep();
        time.keep();
        time.stopAt(begin);
        run("CALL write_time()");
        assertThat(value("at = '%s' FROM written".formatted(begin))).isEqualTo("t");
        assertThat(value("\"my time\"() = '%s'".formatted(begin))).isEqualTo("t");
        String adopted = value("proconfig[1] FROM pg_proc WHERE proname = 'write_time'");
        assertThat(adopted).containsOnlyOnce("forge_test_clock, pg_catalog");
        if (path.startsWith("\"Odd")) {
            assertThat(adopted).isEqualTo("search_path=\"Odd \"\"schema, x\", \"$user\", forge_test_clock, pg_catalog");
        }
    }

    @Test
    void defaults_of_a_dump_see_the_time() throws SQLException {
        try (Connection connection = database.newSessions().getConnection()) {
            new JdbcTemplate(new SingleConnectionDataSource(connection, true)).execute("""
                    SELECT set_config('search_path', '', false);
                    CREATE FUNCTION public.plus(t timestamptz) RETURNS timestamptz LANGUAGE sql AS 'SELECT $1';
                    CREATE TABLE public.dumped (at timestamptz DEFAULT public.plus(now()) NOT NULL, "Later" timestamptz
                        DEFAULT clock_timestamp() + '1 day'::interval, id int) PARTITION BY LIST (id);
                    CREATE TABLE public.dumped1 PARTITION OF public.dumped DEFAULT
                    """);
        }
        time.keep();
        time.stopAt(Instant.parse("2027-03-27T12:00:00Z"));
        run("INSERT INTO dumped VALUES (DEFAULT, DEFAULT, 1); INSERT INTO dumped1 VALUES (DEFAULT, DEFAULT, 2)");
        assertThat(value("bool_and(at = now() AND \"Later\" = now() + interval '1 day') FROM dumped"))
                .isEqualTo("t");
    }

    @Test
    void message_names_a_function_that_hides_the_time() {
        assertThatNoException().isThrownBy(() -> time.requireSeenBy(database.dataSource()));
        run("CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.now()'");
        assertThatIllegalStateException()
                .isThrownBy(() -> time.requireSeenBy(database.dataSource()))
                .withMessageContaining("public.clock_timestamp() of the application hides clock_timestamp()")
                .withMessageNotContaining("hikari");
    }
}
