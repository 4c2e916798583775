// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.test.AttemptRecorder;
import dev.forge.cluster.test.ClusterTestLifecycle;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.TestClock;
import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Clock;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.support.BeanDefinitionRegistryPostProcessor;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.MapPropertySource;
import org.springframework.core.env.MutablePropertySources;
import org.springframework.test.context.ContextConfigurationAttributes;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.ContextCustomizerFactory;
import org.springframework.test.context.MergedContextConfiguration;
import org.springframework.test.context.TestContextAnnotationUtils;

/** Gives contexts of tests with {@link AutoConfigureClusterTester} a database, a time and a driven node. */
final class ClusterTestContextCustomizerFactory implements ContextCustomizerFactory {

    private static final String URL = "spring.datasource.url";
    private static final String USERNAME = "spring.datasource.username";
    private static final String PASSWORD = "spring.datasource.password";

    /** The URL, user and password of each connection that an application may configure beside {@code spring.datasource}. */
    private static final List<List<String>> OTHER_CONNECTIONS = List.of(
            List.of(
                    "spring.datasource.hikari.jdbc-url",
                    "spring.datasource.hikari.username",
                    "spring.datasource.hikari.password"),
            List.of("spring.flyway.url", "spring.flyway.user", "spring.flyway.password"),
            List.of("spring.liquibase.url", "spring.liquibase.user", "spring.liquibase.password"),
            List.of(
                    "forge.cluster.direct-connection.url",
                    "forge.cluster.direct-connection.username",
                    "forge.cluster.direct-connection.password"));

    @Override
    public @Nullable ContextCustomizer createContextCustomizer(
            Class<?> testClass, List<ContextConfigurationAttributes> attributes) {
        AutoConfigureClusterTester settings =
                TestContextAnnotationUtils.findMergedAnnotation(testClass, AutoConfigureClusterTester.class);
        if (settings == null) {
            return null;
        }
        if (TestContextAnnotationUtils.hasAnnotation(testClass, ClusterPostgres.class)) {
            throw new IllegalArgumentException(
                    "%s: leave out @ClusterPostgres. The test has a database already, see ClusterTester.database()"
                            .formatted(testClass.getName()));
        }
        if (settings.nodes() < 1) {
            throw new IllegalArgumentException(
                    "%s: nodes (%d) must be at least 1".formatted(testClass.getName(), settings.nodes()));
        }
        if (settings.nodes() > 1 && settings.mode() == ClusterTester.Mode.INLINE) {
            throw new IllegalArgumentException(
                    "%s: mode (INLINE) needs nodes = 1, not %d: several nodes run in mode LIVE"
                            .formatted(testClass.getName(), settings.nodes()));
        }
        if (settings.nodes() == 1 && settings.standby()) {
            throw new IllegalArgumentException(
                    "%s: standby (true) needs nodes (1) to be at least 2".formatted(testClass.getName()));
        }
        return new Customizer(
                settings.nodes() > 1 ? ClusterTester.Mode.LIVE : settings.mode(),
                settings.nodes(),
                settings.standby(),
                settings.crons(),
                settings.otherDatabases());
    }

