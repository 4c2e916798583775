// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.audit.OperatorSource;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.node.HeartbeatProperties;
import dev.forge.cluster.autoconfigure.properties.node.LeaderProperties;
import dev.forge.cluster.autoconfigure.properties.node.NodeProperties;
import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.node.DefaultClusterNodes;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.leader.LeaderStrategy;
import dev.forge.cluster.node.ClusterNodes;
import dev.forge.cluster.node.NodeIdentityProvider;
import dev.forge.cluster.node.NodeMode;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Supplier;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.SearchStrategy;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.sql.init.dependency.DatabaseInitializationDependencyConfigurer;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Import;
import org.springframework.core.env.Environment;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.util.function.SingletonSupplier;

/** Makes the application a node of its cluster. */
@AutoConfiguration(
        after = DataSourceAutoConfiguration.class,
        afterName = {
            "org.springframework.boot.flyway.autoconfigure.FlywayAutoConfiguration",
            "org.springframework.boot.liquibase.autoconfigure.LiquibaseAutoConfiguration",
            "org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration",
            "org.springframework.boot.hibernate.autoconfigure.HibernateJpaAutoConfiguration"
        })
@Conditional(OnClusterEnabled.class)
@EnableConfigurationProperties(ClusterProperties.class)
@Import({DatabaseInitializationDependencyConfigurer.class, PayloadCodecConfiguration.class})
public final class ClusterAutoConfiguration {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    /** How long a statement of the cluster waits for one of the control connections. */
    private static final Duration CONTROL_TIMEOUT = Duration.ofSeconds(2);

    @Bean
    ClusterDatabase clusterDatabase(ConfigurableListableBeanFactory beans, ClusterProperties properties) {
        return ClusterDatabase.of(beans, properties.directConnection(), properties.foreignTransactions());
    }

    @Bean
    Schema clusterSchema(ClusterDatabase database, ClusterProperties properties) {
        String name = properties.schema().name();
        Schema schema = open(
                database.direct(), properties, name != null ? name : Schema.currentSchemaOf(database.application()));
        if (properties.directConnection().url() != null) {
            schema.requireSeenBy(database.application());
        }
        if (properties.schema().mode() != SchemaMode.NONE && properties.node().mode() != NodeMode.OBSERVER) {
            schema.requireGrants();
        }
        return schema;
    }

    private static Schema open(DataSource direct, ClusterProperties properties, String name) {
        SchemaMode mode = properties.schema().mode();
        if (mode != SchemaMode.MIGRATE || properties.node().mode() != NodeMode.OBSERVER) {
            return Schema.open(direct, mode, name);
        }
        try {
            return Schema.open(direct, SchemaMode.VALIDATE, name);
        } catch (ClusterStartupException e) {
            throw new ClusterStartupException(
                    String.valueOf(e.getMessage()),
                    "forge.cluster.node.mode is observer, and an observer does not migrate the schema."
                            + " Start another node of the cluster first.",
                    e);
        }
    }

    @Bean
    @ConditionalOnMissingBean
    NodeIdentityProvider clusterNodeIdentityProvider(ClusterProperties properties) {
        return new ConfiguredNodeIdentity(properties.node());
    }

    @Bean
    ClusterName clusterName(ClusterProperties properties, Environment environment) {
        return new ClusterName(
                properties.name() != null
                        ? properties.name()
                        : environment.getProperty("spring.application.name", "application"));
    }

    /** The name of the cluster in logs, metrics and the endpoint. */
    public record ClusterName(String text) {}

    // The test support replaces it, to drive the node itself. A child context never shares that of its parent.
    @Bean
    @ConditionalOnMissingBean(search = SearchStrategy.CURRENT)
    Node.Drive clusterDrive() {
        return Node.Drive.by(scheduler());
    }

