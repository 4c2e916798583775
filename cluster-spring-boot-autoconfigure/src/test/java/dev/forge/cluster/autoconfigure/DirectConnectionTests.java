// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.PatientAwaits.awaitOften;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.autoconfigure.properties.DirectConnectionProperties;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** The connections that the cluster opens past the pool. */
@ClusterPostgres
class DirectConnectionTests {

    private static DataSource direct(String url, String username, String password) {
        var beans = new DefaultListableBeanFactory();
        beans.registerSingleton("application", new DriverManagerDataSource(url, username, password));
        return ClusterDatabase.of(beans, new DirectConnectionProperties(null, null, null))
                .direct();
    }

    private static long loginThreads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("PostgreSQL JDBC driver connection thread"))
                .count();
    }

    @Test
    void login_at_a_server_that_says_nothing_leaves_no_thread_behind() throws Exception {
        // The kernel accepts for it.
        try (var silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            String url = "jdbc:postgresql://127.0.0.1:%d/any?sslmode=disable&loginTimeout=1"
                    .formatted(silent.getLocalPort());
            DataSource direct = direct(url, "somebody", "secret");
            // Those of earlier tests end, too.
            await().until(() -> loginThreads() == 0);
            var login = new FutureTask<>(direct::getConnection);
            new Thread(login, "login").start();
            awaitOften().until(() -> loginThreads() == 1);
            assertThatExceptionOfType(ExecutionException.class)
                    .isThrownBy(login::get)
                    .withCauseInstanceOf(SQLException.class);
            await().until(() -> loginThreads() == 0);
        }
    }

    @Test
    void statement_of_a_direct_connection_has_no_socket_timeout(TestDatabase database) throws Exception {
        try (Connection connection =
                direct(database.url(), database.username(), database.password()).getConnection()) {
            assertThat(connection.getNetworkTimeout()).isZero();
        }
    }
}
