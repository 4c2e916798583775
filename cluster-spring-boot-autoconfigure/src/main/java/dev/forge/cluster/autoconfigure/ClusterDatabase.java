package dev.forge.cluster.autoconfigure;

import com.zaxxer.hikari.HikariConfigMXBean;
import com.zaxxer.hikari.HikariDataSource;
import com.zaxxer.hikari.HikariPoolMXBean;
import dev.forge.cluster.ClusterDataSource;
import dev.forge.cluster.ClusterStartupException;
import jakarta.persistence.EntityManagerFactory;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.beans.factory.BeanFactoryUtils;
import org.springframework.beans.factory.NoUniqueBeanDefinitionException;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.AbstractBeanDefinition;
import org.springframework.boot.jdbc.DataSourceBuilder;
import org.springframework.boot.jdbc.DataSourceUnwrapper;
import org.springframework.core.InfrastructureProxy;
import org.springframework.jdbc.datasource.AbstractDataSource;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DelegatingDataSource;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.datasource.SimpleDriverDataSource;
import org.springframework.jdbc.datasource.TransactionAwareDataSourceProxy;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.TransactionManagementConfigurer;
import org.springframework.transaction.support.ResourceTransactionManager;
import org.springframework.util.ClassUtils;

/**
 * The application's data source, and a way past its pool.
 *
 * @param application serves the application's own transactions
 * @param direct opens a connection of its own each time, with the credentials that are valid then
 */
