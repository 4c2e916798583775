// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.NotLeaderException;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.flywaydb.core.Flyway;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.flyway.autoconfigure.FlywayAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceInitializationAutoConfiguration;
import org.springframework.boot.liquibase.autoconfigure.LiquibaseAutoConfiguration;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.core.simple.JdbcClient;

/** Creation of the cluster's tables: order, schema, required rights and concurrent starts. */
class SchemaSetupTests extends AbstractApplicationTests {

    @Test
    void application_with_no_migrations_of_its_own_joins_and_leaves() {
        runner().run(context -> {
            assertThat(context).hasNotFailed();
            assertThat(nodes()).hasSize(1);
        });
        assertThat(nodes()).isEmpty();
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
                    // The call fails before the election, and while a paused machine has lost its term.
                    await().ignoreException(NotLeaderException.class)
                            .until(() -> leadership.<String>fenced(Leadership.SCHEDULER, () -> "done"), "done"::equals);
                });
        database.jdbc().sql("DROP OWNED BY tenant_owner CASCADE").update();
        database.jdbc().sql("DROP ROLE tenant_owner").update();
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
    void eight_nodes_that_start_at_once_on_an_empty_database_all_come_up() throws Exception {
        var threads = Executors.newFixedThreadPool(8);
        var together = new CyclicBarrier(8);
        Callable<Integer> node = () -> {
            var seen = new AtomicInteger();
            runner().withPropertyValues("spring.datasource.hikari.maximum-pool-size=2")
                    .withConfiguration(AutoConfigurations.of(FlywayAutoConfiguration.class))
                    .run(context -> {
                        assertThat(context).hasNotFailed();
                        together.await(5, TimeUnit.MINUTES);
                        seen.set(nodes().size());
                        // No node leaves before every node has counted.
                        together.await(5, TimeUnit.MINUTES);
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
}
