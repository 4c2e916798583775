// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import java.time.Duration;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.test.context.junit.jupiter.SpringExtension;

/** Behind {@link ClusterPostgres}. */
final class ClusterPostgresExtension
        implements BeforeAllCallback, AfterAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver {

    private static final Namespace NAMESPACE = Namespace.create(ClusterPostgresExtension.class);
    /** In milliseconds; for tests of the leftovers themselves. */
    static final String GRACE_PARAMETER = "dev.forge.cluster.test.leftovers.grace";

    private static final ConcurrentHashMap<Class<?>, TestDatabase> DATABASES = new ConcurrentHashMap<>();

    /** The database that belongs to one class: the same for the extension and for a Spring context, whichever asks first. */
    static TestDatabase databaseOf(Class<?> testClass) {
        return DATABASES.computeIfAbsent(
                testClass, type -> create(settings(type).migrated(), type.getSimpleName()));
    }

    static TestDatabase create(boolean migrated, String label) {
        PostgresServer server = PostgresServer.shared();
        return migrated ? server.createDatabase(label) : server.createEmptyDatabase(label);
    }

    private static ClusterPostgres settings(Class<?> testClass) {
        ClusterPostgres settings = AnnotatedElementUtils.findMergedAnnotation(testClass, ClusterPostgres.class);
        if (settings == null) {
            throw new IllegalStateException(testClass + " has no @ClusterPostgres");
        }
        return settings;
    }

    /** A Spring test's context outlives its tests, and with it sessions and threads. */
    private static boolean checksLeftovers(Class<?> testClass) {
        return settings(testClass).checkLeftovers() && !isSpringTest(testClass);
    }

    private static boolean isSpringTest(Class<?> testClass) {
        var annotations = MergedAnnotations.from(testClass, SearchStrategy.TYPE_HIERARCHY);
        return annotations.isPresent("org.springframework.test.context.BootstrapWith")
                || annotations.isPresent("org.springframework.test.context.ContextConfiguration");
    }

    private static Class<?> annotatedClass(ExtensionContext context) {
        return annotatedClass(context.getRequiredTestClass());
    }

    /** A nested test class shares the database of the class around it. */
    static Class<?> annotatedClass(Class<?> testClass) {
        Class<?> type = testClass;
        while (!AnnotatedElementUtils.hasAnnotation(type, ClusterPostgres.class) && type.getEnclosingClass() != null) {
            type = type.getEnclosingClass();
        }
        return type;
    }

    @Override
    public void beforeAll(ExtensionContext context) {
        remember(context);
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        remember(context);
    }

    @Override
    public void afterEach(ExtensionContext context) throws InterruptedException {
        check(context);
    }

    @Override
    public void afterAll(ExtensionContext context) throws InterruptedException {
        Class<?> type = context.getRequiredTestClass();
        try {
            check(context);
        } finally {
            // With unchecked leftovers something may still use it: then it goes with the JVM.
            if (type == annotatedClass(context) && checksLeftovers(type)) {
                TestDatabase database = DATABASES.remove(type);
                if (database != null) {
                    database.close();
                }
            }
        }
    }

    private static void remember(ExtensionContext context) {
        Class<?> type = annotatedClass(context);
        if (checksLeftovers(type)) {
            boolean alone = !context.getConfigurationParameter("junit.jupiter.execution.parallel.enabled")
                    .map(Boolean::parseBoolean)
                    .orElse(false);
            context.getStore(NAMESPACE).put(context.getUniqueId(), Leftovers.since(databaseOf(type), alone));
        }
    }

    private static void check(ExtensionContext context) throws InterruptedException {
        Leftovers leftovers = context.getStore(NAMESPACE).remove(context.getUniqueId(), Leftovers.class);
        if (leftovers != null) {
            leftovers.check(context.getConfigurationParameter(GRACE_PARAMETER)
                    .map(millis -> Duration.ofMillis(Long.parseLong(millis)))
                    .orElse(Leftovers.GRACE));
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == TestDatabase.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = annotatedClass(context);
        return isSpringTest(type) && !settings(type).ownDatabase() ? OfSpring.databaseOf(context) : databaseOf(type);
    }

    /** Apart, so that Spring's test support may be absent. */
    private static final class OfSpring {
        static TestDatabase databaseOf(ExtensionContext context) {
            return ClusterPostgresContextCustomizerFactory.databaseOf(SpringExtension.getApplicationContext(context));
        }
    }
}
