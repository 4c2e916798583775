package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.NodeIdentityProvider;
import dev.forge.cluster.internal.engine.Node;
import dev.forge.cluster.internal.engine.NodeSettings;
import dev.forge.cluster.internal.store.ControlConnections;
import dev.forge.cluster.internal.store.NodeStore;
import dev.forge.cluster.internal.store.NodeStore.Deadlines;
import dev.forge.cluster.internal.store.Schema;
import java.time.Duration;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.sql.init.dependency.DatabaseInitializationDependencyConfigurer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.core.env.Environment;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** Makes the application a node of its cluster. */
@AutoConfiguration(
        after = DataSourceAutoConfiguration.class,
        afterName = {
            "org.springframework.boot.flyway.autoconfigure.FlywayAutoConfiguration",
            "org.springframework.boot.liquibase.autoconfigure.LiquibaseAutoConfiguration"
        })
@ConditionalOnBooleanProperty(name = "forge.cluster.enabled", matchIfMissing = true)
@EnableConfigurationProperties(ClusterProperties.class)
@Import(DatabaseInitializationDependencyConfigurer.class)
public final class ClusterAutoConfiguration {

    /** How long a statement of ours waits for one of our few connections. */
    private static final Duration CONTROL_PATIENCE = Duration.ofSeconds(2);

    private static final int SCHEDULER_THREADS = 2;

    @Bean
    ClusterDatabase clusterDatabase(ConfigurableListableBeanFactory beans, ClusterProperties properties) {
        return ClusterDatabase.of(beans, properties.directConnection());
    }

    @Bean
    Schema clusterSchema(ClusterDatabase database, ClusterProperties properties) {
        String name = properties.schema().name();
        return Schema.open(
                database.direct(),
                properties.schema().mode(),
                name != null ? name : Schema.currentSchemaOf(database.application()));
    }

    @Bean
    @ConditionalOnMissingBean
    NodeIdentityProvider nodeIdentityProvider(ClusterProperties properties) {
        return new ConfiguredNodeIdentity(properties.node());
    }

    @Bean
    ClusterLifecycle clusterLifecycle(
            ClusterProperties properties,
            ClusterDatabase database,
            Schema schema,
            NodeIdentityProvider identities,
            Environment environment) {
        var control = new ControlConnections(database.direct(), properties.controlConnections(), CONTROL_PATIENCE);
        ThreadPoolTaskScheduler scheduler = scheduler();
        var node = new Node(settings(properties), identities, new NodeStore(schema, control), scheduler);
        String name = properties.name() != null
                ? properties.name()
                : environment.getProperty("spring.application.name", "application");
        return new ClusterLifecycle(properties, name, schema, new ClusterLifecycle.Parts(control, scheduler, node));
    }

    /** Not a bean: it would become the scheduler of the application's own {@code @Scheduled} methods. */
    private static ThreadPoolTaskScheduler scheduler() {
        var scheduler = new ThreadPoolTaskScheduler();
        scheduler.setThreadNamePrefix("forge-cluster-");
        scheduler.setPoolSize(SCHEDULER_THREADS);
        scheduler.setRemoveOnCancelPolicy(true);
        return scheduler;
    }

    private static NodeSettings settings(ClusterProperties properties) {
        ClusterProperties.Node node = properties.node();
        ClusterProperties.Heartbeat heartbeat = properties.heartbeat();
        return new NodeSettings(
                ConfiguredNodeIdentity.hostname(),
                node.roles(),
                node.capabilities(),
                ClusterLifecycle.version(),
                node.info(),
                heartbeat.interval(),
                new Deadlines(heartbeat.staleThreshold(), heartbeat.deadThreshold()));
    }
}
