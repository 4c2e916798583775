// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.documentation;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import org.junit.jupiter.api.Test;

/** Verifies that PostgreSQL can plan every query and update of the guide. GrantTests executes the grants. */
@ClusterPostgres
class SqlBlockTests {

    private final TestDatabase database;

    SqlBlockTests(TestDatabase database) {
        this.database = database;
    }

    @Test
    void every_query_of_the_guide_can_be_planned() throws SQLException {
        var broken = new ArrayList<String>();
        int planned = 0;
        try (Connection connection = database.dataSource().getConnection();
                Statement statement = connection.createStatement()) {
            for (Pages.Block block : Pages.blocks("sql")) {
                // The example schema of the guide does not exist here.
                String text = block.text().replaceAll("--.*", "").replaceAll("\\bforge\\.(?=forge_)", "");
                for (String sql : text.split(";", -1)) {
                    if (sql.strip().matches("(?s)(SELECT|UPDATE)\\b.*")) {
                        planned++;
                        try {
                            statement.execute("EXPLAIN " + sql);
                        } catch (SQLException e) {
                            broken.add("%s: %s".formatted(block.place(), e.getMessage()));
                        }
                    }
                }
            }
        }
        assertThat(broken).isEmpty();
        assertThat(planned).isGreaterThan(10);
    }
}
