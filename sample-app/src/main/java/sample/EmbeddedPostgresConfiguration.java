package sample;

import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.time.Duration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.jdbc.autoconfigure.JdbcConnectionDetails;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** A throw-away PostgreSQL for an instance that was given none. */
@Configuration(proxyBeanMethods = false)
@ConditionalOnProperty(name = "spring.datasource.url", matchIfMissing = true, havingValue = "embedded")
class EmbeddedPostgresConfiguration {

    @Bean(destroyMethod = "close")
    EmbeddedPostgres embeddedPostgres() throws IOException {
        // As durable as a server in production: the walk-through kills nodes.
        return EmbeddedPostgres.builder()
                .setServerConfig("fsync", "on")
                .setServerConfig("synchronous_commit", "on")
                // A hook of its own would stop the server while the application still drains: the context closes it.
                .setRegisterShutdownHook(false)
                // On a busy machine the usual ten seconds are not enough.
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