record ClusterDatabase(
        DataSource application, DataSource direct, ObjectProvider<TransactionManagementConfigurer> configurers) {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    static final boolean HIKARI =
            ClassUtils.isPresent("com.zaxxer.hikari.HikariDataSource", ClusterDatabase.class.getClassLoader());

    private static final boolean ORM = ClassUtils.isPresent(
                    "org.springframework.orm.jpa.JpaTransactionManager", ClusterDatabase.class.getClassLoader())
            && ClassUtils.isPresent("jakarta.persistence.EntityManagerFactory", ClusterDatabase.class.getClassLoader());

    /** The pool behind a data source; only where HikariCP is present. */
    static @Nullable HikariDataSource hikari(DataSource application) {
        return Hikari.behind(application);
    }

    static ClusterDatabase of(ConfigurableListableBeanFactory beans, ClusterProperties.DirectConnection settings) {
        DataSource application = transactional(beans.getBean(select(beans), DataSource.class));
        return new ClusterDatabase(
                new SelfCommitting(application),
                new Direct(application, settings),
                beans.getBeanProvider(TransactionManagementConfigurer.class));
    }

    /**
     * The application's own, so that fenced work and transactional steps join its transactions: the one whose data source is the
     * cluster's. If all of them are of other data sources, one of ours.
     *
     * @throws ClusterStartupException if several could be meant, or the cluster's statements would not join its transactions
     */
    PlatformTransactionManager transactions(ObjectProvider<PlatformTransactionManager> managers) {
        List<PlatformTransactionManager> all = managers.stream().toList();
        List<PlatformTransactionManager> own =
                all.stream().filter(manager -> sourceOf(manager) == source()).toList();
        if (own.isEmpty()) {
            all.forEach(this::requireJoinable);
            // Whose data source nobody knows, such as a manager of JTA.
            own = all.stream().filter(manager -> !isForeign(manager)).toList();
        }
        return switch (own.size()) {
            case 0 -> new JdbcTransactionManager(application);
            case 1 -> own.get(0);
            default -> primary(managers, own);
        };
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
                "Put @Primary on the one that transactional steps and fenced work should use: where there is an"
                        + " EntityManagerFactory, that is its JpaTransactionManager.");
    }

    /** A proxy of the cluster's data source is known to transactions under another identity. */
    private void requireJoinable(PlatformTransactionManager manager) {
        DataSource other = sourceOf(manager);
        if (other != null && other != source() && target(other) == target(source())) {
            throw new ClusterStartupException(
                    "The transaction manager %s uses a %s around the cluster's DataSource: the cluster's statements would not join its transactions"
                            .formatted(
                                    manager.getClass().getName(),
                                    other.getClass().getName()),
                    "Make the proxy the DataSource bean that both use: put @ClusterDataSource on it, or give the manager the"
                            + " cluster's DataSource bean itself.");
        }
    }

    /** Whether its transactions are known to be those of another data source, or of none at all. */
    boolean isForeign(PlatformTransactionManager manager) {
        DataSource own = sourceOf(manager);
        boolean unknown = own == null
                && (!(manager instanceof ResourceTransactionManager resource)
                        || (ORM && Orm.isEntityManagers(resource)));
        return own != source() && !unknown;
    }

    private DataSource source() {
        return ((SelfCommitting) application).application;
    }

    private static @Nullable DataSource sourceOf(PlatformTransactionManager manager) {
        DataSource own = manager instanceof DataSourceTransactionManager jdbc
                ? jdbc.getDataSource()
                : ORM ? Orm.sourceOf(manager) : null;
        return own == null ? null : transactional(own);
    }

    /** Managers look behind proxies that only hand out the connection of the transaction, and so do we. */
    private static DataSource transactional(DataSource source) {
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

    /**
     * The application's data source, where a statement outside any transaction is one by itself. A pool may be configured not
     * to commit (as is recommended for Hibernate), and what we wrote would be rolled back when its connection is returned.
     * Transactions know it as what it wraps, so that what runs in one of the application's joins it.
     */
    private static final class SelfCommitting extends DelegatingDataSource implements InfrastructureProxy {

        private final DataSource application;

        SelfCommitting(DataSource application) {
            super(application);
            this.application = application;
        }

        @Override
        public Object getWrappedObject() {
            return application;
        }

        @Override
        public Connection getConnection() throws SQLException {
            Connection connection = super.getConnection();
            if (!connection.getAutoCommit()) {
                // The pool sets it back.
                connection.setAutoCommit(true);
            }
            return connection;
        }
    }

    private static String select(ConfigurableListableBeanFactory beans) {
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
                    "Set spring.datasource.url, or forge.cluster.enabled=false where no cluster is wanted.");
        }
        throw new ClusterStartupException(
                marked.isEmpty()
                        ? "There are several DataSource beans, none marked for Forge Cluster: " + eligible
                        : "Several DataSource beans are marked @ClusterDataSource: " + marked,
                "Put @ClusterDataSource on the one @Bean method whose database holds the cluster. @Primary does not decide"
                        + " this: jobs enqueued in transactions of another DataSource would silently not be transactional.");
    }

    private static boolean isDefaultCandidate(ConfigurableListableBeanFactory beans, String name) {
        return !beans.containsBeanDefinition(name)
                || !(beans.getMergedBeanDefinition(name) instanceof AbstractBeanDefinition definition)
                || (definition.isAutowireCandidate() && definition.isDefaultCandidate());
    }

    /**
     * Lets the application's pool replace its connections, each when it is idle. Sessions that were opened while the default of
     * the database was read-only stay read-only, and a pool keeps them for half an hour. Does nothing for pools other than
     * HikariCP's.
     */
    void renewPool() {
        if (HIKARI) {
            Hikari.renew(application);
        }
    }

    /** Opens unpooled connections that look to the server like the application's own. */
    private static final class Direct extends AbstractDataSource {

        /** How long a login may take, in seconds, and each read of it. */
        private static final int LOGIN_SECONDS = 5;

        private final DataSource application;
        private final ClusterProperties.DirectConnection settings;

        Direct(DataSource application, ClusterProperties.DirectConnection settings) {
            this.application = application;
            this.settings = settings;
        }

        @Override
        public Connection getConnection() throws SQLException {
            Connection connection = openAsConfigured();
            try {
                if (connection.getNetworkTimeout() == LOGIN_SECONDS * 1_000) {
                    // A migration's statements may take longer.
                    connection.setNetworkTimeout(Runnable::run, 0);
                }
                return connection;
            } catch (SQLException e) {
                connection.close();
                throw e;
            }
        }

        private Connection openAsConfigured() throws SQLException {
            // Asked anew each time: passwords may rotate while the application runs.
            HikariDataSource hikari = HIKARI ? Hikari.behind(application) : null;
            if (hikari != null) {
                return Hikari.open(hikari, settings);
            }
            if (settings.url() != null && settings.username() != null && settings.password() != null) {
                return open(settings.url(), settings.username(), settings.password(), new Properties());
            }
            SimpleDriverDataSource derived = derived();
            return open(
                    orElse(settings.url(), derived.getUrl()),
                    orElse(settings.username(), derived.getUsername()),
                    orElse(settings.password(), derived.getPassword()),
                    new Properties());
        }

        @Override
        public Connection getConnection(String username, String password) {
            throw new UnsupportedOperationException("direct connections have one user");
        }

        static Connection open(
                @Nullable String url, @Nullable String username, @Nullable String password, Properties properties)
                throws SQLException {
            if (url == null) {
                throw unreadable(null);
            }
            var source = new DriverManagerDataSource(url);
            source.setUsername(username);
            source.setPassword(password);
            if (url.startsWith("jdbc:postgresql:")) {
                properties.putIfAbsent("ApplicationName", "forge-cluster");
                properties.putIfAbsent("tcpKeepAlive", "true");
                String seconds = Integer.toString(LOGIN_SECONDS);
                properties.putIfAbsent("connectTimeout", seconds);
                properties.putIfAbsent("loginTimeout", seconds);
                // The driver logs in on a thread of its own. After the login timeout nobody waits for that thread any
                // more, but it
                // ends only with its read: where a server accepts and says nothing, there would be one more with each
                // attempt.
                properties.putIfAbsent("socketTimeout", seconds);
                properties.putIfAbsent("cancelSignalTimeout", "5");
            }
            source.setConnectionProperties(properties);
            return source.getConnection();
        }

        private SimpleDriverDataSource derived() {
            try {
                return DataSourceBuilder.derivedFrom(application)
                        .type(SimpleDriverDataSource.class)
                        .build();
            } catch (RuntimeException e) {
                throw unreadable(e);
            }
        }

        private static ClusterStartupException unreadable(@Nullable RuntimeException cause) {
            String message = "Forge Cluster needs connections of its own but cannot read the URL from the DataSource";
            String action = "Set forge.cluster.direct-connection.url, username and password.";
            return cause == null
                    ? new ClusterStartupException(message, action)
                    : new ClusterStartupException(message, action, cause);
        }

        static @Nullable String orElse(@Nullable String configured, @Nullable String own) {
            return configured != null ? configured : own;
        }
    }

    /** Apart, so that JPA may be absent. */
    private static final class Orm {

        static @Nullable DataSource sourceOf(PlatformTransactionManager manager) {
            return manager instanceof JpaTransactionManager jpa ? jpa.getDataSource() : null;
        }

        /** Also of managers that only Hibernate has. */
        static boolean isEntityManagers(ResourceTransactionManager manager) {
            return manager.getResourceFactory() instanceof EntityManagerFactory;
        }
    }

    /** Apart, so that HikariCP may be absent. */
    private static final class Hikari {

        static @Nullable HikariDataSource behind(DataSource application) {
            return DataSourceUnwrapper.unwrap(application, HikariConfigMXBean.class, HikariDataSource.class);
        }

        static void renew(DataSource application) {
            HikariDataSource hikari = behind(application);
            HikariPoolMXBean pool = hikari == null ? null : hikari.getHikariPoolMXBean();
            if (hikari != null && pool != null) {
                log.info(
                        "The database can be written again. The pool '{}' replaces its connections: those that were opened"
                                + " meanwhile are read-only for good.",
                        hikari.getPoolName());
                pool.softEvictConnections();
            }
        }

        static Connection open(HikariDataSource hikari, ClusterProperties.DirectConnection settings)
                throws SQLException {
            var properties = new Properties();
            properties.putAll(hikari.getDataSourceProperties());
            Connection connection = Direct.open(
                    Direct.orElse(settings.url(), hikari.getJdbcUrl()),
                    Direct.orElse(settings.username(), hikari.getUsername()),
                    Direct.orElse(settings.password(), hikari.getPassword()),
                    properties);
            if (hikari.getConnectionInitSql() != null) {
                try (Statement statement = connection.createStatement()) {
                    statement.execute(hikari.getConnectionInitSql());
                } catch (SQLException e) {
                    connection.close();
                    throw e;
                }
            }
            return connection;
        }
    }
}
