// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import dev.forge.cluster.ForeignTransactions;
import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.springframework.core.InfrastructureProxy;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/**
 * The application's data source as the cluster uses it: each statement outside of a transaction commits by itself. A pool may be
 * configured with auto-commit off, as recommended for Hibernate, and would roll such a statement back when the connection is returned.
 *
 * <p>Spring's transactions know it as the data source that it wraps, so that statements join them.
 */
public final class ApplicationDataSource extends DelegatingDataSource implements InfrastructureProxy {

    private final DataSource application;
    private final ForeignTransactions foreignTransactions;

    public ApplicationDataSource(DataSource application, ForeignTransactions foreignTransactions) {
        super(application);
        this.application = application;
        this.foreignTransactions = foreignTransactions;
    }

    @Override
    public Object getWrappedObject() {
        return application;
    }

    ForeignTransactions foreignTransactions() {
        return foreignTransactions;
    }

    @Override
    public Connection getConnection() throws SQLException {
        Connection connection = super.getConnection();
        if (!connection.getAutoCommit()) {
            // The pool resets it when the connection is returned.
            connection.setAutoCommit(true);
        }
        return connection;
    }
}
