// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.forge.cluster.ClusterDataSource;
import dev.forge.cluster.test.autoconfigure.ClusterTest;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.TestConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.Primary;
import org.springframework.core.env.Environment;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;
import org.springframework.test.context.TestContextManager;

class ForeignDatabaseTests {

    private static TestDatabase foreign;

    @BeforeAll
    static void create() {
        foreign = PostgresServer.shared().createEmptyDatabase("of a developer");
    }

    @AfterAll
    static void drop() {
        foreign.close();
    }

    @TestConfiguration
    static class OwnDataSource {

        @Bean
        DataSource developersDatabase() {
            return new DriverManagerDataSource(foreign.url(), foreign.username(), foreign.password());
        }
    }

    @ClusterTest
    @Import(OwnDataSource.class)
    static class WithOwnDataSource {}

    @TestConfiguration
    static class SecondDataSource {

        @Bean
        @ClusterDataSource
        @Primary
        DataSource clustersDatabase(Environment environment) {
            return new DriverManagerDataSource(
                    environment.getRequiredProperty("spring.datasource.url"),
                    environment.getRequiredProperty("spring.datasource.username"),
                    environment.getRequiredProperty("spring.datasource.password"));
        }

        @Bean
        DataSource developersDatabase() {
            return new DriverManagerDataSource(foreign.url(), foreign.username(), foreign.password());
        }
    }

    @ClusterTest
    @Import(SecondDataSource.class)
    static class WithSecondDataSource {}

    @ClusterTest(otherDatabases = true)
    @Import(SecondDataSource.class)
    static class WithSecondDatabase {}

    @ClusterTest
    static class WithOtherUrls {

        @DynamicPropertySource
        static void urls(DynamicPropertyRegistry registry) {
            for (String key : new String[] {
                "spring.datasource.hikari.jdbc-url", "spring.flyway.url", "forge.cluster.direct-connection.url"
            }) {
                registry.add(key, foreign::url);
            }
        }
    }

    @Test
    void test_whose_data_source_leads_elsewhere_fails_before_anything_is_migrated() {
        assertThatThrownBy(() -> new TestContextManager(WithOwnDataSource.class).beforeTestClass())
                .rootCause()
                .hasMessageContainingAll(
                        "The DataSource bean 'developersDatabase' leads to database '%s'".formatted(foreign.name()),
                        "spring.datasource.url");
        assertThat(tables()).isZero();
    }

    @Test
    void second_data_source_that_leads_elsewhere_fails_the_test_unless_it_may() throws Exception {
        assertThatThrownBy(() -> new TestContextManager(WithSecondDataSource.class).beforeTestClass())
                .rootCause()
                .hasMessageContainingAll("'developersDatabase'", "otherDatabases = true");
        var manager = new TestContextManager(WithSecondDatabase.class);
        manager.beforeTestClass();
        manager.getTestContext().markApplicationContextDirty(null);
        manager.afterTestClass();
        assertThat(tables()).isZero();
    }

    @Test
    void urls_of_other_databases_are_replaced() throws Exception {
        var manager = new TestContextManager(WithOtherUrls.class);
        manager.beforeTestClass();
        manager.getTestContext().markApplicationContextDirty(null);
        manager.afterTestClass();
        assertThat(tables()).isZero();
    }

    private static long tables() {
        return foreign.jdbc()
                .sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
                .query(Long.class)
                .single();
    }
}
