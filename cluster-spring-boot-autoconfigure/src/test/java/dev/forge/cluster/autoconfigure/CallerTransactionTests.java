// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import static dev.forge.cluster.autoconfigure.PatientAwaits.await;
import static dev.forge.cluster.autoconfigure.PatientAwaits.awaitOften;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import ch.qos.logback.classic.Level;
import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.ClusterDataSource;
import dev.forge.cluster.ForeignTransactionException;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.autoconfigure.workflow.WorkflowAutoConfiguration;
import dev.forge.cluster.cron.ClusterCron;
import dev.forge.cluster.cron.CronDefinition;
import dev.forge.cluster.cron.CronInfo;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.UnknownJobException;
import dev.forge.cluster.job.operations.BulkOptions;
import dev.forge.cluster.job.operations.JobFilter;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import dev.forge.cluster.workflow.WorkflowStatus;
import dev.forge.cluster.workflow.Workflows;
import jakarta.persistence.Entity;
import jakarta.persistence.EntityManager;
import jakarta.persistence.EntityManagerFactory;
import jakarta.persistence.Id;
import jakarta.persistence.PostPersist;
import jakarta.persistence.Transient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.beans.factory.annotation.Qualifier;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.jdbc.autoconfigure.DataSourceProperties;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Primary;
import org.springframework.core.env.Environment;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.orm.jpa.LocalContainerEntityManagerFactoryBean;
import org.springframework.orm.jpa.SharedEntityManagerCreator;
import org.springframework.orm.jpa.persistenceunit.PersistenceManagedTypes;
import org.springframework.orm.jpa.vendor.HibernateJpaVendorAdapter;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.event.TransactionPhase;
import org.springframework.transaction.event.TransactionalEventListener;
import org.springframework.transaction.event.TransactionalEventListenerFactory;
import org.springframework.transaction.support.AbstractPlatformTransactionManager;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/** Every changing call of the API, in every kind of transaction that a caller may have. */
@ClusterPostgres
class CallerTransactionTests {

    private final TestDatabase database;

    CallerTransactionTests(TestDatabase database) {
        this.database = database;
        database.jdbc()
                .sql("CREATE TABLE IF NOT EXISTS thing (id uuid PRIMARY KEY)")
                .update();
        database.jdbc()
                .sql("CREATE TABLE IF NOT EXISTS part (id uuid REFERENCES thing DEFERRABLE INITIALLY DEFERRED)")
                .update();
    }

    @Entity(name = "thing")
    static class Thing {
        @Id
        private UUID id = UUID.randomUUID();

        @Transient
        private Runnable onPersist = () -> {};

        @PostPersist
        void persisted() {
            onPersist.run();
        }
    }

    @JobName("order")
    record Order(int number) {}

    @Configuration(proxyBeanMethods = false)
    static class Beans {

        @Bean
        @Primary
        @ClusterDataSource
        HikariDataSource source(DataSourceProperties properties, Environment environment) {
            HikariDataSource source = pool(properties);
            source.setAutoCommit(environment.getProperty("auto-commit", Boolean.class, true));
            return source;
        }

        @Bean
        HikariDataSource second(DataSourceProperties properties) {
            return pool(properties);
        }

        private static HikariDataSource pool(DataSourceProperties properties) {
            HikariDataSource pool = properties
                    .initializeDataSourceBuilder()
                    .type(HikariDataSource.class)
                    .build();
            pool.setMinimumIdle(1);
            return pool;
        }

        @Bean
        LocalContainerEntityManagerFactoryBean entities(@ClusterDataSource HikariDataSource source) {
            var entities = new LocalContainerEntityManagerFactoryBean();
            entities.setDataSource(source);
            entities.setManagedTypes(PersistenceManagedTypes.of(Thing.class.getName()));
            entities.setJpaVendorAdapter(new HibernateJpaVendorAdapter());
            entities.setPersistenceUnitName("things");
            return entities;
        }

        @Bean
        @Primary
        JdbcTransactionManager own(HikariDataSource source) {
            return new JdbcTransactionManager(source);
        }

        @Bean
        JpaTransactionManager jpa(EntityManagerFactory entities) {
            return new JpaTransactionManager(entities);
        }

        @Bean
        JdbcTransactionManager foreign(@Qualifier("second") HikariDataSource second) {
            return new JdbcTransactionManager(second);
        }

        @Bean
        Distributed distributed() {
            return new Distributed();
        }

        @Bean
        Work work() {
            return new Work();
        }

        @Bean
        static TransactionalEventListenerFactory listeners() {
            return new TransactionalEventListenerFactory();
        }

        @Bean
        Listeners eventListeners() {
            return new Listeners();
        }
    }

    /** An event that one of the listeners answers with an action. */
    private record Happened(TransactionPhase phase, Runnable action) {

        void in(TransactionPhase told) {
            if (phase == told) {
                action.run();
            }
        }
    }

    static class Listeners {

        @TransactionalEventListener(phase = TransactionPhase.AFTER_COMMIT)
        void afterCommit(Happened event) {
            event.in(TransactionPhase.AFTER_COMMIT);
        }

        @TransactionalEventListener(phase = TransactionPhase.AFTER_ROLLBACK)
        void afterRollback(Happened event) {
            event.in(TransactionPhase.AFTER_ROLLBACK);
        }

        @TransactionalEventListener(phase = TransactionPhase.AFTER_COMPLETION)
        void afterCompletion(Happened event) {
            event.in(TransactionPhase.AFTER_COMPLETION);
        }
    }

