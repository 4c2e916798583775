// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import static org.assertj.core.api.Assertions.assertThat;

import java.sql.SQLException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.CannotGetJdbcConnectionException;
import org.springframework.jdbc.UncategorizedSQLException;
import org.springframework.transaction.CannotCreateTransactionException;

class StatementFailureTests {

    private static RuntimeException failed(String state) {
        return new UncategorizedSQLException("test", "UPDATE", new SQLException("failed", state));
    }

    @ParameterizedTest
    @ValueSource(strings = {"22001", "23514", "P0001", "XX001", "53200"})
    void values_triggers_and_damage_are_of_one_row(String state) {
        assertThat(StatementFailure.isOfRow(failed(state))).isTrue();
        assertThat(StatementFailure.isPerhapsOfRow(failed(state))).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"42P01", "42501", "55000", "58P01", "58030"})
    void missing_objects_and_failures_of_the_system_are_perhaps_of_one_row(String state) {
        assertThat(StatementFailure.isOfRow(failed(state))).isFalse();
        assertThat(StatementFailure.isPerhapsOfRow(failed(state))).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"08006", "25006", "28P01", "28000", "3D000", "40001", "53100", "53300", "55P03", "57P01"})
    void lost_connections_refused_logins_and_states_of_the_server_are_of_no_row(String state) {
        assertThat(StatementFailure.isOfRow(failed(state))).isFalse();
        assertThat(StatementFailure.isPerhapsOfRow(failed(state))).isFalse();
    }

    @Test
    void connection_or_transaction_that_cannot_be_opened_is_of_no_row() {
        var rejected = new SQLException("rejected", "22023");
        assertThat(StatementFailure.isPerhapsOfRow(new CannotGetJdbcConnectionException("no connection", rejected)))
                .isFalse();
        assertThat(StatementFailure.isPerhapsOfRow(
                        new CannotCreateTransactionException("no transaction", failed("22023"))))
                .isFalse();
    }
}
