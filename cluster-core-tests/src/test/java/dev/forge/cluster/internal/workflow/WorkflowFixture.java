// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.Step;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;

/** Fixture with a cluster that runs workflows, and records of the effects of steps. */
abstract class WorkflowFixture {

    record Order(String item, int quantity) {}

    final JdbcClient jdbc;
    final TestDatabase database;
    final TestCluster cluster;
    final TestWorkflows flows;
    final List<String> done = new CopyOnWriteArrayList<>();

    WorkflowFixture(TestDatabase database) {
        this.database = database;
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.flows = new TestWorkflows(cluster);
        jdbc.sql("CREATE TABLE IF NOT EXISTS flow_effects (position bigserial, run uuid, step text)")
                .update();
        jdbc.sql("TRUNCATE flow_effects").update();
    }

    @AfterEach
    void close() {
        cluster.close();
    }

    /** Records an effect in memory and returns it. */
    String did(String what) {
        done.add(what);
        return what;
    }

    /** A step whose result the method reads as a type that a test may change. */
    static Step<Object> typed(String name, Class<?> type, Callable<Object> action) {
        return Step.of(name, ParameterizedTypeReference.forType(type), action);
    }

    /** Records the effect of a step in the database, in the transaction of the step if it has one. */
    String wrote(UUID run, String step) {
        return wrote(database.dataSource(), run, step);
    }

    static String wrote(DataSource source, UUID run, String step) {
        JdbcClient.create(source)
                .sql("INSERT INTO flow_effects (run, step) VALUES (?, ?)")
                .params(run, step)
                .update();
        return step;
    }

    List<String> written(UUID run) {
        return jdbc.sql("SELECT step FROM flow_effects WHERE run = ? ORDER BY position")
                .param(run)
                .query(String.class)
                .list();
    }

    Map<String, Object> job(UUID run) {
        return jdbc.sql("SELECT * FROM forge_jobs WHERE id = ?")
                .param(run)
                .query()
                .singleRow();
    }

    long claims(UUID run) {
        return jdbc.sql("SELECT claim_epoch FROM forge_jobs WHERE id = ?")
                .param(run)
                .query(Long.class)
                .single();
    }

    Object lease(UUID run) {
        return jdbc.sql("SELECT lease_expires_at FROM forge_jobs WHERE id = ?")
                .param(run)
                .query(Object.class)
                .single();
    }

    /** A data source whose connections a test prepares or intercepts. */
    @SuppressWarnings("UnusedVariable")
    abstract static class InterceptedDataSource extends AbstractDataSource {
        private final DataSource real;

        InterceptedDataSource(DataSource real) {
            this.real = real;
        }

        void opened(Connection connection) throws SQLException {}

        void before(Connection connection, String call, String sql) throws SQLException {}

        @Override
        public Connection getConnection() throws SQLException {
            Connection connection = real.getConnection();
            opened(connection);
            return (Connection) Proxy.newProxyInstance(
                    Connection.class.getClassLoader(), new Class<?>[] {Connection.class}, (self, method, arguments) -> {
                        if (method.getName().equals("equals")) {
                            return self == arguments[0];
                        }
                        if (method.getName().equals("hashCode")) {
                            return System.identityHashCode(self);
                        }
                        before(
                                connection,
                                method.getName(),
                                arguments != null && arguments.length > 0 ? String.valueOf(arguments[0]) : "");
                        try {
                            return method.invoke(connection, arguments);
                        } catch (InvocationTargetException e) {
                            throw e.getTargetException();
                        }
                    });
        }

        @Override
        public Connection getConnection(String username, String password) throws SQLException {
            return getConnection();
        }
    }

    DataSource repeatableRead() {
        return new InterceptedDataSource(database.dataSource()) {
            @Override
            void opened(Connection connection) throws SQLException {
                connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            }
        };
    }
}
