// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;
import static org.assertj.core.api.Assertions.assertThatNoException;

import java.sql.Connection;
import java.sql.SQLException;
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
