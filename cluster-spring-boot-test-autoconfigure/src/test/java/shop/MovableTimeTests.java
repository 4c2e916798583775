// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import dev.forge.cluster.test.postgres.MovableTime;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** The time of a database, without a cluster. */
class MovableTimeTests {

    private static final Instant BEGIN = Instant.parse("2027-03-27T12:00:00.123456Z");

    private final TestDatabase database = PostgresServer.shared().createDatabaseWithMovableTime("movable time");
    private final MovableTime time = database.time();

    @AfterEach
    void drop() {
        database.close();
    }

    @Test
    void statements_defaults_and_views_follow() {
        database.jdbc()
                .sql("CREATE TABLE event (at timestamptz NOT NULL DEFAULT now())")
                .update();
        database.jdbc()
                .sql("CREATE VIEW old_event AS SELECT at FROM event WHERE at < now() - interval '1 day'")
                .update();
        time.stopAt(BEGIN);
        database.jdbc().sql("INSERT INTO event DEFAULT VALUES").update();
        assertThat(now(database.jdbc(), "(SELECT at FROM event)")).isEqualTo(BEGIN);
        time.advance(Duration.ofDays(2));
        assertThat(now(database.jdbc(), "(SELECT at FROM old_event)")).isEqualTo(BEGIN);
        for (String function :
                new String[] {"now()", "clock_timestamp()", "statement_timestamp()", "transaction_timestamp()"}) {
            assertThat(now(database.jdbc(), function)).as(function).isEqualTo(BEGIN.plus(Duration.ofDays(2)));
        }
    }

    @Test
    void open_transactions_see_a_moved_time() throws SQLException {
        time.stopAt(BEGIN);
        try (Connection connection = database.dataSource().getConnection()) {
            connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            connection.setAutoCommit(false);
            JdbcClient inTransaction = JdbcClient.create(new SingleConnectionDataSource(connection, true));
            assertThat(now(inTransaction, "now()")).isEqualTo(BEGIN);
            time.advance(Duration.ofHours(1));
            assertThat(now(inTransaction, "now()")).isEqualTo(BEGIN.plus(Duration.ofHours(1)));
            connection.rollback();
        }
    }

    @Test
    void time_that_runs_can_be_moved() {
        time.advance(Duration.ofDays(10));
        assertThat(now(database.jdbc(), "now()")).isAfter(Instant.now().plus(Duration.ofDays(9)));
        time.run();
        assertThat(now(database.jdbc(), "now()")).isBefore(Instant.now().plus(Duration.ofDays(1)));
    }

    @Test
    void tables_with_foreign_keys_generated_columns_and_json_are_restored() {
        database.jdbc().sql("""
                CREATE TABLE parent (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data json,
                                     twice bigint GENERATED ALWAYS AS (2) STORED);
                CREATE TABLE child (parent bigint NOT NULL REFERENCES parent (id));
                CREATE TABLE "odd name" ("a b" text);
                CREATE TABLE point (x int, y int);
                CREATE SEQUENCE of_hibernate INCREMENT 50;
                INSERT INTO parent (data) VALUES ('{"a": 1}');
                INSERT INTO child VALUES (1);
                INSERT INTO point VALUES (1, 1)
                """).update();
        time.keep();
        database.jdbc().sql("""
                DELETE FROM child;
                UPDATE parent SET data = '{"a": 2}';
                UPDATE point SET y = 2;
                INSERT INTO parent (data) VALUES (NULL);
                INSERT INTO "odd name" VALUES ('x')
                """).update();
        assertThat(value("nextval('of_hibernate')")).isEqualTo("1");
        time.restore();
        assertThat(value("string_agg(data::text, ',') FROM parent")).isEqualTo("{\"a\": 1}");
        assertThat(value("count(*) FROM child")).isEqualTo("1");
        assertThat(value("count(*) FROM \"odd name\"")).isEqualTo("0");
        assertThat(value("y FROM point")).isEqualTo("1");
        assertThat(value("nextval('of_hibernate')"))
                .as("Hibernate keeps the fifty values that it has taken")
                .isEqualTo("51");
        database.jdbc().sql("INSERT INTO parent (data) VALUES (NULL)").update();
        assertThat(value("max(id) FROM parent")).isEqualTo("2");
    }

    private String value(String select) {
        return database.jdbc()
                .sql("SELECT " + select)
                .query((row, n) -> row.getString(1))
                .single();
    }

    @Test
    void connections_with_another_search_path_are_refused() {
        DataSource other = new DriverManagerDataSource(
                database.url() + "?currentSchema=public", database.username(), database.password());
        assertThatIllegalStateException()
                .isThrownBy(() -> time.requireSeenBy(other))
                .withMessageContaining("search path public")
                .withMessageContaining("hikari.schema");
        time.requireSeenBy(database.dataSource());
    }

    private static Instant now(JdbcClient client, String expression) {
        return client.sql("SELECT " + expression)
                .query((row, n) -> row.getObject(1, OffsetDateTime.class))
                .single()
                .toInstant();
    }
}