    @Bean
    NodeRuntime clusterParts(
            ClusterProperties properties,
            ClusterDatabase database,
            Schema schema,
            NodeIdentityProvider identities,
            ObjectProvider<OperatorSource> operators,
            Node.Drive drive,
            ApplicationContext context) {
        Pooler pooler = Pooler.detect(database.direct());
        var control =
                new ControlConnections(database.direct(), pooler, properties.controlConnections(), CONTROL_TIMEOUT);
        var events = new EventThread(context);
        // Found at the first operation: a bean of the application may depend on beans of the cluster.
        Supplier<OperatorSource> operatorSource =
                SingletonSupplier.of(() -> operators.getIfAvailable(() -> Optional::empty));
        var audit = new Audit(schema, () -> operatorSource.get().current(), events);
        var node = new Node(
                settings(properties, database, basis(properties.leader().strategy(), pooler)),
                new Node.Resources(
                        schema, database.direct(), control, new NodeStore(schema, control.urgent()), identities, audit),
                drive,
                events);
        node.requiredLeadership().onLost(properties.node().onLostLeadership(), () -> exit(context));
        node.membership().onWritableAgain(database::renewPool);
        return new NodeRuntime(control, drive.scheduler(), events, node, new KeepAliveThread(context.getEnvironment()));
    }

    // Depends on the components of the node, because they and their handlers must exist when the node joins.
    @Bean
    @ConditionalOnMissingBean
    ClusterNodes clusterNodes(Schema schema, NodeRuntime runtime) {
        return new DefaultClusterNodes(
                runtime.node(), new NodeReports(schema, runtime.control().shared()));
    }

    @Bean
    ClusterLifecycle clusterLifecycle(
            ClusterProperties properties,
            ClusterName name,
            Schema schema,
            NodeRuntime runtime,
            ObjectProvider<NodeComponent> components) {
        components.orderedStream().forEach(runtime.node().components()::register);
        return new ClusterLifecycle(properties, name.text(), schema, runtime);
    }

    private static LeadershipBasis basis(LeaderStrategy strategy, Pooler pooler) {
        if (pooler == Pooler.TRANSACTION && strategy == LeaderStrategy.ADVISORY_LOCK) {
            throw new ClusterStartupException(
                    "forge.cluster.leader.strategy (advisory-lock) needs a session of its own, but this node reaches the database"
                            + " through a transaction pooler",
                    "Set forge.cluster.direct-connection.url to a URL that bypasses the pooler, or set"
                            + " forge.cluster.leader.strategy=auto to elect by leases.");
        }
        if (pooler == Pooler.TRANSACTION && strategy == LeaderStrategy.AUTO) {
            log.warn(
                    "This node reaches the database through a transaction pooler: leaders are elected by leases, and crashes"
                            + " are detected by missing heartbeats. Both are faster with a forge.cluster.direct-connection.url"
                            + " that bypasses the pooler.");
        }
        return pooler == Pooler.TRANSACTION || strategy == LeaderStrategy.LEASE
                ? LeadershipBasis.LEASE
                : LeadershipBasis.LOCK;
    }

    /** Exits on a new thread: closing the context waits for the loops of the node, and one of them calls this. */
    private static void exit(ApplicationContext context) {
        new SimpleAsyncTaskExecutor("forge-cluster-exit-")
                .execute(() -> System.exit(SpringApplication.exit(context, () -> 1)));
    }

    /** Not a bean, because the application's {@code @Scheduled} methods would use it. */
    public static ThreadPoolTaskScheduler scheduler() {
        var scheduler = new ThreadPoolTaskScheduler();
        scheduler.setThreadNamePrefix("forge-cluster-");
        scheduler.setRemoveOnCancelPolicy(true);
        scheduler.setDaemon(true);
        return scheduler;
    }

    private static NodeSettings settings(
            ClusterProperties properties, ClusterDatabase database, LeadershipBasis basis) {
        NodeProperties node = properties.node();
        HeartbeatProperties heartbeat = properties.heartbeat();
        LeaderProperties leader = properties.leader();
        return new NodeSettings(
                new NodeSettings.Presence(
                        ConfiguredNodeIdentity.hostname(),
                        node.mode(),
                        node.roles(),
                        node.capabilities(),
                        ClusterLifecycle.version(),
                        node.info(),
                        new NodeLoad(database)),
                new NodeSettings.Heartbeat(
                        heartbeat.interval(),
                        heartbeat.adaptive(),
                        heartbeat.maxInterval(),
                        heartbeat.staleThreshold(),
                        heartbeat.deadThreshold()),
                new NodeSettings.Detection(
                        properties.detection().interval(),
                        properties.detection().livenessLock()),
                new NodeSettings.Election(
                        basis,
                        leader.checkInterval(),
                        leader.leaseDuration(),
                        leader.renewInterval(),
                        LeaderProperties.LOCAL_DEADLINE),
                properties.shutdown().drainTimeout());
    }
}