    /** Binds nothing to the thread, as the manager of a JTA transaction. */
    static final class Distributed extends AbstractPlatformTransactionManager {
        private static final long serialVersionUID = 1L;

        @Override
        protected Object doGetTransaction() {
            return new Object();
        }

        @Override
        protected void doBegin(Object transaction, TransactionDefinition definition) {}

        @Override
        protected void doCommit(DefaultTransactionStatus status) {}

        @Override
        protected void doRollback(DefaultTransactionStatus status) {}
    }

    static class Work {
        @ClusterJob(name = "order")
        public void order(Order order) {}

        @ClusterJob(name = "unused")
        public void unused() {}

        @ClusterCron(name = "report", value = "0 0 3 1 1 *")
        public void report() {}

        @ClusterWorkflow(name = "flow")
        public String flow(WorkflowContext wf) {
            return wf.awaitSignal("go", String.class);
        }
    }

    // Callers -----------------------------------------------------------------------------------------------

    /** The transaction in which a call is made. */
    private enum Caller {
        NONE,
        OWN,
        OWN_ROLLED_BACK,
        OWN_ROLLED_BACK_TO_A_SAVEPOINT,
        JPA,
        JPA_ROLLED_BACK,
        SUPPORTS,
        NOT_SUPPORTED_IN_OWN,
        NOT_SUPPORTED_IN_JPA,
        FOREIGN,
        FOREIGN_ROLLED_BACK,
        FOREIGN_READ_ONLY,
        AFTER_COMMIT_OF_FOREIGN,
        AFTER_COMPLETION_OF_FOREIGN,
        DISTRIBUTED_ROLLED_BACK,
        OWN_IN_FOREIGN_READ_ONLY,
        OWN_ROLLED_BACK_IN_FOREIGN,
        FOREIGN_ROLLED_BACK_IN_OWN,
        AFTER_COMMIT,
        AFTER_COMMIT_OF_JPA,
        AFTER_COMPLETION_OF_ROLLBACK,
        REQUIRED_AFTER_COMMIT,
        REQUIRED_AFTER_COMPLETION,
        REQUIRED_AFTER_COMPLETION_OF_JPA,
        NEW_ROLLED_BACK_AFTER_COMPLETION,
        NEW_ROLLED_BACK_AFTER_COMPLETION_OF_JPA;

        /** Whether what a call has written in this transaction is rolled back. */
        boolean undoes() {
            return this == OWN_ROLLED_BACK
                    || this == OWN_ROLLED_BACK_TO_A_SAVEPOINT
                    || this == JPA_ROLLED_BACK
                    || this == OWN_ROLLED_BACK_IN_FOREIGN
                    || this == NEW_ROLLED_BACK_AFTER_COMPLETION
                    || this == NEW_ROLLED_BACK_AFTER_COMPLETION_OF_JPA;
        }
    }

    /** The application of a test. */
    private record App(ApplicationContext context, JdbcTemplate jdbc) {

        /** A manager of the cluster's data source that is no bean. */
        private static final String UNKNOWN = "unknown";

        <T> T bean(Class<T> type) {
            return context.getBean(type);
        }

        private void in(String manager, int propagation, boolean readOnly, boolean commit, Runnable action) {
            var template = new TransactionTemplate(
                    manager.equals(UNKNOWN)
                            ? new JdbcTransactionManager(context.getBean("source", DataSource.class))
                            : context.getBean(manager, PlatformTransactionManager.class));
            template.setPropagationBehavior(propagation);
            template.setReadOnly(readOnly);
            template.executeWithoutResult(status -> {
                action.run();
                if (!commit) {
                    status.setRollbackOnly();
                }
            });
        }

        private void in(String manager, boolean commit, Runnable action) {
            in(manager, TransactionDefinition.PROPAGATION_REQUIRED, false, commit, action);
        }

