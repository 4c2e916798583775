// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal;

import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.function.Consumer;
import javax.sql.DataSource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/** Counts rows and index entries that statements read, including dead ones: a cost that does not depend on the machine. */
public final class TableReads {

    private TableReads() {}

    /**
     * Returns how many rows and index entries of a table the work reads.
     *
     * @param table the prefix of the names of the tables and indexes
     * @param work the statements, on a source that is a single session
     */
    public static long during(TestDatabase database, String table, Consumer<DataSource> work) {
        try (Connection session = database.dataSource().getConnection()) {
            var source = new SingleConnectionDataSource(session, true);
            long before = soFar(source, table);
            work.accept(source);
            return soFar(source, table) - before;
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    private static long soFar(DataSource source, String table) {
        var jdbc = JdbcClient.create(source);
        jdbc.sql("SELECT pg_stat_force_next_flush()").query(rows -> {});
        return jdbc.sql("""
                SELECT coalesce(sum(pg_stat_get_tuples_returned(oid)), 0)::bigint FROM pg_class
                WHERE starts_with(relname, ?) AND relkind IN ('r', 'i')
                """).param(table).query(Long.class).single();
    }
}
