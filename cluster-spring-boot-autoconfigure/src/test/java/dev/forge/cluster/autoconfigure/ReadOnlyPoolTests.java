package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.TestApplications.ended;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import dev.forge.cluster.ClusterJob;
import dev.forge.cluster.JobStatus;
import dev.forge.cluster.Jobs;
import dev.forge.cluster.internal.engine.Node;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.TestDatabase;
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

        @ClusterJob(maxAttempts = "1")
        @Transactional
        public void write() {
            jdbc.sql("INSERT INTO effects VALUES ('written')").update();
        }
    }

    /** Changes the default for new sessions. The sessions that exist keep theirs, so a window begins by ending them. */
    private void readOnly(boolean whether) throws SQLException {
        try (Connection operator = database.dataSource().getConnection();
                Statement statement = operator.createStatement()) {
            statement.execute("SET default_transaction_read_only = off");
            statement.execute("ALTER DATABASE %s SET default_transaction_read_only = %s"
                    .formatted(database.name(), whether ? "on" : "off"));
            if (whether) {
                statement.execute("""
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
                        """);
            }
        }
    }

    @AfterEach
    void writable() throws SQLException {
        readOnly(false);
    }

    @Test
    void pool_that_was_filled_during_the_window_serves_jobs_after_it() {
        database.jdbc().sql("CREATE TABLE effects (what text)").update();
        TestApplications.whole(database)
                .withPropertyValues("spring.datasource.hikari.maximum-pool-size=4")
                .withBean(Work.class)
                .run(context -> {
                    Node node = context.getBean(ClusterLifecycle.Parts.class).node();
                    DataSource pool = context.getBean(DataSource.class);
                    readOnly(true);
                    await().until(() -> !node.isInContact());
                    await().until(() -> isReadOnly(pool));
                    await().until(node::isReadOnly);
                    readOnly(false);
                    await().until(node::isInContact);

                    UUID job = context.getBean(Jobs.class).enqueueNamed("write", null);
                    assertThat(ended(context, job).status()).isEqualTo(JobStatus.COMPLETED);
                });
    }

    private static boolean isReadOnly(DataSource pool) {
        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement();
                ResultSet setting = statement.executeQuery("SHOW default_transaction_read_only")) {
            return setting.next() && setting.getString(1).equals("on");
        } catch (SQLException e) {
            // Its session was ended; the pool opens another one.
            return false;
        }
    }
}
