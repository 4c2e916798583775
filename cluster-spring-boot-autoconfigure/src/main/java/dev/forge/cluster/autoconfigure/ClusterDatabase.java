// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import com.zaxxer.hikari.HikariConfigMXBean;
import com.zaxxer.hikari.HikariDataSource;
import com.zaxxer.hikari.HikariPoolMXBean;
import dev.forge.cluster.ClusterDataSource;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.ForeignTransactions;
import dev.forge.cluster.autoconfigure.properties.node.DirectConnectionProperties;
import dev.forge.cluster.internal.database.connection.ApplicationDataSource;
import dev.forge.cluster.internal.database.connection.Pooler;
import java.util.List;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.beans.factory.BeanFactoryUtils;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.AbstractBeanDefinition;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.jdbc.DataSourceUnwrapper;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.TransactionManagementConfigurer;
import org.springframework.util.ClassUtils;
import org.springframework.util.function.SingletonSupplier;

/** The database of the cluster: the application's data source, and connections that bypass its pool. */
public final class ClusterDatabase {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    /** Whether HikariCP is on the class path. */
    public static final boolean HIKARI =
            ClassUtils.isPresent("com.zaxxer.hikari.HikariDataSource", ClusterDatabase.class.getClassLoader());

    private final DataSource application;
    private final DataSource direct;
    private final TransactionManagerSelector transactionManagers;
    private final String poolSetting;
    private final SingletonSupplier<Pooler> applicationPooler;

    private ClusterDatabase(
            DataSource application,
            DataSource direct,
            TransactionManagerSelector transactionManagers,
            String poolSetting,
            SingletonSupplier<Pooler> applicationPooler) {
        this.application = application;
        this.direct = direct;
        this.transactionManagers = transactionManagers;
        this.poolSetting = poolSetting;
        this.applicationPooler = applicationPooler;
    }

    /** @throws ClusterStartupException if there is no data source, or several and none is marked */
    static ClusterDatabase of(
            ConfigurableListableBeanFactory beans,
            DirectConnectionProperties settings,
            ForeignTransactions foreignTransactions) {
        String bean = selectBean(beans);
        DataSource source = TransactionManagerSelector.transactional(beans.getBean(bean, DataSource.class));
        SingletonSupplier<Pooler> pooler = SingletonSupplier.of(() -> detectPooler(source));
        SingletonSupplier<Boolean> otherLevels = SingletonSupplier.of(
                () -> pooler.obtain() == Pooler.TRANSACTION || !ApplicationDataSource.isReadCommitted(source));
        var application = new ApplicationDataSource(source, foreignTransactions, otherLevels::obtain);
        return new ClusterDatabase(
                application,
                new DirectDataSource(source, settings),
                new TransactionManagerSelector(
                        source, application, beans.getBeanProvider(TransactionManagementConfigurer.class)),
                poolSetting(beans, bean),
                pooler);
    }

    /** Returns what sets the size of a HikariCP pool: the key that is bound to its bean, or the property of the bean. */
    private static String poolSetting(ConfigurableListableBeanFactory beans, String bean) {
        ConfigurationProperties bound = beans.findAnnotationOnBean(bean, ConfigurationProperties.class);
        String prefix = bound == null ? "" : (String) AnnotationUtils.getValue(bound);
        return prefix == null || prefix.isEmpty()
                ? "maximumPoolSize of the DataSource bean '%s'".formatted(bean)
                : "%s.maximum-pool-size (DataSource bean '%s')".formatted(prefix, bean);
    }

    /** Returns what sets the size of the application's pool, for advice. */
    public String poolSetting() {
        return poolSetting;
    }

    /**
     * Returns the application's data source. Statements on it join the application's transaction; outside of one each statement is
     * committed by itself.
     */
    public DataSource application() {
        return application;
    }

    /** Returns a data source that opens an unpooled connection each time, with the credentials that are valid then. */
    public DataSource direct() {
        return direct;
    }

