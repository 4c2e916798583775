package dev.forge.cluster.test;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.env.MapPropertySource;
import org.springframework.test.context.ContextConfigurationAttributes;
import org.springframework.test.context.ContextCustomizer;
import org.springframework.test.context.ContextCustomizerFactory;
import org.springframework.test.context.MergedContextConfiguration;

/** Points the Spring context of a {@link ClusterPostgres} test class at the class's database. */
final class ClusterPostgresContextCustomizerFactory implements ContextCustomizerFactory {

    @Override
    public @Nullable ContextCustomizer createContextCustomizer(
            Class<?> testClass, List<ContextConfigurationAttributes> attributes) {
        Class<?> annotated = ClusterPostgresExtension.annotatedClass(testClass);
        return AnnotatedElementUtils.hasAnnotation(annotated, ClusterPostgres.class)
                ? new DatabaseProperties(annotated)
                : null;
    }

    /** Equal only for the same class: each has a database of its own, so contexts are not shared between classes. */
    private record DatabaseProperties(Class<?> testClass) implements ContextCustomizer {

        @Override
        public void customizeContext(ConfigurableApplicationContext context, MergedContextConfiguration merged) {
            TestDatabase database = ClusterPostgresExtension.databaseOf(testClass);
            context.getEnvironment()
                    .getPropertySources()
                    .addFirst(new MapPropertySource(
                            "clusterPostgres",
                            Map.of(
                                    "spring.datasource.url", database.url(),
                                    "spring.datasource.username", database.username(),
                                    "spring.datasource.password", database.password())));
        }
    }
}
