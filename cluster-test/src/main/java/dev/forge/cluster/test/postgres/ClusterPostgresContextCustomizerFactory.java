// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.MapPropertySource;
import org.springframework.test.context.ContextConfigurationAttributes;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.ContextCustomizerFactory;
import org.springframework.test.context.MergedContextConfiguration;

/** Points the Spring context of {@link ClusterPostgres} test classes at a database. */
final class ClusterPostgresContextCustomizerFactory implements ContextCustomizerFactory {

    @Override
    public @Nullable ContextCustomizer createContextCustomizer(
            Class<?> testClass, List<ContextConfigurationAttributes> attributes) {
        Class<?> annotated = ClusterPostgresExtension.annotatedClass(testClass);
        ClusterPostgres settings = AnnotatedElementUtils.findMergedAnnotation(annotated, ClusterPostgres.class);
        return settings == null
                ? null
                : new DatabaseCustomizer(settings.migrated(), settings.ownDatabase() ? annotated : null);
    }

    /** Returns the database of a context that this factory has customized. */
    static TestDatabase databaseOf(ApplicationContext context) {
        DatabaseProperties properties = propertiesOf(context);
        if (properties == null) {
            throw new IllegalStateException(
                    "@ClusterPostgres did not customize %s: was it loaded by another class without the annotation?"
                            .formatted(context));
        }
        return properties.getDatabase();
    }

    private static @Nullable DatabaseProperties propertiesOf(@Nullable ApplicationContext context) {
        return context != null
                        && context.getEnvironment() instanceof ConfigurableEnvironment environment
                        && environment.getPropertySources().get(DatabaseProperties.NAME)
                                instanceof DatabaseProperties properties
                ? properties
                : null;
    }

    /** Part of the key of Spring's context cache: classes with equal settings share a context and its database. */
    private record DatabaseCustomizer(
            boolean migrated, @Nullable Class<?> owner) implements ContextCustomizer {

        @Override
        public void customizeContext(ConfigurableApplicationContext context, MergedContextConfiguration merged) {
            DatabaseProperties parent = propertiesOf(merged.getParentApplicationContext());
            context.getEnvironment()
                    .getPropertySources()
                    .addFirst(parent != null ? parent : new DatabaseProperties(database(merged.getTestClass())));
        }

        private TestDatabase database(Class<?> testClass) {
            return owner != null
                    ? ClusterPostgresExtension.databaseOf(owner)
                    : ClusterPostgresExtension.create(migrated, testClass.getSimpleName());
        }
    }

    private static final class DatabaseProperties extends MapPropertySource {

        static final String NAME = "clusterPostgres";

        private final TestDatabase database;

        DatabaseProperties(TestDatabase database) {
            super(
                    NAME,
                    Map.of(
                            "spring.datasource.url", database.url(),
                            "spring.datasource.username", database.username(),
                            "spring.datasource.password", database.password()));
            this.database = database;
        }

        TestDatabase getDatabase() {
            return database;
        }
    }
}
