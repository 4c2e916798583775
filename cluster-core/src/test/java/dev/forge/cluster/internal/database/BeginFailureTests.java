// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static org.assertj.core.api.Assertions.assertThat;

import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.transaction.CannotCreateTransactionException;
import org.springframework.transaction.InvalidIsolationLevelException;
import org.springframework.transaction.TransactionException;

class BeginFailureTests {

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

    private static TransactionException because(Throwable cause) {
        return new CannotCreateTransactionException("Could not open JDBC Connection for transaction", cause);
    }

    static Stream<TransactionException> passing() {
        return Stream.of(
                because(new SQLTransientConnectionException(HIKARI)),
                because(new SQLTransientConnectionException(HIKARI, "08001", new SQLException("refused", "08001"))),
                because(new SQLTransientConnectionException(HIKARI, "53300", new SQLException("too many", "53300"))),
                because(new SQLException("the database system is starting up", "57P03")),
                because(new PoolExhaustedException()),
                because(new SQLException("Cannot get a connection", new NoSuchElementException("Timeout"))),
                because(new SQLException("Acquisition timeout", new TimeoutException())),
                because(new SQLException("Interrupted during connection acquisition", new InterruptedException())));
    }

    static Stream<TransactionException> lasting() {
        return Stream.of(
                new InvalidIsolationLevelException("not supported"),
                new CannotCreateTransactionException("no cause"),
                because(new IllegalStateException("EntityManagerFactory is closed")),
                because(new NoSuchElementException("a bug")),
                because(new Circular()),
                because(new SQLException("HikariDataSource has been closed")),
                because(new SQLException("invalid isolation level", "22023")),
                because(new SQLTransientConnectionException(HIKARI, "28P01", new SQLException("password", "28P01"))),
                because(new SQLTransientConnectionException(HIKARI, "3D000", new SQLException("database", "3D000"))));
    }

    @ParameterizedTest
    @MethodSource("passing")
    void failed_server_and_exhausted_pool_are_temporary(TransactionException failure) {
        assertThat(BeginFailure.isTemporary(failure)).isTrue();
    }

    @ParameterizedTest
    @MethodSource("lasting")
    void other_failures_are_permanent(TransactionException failure) {
        assertThat(BeginFailure.isTemporary(failure)).isFalse();
    }
}
