// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import static dev.forge.cluster.internal.job.TestJobs.job;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.node.TestCluster;
import dev.forge.cluster.internal.node.TestCluster.Member;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.orm.jpa.EntityManagerFactoryUtils;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.orm.jpa.LocalContainerEntityManagerFactoryBean;
import org.springframework.orm.jpa.persistenceunit.PersistenceManagedTypes;
import org.springframework.orm.jpa.vendor.HibernateJpaVendorAdapter;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/** Handlers whose transaction belongs to an entity manager. */
@ClusterPostgres
class JpaJobTests {

    /** The effect of a handler. */
    @Entity
    @Table(name = "jpa_effects")
    static class Effect {

        @Id
        private UUID job;

        private int attempt;

        protected Effect() {}

        Effect(UUID job, int attempt) {
            this.job = job;
            this.attempt = attempt;
        }

        int attempt() {
            return attempt;
        }
    }

    private final JdbcClient jdbc;
    private final TestCluster cluster;
    private final TestJobs work;
    private final EntityManagerFactory factory;
    private final JobHandler.Transaction transaction;

    JpaJobTests(TestDatabase database) {
        this.jdbc = database.jdbc();
        this.cluster = new TestCluster(database);
        this.work = new TestJobs(database.dataSource());
        jdbc.sql("CREATE TABLE IF NOT EXISTS jpa_effects (job uuid PRIMARY KEY, attempt int CHECK (attempt <> 2))")
                .update();
        var bean = new LocalContainerEntityManagerFactoryBean();
        bean.setDataSource(database.dataSource());
        bean.setManagedTypes(PersistenceManagedTypes.of(Effect.class.getName()));
        bean.setJpaVendorAdapter(new HibernateJpaVendorAdapter());
        bean.setPersistenceUnitName("effects");
        bean.afterPropertiesSet();
        this.factory = Objects.requireNonNull(bean.getObject());
        var manager = new JpaTransactionManager(factory);
        manager.setDataSource(database.dataSource());
        manager.afterPropertiesSet();
        this.transaction = new JobHandler.Transaction(
                manager, new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_REQUIRES_NEW));
    }

    @AfterEach
    void close() {
        cluster.close();
        factory.close();
    }

    private void effect(JobContext context) {
        EntityManager manager = EntityManagerFactoryUtils.getTransactionalEntityManager(factory);
        manager.persist(new Effect(context.id(), context.attempt()));
    }

    private List<Integer> effects(UUID id) {
        return jdbc.sql("SELECT attempt FROM jpa_effects WHERE job = ?")
                .param(id)
                .query(Integer.class)
                .list();
    }

    @Test
    void pending_entity_changes_are_flushed_before_the_job_completes() {
        work.on(job("job").in(transaction), (payload, context) -> {
            effect(context);
            if (context.attempt() == 1) {
                throw new IllegalStateException("roll back");
            }
            // The database rejects the second attempt, but only at the flush.
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        JobInfo job = member.ended(id);
        assertThat(job.status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(job.attempts()).isEqualTo(3);
        assertThat(job.lastError()).contains("jpa_effects");
        assertThat(effects(id)).containsExactly(3);
    }

    @Test
    void enqueueing_in_a_read_only_transaction_is_rejected_by_name_and_leaves_it_usable() {
        Member member = cluster.start("one", work.on("job", context -> {}), UnaryOperator.identity());
        var readOnly = new TransactionTemplate(transaction.manager());
        readOnly.setReadOnly(true);
        readOnly.executeWithoutResult(status -> {
            assertThatExceptionOfType(ReadOnlyTransactionException.class)
                    .isThrownBy(() -> member.jobs().enqueueNamed("job", null))
                    .withMessageContaining("Jobs.enqueueNamed");
            assertThat(member.jobs().find(UUID.randomUUID())).isEmpty();
        });
    }

    @Test
    void lost_claim_rolls_back_entity_changes() {
        work.on(job("job").in(transaction), (payload, context) -> {
            if (context.epoch() == 1) {
                effect(context);
                // On a separate thread: not in the transaction of the handler.
                var thief = new Thread(() -> jdbc.sql(
                                "UPDATE forge_jobs SET claim_epoch = 5, status = 'pending', worker_id = NULL WHERE id = ?")
                        .param(context.id())
                        .update());
                thief.start();
                thief.join();
            }
            return null;
        });
        Member member = cluster.start("one", work, UnaryOperator.identity());
        UUID id = member.jobs().enqueueNamed("job", null).id();
        assertThat(member.ended(id).status()).isEqualTo(JobStatus.COMPLETED);
        assertThat(effects(id)).isEmpty();
    }
}
