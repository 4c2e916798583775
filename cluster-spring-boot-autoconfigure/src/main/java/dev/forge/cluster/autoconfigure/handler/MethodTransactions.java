// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.handler;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.job.handler.JobHandler;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.NoUniqueBeanDefinitionException;
import org.springframework.beans.factory.annotation.BeanFactoryAnnotationUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.TransactionManager;
import org.springframework.transaction.annotation.AnnotationTransactionAttributeSource;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.TransactionManagementConfigurer;
import org.springframework.transaction.interceptor.TransactionAttribute;
import org.springframework.util.StringUtils;

/** Reads {@code @Transactional} of handlers, so that a job is completed in the transaction of its handler. */
public final class MethodTransactions {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private static final Set<Propagation> WITHOUT_TRANSACTION =
            EnumSet.of(Propagation.SUPPORTS, Propagation.NOT_SUPPORTED, Propagation.NEVER);

    private final ConfigurableListableBeanFactory beans;
    private final ClusterDatabase database;
    private final AnnotationTransactionAttributeSource transactions = new AnnotationTransactionAttributeSource(false);

    public MethodTransactions(ConfigurableListableBeanFactory beans, ClusterDatabase database) {
        this.beans = beans;
        this.database = database;
    }

    /** Returns the transaction of the method; null if it has none, or its job cannot be completed in it. */
    public JobHandler.@Nullable Transaction of(AnnotatedMethods.Found<?> found) {
        TransactionAttribute attribute = transactions.getTransactionAttribute(found.method(), found.type());
        if (attribute == null) {
            return null;
        }
        Propagation propagation = propagation(attribute);
        if (!WITHOUT_TRANSACTION.contains(propagation)) {
            AsynchronousHandlers.refuseFuture(
                    found,
                    "It is @Transactional, but the work of the future would not be part of its transaction.",
                    "Wait for the result inside of the handler and return the value. Or leave @Transactional out: the job"
                            + " then runs at least once, and asynchronous code opens transactions of its own.");
            requireKeptIsolation(found, attribute);
        }
        return switch (propagation) {
            case REQUIRED, MANDATORY, NESTED ->
                new JobHandler.Transaction(manager(found, attribute), new Opened(attribute));
            case SUPPORTS, REQUIRES_NEW, NOT_SUPPORTED, NEVER -> {
                log.warn(
                        "{} runs at least once, not exactly once: with @Transactional(propagation = {}) its writes are not part"
                                + " of the transaction that completes its job. Remove the propagation, or make the handler"
                                + " idempotent.",
                        found.place(),
                        propagation);
                yield null;
            }
        };
    }

    private static Propagation propagation(TransactionAttribute attribute) {
        return Arrays.stream(Propagation.values())
                .filter(propagation -> propagation.value() == attribute.getPropagationBehavior())
                .findFirst()
                .orElseThrow();
    }

    /** Rejects a level that drivers set on the session, because the transaction may run in another one. */
    private void requireKeptIsolation(AnnotatedMethods.Found<?> found, TransactionAttribute attribute) {
        if (attribute.getIsolationLevel() <= TransactionDefinition.ISOLATION_READ_COMMITTED
                || database.applicationPooler() != Pooler.TRANSACTION
                || isForeign(declared(found, attribute))) {
            return;
        }
        String level = attribute.getIsolationLevel() == TransactionDefinition.ISOLATION_SERIALIZABLE
                ? "SERIALIZABLE"
                : "REPEATABLE_READ";
        throw new ClusterStartupException(
                "@Transactional(isolation = %s) on %s: this DataSource reaches the database through a transaction pooler, which loses the level, because drivers set it on the session"
                        .formatted(level, found.place()),
                "Remove the isolation, and begin the method with the statement SET TRANSACTION ISOLATION LEVEL %s. Or point spring.datasource.url past the pooler, or at a pool in session mode."
                        .formatted(level.replace('_', ' ')));
    }

    private boolean isForeign(@Nullable TransactionManager manager) {
        return manager != null && (!(manager instanceof PlatformTransactionManager own) || database.isForeign(own));
    }

