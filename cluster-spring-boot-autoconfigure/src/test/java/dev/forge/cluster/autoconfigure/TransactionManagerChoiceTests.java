// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.TestApplications.refusal;
import static org.assertj.core.api.Assertions.assertThat;
import static org.mockito.Mockito.mock;

import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import jakarta.persistence.EntityManagerFactory;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.jdbc.datasource.LazyConnectionDataSourceProxy;
import org.springframework.jdbc.datasource.SimpleDriverDataSource;
import org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.AbstractPlatformTransactionManager;

/** Choice of the transaction manager for the cluster's transactions among several. */
@ClusterPostgres
class TransactionManagerChoiceTests {

    private final TestDatabase database;

    TransactionManagerChoiceTests(TestDatabase database) {
        this.database = database;
    }

    private ApplicationContextRunner runner() {
        return TestApplications.on(database).withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class));
    }

    static final class Counting extends JdbcTransactionManager {
        private static final long serialVersionUID = 1L;
        private final AtomicInteger begun = new AtomicInteger();

        Counting(DataSource source) {
            super(source);
        }

        @Override
        protected void doBegin(Object transaction, TransactionDefinition definition) {
            begun.incrementAndGet();
            super.doBegin(transaction, definition);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Elsewhere {
        @Bean
        PlatformTransactionManager elsewhere() {
            return new JdbcTransactionManager(new SimpleDriverDataSource());
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Own {
        @Bean
        PlatformTransactionManager own(DataSource source) {
            return new Counting(source);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class SecondOwn {
        @Bean
        PlatformTransactionManager second(DataSource source) {
            return new JdbcTransactionManager(source);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class PrimaryOwn {
        @Bean
        @Primary
        PlatformTransactionManager preferred(DataSource source) {
            return new JdbcTransactionManager(source);
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Jpa {
        @Bean
        PlatformTransactionManager jpa(DataSource source) {
            var jpa = new JpaTransactionManager(mock(EntityManagerFactory.class));
            jpa.setDataSource(new TransactionAwareDataSourceProxy(source));
            return jpa;
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Lazily {
        @Bean
        PlatformTransactionManager lazily(DataSource source) {
            return new JdbcTransactionManager(new LazyConnectionDataSourceProxy(source));
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Unsynchronized {
        @Bean
        PlatformTransactionManager unsynchronized(DataSource source) {
            var manager = new JdbcTransactionManager(source);
            manager.setTransactionSynchronization(AbstractPlatformTransactionManager.SYNCHRONIZATION_NEVER);
            return manager;
        }
    }

    @Test
    void manager_without_synchronization_fails_the_start() {
        runner().withUserConfiguration(Unsynchronized.class)
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining("transactionSynchronization NEVER"));
    }

    static class Flows {
        @ClusterWorkflow
        String written(WorkflowContext wf) {
            return wf.transactionalStep("write", String.class, () -> "written");
        }
    }

    private static PlatformTransactionManager chosen(org.springframework.context.ApplicationContext context) {
        ObjectProvider<PlatformTransactionManager> managers = context.getBeanProvider(PlatformTransactionManager.class);
        return context.getBean(ClusterDatabase.class).transactions(managers);
    }

    @Test
    void transactional_steps_use_the_manager_of_the_clusters_data_source_among_several() {
        runner().withUserConfiguration(Elsewhere.class, Own.class)
                .withBean(Flows.class)
                .run(context -> {
                    Workflows workflows = context.getBean(Workflows.class);
                    UUID run = workflows.start("written", null);
                    await().until(() -> workflows.find(run).orElseThrow().status() == WorkflowStatus.COMPLETED);
                    assertThat(context.getBean("own", Counting.class).begun)
                            .as("transactions of the cluster's manager")
                            .hasPositiveValue();
                });
    }

    @Test
    void manager_of_an_entity_manager_factory_on_the_clusters_data_source_is_chosen() {
        runner().withUserConfiguration(Elsewhere.class, Jpa.class)
                .run(context -> assertThat(chosen(context)).isSameAs(context.getBean("jpa")));
    }

    @Test
    void primary_one_of_several_managers_of_the_clusters_data_source_is_chosen() {
        runner().withUserConfiguration(Own.class, PrimaryOwn.class)
                .run(context -> assertThat(chosen(context)).isSameAs(context.getBean("preferred")));
    }

    @Test
    void several_managers_of_the_clusters_data_source_fail_the_start() {
        runner().withUserConfiguration(Own.class, SecondOwn.class).run(context -> {
            assertThat(refusal(context.getStartupFailure()))
                    .hasMessageContaining("own")
                    .hasMessageContaining("second");
            assertThat(refusal(context.getStartupFailure()).action()).contains("@Primary");
        });
    }

    @Test
    void manager_of_a_proxy_that_the_clusters_statements_would_not_join_fails_the_start() {
        runner().withUserConfiguration(Lazily.class)
                .run(context -> assertThat(refusal(context.getStartupFailure()))
                        .hasMessageContaining(LazyConnectionDataSourceProxy.class.getName()));
    }
}
