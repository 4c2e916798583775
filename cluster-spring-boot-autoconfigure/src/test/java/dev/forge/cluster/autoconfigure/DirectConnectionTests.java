// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.PatientAwaits.awaitOften;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.ForeignTransactions;
import dev.forge.cluster.autoconfigure.properties.node.DirectConnectionProperties;
import dev.forge.cluster.internal.database.connection.PromptSocketFactory;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import javax.net.SocketFactory;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.postgresql.core.BaseConnection;
import org.postgresql.core.PGStream;
import org.postgresql.core.QueryExecutor;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.test.util.ReflectionTestUtils;

/** Connections that the cluster opens outside of the pool. */
@ClusterPostgres
class DirectConnectionTests {

    private static DataSource direct(String url, String username, String password) {
        var beans = new DefaultListableBeanFactory();
        beans.registerSingleton("application", new DriverManagerDataSource(url, username, password));
        return ClusterDatabase.of(beans, new DirectConnectionProperties(null, null, null), ForeignTransactions.WARN)
                .direct();
    }

    private static long loginThreads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("PostgreSQL JDBC driver connection thread"))
                .count();
    }

    @Test
    void login_at_a_silent_server_leaves_no_thread() throws Exception {
        // The kernel accepts the connection, but no server responds.
        try (var silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            String url = "jdbc:postgresql://127.0.0.1:%d/any?sslmode=disable&loginTimeout=1"
                    .formatted(silent.getLocalPort());
            DataSource direct = direct(url, "somebody", "secret");
            // Login threads of earlier tests have to end first.
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

    @Test
    void sockets_return_at_once_unless_the_application_has_its_own_factory(TestDatabase database) throws Exception {
        assertThat(socket(database.url(), database).getClass().getEnclosingClass())
                .isEqualTo(PromptSocketFactory.class);
        String own = database.url() + (database.url().contains("?") ? "&" : "?") + "socketFactory="
                + TunnelFactory.class.getName();
        assertThat(socket(own, database)).isInstanceOf(TunnelSocket.class);
    }

    private static Socket socket(String url, TestDatabase database) throws SQLException {
        try (Connection connection =
                direct(url, database.username(), database.password()).getConnection()) {
            QueryExecutor executor = connection.unwrap(BaseConnection.class).getQueryExecutor();
            return ((PGStream) Objects.requireNonNull(ReflectionTestUtils.getField(executor, "pgStream"))).getSocket();
        }
    }

    private static final class TunnelSocket extends Socket {}

    /** A socket factory of an application. The driver calls only the first method. */
    public static class TunnelFactory extends SocketFactory {

        @Override
        public Socket createSocket() {
            return new TunnelSocket();
        }

        @Override
        public Socket createSocket(String host, int port) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Socket createSocket(String host, int port, InetAddress localHost, int localPort) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Socket createSocket(InetAddress host, int port) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Socket createSocket(InetAddress host, int port, InetAddress localHost, int localPort) {
            throw new UnsupportedOperationException();
        }
    }
}