    /** Returns the manager that the proxy of the handler would use; null if the application has none. */
    private @Nullable TransactionManager declared(AnnotatedMethods.Found<?> found, TransactionAttribute attribute) {
        String qualifier = attribute.getQualifier();
        return StringUtils.hasText(qualifier)
                ? BeanFactoryAnnotationUtils.qualifiedBeanOfType(beans, TransactionManager.class, qualifier)
                : unnamed(found);
    }

    private PlatformTransactionManager manager(AnnotatedMethods.Found<?> found, TransactionAttribute attribute) {
        TransactionManager manager = declared(found, attribute);
        if (manager == null) {
            return database.transactions(beans.getBeanProvider(PlatformTransactionManager.class));
        }
        if (!(manager instanceof PlatformTransactionManager own) || isForeign(own)) {
            throw foreign(found);
        }
        return own;
    }

    private ClusterStartupException foreign(AnnotatedMethods.Found<?> found) {
        String problem =
                "@Transactional on %s: its transactions belong to another DataSource than the cluster's, so its job cannot be completed in them"
                        .formatted(found.place());
        boolean none =
                beans.getBeanProvider(PlatformTransactionManager.class).stream().allMatch(database::isForeign);
        return none
                ? new ClusterStartupException(
                        problem + ". No transaction manager of the cluster's DataSource exists",
                        "Declare one as a bean: Spring Boot creates none if the application declares a transaction manager"
                                + " of its own, such as that of a second DataSource. With JPA on the cluster's DataSource:"
                                + " @Bean @Primary JpaTransactionManager transactionManager(EntityManagerFactory entities) {"
                                + " return new JpaTransactionManager(entities); }. Without JPA: a JdbcTransactionManager.")
                : new ClusterStartupException(
                        problem,
                        "Name the right manager, @Transactional(\"...\"). If the handler writes to another database, it runs"
                                + " at least once: remove the annotation and put it on a method that the handler calls.");
    }

    /** Returns the default manager of the application; null if there is none. */
    private @Nullable TransactionManager unnamed(AnnotatedMethods.Found<?> found) {
        String onClass = BeanFactoryAnnotationUtils.getQualifierValue(found.type());
        if (StringUtils.hasText(onClass)) {
            Map<String, TransactionManager> qualified =
                    BeanFactoryAnnotationUtils.qualifiedBeansOfType(beans, TransactionManager.class, onClass);
            if (qualified.size() == 1) {
                return qualified.values().iterator().next();
            }
        }
        TransactionManagementConfigurer configurer =
                beans.getBeanProvider(TransactionManagementConfigurer.class).getIfUnique();
        if (configurer != null) {
            return configurer.annotationDrivenTransactionManager();
        }
        try {
            return beans.getBeanProvider(TransactionManager.class).getIfAvailable();
        } catch (NoUniqueBeanDefinitionException e) {
            List<String> names = Stream.of(beans.getBeanNamesForType(TransactionManager.class))
                    .sorted()
                    .toList();
            throw new ClusterStartupException(
                    "@Transactional on %s names no transaction manager, there are several, and none of them is primary: %s"
                            .formatted(found.place(), names),
                    "Name the manager of the cluster's DataSource, such as @Transactional(\"%s\"), or put @Primary on it."
                            .formatted(names.get(0)),
                    e);
        }
    }

    /** The declared definition with propagation REQUIRES_NEW, because the engine opens the outermost transaction. */
    private record Opened(TransactionAttribute declared) implements TransactionDefinition {

        @Override
        public int getPropagationBehavior() {
            return PROPAGATION_REQUIRES_NEW;
        }

        @Override
        public int getIsolationLevel() {
            return declared.getIsolationLevel();
        }

        @Override
        public int getTimeout() {
            return declared.getTimeout();
        }

        @Override
        public boolean isReadOnly() {
            return false;
        }

        @Override
        public @Nullable String getName() {
            return declared.getName();
        }
    }
}