        private static void afterwards(Runnable afterCommit, Runnable afterCompletion) {
            TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
                @Override
                public void afterCommit() {
                    afterCommit.run();
                }

                @Override
                public void afterCompletion(int status) {
                    afterCompletion.run();
                }
            });
        }

        private static final int REQUIRES_NEW = TransactionDefinition.PROPAGATION_REQUIRES_NEW;

        void call(Caller caller, Runnable action) {
            int supports = TransactionDefinition.PROPAGATION_SUPPORTS;
            int notSupported = TransactionDefinition.PROPAGATION_NOT_SUPPORTED;
            int required = TransactionDefinition.PROPAGATION_REQUIRED;
            switch (caller) {
                case NONE -> action.run();
                case OWN -> in("own", true, action);
                case OWN_ROLLED_BACK -> in("own", false, action);
                case OWN_ROLLED_BACK_TO_A_SAVEPOINT ->
                    in("own", true, () -> in("own", TransactionDefinition.PROPAGATION_NESTED, false, false, action));
                case JPA -> in("jpa", true, action);
                case JPA_ROLLED_BACK -> in("jpa", false, action);
                case SUPPORTS -> in("own", supports, false, true, action);
                case NOT_SUPPORTED_IN_OWN -> in("own", false, () -> in("own", notSupported, false, true, action));
                case NOT_SUPPORTED_IN_JPA -> in("jpa", false, () -> in("jpa", notSupported, false, true, action));
                case FOREIGN -> in("foreign", true, action);
                case FOREIGN_ROLLED_BACK -> in("foreign", false, action);
                case FOREIGN_READ_ONLY -> in("foreign", required, true, true, action);
                case AFTER_COMMIT_OF_FOREIGN -> in("foreign", true, () -> afterwards(action, () -> {}));
                case AFTER_COMPLETION_OF_FOREIGN -> in("foreign", false, () -> afterwards(() -> {}, action));
                case DISTRIBUTED_ROLLED_BACK -> in("distributed", false, action);
                case OWN_IN_FOREIGN_READ_ONLY -> in("foreign", required, true, true, () -> in("own", true, action));
                case OWN_ROLLED_BACK_IN_FOREIGN -> in("foreign", true, () -> in("own", false, action));
                case FOREIGN_ROLLED_BACK_IN_OWN -> in("own", true, () -> in("foreign", false, action));
                case AFTER_COMMIT -> in("own", true, () -> afterwards(action, () -> {}));
                case AFTER_COMMIT_OF_JPA -> in("jpa", true, () -> afterwards(action, () -> {}));
                case REQUIRED_AFTER_COMMIT ->
                    in("own", true, () -> afterwards(() -> in("own", true, action), () -> {}));
                case REQUIRED_AFTER_COMPLETION ->
                    in("own", true, () -> afterwards(() -> {}, () -> in("own", true, action)));
                case REQUIRED_AFTER_COMPLETION_OF_JPA ->
                    in("jpa", false, () -> afterwards(() -> {}, () -> in("jpa", true, action)));
                case NEW_ROLLED_BACK_AFTER_COMPLETION ->
                    in("own", true, () -> {
                        afterwards(() -> {}, () -> in("own", REQUIRES_NEW, false, false, action));
                        bean(Jobs.class).cancel(UUID.randomUUID());
                    });
                case NEW_ROLLED_BACK_AFTER_COMPLETION_OF_JPA ->
                    in("jpa", true, () -> {
                        afterwards(() -> {}, () -> in("jpa", REQUIRES_NEW, false, false, action));
                        bean(Jobs.class).cancel(UUID.randomUUID());
                    });
                case AFTER_COMPLETION_OF_ROLLBACK -> in("own", false, () -> afterwards(() -> {}, action));
            }
        }
    }

    private void run(Check test, String... properties) {
        new ApplicationContextRunner()
                .withPropertyValues(
                        "spring.application.name=orders",
                        "spring.datasource.url=" + database.url(),
                        "spring.datasource.username=" + database.username(),
                        "spring.datasource.password=" + database.password(),
                        "forge.cluster.worker.poll-interval=10m",
                        "forge.cluster.sweep.interval=50s")
                .withPropertyValues(properties)
                .withConfiguration(TestApplications.CLUSTER)
                .withConfiguration(AutoConfigurations.of(WorkflowAutoConfiguration.class))
                .withBean(DataSourceProperties.class, () -> properties())
                .withUserConfiguration(Beans.class)
                .run(context ->
                        test.accept(new App(context, new JdbcTemplate(context.getBean("source", DataSource.class)))));
    }

    private DataSourceProperties properties() {
        var properties = new DataSourceProperties();
        properties.setUrl(database.url());
        properties.setUsername(database.username());
        properties.setPassword(database.password());
        return properties;
    }

    private interface Check {
        void accept(App app) throws Exception;
    }

    // Calls -------------------------------------------------------------------------------------------------

    /**
     * A call, and whether its effect is there. What a call announces has to take place without another look at the tables.
     *
     * @param joins whether the call is part of the caller's transaction
     */
    private record Call(String name, boolean joins, Runnable action, BooleanSupplier effect) {

        String method() {
            int end = name.indexOf(' ');
            return end < 0 ? name : name.substring(0, end);
        }
    }

    /** Makes everything ready for each call. */
    private static List<Supplier<Call>> calls(App app) {
        Jobs jobs = app.bean(Jobs.class);
        JobOperations operations = app.bean(JobOperations.class);
        Workflows workflows = app.bean(Workflows.class);
        Crons crons = app.bean(Crons.class);
        AuditTrail trail = app.bean(AuditTrail.class);
        var numbers = new AtomicInteger();
        Supplier<String> names = () -> UUID.randomUUID().toString();
        JobOptions later = JobOptions.defaults().withDelay(Duration.ofHours(1));
        return List.of(
                () -> {
                    var id = new Holder();
                    return new Call(
                            "Jobs.enqueue",
                            true,
                            () -> id.value = jobs.enqueue(new Order(1)).id(),
                            () -> is(jobs, id, JobStatus.COMPLETED));
                },
                () -> {
                    var id = new Holder();
                    return new Call(
                            "Jobs.enqueue with a unique key",
                            true,
                            () -> id.value = jobs.enqueue(
                                            new Order(1), JobOptions.defaults().withUniqueKey(names.get()))
                                    .id(),
                            () -> is(jobs, id, JobStatus.COMPLETED));
                },
                () -> {
                    var id = new Holder();
                    return new Call(
                            "Jobs.enqueueAll",
                            true,
                            () -> id.value = last(jobs.enqueueAll(
                                    List.of(new Order(1), new Order(2)),
                                    order -> order.number == 1 ? later : JobOptions.defaults())),
                            () -> is(jobs, id, JobStatus.COMPLETED));
                },
                () -> {
                    UUID original = jobs.enqueue(new Order(1), later).id();
                    var id = new Holder();
                    return new Call(
                            "JobOperations.enqueueCopy by an operator",
                            true,
                            () -> id.value = trail.as(
                                    Operator.named("operator"),
                                    null,
                                    () -> operations
                                            .enqueueCopy(original, null)
                                            .orElseThrow()
                                            .id()),
                            () -> is(jobs, id, JobStatus.COMPLETED));
                },
                () -> {
                    var id = new Holder();
                    return new Call(
                            "Jobs.batch",
                            true,
                            () -> id.value = jobs.batch(
                                            JobBatchOptions.named("import").withOnEnd(new Order(1)))
                                    .id(),
                            () -> jobs.batch(id.get())
                                    .info()
                                    .filter(batch -> is(jobs, batch.onEnd(), JobStatus.PENDING))
                                    .isPresent());
                },
                () -> {
                    JobBatch batch = jobs.batch(JobBatchOptions.named("import"));
                    return new Call(
                            "JobBatch.close",
                            true,
                            batch::close,
                            () -> batch.info().orElseThrow().closedAt() != null);
                },
                () -> {
                    UUID id = jobs.enqueue(new Order(1), later).id();
                    return new Call(
                            "Jobs.cancel", true, () -> jobs.cancel(id), () -> is(jobs, id, JobStatus.CANCELLED));
                },
                () -> {
                    UUID id = jobs.enqueue(new Order(1), later).id();
                    return new Call(
                            "Jobs.cancel by an operator",
                            true,
                            () -> trail.as(Operator.named("operator"), null, () -> jobs.cancel(id)),
                            () -> is(jobs, id, JobStatus.CANCELLED));
                },
                () -> {
                    UUID id = jobs.enqueue(new Order(1), later).id();
                    jobs.cancel(id);
                    return new Call("Jobs.retry", true, () -> jobs.retry(id), () -> is(jobs, id, JobStatus.COMPLETED));
                },
                () -> {
                    UUID id = jobs.enqueue(new Order(1), later).id();
                    jobs.cancel(id);
                    return new Call(
                            "JobOperations.retryWithPayload",
                            true,
                            () -> operations.retryWithPayload(id, "{\"number\":2}"),
                            () -> is(jobs, id, JobStatus.COMPLETED));
                },
                () -> {
                    boolean paused = operations.paused().contains("unused");
                    return new Call(
                            "Jobs.pause and resume",
                            false,
                            () -> {
                                if (paused) {
                                    jobs.resume("unused");
                                } else {
                                    jobs.pause("unused");
                                }
                                assertThat(operations.paused().contains("unused"))
                                        .isNotEqualTo(paused);
                            },
                            () -> true);
                },
                () -> {
                    int number = 1_000 + numbers.incrementAndGet();
                    return new Call(
                            "JobOperations.setLimits",
                            false,
                            () -> {
                                operations.setLimits("unused", JobLimits.none().withConcurrency(number));
                                assertThat(operations.limits("unused").concurrency())
                                        .isEqualTo(number);
                            },
                            () -> true);
                },
                () -> {
                    String name = names.get();
                    return new Call(
                            "Crons.create",
                            true,
                            () -> crons.create(
                                    CronDefinition.cron(name, "0 0 4 1 1 *").withHandler("report")),
                            () -> crons.find(name).isPresent());
                },
                () -> {
                    String name = cron(crons, names.get());
                    return new Call(
                            "Crons.change",
                            true,
                            () -> crons.change(
                                    CronDefinition.cron(name, "0 0 5 1 1 *").withHandler("report")),
                            () -> crons.find(name)
                                    .map(CronInfo::expression)
                                    .orElseThrow()
                                    .startsWith("0 0 5"));
                },
                () -> {
                    String name = cron(crons, names.get());
                    return new Call(
                            "Crons.pause",
                            true,
                            () -> crons.pause(name),
                            () -> crons.find(name).orElseThrow().paused());
                },
                () -> {
                    String name = cron(crons, names.get());
                    return new Call(
                            "Crons.delete",
                            true,
                            () -> crons.delete(name),
                            () -> crons.find(name).isEmpty());
                },
                () -> {
                    String name = cron(crons, names.get());
                    return new Call(
                            "Crons.trigger",
                            true,
                            () -> crons.trigger(name),
                            () -> crons.runs(name, 1).items().stream()
                                    .anyMatch(run -> is(jobs, run.job(), JobStatus.COMPLETED)));
                },
                () -> {
                    var id = new Holder();
                    return new Call(
                            "Workflows.start",
                            true,
                            () -> id.value = workflows.start("flow", null, names.get()),
                            () -> workflows
                                    .find(id.get())
                                    .filter(run -> "go".equals(run.awaits()))
                                    .isPresent());
                },
                () -> {
                    UUID run = waiting(workflows);
                    return new Call(
                            "Workflows.signal",
                            true,
                            () -> workflows.signal(run, "go", "now"),
                            () -> is(workflows, run, WorkflowStatus.COMPLETED));
                },
                () -> {
                    UUID run = waiting(workflows);
                    return new Call(
                            "Workflows.cancel",
                            true,
                            () -> workflows.cancel(run, "not needed"),
                            () -> is(workflows, run, WorkflowStatus.COMPENSATED));
                });
    }

    private static final class Holder {
        private @Nullable UUID value;

        UUID get() {
            return value == null ? UUID.randomUUID() : value;
        }
    }

    private static UUID last(List<EnqueuedJob> enqueued) {
        return enqueued.get(enqueued.size() - 1).id();
    }

    private static boolean is(Jobs jobs, Holder id, JobStatus status) {
        return is(jobs, id.get(), status);
    }

    private static boolean is(Jobs jobs, @Nullable UUID id, JobStatus status) {
        return id != null && jobs.find(id).filter(job -> job.status() == status).isPresent();
    }

    private static boolean is(Workflows workflows, UUID run, WorkflowStatus status) {
        return workflows.find(run).orElseThrow().status() == status;
    }

    private static String cron(Crons crons, String name) {
        crons.create(CronDefinition.cron(name, "0 0 4 1 1 *").withHandler("report"));
        return name;
    }

    private static UUID waiting(Workflows workflows) {
        UUID run = workflows.start("flow", null);
        await().until(() -> "go".equals(workflows.find(run).orElseThrow().awaits()));
        return run;
    }

    // Tests -------------------------------------------------------------------------------------------------

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void call_that_returns_has_stored_and_announced_unless_its_own_transaction_rolls_back(boolean autoCommit) {
        run(
                app -> {
                    for (Supplier<Call> prepare : calls(app)) {
                        var checks = new ArrayList<Runnable>();
                        for (Caller caller : Caller.values()) {
                            // With auto-commit a former read changes nothing.
                            for (boolean reads : autoCommit ? new boolean[] {true} : new boolean[] {true, false}) {
                                checks.add(make(app, prepare.get(), caller, reads));
                            }
                        }
                        checks.forEach(Runnable::run);
                    }
                },
                "auto-commit=" + autoCommit,
                "forge.cluster.foreign-transactions=allow");
    }

    /** Makes a call; returns what checks its effect. */
    private static Runnable make(App app, Call call, Caller caller, boolean reads) {
        app.call(caller, () -> {
            if (reads) {
                app.jdbc.queryForObject("SELECT count(*) FROM thing", Long.class);
            }
            call.action.run();
        });
        String what = "%s, %s, %s".formatted(call.name, caller, reads ? "after a read" : "first");
        return () -> {
            if (call.joins && caller.undoes()) {
                assertThat(call.effect.getAsBoolean()).as(what).isFalse();
            } else if (!call.effect.getAsBoolean()) {
                awaitOften().alias(what).until(call.effect::getAsBoolean);
            }
        };
    }

    /** When a callback is called. */
    private enum Phase {
        BEFORE_COMMIT,
        BEFORE_COMPLETION,
        AFTER_COMMIT,
        AFTER_COMPLETION,
        EVENT_AFTER_COMMIT,
        EVENT_AFTER_ROLLBACK,
        EVENT_AFTER_COMPLETION;

        boolean isOpen() {
            return this == BEFORE_COMMIT || this == BEFORE_COMPLETION;
        }

        void register(App app, Runnable action) {
            switch (this) {
                case EVENT_AFTER_COMMIT ->
                    app.context.publishEvent(new Happened(TransactionPhase.AFTER_COMMIT, action));
                case EVENT_AFTER_ROLLBACK ->
                    app.context.publishEvent(new Happened(TransactionPhase.AFTER_ROLLBACK, action));
                case EVENT_AFTER_COMPLETION ->
                    app.context.publishEvent(new Happened(TransactionPhase.AFTER_COMPLETION, action));
                default -> TransactionSynchronizationManager.registerSynchronization(new Callback(this, action));
            }
        }
    }

    private record Callback(Phase phase, Runnable action) implements TransactionSynchronization {

        @Override
        public void beforeCommit(boolean readOnly) {
            in(Phase.BEFORE_COMMIT);
        }

        @Override
        public void beforeCompletion() {
            in(Phase.BEFORE_COMPLETION);
        }

        @Override
        public void afterCommit() {
            in(Phase.AFTER_COMMIT);
        }

        @Override
        public void afterCompletion(int status) {
            in(Phase.AFTER_COMPLETION);
        }

        private void in(Phase told) {
            if (phase == told) {
                action.run();
            }
        }
    }

    /** In what a callback makes its call. */
    private enum Inside {
        NOTHING(-1),
        REQUIRED(TransactionDefinition.PROPAGATION_REQUIRED),
        SUPPORTS(TransactionDefinition.PROPAGATION_SUPPORTS),
        MANDATORY(TransactionDefinition.PROPAGATION_MANDATORY),
        NOT_SUPPORTED(TransactionDefinition.PROPAGATION_NOT_SUPPORTED),
        NEW(TransactionDefinition.PROPAGATION_REQUIRES_NEW),
        NEW_ROLLED_BACK(TransactionDefinition.PROPAGATION_REQUIRES_NEW);

        private final int propagation;

        Inside(int propagation) {
            this.propagation = propagation;
        }

        void run(App app, String manager, Runnable action) {
            if (this == NOTHING) {
                action.run();
            } else {
                app.in(manager, propagation, false, this != NEW_ROLLED_BACK, action);
            }
        }

        boolean joins() {
            return this == NOTHING || this == REQUIRED || this == SUPPORTS || this == MANDATORY;
        }
    }

    private enum Registered {
        WITHOUT_ANOTHER_CALL,
        BEFORE_THE_FIRST_CALL,
        AFTER_THE_FIRST_CALL
    }

    @ParameterizedTest
    @CsvSource({"own, true", "own, false", "jpa, true", "jpa, false", "unknown, true", "unknown, false"})
    void call_in_a_callback_is_stored_and_announced_whenever_the_callback_was_registered(
            String manager, boolean autoCommit) {
        run(
                app -> {
                    for (Phase phase : Phase.values()) {
                        for (Inside inside : Inside.values()) {
                            for (Registered registered : Registered.values()) {
                                callIn(app, manager, phase, inside, registered, true);
                                callIn(app, manager, phase, inside, registered, false);
                            }
                        }
                    }
                },
                "auto-commit=" + autoCommit);
    }

    private static void callIn(
            App app, String manager, Phase phase, Inside inside, Registered registered, boolean commits) {
        Jobs jobs = app.bean(Jobs.class);
        var id = new Holder();
        app.in(manager, commits, () -> {
            if (registered == Registered.AFTER_THE_FIRST_CALL) {
                jobs.cancel(UUID.randomUUID());
            }
            phase.register(
                    app,
                    () -> inside.run(
                            app,
                            manager,
                            () -> id.value = jobs.enqueue(new Order(1)).id()));
            if (registered == Registered.BEFORE_THE_FIRST_CALL) {
                jobs.cancel(UUID.randomUUID());
            }
        });
        if (id.value == null) {
            // Spring calls nobody after a commit that is none.
            assertThat(phase).isIn(commits ? ROLLBACK : COMMIT);
            return;
        }
        String what = "%s, %s, %s, %s".formatted(phase, inside, registered, commits ? "committed" : "rolled back");
        boolean stays = (phase.isOpen() && inside.joins()) ? commits : inside != Inside.NEW_ROLLED_BACK;
        if (stays) {
            awaitOften().alias(what).until(() -> is(jobs, id, JobStatus.COMPLETED));
        } else {
            assertThat(jobs.find(id.value)).as(what).isEmpty();
        }
    }

    private static final Set<Phase> ROLLBACK = Set.of(Phase.EVENT_AFTER_ROLLBACK);
    private static final Set<Phase> COMMIT = Set.of(Phase.BEFORE_COMMIT, Phase.AFTER_COMMIT, Phase.EVENT_AFTER_COMMIT);

    @ParameterizedTest
    @CsvSource({"own, true", "own, false", "jpa, true", "jpa, false", "unknown, true", "unknown, false"})
    void fenced_work_in_a_callback_is_committed_or_rolled_back_by_itself(String manager, boolean autoCommit) {
        run(
                app -> {
                    Leadership leadership = app.bean(Leadership.class);
                    leadership.join("reports");
                    await().until(() -> leadership.isLeader("reports"));
                    for (Phase phase : List.of(Phase.AFTER_COMMIT, Phase.AFTER_COMPLETION)) {
                        for (Inside inside : List.of(Inside.NOTHING, Inside.REQUIRED)) {
                            for (boolean fails : new boolean[] {true, false}) {
                                UUID thing = UUID.randomUUID();
                                Runnable work = () -> {
                                    app.jdbc.update("INSERT INTO thing VALUES (?)", thing);
                                    if (fails) {
                                        throw new IllegalStateException("expected");
                                    }
                                };
                                app.in(manager, true, () -> {
                                    phase.register(app, () -> {
                                        try {
                                            inside.run(app, manager, () -> leadership.fenced("reports", work));
                                        } catch (IllegalStateException e) {
                                            assertThat(fails).isTrue();
                                        }
                                    });
                                    app.bean(Jobs.class).cancel(UUID.randomUUID());
                                });
                                assertThat(app.jdbc.queryForList("SELECT FROM thing WHERE id = ?", thing))
                                        .as("%s, %s", phase, inside)
                                        .hasSize(fails ? 0 : 1);
                            }
                        }
                    }
                },
                "auto-commit=" + autoCommit);
    }

    @ParameterizedTest
    @EnumSource(names = {"AFTER_COMMIT", "AFTER_COMPLETION"})
    void call_while_an_entity_manager_writes_at_a_commit_in_a_callback_fails_with_that_commit(Phase phase) {
        run(app -> {
            EntityManager entities =
                    SharedEntityManagerCreator.createSharedEntityManager(app.bean(EntityManagerFactory.class));
            Jobs jobs = app.bean(Jobs.class);
            for (boolean fails : new boolean[] {true, false}) {
                var id = new Holder();
                app.in(
                        "jpa",
                        true,
                        () -> phase.register(app, () -> {
                            try {
                                Inside.NEW.run(app, "jpa", () -> {
                                    if (fails) {
                                        app.jdbc.update("INSERT INTO part VALUES (gen_random_uuid())");
                                    }
                                    var thing = new Thing();
                                    thing.onPersist = () -> id.value =
                                            jobs.enqueue(new Order(1)).id();
                                    entities.persist(thing);
                                });
                            } catch (DataAccessException e) {
                                assertThat(fails).isTrue();
                            }
                        }));
                if (fails) {
                    assertThat(jobs.find(id.get())).isEmpty();
                } else {
                    awaitOften().until(() -> is(jobs, id, JobStatus.COMPLETED));
                }
            }
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"own", "jpa"})
    void read_only_transaction_of_the_clusters_data_source_is_named(String manager) {
        run(app -> {
            for (Supplier<Call> prepare : calls(app)) {
                Call call = prepare.get();
                if (call.joins && !call.name.endsWith("operator")) {
                    assertThatExceptionOfType(ReadOnlyTransactionException.class)
                            .as(call.name)
                            .isThrownBy(() -> app.in(
                                    manager, TransactionDefinition.PROPAGATION_REQUIRED, true, true, call.action))
                            .withMessageContaining(call.method());
                }
            }
        });
    }

    @Test
    void transaction_of_another_data_source_is_reported_once_for_each_place() {
        try (var lines = new LogLines(CallerTransaction.class)) {
            run(app -> {
                Jobs jobs = app.bean(Jobs.class);
                for (int i = 0; i < 3; i++) {
                    app.in("foreign", true, () -> jobs.enqueue(new Order(1)));
                }
                app.in("foreign", true, () -> jobs.enqueue(new Order(2)));
                jobs.enqueue(new Order(3));
                app.in("own", true, () -> jobs.enqueue(new Order(4)));
                assertThat(lines.own(Level.WARN))
                        .hasSize(2)
                        .allSatisfy(line -> assertThat(line)
                                .contains(
                                        "Jobs.enqueue at ",
                                        "CallerTransactionTests",
                                        "another DataSource",
                                        "forge.cluster.foreign-transactions=refuse"));
            });
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"source", "second"})
    void call_in_a_transaction_that_tells_nobody_of_its_end_is_refused(String source) {
        run(
                app -> {
                    var manager = new JdbcTransactionManager(app.context.getBean(source, DataSource.class));
                    manager.setTransactionSynchronization(AbstractPlatformTransactionManager.SYNCHRONIZATION_NEVER);
                    var silent = new TransactionTemplate(manager);
                    for (Supplier<Call> prepare : calls(app)) {
                        Call call = prepare.get();
                        if (call.joins && !call.name.endsWith("operator")) {
                            assertThatExceptionOfType(ForeignTransactionException.class)
                                    .as(call.name)
                                    .isThrownBy(() -> silent.executeWithoutResult(status -> call.action.run()))
                                    .withMessageContaining(call.method());
                        }
                    }
                    // Reads, and calls before and after it, are as usual.
                    Jobs jobs = app.bean(Jobs.class);
                    UUID id = jobs.enqueue(new Order(1)).id();
                    silent.executeWithoutResult(
                            status -> assertThat(jobs.find(id)).isPresent());
                    app.in("own", true, () -> jobs.enqueue(new Order(2)));
                },
                "forge.cluster.foreign-transactions=refuse");
    }

    @Test
    void transaction_of_the_clusters_data_source_without_synchronization_is_named() {
        run(app -> {
            var manager = new JdbcTransactionManager(app.context.getBean("source", DataSource.class));
            manager.setTransactionSynchronization(AbstractPlatformTransactionManager.SYNCHRONIZATION_NEVER);
            long before = stored();
            assertThatExceptionOfType(ForeignTransactionException.class)
                    .isThrownBy(() -> new TransactionTemplate(manager)
                            .executeWithoutResult(status -> app.bean(Jobs.class).enqueue(new Order(1))))
                    .withMessageContaining("SYNCHRONIZATION_NEVER")
                    .withMessageContaining("Nothing was written");
            new TransactionTemplate(manager).executeWithoutResult(status -> {
                assertThatExceptionOfType(IllegalTransactionStateException.class)
                        .isThrownBy(() -> app.bean(ClusterLocks.class).tryWithLock("lock", () -> {}));
                assertThatExceptionOfType(JobRejectedException.class)
                        .isThrownBy(
                                () -> app.bean(JobOperations.class).cancelAll(JobFilter.all(), BulkOptions.defaults()));
            });
            assertThat(stored()).isEqualTo(before);
        });
    }

    @Test
    void statement_outside_of_transactions_is_read_committed_whatever_the_default_is() {
        database.jdbc()
                .sql("ALTER DATABASE %s SET default_transaction_isolation = 'serializable'".formatted(database.name()))
                .update();
        try {
            run(app -> {
                DataSource own = app.bean(ClusterDatabase.class).application();
                assertThat(new JdbcTemplate(own).queryForObject("SHOW transaction_isolation", String.class))
                        .isEqualTo("read committed");
                app.in(
                        "own",
                        true,
                        () -> assertThat(new JdbcTemplate(own)
                                        .queryForObject("SHOW transaction_isolation", String.class))
                                .isEqualTo("serializable"));
                UUID id = app.bean(Jobs.class).enqueue(new Order(1)).id();
                assertThat(app.bean(Jobs.class).find(id)).isPresent();
            });
        } finally {
            database.jdbc()
                    .sql("ALTER DATABASE %s RESET default_transaction_isolation".formatted(database.name()))
                    .update();
            database.endIdleSessions();
        }
    }

    @Test
    void transaction_of_another_data_source_can_be_refused() {
        run(
                app -> {
                    Jobs jobs = app.bean(Jobs.class);
                    for (Supplier<Call> prepare : calls(app)) {
                        Call call = prepare.get();
                        if (call.joins && !call.name.endsWith("operator")) {
                            assertThatExceptionOfType(ForeignTransactionException.class)
                                    .as(call.name)
                                    .isThrownBy(() -> app.in("foreign", true, call.action))
                                    .withMessageContaining(call.method());
                        }
                    }
                    assertThatExceptionOfType(ForeignTransactionException.class)
                            .isThrownBy(() -> app.in("distributed", true, () -> jobs.enqueue(new Order(1))));
                    app.in("foreign", true, () -> app.in("own", true, () -> jobs.enqueue(new Order(1))));
                    app.call(Caller.SUPPORTS, () -> jobs.enqueue(new Order(1)));
                    var afterwards = new ArrayList<UUID>();
                    for (Caller after : List.of(Caller.AFTER_COMMIT_OF_FOREIGN, Caller.AFTER_COMPLETION_OF_FOREIGN)) {
                        app.call(after, () -> {
                            afterwards.add(jobs.enqueue(new Order(1)).id());
                            assertThatExceptionOfType(ForeignTransactionException.class)
                                    .isThrownBy(() -> app.in(
                                            "foreign",
                                            TransactionDefinition.PROPAGATION_REQUIRES_NEW,
                                            false,
                                            true,
                                            () -> jobs.enqueue(new Order(1))));
                        });
                    }
                    assertThat(afterwards)
                            .hasSize(2)
                            .allSatisfy(id -> assertThat(jobs.find(id)).isPresent());
                },
                "forge.cluster.foreign-transactions=refuse");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void many_jobs_are_stored_all_or_none_in_every_transaction(boolean autoCommit) {
        run(
                app -> {
                    Jobs jobs = app.bean(Jobs.class);
                    JobOperations operations = app.bean(JobOperations.class);
                    JobBatch closed = jobs.batch(JobBatchOptions.named("closed"));
                    closed.close();
                    List<Order> orders =
                            IntStream.range(0, 2_500).mapToObj(Order::new).toList();
                    long before = stored();
                    int batches = operations.batches(100).items().size();
                    for (Caller caller : Caller.values()) {
                        app.call(
                                caller,
                                () -> assertThatExceptionOfType(JobRejectedException.class)
                                        .as(caller.toString())
                                        .isThrownBy(() -> jobs.enqueueAll(
                                                orders,
                                                order -> order.number < 2_000
                                                        ? JobOptions.defaults()
                                                        : JobOptions.defaults().withBatch(closed.id()))));
                        assertThat(stored()).as(caller.toString()).isEqualTo(before);
                        app.call(
                                caller,
                                () -> assertThatExceptionOfType(JobRejectedException.class)
                                        .as(caller.toString())
                                        .isThrownBy(() -> jobs.batch(JobBatchOptions.named("part")
                                                .withParent(closed.id())
                                                .withOnEnd(new Order(1)))));
                        assertThat(operations.batches(100).items())
                                .as(caller.toString())
                                .hasSize(batches);
                    }
                },
                "auto-commit=" + autoCommit,
                "forge.cluster.foreign-transactions=allow");
    }

    private long stored() {
        return database.jdbc()
                .sql("SELECT count(*) FROM forge_jobs")
                .query(Long.class)
                .single();
    }

    @Test
    void only_a_transaction_of_the_clusters_data_source_excludes_locks_and_bulk_calls() {
        run(
                app -> {
                    JobOperations operations = app.bean(JobOperations.class);
                    ClusterLocks locks = app.bean(ClusterLocks.class);
                    JobFilter mine = JobFilter.all().withName("order");
                    for (Caller caller : Caller.values()) {
                        boolean joins = caller.undoes()
                                || List.of(
                                                Caller.OWN,
                                                Caller.JPA,
                                                Caller.OWN_IN_FOREIGN_READ_ONLY,
                                                Caller.FOREIGN_ROLLED_BACK_IN_OWN)
                                        .contains(caller);
                        app.call(caller, () -> {
                            if (joins) {
                                assertThatThrownBy(() -> locks.tryWithLock("lock", () -> {}))
                                        .as(caller.toString())
                                        .isInstanceOf(IllegalTransactionStateException.class);
                                assertThatThrownBy(() -> operations.cancelAll(mine, BulkOptions.defaults()))
                                        .as(caller.toString())
                                        .isInstanceOf(JobRejectedException.class);
                            } else {
                                assertThat(locks.tryWithLock("lock", () -> {}))
                                        .as(caller.toString())
                                        .isTrue();
                                operations.cancelAll(mine, BulkOptions.defaults());
                            }
                        });
                    }
                },
                "auto-commit=false",
                "forge.cluster.foreign-transactions=allow");
    }

    @Test
    void callers_transaction_keeps_no_connection_of_the_cluster() {
        run(
                app -> {
                    Jobs jobs = app.bean(Jobs.class);
                    JobOperations operations = app.bean(JobOperations.class);
                    Map<String, Runnable> calls = Map.of(
                            "pause", () -> jobs.pause("unused"),
                            "resume", () -> jobs.resume("unused"),
                            "paused", operations::paused,
                            "limit", () -> operations.setLimits("unused", JobLimits.none()),
                            "limits", () -> operations.limits("unused"),
                            "demand", operations::demand,
                            "cancel",
                                    () -> jobs.cancel(jobs.enqueue(
                                                    new Order(1),
                                                    JobOptions.defaults().withUniqueKey("key"))
                                            .id()),
                            "unknown name",
                                    () -> assertThatExceptionOfType(UnknownJobException.class)
                                            .isThrownBy(() -> jobs.enqueueNamed("nobody-has-it", null)));
                    for (Caller caller : List.of(Caller.OWN, Caller.FOREIGN, Caller.SUPPORTS)) {
                        calls.forEach((name, call) -> app.call(caller, () -> {
                            call.run();
                            assertThat(TransactionSynchronizationManager.getResourceMap()
                                            .keySet())
                                    .as("%s, %s", name, caller)
                                    .noneMatch(ControlConnections.class::isInstance);
                        }));
                    }
                },
                "forge.cluster.control-connections=1",
                "forge.cluster.foreign-transactions=allow");
    }
}
