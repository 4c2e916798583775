// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.time.Duration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.jdbc.autoconfigure.JdbcConnectionDetails;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Starts a temporary PostgreSQL if no database is configured. */
@Configuration(proxyBeanMethods = false)
@ConditionalOnProperty(name = "spring.datasource.url", matchIfMissing = true, havingValue = "embedded")
class EmbeddedPostgresConfiguration {

    @Bean(destroyMethod = "close")
    EmbeddedPostgres embeddedPostgres() throws IOException {
        // The server is as durable as one in production, because the walk-through kills nodes.
        return EmbeddedPostgres.builder()
                .setServerConfig("fsync", "on")
                .setServerConfig("synchronous_commit", "on")
                // The context closes the server; a shutdown hook would stop it while the application still drains.
                .setRegisterShutdownHook(false)
                // The default of ten seconds is too short on a busy machine.
                .setPGStartupWait(Duration.ofMinutes(1))
                .start();
    }

    @Bean
    JdbcConnectionDetails embeddedPostgresConnection(EmbeddedPostgres postgres) {
        String url = "jdbc:postgresql://localhost:%d/postgres?user=postgres".formatted(postgres.getPort());
        return new JdbcConnectionDetails() {
            @Override
            public String getUsername() {
                return "postgres";
            }

            @Override
            public String getPassword() {
                return "postgres";
            }

            @Override
            public String getJdbcUrl() {
                return url;
            }
        };
    }
}
