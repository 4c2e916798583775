// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.UUID;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;

/** The application's pool after a window in which the database was read-only. */
@ClusterPostgres
class ReadOnlyPoolTests {

    private final TestDatabase database;

    ReadOnlyPoolTests(TestDatabase database) {
        this.database = database;
    }

    static class Work {
        private final JdbcClient jdbc;

        Work(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob(maxAttempts = 1)
        @Transactional
        public void write() {
            jdbc.sql("INSERT INTO effects VALUES ('written')").update();
        }
    }

    @AfterEach
    void writable() {
        database.setReadOnly(false);
    }

    @Test
    void pool_that_was_filled_during_the_window_serves_jobs_after_it() {
        database.jdbc().sql("CREATE TABLE effects (what text)").update();
        TestApplications.whole(database)
                .withPropertyValues("spring.datasource.hikari.maximum-pool-size=4")
                .withBean(Work.class)
                .run(context -> {
                    Node node = context.getBean(NodeRuntime.class).node();
                    DataSource pool = context.getBean(DataSource.class);
                    database.setReadOnly(true);
                    await().until(() -> !node.contact().isRecent());
                    await().until(() -> isReadOnly(pool));
                    await().until(node.membership()::isReadOnly);
                    database.setReadOnly(false);
                    await().until(node.contact()::isRecent);

                    UUID job = context.getBean(Jobs.class)
                            .enqueueNamed("write", null)
                            .id();
                    assertThat(ended(context, job).status()).isEqualTo(JobStatus.COMPLETED);
                });
    }

    private static boolean isReadOnly(DataSource pool) {
        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement();
                ResultSet setting = statement.executeQuery("SHOW default_transaction_read_only")) {
            return setting.next() && setting.getString(1).equals("on");
        } catch (SQLException e) {
            // The session was terminated; the pool opens another one.
            return false;
        }
    }
}
