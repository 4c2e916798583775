// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.database.BegunTransactions;
import jakarta.persistence.EntityManagerFactory;
import java.util.List;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.NoUniqueBeanDefinitionException;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.transaction.ConfigurableTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.TransactionManagementConfigurer;
import org.springframework.transaction.support.AbstractPlatformTransactionManager;
import org.springframework.transaction.support.ResourceTransactionManager;
import org.springframework.util.ClassUtils;

/** Selects the transaction manager whose transactions the statements of the cluster join. */
final class TransactionManagerSelector {

    private static final boolean ORM = isPresent("org.springframework.orm.jpa.JpaTransactionManager")
            && isPresent("jakarta.persistence.EntityManagerFactory");

    private final DataSource source;
    private final DataSource application;
    private final ObjectProvider<TransactionManagementConfigurer> configurers;

    /**
     * @param source the data source of the cluster, as transactions know it
     * @param application the data source for a new transaction manager
     */
    TransactionManagerSelector(
            DataSource source, DataSource application, ObjectProvider<TransactionManagementConfigurer> configurers) {
        this.source = source;
        this.application = application;
        this.configurers = configurers;
    }

    private static boolean isPresent(String type) {
        return ClassUtils.isPresent(type, TransactionManagerSelector.class.getClassLoader());
    }

    /** See {@link ClusterDatabase#transactions}. */
    PlatformTransactionManager select(ObjectProvider<PlatformTransactionManager> managers) {
        List<PlatformTransactionManager> all = managers.stream().toList();
        List<PlatformTransactionManager> own =
                all.stream().filter(manager -> sourceOf(manager) == source).toList();
        if (own.isEmpty()) {
            all.forEach(this::requireJoinable);
            // Managers whose data source is unknown, such as a JtaTransactionManager.
            own = all.stream().filter(manager -> !isForeign(manager)).toList();
        }
        own.forEach(TransactionManagerSelector::requireSynchronization);
        own.forEach(this::listen);
        return switch (own.size()) {
            case 0 -> new JdbcTransactionManager(application);
            case 1 -> own.get(0);
            default -> primary(managers, own);
        };
    }

    private void listen(PlatformTransactionManager manager) {
        if (manager instanceof ConfigurableTransactionManager own
                && own.getTransactionExecutionListeners().stream().noneMatch(BegunTransactions.class::isInstance)) {
            own.addListener(new BegunTransactions(application));
        }
    }

    /** Without synchronization, nobody can tell a transaction from one that has ended. */
    private static void requireSynchronization(PlatformTransactionManager manager) {
        if (manager instanceof AbstractPlatformTransactionManager own
                && own.getTransactionSynchronization() == AbstractPlatformTransactionManager.SYNCHRONIZATION_NEVER) {
            throw new ClusterStartupException(
                    "The transaction manager %s has transactionSynchronization NEVER: the cluster's statements cannot join its transactions"
                            .formatted(manager.getClass().getName()),
                    "Leave transactionSynchronization at its default, ALWAYS.");
        }
    }

    private PlatformTransactionManager primary(
            ObjectProvider<PlatformTransactionManager> managers, List<PlatformTransactionManager> own) {
        TransactionManagementConfigurer configurer = configurers.getIfUnique();
        if (configurer != null
                && configurer.annotationDrivenTransactionManager() instanceof PlatformTransactionManager chosen
                && own.contains(chosen)) {
            return chosen;
        }
        String names = "";
        try {
            PlatformTransactionManager primary = managers.getIfAvailable();
            if (primary != null && own.contains(primary)) {
                return primary;
            }
        } catch (NoUniqueBeanDefinitionException e) {
            names = " among " + e.getBeanNamesFound();
        }
        throw new ClusterStartupException(
                "Several transaction managers%s can open transactions of the cluster's DataSource, and none of them is primary: %s"
                        .formatted(
                                names,
                                own.stream()
                                        .map(manager -> manager.getClass().getName())
                                        .toList()),
                "Put @Primary on the manager that transactional steps and fenced work should use. With an EntityManagerFactory,"
                        + " that is its JpaTransactionManager.");
    }

    /** Rejects a manager of a proxy around the cluster's data source: transactions know the proxy under another identity. */
    private void requireJoinable(PlatformTransactionManager manager) {
        DataSource other = sourceOf(manager);
        if (other != null && other != source && target(other) == target(source)) {
            throw new ClusterStartupException(
                    "The transaction manager %s uses a %s around the cluster's DataSource: the cluster's statements would not join its transactions"
                            .formatted(
                                    manager.getClass().getName(),
                                    other.getClass().getName()),
                    "Make the proxy the DataSource bean that both use: put @ClusterDataSource on it, or give the manager the"
                            + " cluster's DataSource bean itself.");
        }
    }

    /** See {@link ClusterDatabase#isForeign}. */
    boolean isForeign(PlatformTransactionManager manager) {
        DataSource own = sourceOf(manager);
        boolean unknown = own == null
                && (!(manager instanceof ResourceTransactionManager resource)
                        || (ORM && Orm.isEntityManagers(resource)));
        return own != source && !unknown;
    }

    private static @Nullable DataSource sourceOf(PlatformTransactionManager manager) {
        DataSource own = manager instanceof DataSourceTransactionManager jdbc
                ? jdbc.getDataSource()
                : ORM ? Orm.sourceOf(manager) : null;
        return own == null ? null : transactional(own);
    }

    /** Returns the data source as transactions know it: transaction managers unwrap proxies that are aware of transactions. */
    static DataSource transactional(DataSource source) {
        DataSource behind = source;
        while (behind instanceof TransactionAwareDataSourceProxy proxy && proxy.getTargetDataSource() != null) {
            behind = proxy.getTargetDataSource();
        }
        return behind;
    }

    private static DataSource target(DataSource source) {
        DataSource behind = source;
        while (behind instanceof DelegatingDataSource proxy && proxy.getTargetDataSource() != null) {
            behind = proxy.getTargetDataSource();
        }
        return behind;
    }

    /** A class of its own, because JPA may be absent. */
    private static final class Orm {

        static @Nullable DataSource sourceOf(PlatformTransactionManager manager) {
            return manager instanceof JpaTransactionManager jpa ? jpa.getDataSource() : null;
        }

        /** Covers managers other than Spring's JpaTransactionManager, too. */
        static boolean isEntityManagers(ResourceTransactionManager manager) {
            return manager.getResourceFactory() instanceof EntityManagerFactory;
        }
    }
}
