// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.jdbc.autoconfigure.JdbcClientAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcTemplateAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** Fixture for tests of applications on an empty database. */
@ClusterPostgres
@ExtendWith(OutputCaptureExtension.class)
abstract class AbstractApplicationTests {

    TestDatabase database;

    @BeforeEach
    void create() {
        database = PostgresServer.shared().createEmptyDatabase("autoconfigure");
    }

    @AfterEach
    void drop() {
        // The server needs a moment to end closed sessions.
        await().untilAsserted(() -> assertThat(database.sessions()).isEmpty());
        database.close();
    }

    ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withConfiguration(
                        AutoConfigurations.of(JdbcTemplateAutoConfiguration.class, JdbcClientAutoConfiguration.class));
    }

    List<String> tables(String schema) {
        return database.jdbc()
                .sql("SELECT table_name::text FROM information_schema.tables WHERE table_schema = ?")
                .param(schema)
                .query((row, n) -> row.getString(1))
                .list();
    }

    List<UUID> nodes() {
        return database.jdbc()
                .sql("SELECT id FROM forge_nodes")
                .query(UUID.class)
                .list();
    }
}
