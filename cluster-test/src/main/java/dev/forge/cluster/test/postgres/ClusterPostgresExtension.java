// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

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

/** Implements {@link ClusterPostgres}. */
public final class ClusterPostgresExtension
        implements BeforeAllCallback, AfterAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver {

    private static final Namespace NAMESPACE = Namespace.create(ClusterPostgresExtension.class);
    /** How long leftovers may take to disappear, in milliseconds; set by the tests of this check. */
    static final String GRACE_PARAMETER = "dev.forge.cluster.test.leftovers.grace";

    private static final ConcurrentHashMap<Class<?>, TestDatabase> DATABASES = new ConcurrentHashMap<>();

    /** The database of one class, shared by the extension and a Spring context and created by the first of them. */
    static TestDatabase databaseOf(Class<?> testClass) {
        return DATABASES.computeIfAbsent(
                testClass, type -> create(settings(type).migrated(), type.getSimpleName()));
    }

    public static TestDatabase create(boolean migrated, String label) {
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

    /** Sessions and threads of a Spring context outlive its tests. */
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

    /** A nested test class shares the database of its enclosing class. */
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
            // Unchecked leftovers may still use the database; it is dropped when the JVM ends.
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
            context.getStore(NAMESPACE)
                    .put(context.getUniqueId(), Leftovers.since(databaseOf(type), runsAlone(context)));
        }
    }

    /** Returns whether no other test runs in this JVM at the same time. */
    public static boolean runsAlone(ExtensionContext context) {
        return !context.getConfigurationParameter("junit.jupiter.execution.parallel.enabled")
                .map(Boolean::parseBoolean)
                .orElse(false);
    }

    /** Returns how long leftovers may take to disappear. */
    public static Duration grace(ExtensionContext context) {
        return context.getConfigurationParameter(GRACE_PARAMETER)
                .map(millis -> Duration.ofMillis(Long.parseLong(millis)))
                .orElse(Leftovers.GRACE);
    }

    private static void check(ExtensionContext context) throws InterruptedException {
        Leftovers leftovers = context.getStore(NAMESPACE).remove(context.getUniqueId(), Leftovers.class);
        if (leftovers != null) {
            leftovers.check(grace(context));
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

    /** A class of its own, because Spring's test support is optional. */
    private static final class OfSpring {
        static TestDatabase databaseOf(ExtensionContext context) {
            return ClusterPostgresContextCustomizerFactory.databaseOf(SpringExtension.getApplicationContext(context));
        }
    }
}
