// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.config.BeanPostProcessor;

/**
 * Keeps a test away from other databases: fails before anything uses a connection to one. Otherwise the node of a test would migrate
 * the database of a developer, join its cluster and run its jobs.
 */
final class TestDatabaseGuard implements BeanPostProcessor {

    private final TestDatabase database;
    private final ListableBeanFactory beans;
    private final boolean otherDatabases;

    /** @param otherDatabases whether data sources that are not the cluster's may lead to other databases */
    TestDatabaseGuard(TestDatabase database, ListableBeanFactory beans, boolean otherDatabases) {
        this.database = database;
        this.beans = beans;
        this.otherDatabases = otherDatabases;
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String name) {
        if (bean instanceof ClusterDatabase cluster) {
            require(cluster.application(), "The DataSource of the cluster");
            require(cluster.direct(), "forge.cluster.direct-connection");
        } else if (bean instanceof DataSource source && (!otherDatabases || isOnly(name))) {
            // Before the application's own migrations.
            require(source, "The DataSource bean '%s'".formatted(name));
        }
        return bean;
    }

    private boolean isOnly(String name) {
        String[] names = beans.getBeanNamesForType(DataSource.class, true, false);
        return names.length == 1 && names[0].equals(name);
    }

    private void require(DataSource source, String subject) {
        try (Connection connection = source.getConnection()) {
            if (!connection.getMetaData().getDatabaseProductName().equals("PostgreSQL")) {
                // The cluster itself rejects it, if it is the cluster's.
                return;
            }
            try (Statement statement = connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT current_database()")) {
                row.next();
                // The name is random: no other server has such a database.
                if (!row.getString(1).equals(database.name())) {
                    throw new IllegalStateException(
                            "%s leads to database '%s', but this test must use '%s' only. The test sets spring.datasource.url: leave DataSource beans of your own out of it, or have them use that property. For a second database set its URL to ${spring.datasource.url} in the properties of the test, or otherDatabases = true if the test brings that database along."
                                    .formatted(subject, row.getString(1), database.name()));
                }
            }
        } catch (SQLException e) {
            throw new IllegalStateException("%s cannot be verified: no connection".formatted(subject), e);
        }
    }
}
