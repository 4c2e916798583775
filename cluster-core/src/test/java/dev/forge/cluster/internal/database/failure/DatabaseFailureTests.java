// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.failure;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.util.EnumSet;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;
import org.springframework.jdbc.CannotGetJdbcConnectionException;
import org.springframework.jdbc.UncategorizedSQLException;
import org.springframework.transaction.CannotCreateTransactionException;
import org.springframework.transaction.InvalidIsolationLevelException;
import org.springframework.transaction.TransactionException;

class DatabaseFailureTests {

    private static final String HIKARI = "HikariPool-1 - Connection is not available, request timed out";

    /** An exception with the name that Tomcat's pool uses. */
    private static final class PoolExhaustedException extends SQLException {
        private static final long serialVersionUID = 1L;
    }

    private static final class Circular extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public synchronized Throwable getCause() {
            return this;
        }
    }

    private static RuntimeException failed(String state) {
        return new UncategorizedSQLException("test", "UPDATE", new SQLException("failed", state));
    }

    private static TransactionException cannotBegin(Throwable cause) {
        return new CannotCreateTransactionException("Could not open JDBC Connection for transaction", cause);
    }

    @ParameterizedTest
    @CsvSource({
        "08006, CONNECTION_LOST",
        "57P01, CONNECTION_LOST",
        "57P02, CONNECTION_LOST",
        "57P03, CONNECTION_LOST",
        "25006, READ_ONLY",
        "53000, OUT_OF_RESOURCES",
        "53100, OUT_OF_RESOURCES",
        "53300, OUT_OF_RESOURCES",
        "53400, OUT_OF_RESOURCES",
        "58030, SYSTEM_ERROR",
        "58P01, SYSTEM_ERROR",
        "40001, SERIALIZATION",
        "40P01, DEADLOCK",
        "55P03, LOCK_TIMEOUT",
        "57014, STATEMENT_TIMEOUT",
        "55000, OBJECT_STATE",
        "25P02, ABORTED",
        "25P03, SESSION_STATE",
        "57P05, SESSION_STATE",
        "26000, REFUSED",
        "28P01, REFUSED",
        "3D000, REFUSED",
        "22001, REJECTED",
        "23514, REJECTED",
        "54000, REJECTED",
        "P0001, RAISED",
        "42P01, SCHEMA",
        "42501, FORBIDDEN",
        "53200, OTHER",
        "XX001, OTHER",
        "0A000, OTHER",
        "8, OTHER",
    })
    void sqlstate_has_a_kind(String state, Kind kind) {
        assertThat(DatabaseFailure.kind(failed(state))).isEqualTo(kind);
    }

    @Test
    void failure_without_sqlstate_is_none_of_the_database() {
        assertThat(DatabaseFailure.kind(new IllegalStateException("a bug"))).isEqualTo(Kind.NONE);
        assertThat(DatabaseFailure.kind(new Circular())).isEqualTo(Kind.NONE);
    }

    @Test
    void full_lock_table_is_of_the_server_and_not_of_a_large_row() {
        var message = new ServerErrorMessage("SERROR\0C53200\0Mout of shared memory\0Flock.c\0");
        assertThat(DatabaseFailure.kind(new PSQLException(message))).isEqualTo(Kind.OUT_OF_RESOURCES);
    }

    @Test
    void first_error_of_an_aborted_transaction_decides_if_the_server_or_another_transaction_caused_it() {
        assertThat(DatabaseFailure.kind(aborted("40P01"))).isEqualTo(Kind.DEADLOCK);
        assertThat(DatabaseFailure.kind(aborted("25006"))).isEqualTo(Kind.READ_ONLY);
        assertThat(DatabaseFailure.kind(aborted("23505"))).isEqualTo(Kind.ABORTED);
    }

    private static SQLException aborted(String first) {
        return new SQLException("aborted", "25P02", new SQLException("first", first));
    }

    @Test
    void connection_or_transaction_that_cannot_be_opened_is_of_no_row() {
        var rejected = new SQLException("rejected", "22023");
        assertThat(DatabaseFailure.kind(new CannotGetJdbcConnectionException("no connection", rejected)))
                .isEqualTo(Kind.REFUSED);
        assertThat(DatabaseFailure.kind(cannotBegin(rejected))).isEqualTo(Kind.REFUSED);
        assertThat(DatabaseFailure.kind(cannotBegin(failed("58030")))).isEqualTo(Kind.OUT_OF_RESOURCES);
        assertThat(DatabaseFailure.kind(cannotBegin(failed("57P03")))).isEqualTo(Kind.CONNECTION_LOST);
    }

    @Test
    void server_others_rows_and_bugs_are_told_apart() {
        assertThat(kinds(Kind::isOfServer))
                .containsExactly(Kind.CONNECTION_LOST, Kind.READ_ONLY, Kind.OUT_OF_RESOURCES, Kind.SYSTEM_ERROR);
        assertThat(kinds(Kind::refusesWrites))
                .containsExactly(Kind.READ_ONLY, Kind.OUT_OF_RESOURCES, Kind.SYSTEM_ERROR);
        assertThat(kinds(Kind::isConflict)).containsExactly(Kind.SERIALIZATION, Kind.DEADLOCK);
        assertThat(kinds(Kind::isOfRow)).containsExactly(Kind.REJECTED, Kind.RAISED, Kind.OTHER);
        assertThat(kinds(Kind::isPerhapsOfRow))
                .containsExactly(
                        Kind.SYSTEM_ERROR,
                        Kind.OBJECT_STATE,
                        Kind.REJECTED,
                        Kind.RAISED,
                        Kind.SCHEMA,
                        Kind.FORBIDDEN,
                        Kind.OTHER);
        assertThat(kinds(kind -> !kind.isAnswered()))
                .containsExactly(Kind.CONNECTION_LOST, Kind.POOL_EXHAUSTED, Kind.NONE);
        assertThat(kinds(kind -> !kind.isTransient()))
                .containsExactly(Kind.REJECTED, Kind.RAISED, Kind.SCHEMA, Kind.FORBIDDEN, Kind.OTHER, Kind.NONE);
    }

    private static EnumSet<Kind> kinds(Predicate<Kind> predicate) {
        EnumSet<Kind> kinds = EnumSet.allOf(Kind.class);
        kinds.removeIf(predicate.negate());
        return kinds;
    }

    static Stream<TransactionException> passing() {
        return Stream.of(
                cannotBegin(new SQLTransientConnectionException(HIKARI)),
                cannotBegin(new SQLTransientConnectionException(HIKARI, "08001", new SQLException("refused", "08001"))),
                cannotBegin(
                        new SQLTransientConnectionException(HIKARI, "53300", new SQLException("too many", "53300"))),
                cannotBegin(new SQLException("the database system is starting up", "57P03")),
                cannotBegin(new PoolExhaustedException()),
                cannotBegin(new SQLException("Cannot get a connection", new NoSuchElementException("Timeout"))),
                cannotBegin(new SQLException("Acquisition timeout", new TimeoutException())),
                cannotBegin(new SQLException("Interrupted during connection acquisition", new InterruptedException())));
    }

    static Stream<TransactionException> lasting() {
        return Stream.of(
                new InvalidIsolationLevelException("not supported"),
                new CannotCreateTransactionException("no cause"),
                cannotBegin(new IllegalStateException("EntityManagerFactory is closed")),
                cannotBegin(new NoSuchElementException("a bug")),
                cannotBegin(new Circular()),
                cannotBegin(new SQLException("HikariDataSource has been closed")),
                cannotBegin(new SQLException("invalid isolation level", "22023")),
                cannotBegin(
                        new SQLTransientConnectionException(HIKARI, "28P01", new SQLException("password", "28P01"))),
                cannotBegin(
                        new SQLTransientConnectionException(HIKARI, "3D000", new SQLException("database", "3D000"))));
    }

    @ParameterizedTest
    @MethodSource("passing")
    void transaction_can_begin_later_if_the_server_failed_or_the_pool_was_exhausted(TransactionException failure) {
        assertThat(DatabaseFailure.kind(failure).canBeginLater()).isTrue();
    }

    @ParameterizedTest
    @MethodSource("lasting")
    void transaction_cannot_begin_later_after_other_failures(TransactionException failure) {
        assertThat(DatabaseFailure.kind(failure).canBeginLater()).isFalse();
    }

    @Test
    void brief_text_of_a_failed_server_is_the_first_line_of_its_message() {
        var lost = new SQLException("terminating connection\n  Detail: by an administrator", "57P01");
        assertThat(DatabaseFailure.brief(new UncategorizedSQLException("test", "UPDATE", lost)))
                .isEqualTo("terminating connection");
        assertThat(DatabaseFailure.brief(new IllegalStateException("a bug")))
                .isEqualTo("java.lang.IllegalStateException: a bug");
    }
}
