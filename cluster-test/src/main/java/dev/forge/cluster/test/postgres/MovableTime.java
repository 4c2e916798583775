// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Objects;
import javax.sql.DataSource;
import org.postgresql.util.PSQLException;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.JdbcClient;

/** The time of a test database, which tests stop and move, and the first rows of its tables. See movable-time.sql. */
public final class MovableTime {

    /** What a database with a movable time needs as its search path. */
    static final String SEARCH_PATH = "\"$user\", public, forge_test_clock, pg_catalog";

    private static final List<String> FUNCTIONS =
            List.of("now", "clock_timestamp", "statement_timestamp", "transaction_timestamp");

    /** The state of errors whose message movable-time.sql has written for the reader. */
    private static final String EXPLAINED = "FT001";

    private final TestDatabase database;
    private volatile long movedMicros;
    private volatile long stoppedMicros;

    MovableTime(TestDatabase database) {
        this.database = database;
    }

    /** Creates the functions that tell the time; the search path of the database must be set before. */
    static void install(DataSource source) {
        try (InputStream script = Objects.requireNonNull(MovableTime.class.getResourceAsStream("movable-time.sql"))) {
            new JdbcTemplate(source).execute(new String(script.readAllBytes(), StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Requires that statements of the application see the time of the test.
     *
     * @throws IllegalStateException if its connections have another search path
     */
    public void requireSeenBy(DataSource application) {
        JdbcClient client = JdbcClient.create(application);
        for (String function : FUNCTIONS) {
            String schema = client.sql("""
                            SELECT n.nspname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                            WHERE p.oid = to_regprocedure('%s()')
                            """.formatted(function))
                    .query(String.class)
                    .optional()
                    .orElse("");
            if (schema.equals("pg_catalog") || schema.isEmpty()) {
                throw new IllegalStateException(
                        "The connections of the application have the search path %s, so that %s() is not the time of the test. Remove spring.datasource.hikari.schema, connection-init-sql or currentSchema from the test's configuration, or name the schemas %s there."
                                .formatted(
                                        client.sql("SHOW search_path")
                                                .query(String.class)
                                                .single(),
                                        function,
                                        "forge_test_clock, pg_catalog at the end"));
            }
            if (!schema.equals("forge_test_clock")) {
                throw new IllegalStateException(
                        "The function %1$s.%2$s() of the application hides %2$s(), so that statements do not see the time of the test. Give it another name, or create it in a schema that is not in the search path."
                                .formatted(schema, function));
            }
        }
    }

    // Time --------------------------------------------------------------------------------------------------

    /** Stops the time at an instant. */
    public void stopAt(Instant instant) {
        long micros = ChronoUnit.MICROS.between(Instant.EPOCH, instant);
        if (micros == 0) {
            throw new IllegalArgumentException("The time of a test cannot be stopped at " + instant);
        }
        set("stopped", micros);
        stoppedMicros = micros;
    }

    /** Has the time run as that of the machine does. */
    public void run() {
        set("stopped", 0);
        set("moved", 0);
        stoppedMicros = 0;
        movedMicros = 0;
    }

    /** Moves the time on. */
    public void advance(Duration duration) {
        long micros = duration.toNanos() / 1_000;
        long stopped = stoppedMicros;
        if (stopped != 0) {
            set("stopped", stopped + micros);
            stoppedMicros = stopped + micros;
        } else {
            long moved = movedMicros + micros;
            set("moved", moved);
            movedMicros = moved;
        }
    }

    private void set(String sequence, long micros) {
        database.jdbc()
                .sql("SELECT setval('forge_test_clock.%s', %d)".formatted(sequence, micros))
                .query(Long.class)
                .single();
    }

    /** Returns the time. */
    public Instant now() {
        return stoppedMicros != 0
                ? Instant.EPOCH.plus(stoppedMicros, ChronoUnit.MICROS)
                : Instant.now().plus(movedMicros, ChronoUnit.MICROS);
    }

    // Tables ------------------------------------------------------------------------------------------------

    /** Remembers the rows of all tables, for {@link #restore}. */
    public void keep() {
        boolean superuser = database.jdbc()
                .sql("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
                .query(Boolean.class)
                .single();
        if (!superuser) {
            throw new IllegalStateException(
                    "%s (user %s): tests that move the time and restore tables need a superuser. Use another user, or no such server: the tests then start one."
                            .formatted(PostgresServer.URL_VARIABLE, database.username()));
        }
        call("SELECT forge_test_clock.adopt(), forge_test_clock.keep()");
    }

    /**
     * Returns all tables to the rows that were kept.
     *
     * @throws IllegalStateException if a test has changed tables themselves, or if transactions are still open
     */
    public void restore() {
        call("SELECT forge_test_clock.restore()");
    }

    private void call(String select) {
        try {
            database.jdbc().sql(select).query((row, n) -> 1).list();
        } catch (DataAccessException e) {
            if (e.getMostSpecificCause() instanceof PSQLException cause
                    && EXPLAINED.equals(cause.getSQLState())
                    && cause.getServerErrorMessage() != null) {
                throw new IllegalStateException(cause.getServerErrorMessage().getMessage(), e);
            }
            throw e;
        }
    }
}
