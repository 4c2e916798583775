// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.autoconfigure.ClusterAutoConfiguration;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.test.AttemptRecorder;
import dev.forge.cluster.test.ClusterTester;
import dev.forge.cluster.test.PostgresServer;
import dev.forge.cluster.test.TestDatabase;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.test.context.ContextConfigurationAttributes;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.ContextCustomizerFactory;
import org.springframework.test.context.MergedContextConfiguration;
import org.springframework.test.context.TestContextAnnotationUtils;

/** Gives contexts of tests with {@link AutoConfigureClusterTester} a database, a time and a driven node. */
final class ClusterTestContextCustomizerFactory implements ContextCustomizerFactory {

    @Override
    public @Nullable ContextCustomizer createContextCustomizer(
            Class<?> testClass, List<ContextConfigurationAttributes> attributes) {
        AutoConfigureClusterTester settings =
                TestContextAnnotationUtils.findMergedAnnotation(testClass, AutoConfigureClusterTester.class);
        return settings == null ? null : new Customizer(settings.mode());
    }

    /** Part of the key of Spring's context cache: classes with equal settings share a context and its database. */
    private record Customizer(ClusterTester.Mode mode) implements ContextCustomizer {

        @Override
        public void customizeContext(ConfigurableApplicationContext context, MergedContextConfiguration merged) {
            TestDatabase database = PostgresServer.shared()
                    .createDatabaseWithMovableTime(merged.getTestClass().getSimpleName());
            var moved = new AtomicLong();
            var attempts = new AttemptRecorder();
            var tester = new ClusterTester(mode, database, database.time(), moved, attempts);
            context.getEnvironment()
                    .getPropertySources()
                    .addFirst(new MapPropertySource("clusterTest", properties(database)));
            ConfigurableListableBeanFactory beans = context.getBeanFactory();
            beans.registerSingleton("clusterTester", tester);
            beans.registerSingleton("clusterTestDatabase", database);
            beans.registerSingleton("clusterTestClock", tester.clock());
            beans.registerSingleton("clusterTestAttempts", attempts);
            beans.registerSingleton("clusterTestDrive", drive(tester, moved));
            beans.addBeanPostProcessor(new ApplicationClocks(tester.clock()));
        }

        private Node.Drive drive(ClusterTester tester, AtomicLong moved) {
            var scheduler = ClusterAutoConfiguration.scheduler();
            scheduler.setClock(tester.clock());
            return new Node.Drive(scheduler, moved::get, isStepped());
        }

        private boolean isStepped() {
            return mode != ClusterTester.Mode.LIVE;
        }

        private Map<String, Object> properties(TestDatabase database) {
            var properties = new HashMap<String, Object>();
            properties.put("spring.datasource.url", database.url());
            properties.put("spring.datasource.username", database.username());
            properties.put("spring.datasource.password", database.password());
            // A test that replaces the database would have no cluster.
            properties.put("spring.test.database.replace", "none");
            if (isStepped()) {
                // A session would wait for notifications that nobody steps, and permits in memory would not follow the time.
                properties.put("forge.cluster.leader.strategy", "lease");
                properties.put("forge.cluster.rate-limit.mode", "strict");
            }
            return properties;
        }
    }
}
