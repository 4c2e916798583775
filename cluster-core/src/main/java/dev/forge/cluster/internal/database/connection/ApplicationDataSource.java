// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database.connection;

import dev.forge.cluster.ForeignTransactions;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.function.BooleanSupplier;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.springframework.core.InfrastructureProxy;
import org.springframework.jdbc.datasource.DelegatingDataSource;

/**
 * The application's data source as the cluster uses it: each statement outside of a transaction commits by itself, and is READ
 * COMMITTED. A pool may be configured with auto-commit off, as recommended for Hibernate, and would roll such a statement back when
 * the connection is returned.
 *
 * <p>Spring's transactions know it as the data source that it wraps, so that statements join them.
 */
public final class ApplicationDataSource extends DelegatingDataSource implements InfrastructureProxy {

    private static final Logger log = GuardedLogger.of(ApplicationDataSource.class);

    private final DataSource application;
    private final ForeignTransactions foreignTransactions;
    private final BooleanSupplier hasOtherLevels;

    /**
     * @param hasOtherLevels whether a session may have another level than READ COMMITTED as its default: by a setting, or because
     *     another client of a transaction pooler has left it. Asked with each connection
     */
    public ApplicationDataSource(
            DataSource application, ForeignTransactions foreignTransactions, BooleanSupplier hasOtherLevels) {
        super(application);
        this.application = application;
        this.foreignTransactions = foreignTransactions;
        this.hasOtherLevels = hasOtherLevels;
    }

    /** Returns whether transactions of a data source are READ COMMITTED by default. */
    public static boolean isReadCommitted(DataSource source) {
        try (Connection connection = source.getConnection()) {
            return connection.getTransactionIsolation() <= Connection.TRANSACTION_READ_COMMITTED;
        } catch (SQLException e) {
            // The level is set where it is not known.
            log.debug("Could not find out the isolation level of the application's DataSource", e);
            return false;
        }
    }

    @Override
    public Object getWrappedObject() {
        return application;
    }

    public ForeignTransactions foreignTransactions() {
        return foreignTransactions;
    }

    @Override
    public Connection getConnection() throws SQLException {
        // Asked first: the answer may take a connection of the pool, too.
        boolean setsLevel = hasOtherLevels.getAsBoolean();
        Connection connection = super.getConnection();
        if (!connection.getAutoCommit()) {
            // The pool resets it when the connection is returned.
            connection.setAutoCommit(true);
        }
        return setsLevel ? ReadCommittedStatements.on(connection) : connection;
    }
}
