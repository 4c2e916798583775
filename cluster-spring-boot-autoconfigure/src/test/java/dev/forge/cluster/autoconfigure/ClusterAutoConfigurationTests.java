// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.ClusterDataSource;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeIdentityProvider;
import dev.forge.cluster.startup.StartupCoordinator;
import dev.forge.cluster.test.ClusterPostgres;
import dev.forge.cluster.test.PostgresServer;
import dev.forge.cluster.test.TcpProxy;
import dev.forge.cluster.test.TestDatabase;
import java.net.URI;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.flywaydb.core.Flyway;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.InitializingBean;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.data.jpa.autoconfigure.DataJpaRepositoriesAutoConfiguration;
import org.springframework.boot.flyway.autoconfigure.FlywayAutoConfiguration;
import org.springframework.boot.hibernate.autoconfigure.HibernateJpaAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceInitializationAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcClientAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.JdbcTemplateAutoConfiguration;
import org.springframework.boot.liquibase.autoconfigure.LiquibaseAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

@ClusterPostgres
@ExtendWith(OutputCaptureExtension.class)
class ClusterAutoConfigurationTests {

    private TestDatabase database;

    @BeforeEach
    void create() {
        database = PostgresServer.shared().createEmptyDatabase("autoconfigure");
    }

    @AfterEach
    void drop() {
        // A closed connection's backend takes a moment to end.
        await().untilAsserted(() -> assertThat(database.sessions()).isEmpty());
        database.close();
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database)
                .withConfiguration(
                        AutoConfigurations.of(JdbcTemplateAutoConfiguration.class, JdbcClientAutoConfiguration.class));
    }

    private List<String> tables(String schema) {
        return database.jdbc()
                .sql("SELECT table_name::text FROM information_schema.tables WHERE table_schema = ?")
                .param(schema)
                .query((row, n) -> row.getString(1))
                .list();
    }

    private List<UUID> nodes() {
        return database.jdbc()
                .sql("SELECT id FROM forge_nodes")
                .query(UUID.class)
                .list();
    }

    @Test
    void startup_action_can_run_while_beans_are_created() {
        runner().withUserConfiguration(SeedsOnce.class).run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(context.getBean(SeedsOnce.class).seeded).isTrue();
            assertThat(context.getBean(StartupCoordinator.class).once("seed", "1", () -> {}))
                    .isFalse();
        });
    }

    /** Creating all beans comes before joining; application runners come after it. */
    static class SeedsBeforeJobs {

        final List<String> order = new CopyOnWriteArrayList<>();

        @Bean
        InitializingBean seeds(StartupCoordinator startup) {
            return () -> startup.once("seed-before-jobs", "1", () -> order.add("seed"));
        }

        @ClusterJob
        void needsSeed() {
            order.add("job");
        }
    }

    @Test
    void startup_action_ends_before_the_first_job_begins() {
        Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
        database.jdbc()
                .sql("SELECT forge_enqueue('needs-seed')")
                .query(UUID.class)
                .single();
        runner().withUserConfiguration(SeedsBeforeJobs.class).run(context -> {
            List<String> order = context.getBean(SeedsBeforeJobs.class).order;
            await().until(() -> order.contains("job"));
            assertThat(order).containsExactly("seed", "job");
        });
    }

    static class SeedsOnce {

        boolean seeded;

        @Bean
        SmartInitializingSingleton seeds(StartupCoordinator startup) {
            return () -> seeded = startup.once("seed", "1", () -> {});
        }
    }

    @Test
    void application_with_no_migrations_of_its_own_joins_and_leaves() {
        runner().run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(nodes()).hasSize(1);
        });
        assertThat(nodes()).isEmpty();
    }

    @Test
    void every_loop_has_a_thread() {
        runner().run(context -> {
            NodeRuntime runtime = context.getBean(NodeRuntime.class);
            assertThat(runtime.scheduler().getScheduledThreadPoolExecutor().getCorePoolSize())
                    .isGreaterThan(runtime.node().loops());
        });
    }

    @Test
    void observer_creates_no_schema() {
        runner().withPropertyValues("forge.cluster.node.mode=observer").run(context -> {
            assertThat(context).hasFailed();
            assertThat(context.getStartupFailure()).rootCause().isInstanceOf(ClusterStartupException.class);
            assertThat(tables("public")).isEmpty();
        });
    }

    @Test
    void flyway_of_the_application_runs_first_in_the_same_schema_and_keeps_its_own_history() {
        runner().withConfiguration(AutoConfigurations.of(FlywayAutoConfiguration.class))
                .run(context -> {
                    assertThat(context).hasNotFailed().hasSingleBean(Flyway.class);
                    assertThat(tables("public"))
                            .contains("app_order", "flyway_schema_history", "forge_jobs", "forge_schema_history");
                });
    }

    @Test
    void liquibase_runs_first() {
        runner().withConfiguration(AutoConfigurations.of(LiquibaseAutoConfiguration.class))
                .withPropertyValues("spring.liquibase.change-log=classpath:/db/changelog/application.sql")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(tables("public")).contains("app_liquibase", "databasechangelog", "forge_jobs");
                });
    }

    @Test
    void schema_script_runs_first() {
        runner().withConfiguration(AutoConfigurations.of(DataSourceInitializationAutoConfiguration.class))
                .withPropertyValues(
                        "spring.sql.init.mode=always",
                        "spring.sql.init.schema-locations=classpath:/application-schema.sql")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(tables("public")).contains("app_script", "forge_jobs");
                });
    }

    @Test
    void tables_exist_when_beans_of_the_application_start() {
        runner().withUserConfiguration(EnqueuesAtStart.class)
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Configuration(proxyBeanMethods = false)
    static class EnqueuesAtStart {
        @Bean
        UUID firstJob(JdbcClient jdbc) {
            return jdbc.sql("SELECT forge_enqueue('first')").query(UUID.class).single();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void small_pool_suffices(int size) {
        runner().withConfiguration(
                        size == 1
                                ? AutoConfigurations.of()
                                : AutoConfigurations.of(FlywayAutoConfiguration.class)) // which needs two itself
                .withPropertyValues(
                        "spring.datasource.hikari.maximum-pool-size=" + size,
                        "spring.datasource.hikari.connection-timeout=2000")
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
    void cluster_may_have_its_own_schema() {
        runner().withPropertyValues("forge.cluster.schema.name=forge").run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(tables("public")).isEmpty();
            assertThat(tables("forge")).contains("forge_nodes");
        });
    }

    @Test
    void role_that_owns_nothing_but_its_schema_can_lead() {
        database.jdbc().sql("CREATE ROLE tenant_owner LOGIN PASSWORD 'tenant'").update();
        database.jdbc().sql("CREATE SCHEMA tenant AUTHORIZATION tenant_owner").update();
        runner().withPropertyValues(
                        "spring.datasource.username=tenant_owner",
                        "spring.datasource.password=tenant",
                        "forge.cluster.schema.name=tenant")
                .run(context -> {
                    assertThat(context).hasNotFailed();
                    Leadership leadership = context.getBean(Leadership.class);
                    await().until(() -> leadership.isLeader(Leadership.SCHEDULER));
                    assertThat(leadership.<String>fenced(Leadership.SCHEDULER, () -> "done"))
                            .isEqualTo("done");
                });
        database.jdbc().sql("DROP OWNED BY tenant_owner CASCADE").update();
        database.jdbc().sql("DROP ROLE tenant_owner").update();
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
    void schema_of_the_pool_is_the_default() {
        database.jdbc().sql("CREATE SCHEMA tenant").update();
        runner().withPropertyValues("spring.datasource.hikari.schema=tenant").run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(tables("public")).isEmpty();
            assertThat(tables("tenant")).contains("forge_nodes");
        });
    }

    @Test
    void direct_connections_repeat_what_the_pool_does_to_its_own() {
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
    void validate_works_without_flyway_on_the_class_path() {
        Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
        runner().withClassLoader(new FilteredClassLoader("org.flywaydb"))
                .withPropertyValues("forge.cluster.schema.mode=validate")
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void validate_rejects_an_empty_schema_naming_the_scripts() {
        runner().withPropertyValues("forge.cluster.schema.mode=validate").run(context -> {
            ClusterStartupException refusal = refusal(context.getStartupFailure());
            assertThat(refusal).hasMessageContaining("'public'");
            assertThat(refusal.action()).contains("dev/forge/cluster/db");
        });
        assertThat(tables("public")).isEmpty();
    }

    @Test
    void disabled_cluster_does_not_touch_the_database() {
        runner().withPropertyValues("forge.cluster.enabled=false", "forge.cluster.node.mode=nonsense")
                .withConfiguration(AutoConfigurations.of(DisabledClusterAutoConfiguration.class))
                .run(context -> assertThat(context)
                        .hasNotFailed()
                        .hasSingleBean(Jobs.class)
                        .doesNotHaveBean(ClusterLifecycle.class));
        assertThat(tables("public")).isEmpty();
    }

    @Test
    void works_without_hikari_or_anything_else_that_is_optional() {
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
    void stopping_behind_a_network_that_was_cut_does_not_hang() {
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

    @ParameterizedTest
    @ValueSource(strings = {"yes", "1", "TRUE"})
    void enabled_accepts_every_boolean_text(String word) {
        runner().withPropertyValues("forge.cluster.enabled=" + word)
                .run(context -> assertThat(context).hasSingleBean(ClusterLifecycle.class));
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
    void eight_nodes_that_start_at_once_on_an_empty_database_all_come_up() throws Exception {
        var threads = Executors.newFixedThreadPool(8);
        var together = new CyclicBarrier(8);
        Callable<Integer> node = () -> {
            var seen = new AtomicInteger();
            runner().withPropertyValues("spring.datasource.hikari.maximum-pool-size=2")
                    .withConfiguration(AutoConfigurations.of(FlywayAutoConfiguration.class))
                    .run(context -> {
                        assertThat(context).hasNotFailed();
                        together.await(1, TimeUnit.MINUTES);
                        seen.set(nodes().size());
                        // Nobody leaves before everybody has counted.
                        together.await(1, TimeUnit.MINUTES);
                    });
            return seen.get();
        };
        try {
            for (Future<Integer> seen :
                    threads.invokeAll(Stream.generate(() -> node).limit(8).toList())) {
                assertThat(seen.get()).isEqualTo(8);
            }
        } finally {
            threads.shutdown();
        }
        assertThat(nodes()).isEmpty();
    }

    @Test
    void stop_then_start_rejoins_as_a_new_node_and_leaves_nothing_open_in_between() {
        runner().run(context -> {
            ClusterLifecycle lifecycle = context.getBean(ClusterLifecycle.class);
            UUID first = nodes().get(0);
            lifecycle.stop();
            assertThat(lifecycle.isRunning()).isFalse();
            assertThat(nodes()).isEmpty();
            assertThat(database.sessions()).noneMatch(session -> session.contains("forge-cluster"));
            lifecycle.start();
            assertThat(nodes()).hasSize(1).doesNotContain(first);
        });
    }

    @Test
    void configuration_reaches_the_row_of_the_node() {
        runner().withPropertyValues(
                        "forge.cluster.node.id=orders-1",
                        "forge.cluster.node.name=first",
                        "forge.cluster.node.info.rack=7",
                        "forge.cluster.node.roles=worker",
                        "forge.cluster.node.capabilities=gpu,media")
                .run(context -> assertThat(
                                database.jdbc().sql("""
                                SELECT concat_ws(' ', node_key, name, info ->> 'rack', array_to_string(roles, ','),
                                    array_to_string(worker_capabilities, ',')) FROM forge_nodes
                                """).query(String.class).single())
                        .isEqualTo("orders-1 first 7 worker gpu,media"));
    }

    @Test
    void identity_provider_of_the_application_takes_precedence() {
        runner().withBean(NodeIdentityProvider.class, () -> () -> new NodeIdentity("own-id", "own name"))
                .run(context -> assertThat(database.jdbc()
                                .sql("SELECT node_key || ' ' || name FROM forge_nodes")
                                .query(String.class)
                                .single())
                        .isEqualTo("own-id own name"));
    }

    @Test
    void start_up_log_has_at_most_four_lines(CapturedOutput output) {
        var logger = (Logger) LoggerFactory.getLogger("dev.forge.cluster");
        logger.setLevel(Level.INFO);
        Schema.open(database.dataSource(), SchemaMode.MIGRATE, "public");
        int before = output.getOut().length();
        var lines = new ArrayList<String>();
        try {
            runner().withPropertyValues("forge.cluster.node.name=first").run(context -> {
                Leadership leadership = context.getBean(Leadership.class);
                await().until(() -> leadership.isLeader(Leadership.SCHEDULER));
                output.getOut()
                        .substring(before)
                        .lines()
                        .filter(line -> line.contains("d.f.c") || line.contains("dev.forge.cluster"))
                        .forEach(lines::add);
            });
        } finally {
            logger.setLevel(null);
        }
        assertThat(lines).hasSizeBetween(1, 4);
        assertThat(String.join("\n", lines))
                .contains(
                        "cluster 'orders'",
                        "node 'first'",
                        "roles gateway, function, worker, scheduler",
                        "PostgreSQL ",
                        "schema 'public' version " + Schema.VERSION,
                        "leader strategy advisory-lock",
                        "Connections: ");
    }

    @Test
    void refusal_prints_description_and_action_instead_of_a_stack_trace(CapturedOutput output) {
        var application = new SpringApplication(Empty.class);
        application.setLogStartupInfo(false);
        try {
            application
                    .run(
                            "--spring.datasource.url=" + database.url(),
                            "--spring.datasource.username=" + database.username(),
                            "--spring.datasource.password=" + database.password(),
                            "--spring.main.banner-mode=off",
                            "--spring.flyway.enabled=false",
                            "--spring.liquibase.enabled=false",
                            "--forge.cluster.leader.renew-interval=6s")
                    .close();
            throw new AssertionError("it started");
        } catch (RuntimeException e) {
            assertThat(refusal(e)).hasMessageContaining("renew-interval");
        }
        assertThat(output.getAll())
                .contains(
                        "APPLICATION FAILED TO START",
                        "forge.cluster.leader.renew-interval (6s) must be shorter than forge.cluster.leader.lease-duration (5s)",
                        "Change forge.cluster.leader.renew-interval or forge.cluster.leader.lease-duration in the application's configuration.");
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration(
            exclude = {HibernateJpaAutoConfiguration.class, DataJpaRepositoriesAutoConfiguration.class})
    static class Empty {}

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
