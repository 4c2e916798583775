// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.database;

import java.sql.SQLException;
import javax.sql.DataSource;
import org.springframework.jdbc.datasource.ConnectionHolder;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** The connection that Spring has bound to the current thread. */
public final class BoundConnection {

    private BoundConnection() {}

    /** Returns whether statements on the data source are part of a transaction that is active on this thread. */
    public static boolean joinsTransaction(DataSource source) {
        if (!(TransactionSynchronizationManager.getResource(source) instanceof ConnectionHolder bound)) {
            return false;
        }
        try {
            // Also during the transaction of another database a connection is bound, but it commits each statement.
            return !bound.getConnection().getAutoCommit();
        } catch (SQLException e) {
            // The next statement fails.
            return true;
        }
    }
}