    /** Returns the pooler between the application's own pool and the server. The first call opens two connections. */
    public Pooler applicationPooler() {
        return applicationPooler.obtain();
    }

    private static Pooler detectPooler(DataSource source) {
        try {
            return Pooler.detect(new DirectDataSource(source, new DirectConnectionProperties(null, null, null)));
        } catch (ClusterStartupException e) {
            // A direct-connection.url is set, because the URL of this data source cannot be read.
            log.debug("Could not find out whether the application's DataSource uses a pooler", e);
            return Pooler.NONE;
        }
    }

    /**
     * Returns the transaction manager for fenced work and transactional steps, so that they join the application's transactions: the
     * manager of the cluster's data source, or a new one if all managers belong to other data sources.
     *
     * @throws ClusterStartupException if several managers qualify, or the cluster's statements would not join their transactions
     */
    public PlatformTransactionManager transactions(ObjectProvider<PlatformTransactionManager> managers) {
        return transactionManagers.select(managers);
    }

    /** Returns whether the transactions of a manager are known to be those of another data source, or of none. */
    public boolean isForeign(PlatformTransactionManager manager) {
        return transactionManagers.isForeign(manager);
    }

    /** Returns the pool behind a data source, or null. Call it only if {@link #HIKARI} is true. */
    public static @Nullable HikariDataSource hikari(DataSource application) {
        return DataSourceUnwrapper.unwrap(application, HikariConfigMXBean.class, HikariDataSource.class);
    }

    /**
     * Makes the application's pool replace each of its connections when it is idle. Sessions that were opened while the database was
     * read-only by default stay read-only, and a pool keeps them for half an hour. Does nothing for pools other than HikariCP.
     */
    void renewPool() {
        if (HIKARI) {
            Hikari.renew(application);
        }
    }

    private static String selectBean(ConfigurableListableBeanFactory beans) {
        List<String> all = Stream.of(BeanFactoryUtils.beanNamesForTypeIncludingAncestors(beans, DataSource.class))
                .filter(name -> !ScopedProxyUtils.isScopedTarget(name))
                .toList();
        List<String> marked = all.stream()
                .filter(name -> beans.findAnnotationOnBean(name, ClusterDataSource.class) != null)
                .toList();
        List<String> eligible = marked.isEmpty()
                ? all.stream().filter(name -> isDefaultCandidate(beans, name)).toList()
                : marked;
        if (eligible.size() == 1) {
            return eligible.get(0);
        }
        if (eligible.isEmpty()) {
            throw new ClusterStartupException(
                    "Forge Cluster found no DataSource",
                    "Set spring.datasource.url, or forge.cluster.enabled=false if this application needs no cluster.");
        }
        throw new ClusterStartupException(
                marked.isEmpty()
                        ? "There are several DataSource beans, and none is marked for Forge Cluster: " + eligible
                        : "Several DataSource beans are marked @ClusterDataSource: " + marked,
                "Put @ClusterDataSource on the one @Bean method whose database holds the cluster. @Primary does not decide"
                        + " this: jobs enqueued in transactions of another DataSource would silently not be transactional.");
    }

    private static boolean isDefaultCandidate(ConfigurableListableBeanFactory beans, String name) {
        return !beans.containsBeanDefinition(name)
                || !(beans.getMergedBeanDefinition(name) instanceof AbstractBeanDefinition definition)
                || (definition.isAutowireCandidate() && definition.isDefaultCandidate());
    }

    /** A class of its own, because HikariCP may be absent. */
    private static final class Hikari {

        static void renew(DataSource application) {
            HikariDataSource hikari = hikari(application);
            HikariPoolMXBean pool = hikari == null ? null : hikari.getHikariPoolMXBean();
            if (hikari != null && pool != null) {
                log.info(
                        "Database is writable again. Pool '{}' replaces its connections, because connections opened while the"
                                + " database was read-only stay read-only.",
                        hikari.getPoolName());
                pool.softEvictConnections();
            }
        }
    }
}
