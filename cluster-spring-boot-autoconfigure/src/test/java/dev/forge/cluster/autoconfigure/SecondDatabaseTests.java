// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalStateException;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.ClusterDataSource;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import jakarta.persistence.Id;
import jakarta.persistence.PersistenceContext;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.hibernate.autoconfigure.HibernateJpaAutoConfiguration;
import org.springframework.boot.jdbc.autoconfigure.DataSourceProperties;
import org.springframework.boot.persistence.autoconfigure.EntityScan;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.transaction.autoconfigure.TransactionAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.core.env.Environment;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.transaction.annotation.Transactional;

/** The application of the guide that has JPA on the cluster's database, and JDBC on a second one. */
@ClusterPostgres
class SecondDatabaseTests {

    private final TestDatabase database;

    SecondDatabaseTests(TestDatabase database) {
        this.database = database;
        database.jdbc()
                .sql("CREATE TABLE shipment (order_id bigint PRIMARY KEY);"
                        + " CREATE TABLE orders (id bigint PRIMARY KEY);"
                        + " CREATE TABLE outbox (id uuid PRIMARY KEY, order_id bigint)")
                .update();
    }

    @Configuration
    @EntityScan(basePackageClasses = SecondDatabaseTests.class)
    static class Databases {

        @Bean
        @Primary
        DataSourceProperties mainProperties(Environment environment) {
            return properties(environment, "spring");
        }

        @Bean
        @Primary
        @ClusterDataSource
        HikariDataSource mainDataSource(DataSourceProperties main) {
            return main.initializeDataSourceBuilder()
                    .type(HikariDataSource.class)
                    .build();
        }

        @Bean
        @Primary
        JpaTransactionManager transactionManager(EntityManagerFactory entities) {
            return new JpaTransactionManager(entities);
        }

        @Bean
        DataSourceProperties legacyProperties(Environment environment) {
            return properties(environment, "legacy");
        }

        @Bean
        HikariDataSource legacyDataSource(@Qualifier("legacyProperties") DataSourceProperties legacy) {
            return legacy.initializeDataSourceBuilder()
                    .type(HikariDataSource.class)
                    .build();
        }

        @Bean
        JdbcTransactionManager legacyTransactions(@Qualifier("legacyDataSource") HikariDataSource legacy) {
            return new JdbcTransactionManager(legacy);
        }

        // Without @ConfigurationProperties, whose metadata of the tests would hide that of the module.
        private static DataSourceProperties properties(Environment environment, String prefix) {
            return Binder.get(environment)
                    .bind(prefix + ".datasource", DataSourceProperties.class)
                    .get();
        }

        @Bean
        Orders orders(@Qualifier("legacyDataSource") HikariDataSource legacy, Jobs jobs) {
            return new Orders(JdbcClient.create(legacy), jobs);
        }

        @Bean
        Shipping shipping() {
            return new Shipping();
        }
    }

    @Entity(name = "shipment")
    static class Shipment {
        @Id
        private long orderId;

        protected Shipment() {}

        Shipment(long orderId) {
            this.orderId = orderId;
        }
    }

    @JobName("ship-order")
    record ShipOrder(long orderId) {}

    static class Shipping {

        @PersistenceContext
        private EntityManager entities;

        @ClusterJob(name = "ship-order")
        @Transactional
        public void ship(ShipOrder order) {
            entities.persist(new Shipment(order.orderId));
        }
    }

    static class Orders {

        private final JdbcClient legacy;
        private final Jobs jobs;

        Orders(JdbcClient legacy, Jobs jobs) {
            this.legacy = legacy;
            this.jobs = jobs;
        }

        @Transactional("legacyTransactions")
        public void order(long id, boolean fails) {
            legacy.sql("INSERT INTO orders (id) VALUES (?)").param(id).update();
            legacy.sql("INSERT INTO outbox (id, order_id) VALUES (gen_random_uuid(), ?)")
                    .param(id)
                    .update();
            if (fails) {
                throw new IllegalStateException("out of stock");
            }
        }

        public List<UUID> sendOutbox(boolean dies) {
            record Row(UUID id, long orderId) {}
            List<Row> rows = legacy.sql("SELECT id, order_id FROM outbox ORDER BY id LIMIT 500")
                    .query(Row.class)
                    .list();
            return rows.stream()
                    .map(row -> {
                        UUID job = jobs.enqueue(
                                        new ShipOrder(row.orderId()),
                                        JobOptions.defaults()
                                                .withUniqueKey(row.id())
                                                .withUniqueFor(Duration.ofDays(1)))
                                .id();
                        if (!dies) {
                            legacy.sql("DELETE FROM outbox WHERE id = ?")
                                    .param(row.id())
                                    .update();
                        }
                        return job;
                    })
                    .toList();
        }
    }

    @Test
    void outbox_of_the_second_database_becomes_one_job_for_each_row() {
        new ApplicationContextRunner()
                .withPropertyValues("spring.application.name=orders")
                .withPropertyValues(connection("spring"))
                .withPropertyValues(connection("legacy"))
                .withConfiguration(
                        AutoConfigurations.of(HibernateJpaAutoConfiguration.class, TransactionAutoConfiguration.class))
                .withConfiguration(TestApplications.CLUSTER)
                .withUserConfiguration(Databases.class)
                .run(context -> {
                    Orders orders = context.getBean(Orders.class);
                    orders.order(1, false);
                    assertThatIllegalStateException().isThrownBy(() -> orders.order(2, true));
                    List<UUID> first = orders.sendOutbox(true);
                    assertThat(first).hasSize(1);
                    assertThat(TestApplications.ended(context, first.get(0)).status())
                            .isEqualTo(JobStatus.COMPLETED);
                    assertThat(orders.sendOutbox(false)).isEqualTo(first);
                    assertThat(orders.sendOutbox(false)).isEmpty();
                    assertThat(database.jdbc()
                                    .sql("SELECT order_id FROM shipment")
                                    .query(Long.class)
                                    .list())
                            .containsExactly(1L);
                });
    }

    private String[] connection(String prefix) {
        return new String[] {
            prefix + ".datasource.url=" + database.url(),
            prefix + ".datasource.username=" + database.username(),
            prefix + ".datasource.password=" + database.password(),
            prefix + ".datasource.hikari.minimum-idle=1"
        };
    }
}