    /** Part of the key of Spring's context cache: classes with equal settings share a context and its database. */
    private record Customizer(
            ClusterTester.Mode mode, int nodes, boolean standby, boolean crons, boolean otherDatabases)
            implements ContextCustomizer {

        @Override
        public void customizeContext(ConfigurableApplicationContext context, MergedContextConfiguration merged) {
            if (!crons) {
                context.getBeanFactory().addBeanPostProcessor(new CronsLeftOut());
            }
            FurtherNodes.Starting starting = FurtherNodes.starting();
            if (starting != null) {
                customizeNode(context, starting);
                return;
            }
            PostgresServer server = standby ? PostgresServer.withStandby() : PostgresServer.shared();
            TestDatabase database =
                    server.createDatabaseWithMovableTime(merged.getTestClass().getSimpleName());
            var attempts = new AttemptRecorder();
            var lifecycle = new ClusterTestLifecycle(mode, database, attempts);
            TestClock clock = lifecycle.tester().clock();
            Map<String, Object> properties = properties(database, database.url());
            if (nodes > 1) {
                properties.put("forge.cluster.node.roles", "function");
                properties.put("forge.cluster.node.name", "test");
            }
            use(properties, context);
            var beans = (DefaultListableBeanFactory) context.getBeanFactory();
            beans.registerSingleton("clusterTestLifecycle", lifecycle);
            beans.registerSingleton("clusterTester", lifecycle.tester());
            beans.registerSingleton("clusterTestDatabase", database);
            beans.registerSingleton("clusterTestAttempts", attempts);
            beans.registerSingleton("clusterTestDrive", drive(clock, lifecycle::movedNanos, UnaryOperator.identity()));
            beans.addBeanPostProcessor(new TestDatabaseGuard(database, beans, otherDatabases));
            beans.addBeanPostProcessor(new ApplicationClocks(clock));
            if (nodes > 1) {
                var further = new FurtherNodes(nodes, merged, database, lifecycle);
                beans.registerSingleton("clusterTestNodes", further);
                beans.registerDisposableBean("clusterTestNodes", further);
            }
        }

        private void customizeNode(ConfigurableApplicationContext context, FurtherNodes.Starting starting) {
            Map<String, Object> properties =
                    properties(starting.database(), starting.path().url());
            properties.put("forge.cluster.node.name", starting.name());
            // Only one of the contexts may have the port that the test configures.
            properties.put("server.port", "0");
            use(properties, context);
            var beans = (DefaultListableBeanFactory) context.getBeanFactory();
            Clock clock = starting.path().skewed(starting.clock());
            beans.registerSingleton(
                    "clusterTestDrive",
                    drive(clock, starting.moved(), task -> starting.path().gated(task)));
            beans.addBeanPostProcessor(new TestDatabaseGuard(starting.database(), beans, otherDatabases));
            beans.addBeanPostProcessor(new ApplicationClocks(clock));
        }

        private Node.Drive drive(Clock clock, LongSupplier moved, UnaryOperator<Runnable> gate) {
            var scheduler = ClusterAutoConfiguration.scheduler();
            scheduler.setClock(clock);
            scheduler.setTaskDecorator(gate::apply);
            return new Node.Drive(scheduler, moved, isStepped());
        }

        private boolean isStepped() {
            return mode != ClusterTester.Mode.LIVE;
        }

        /** Has the context use the properties, whatever else sets them, {@code @DynamicPropertySource} methods included. */
        private void use(Map<String, Object> properties, ConfigurableApplicationContext context) {
            ConfigurableEnvironment environment = context.getEnvironment();
            MutablePropertySources sources = environment.getPropertySources();
            var source = new MapPropertySource("clusterTest", properties);
            sources.addFirst(source);
            sources.addLast(new MapPropertySource("clusterTestDefaults", defaults()));
            // After all other customizers, and before any condition is evaluated.
            BeanDefinitionRegistryPostProcessor last = registry -> {
                for (List<String> keys : OTHER_CONNECTIONS) {
                    // Only those that are set somewhere: each of them would lead to another database.
                    if (keys.stream().anyMatch(environment::containsProperty)) {
                        properties.put(keys.get(0), properties.get(URL));
                        properties.put(keys.get(1), properties.get(USERNAME));
                        properties.put(keys.get(2), properties.get(PASSWORD));
                    }
                }
                sources.remove(source.getName());
                sources.addFirst(source);
            };
            context.addBeanFactoryPostProcessor(last);
        }

        private Map<String, Object> properties(TestDatabase database, String url) {
            var properties = new HashMap<String, Object>();
            properties.put(URL, url);
            properties.put(USERNAME, database.username());
            properties.put(PASSWORD, database.password());
            // Permits in the memory of a node would neither follow the time nor be reset.
            properties.put("forge.cluster.rate-limit.mode", "strict");
            // A test that replaces the database would have no cluster.
            properties.put("spring.test.database.replace", "none");
            if (isStepped()) {
                // A session would wait for notifications that nobody steps.
                properties.put("forge.cluster.leader.strategy", "lease");
            }
            return properties;
        }

        /** Returns what the configuration of the application overrides: faults are noticed sooner than in production. */
        private Map<String, Object> defaults() {
            return nodes == 1
                    ? Map.of()
                    : Map.of(
                            "forge.cluster.heartbeat.interval", "500ms",
                            "forge.cluster.heartbeat.stale-threshold", "1500ms",
                            "forge.cluster.heartbeat.dead-threshold", "3s");
        }
    }
}
