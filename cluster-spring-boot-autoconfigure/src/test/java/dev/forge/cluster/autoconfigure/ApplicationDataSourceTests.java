// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.ClusterDataSource;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.net.URI;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import javax.sql.DataSource;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.flyway.autoconfigure.FlywayAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/** Choice of the data source, direct connections, and the use of the pool. */
class ApplicationDataSourceTests extends AbstractApplicationTests {

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void small_pool_suffices(int size) {
        runner().withConfiguration(
                        size == 1
                                ? AutoConfigurations.of()
                                : AutoConfigurations.of(FlywayAutoConfiguration.class)) // Flyway needs two itself
                .withPropertyValues("spring.datasource.hikari.maximum-pool-size=" + size)
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(nodes()).hasSize(1);
                });
    }

    @Test
    void exhausted_pool_does_not_delay_heartbeats() {
        runner().withPropertyValues(
                        "spring.datasource.hikari.maximum-pool-size=1",
                        "forge.cluster.heartbeat.interval=20ms",
                        "forge.cluster.heartbeat.max-interval=1s")
                .run(context -> {
                    try (Connection whole = context.getBean(DataSource.class).getConnection()) {
                        assertThat(whole.isValid(1)).isTrue();
                        await().until(() -> database.jdbc()
                                .sql("SELECT beats > 3 FROM forge_nodes")
                                .query(Boolean.class)
                                .single());
                    }
                });
    }

    @Test
    @Tag("soak")
    void pool_exhausted_for_a_minute_does_not_make_a_node_dead() {
        runner().withPropertyValues("spring.datasource.hikari.maximum-pool-size=1", "forge.cluster.node.name=busy")
                .run(busy -> runner().withPropertyValues("forge.cluster.node.name=witness")
                        .run(witness -> {
                            List<UUID> before = nodes();
                            try (Connection whole =
                                    busy.getBean(DataSource.class).getConnection()) {
                                assertThat(whole.isValid(1)).isTrue();
                                await().during(Duration.ofSeconds(60))
                                        .atMost(Duration.ofSeconds(70))
                                        .until(() -> database.jdbc()
                                                        .sql("SELECT count(*) FROM forge_nodes WHERE status = 'active'")
                                                        .query(Long.class)
                                                        .single()
                                                == 2);
                            }
                            assertThat(nodes()).isEqualTo(before);
                            System.out.println("an exhausted pool for 60 s: nodes declared dead: 0");
                        }));
    }

    @Test
    void direct_connections_run_the_init_sql_of_the_pool() {
        database.jdbc().sql("CREATE ROLE pool_owner").update();
        database.jdbc().sql("GRANT CREATE ON SCHEMA public TO pool_owner").update();
        runner().withPropertyValues("spring.datasource.hikari.connection-init-sql=SET ROLE pool_owner")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(database.jdbc()
                                    .sql("SELECT tableowner::text FROM pg_tables WHERE tablename = 'forge_jobs'")
                                    .query(String.class)
                                    .single())
                            .isEqualTo("pool_owner");
                });
        database.jdbc().sql("DROP OWNED BY pool_owner").update();
        database.jdbc().sql("DROP ROLE pool_owner").update();
    }

    @Test
    void application_joins_without_optional_libraries() {
        new ApplicationContextRunner()
                .withClassLoader(new FilteredClassLoader(
                        "com.zaxxer.hikari",
                        "io.micrometer",
                        "org.springframework.boot.actuate",
                        "org.springframework.boot.health"))
                .withConfiguration(TestApplications.CLUSTER)
                .withBean(
                        DataSource.class,
                        () -> new DriverManagerDataSource(database.url(), database.username(), database.password()))
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(nodes()).hasSize(1);
                });
    }

    @Test
    void data_source_without_a_readable_url_fails_the_start_with_an_action() {
        var opaque = new AbstractDataSource() {
            @Override
            public Connection getConnection() throws SQLException {
                return database.dataSource().getConnection();
            }

            @Override
            public Connection getConnection(String username, String password) throws SQLException {
                return getConnection();
            }
        };
        ApplicationContextRunner runner = new ApplicationContextRunner()
                .withConfiguration(TestApplications.CLUSTER)
                .withBean(DataSource.class, () -> opaque);
        runner.run(context -> assertThat(refusal(context.getStartupFailure()).action())
                .contains("forge.cluster.direct-connection.url"));
        runner.withPropertyValues(
                        "forge.cluster.direct-connection.url=" + database.url(),
                        "forge.cluster.direct-connection.username=" + database.username(),
                        "forge.cluster.direct-connection.password=" + database.password())
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void direct_connection_to_another_database_is_refused() {
        try (TestDatabase other = PostgresServer.shared().createEmptyDatabase("other")) {
            runner().withPropertyValues("forge.cluster.direct-connection.url=" + other.url())
                    .run(context -> assertThat(refusal(context.getStartupFailure()))
                            .hasMessageContaining("leads to another database"));
        }
        runner().withPropertyValues("forge.cluster.direct-connection.url=" + database.url())
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void direct_connection_uses_its_own_user_and_password_if_configured() {
        database.jdbc()
                .sql("CREATE ROLE direct_user LOGIN SUPERUSER PASSWORD 'direct'")
                .update();
        runner().withPropertyValues(
                        "forge.cluster.direct-connection.url=" + database.url(),
                        "forge.cluster.direct-connection.username=direct_user",
                        "forge.cluster.direct-connection.password=direct")
                .run(context -> assertThat(database.jdbc()
                                .sql(
                                        "SELECT DISTINCT usename::text FROM pg_stat_activity WHERE application_name = 'forge-cluster'"
                                                + " AND datname = current_database()")
                                .query(String.class)
                                .list())
                        .containsExactly("direct_user"));
        database.jdbc().sql("DROP OWNED BY direct_user CASCADE").update();
        database.jdbc().sql("DROP ROLE direct_user").update();
    }

    @Test
    void stop_behind_a_cut_network_does_not_hang() {
        URI server = URI.create(database.url().substring("jdbc:".length()));
        try (TcpProxy network = TcpProxy.to(server.getHost(), server.getPort())) {
            runner().withPropertyValues("spring.datasource.url="
                            + database.url().replace(":" + server.getPort() + "/", ":" + network.port() + "/"))
                    .run(context -> {
                        assertThat(context).hasNotFailed();
                        network.cut();
                        await().until(() -> {
                            context.getBean(ClusterLifecycle.class).stop();
                            return true;
                        });
                        network.heal();
                    });
        }
        await().until(() -> database.sessions().isEmpty());
    }

    @Test
    void several_data_sources_need_a_mark_even_with_a_primary_one() {
        var runner = new ApplicationContextRunner()
                .withConfiguration(TestApplications.CLUSTER)
                .withBean("url", String.class, database::url);
        runner.withUserConfiguration(PrimaryAndOther.class).run(context -> {
            ClusterStartupException refusal = refusal(context.getStartupFailure());
            assertThat(refusal).hasMessageContaining("main").hasMessageContaining("reports");
            assertThat(refusal.action()).contains("@ClusterDataSource");
        });
        runner.withUserConfiguration(Marked.class).run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(nodes()).hasSize(1);
        });
        runner.withUserConfiguration(MarkedTwice.class)
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining("Several DataSource beans are marked @ClusterDataSource: [one, two]"));
    }

    private static DataSource at(String url) {
        PostgresServer server = PostgresServer.shared();
        try (TestDatabase credentials = server.createEmptyDatabase("credentials")) {
            return new DriverManagerDataSource(url, credentials.username(), credentials.password());
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class PrimaryAndOther {
        @Bean
        @Primary
        DataSource main(String url) {
            return at(url);
        }

        @Bean
        DataSource reports() {
            return at("jdbc:postgresql://localhost:1/unreachable");
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Marked {
        @Bean
        @Primary
        DataSource reports() {
            return at("jdbc:postgresql://localhost:1/unreachable");
        }

        @Bean
        @ClusterDataSource
        DataSource main(String url) {
            return at(url);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class MarkedTwice {
        @Bean
        @ClusterDataSource
        DataSource one(String url) {
            return at(url);
        }

        @Bean
        @ClusterDataSource
        DataSource two(String url) {
            return at(url);
        }
    }

    @Test
    void missing_data_source_fails_the_start_with_an_action() {
        new ApplicationContextRunner()
                .withConfiguration(TestApplications.CLUSTER)
                .run(context -> assertThat(refusal(context.getStartupFailure()).action())
                        .contains("spring.datasource.url", "forge.cluster.enabled=false"));
    }

    @Test
    void unreachable_database_is_named_in_the_failure() {
        runner().withPropertyValues(
                        "spring.datasource.url=jdbc:postgresql://localhost:1/none",
                        "spring.datasource.hikari.connection-timeout=500",
                        "forge.cluster.schema.name=forge")
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining("cannot connect to its database"));
    }

    @Test
    void passwords_that_rotate_are_read_at_each_new_connection() {
        database.jdbc().sql("CREATE ROLE rotating LOGIN PASSWORD 'one'").update();
        database.jdbc().sql("CREATE SCHEMA rotating AUTHORIZATION rotating").update();
        runner().withPropertyValues("spring.datasource.username=rotating", "spring.datasource.password=one")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    ClusterLifecycle lifecycle = context.getBean(ClusterLifecycle.class);
                    lifecycle.stop();
                    database.jdbc().sql("ALTER ROLE rotating PASSWORD 'two'").update();
                    context.getBean(HikariDataSource.class)
                            .getHikariConfigMXBean()
                            .setPassword("two");
                    lifecycle.start();
                    assertThat(lifecycle.isRunning()).isTrue();
                });
        database.jdbc().sql("DROP OWNED BY rotating CASCADE").update();
        database.jdbc().sql("DROP ROLE rotating").update();
    }
}
