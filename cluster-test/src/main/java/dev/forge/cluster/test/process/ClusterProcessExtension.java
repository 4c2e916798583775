// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.process;

import dev.forge.cluster.test.postgres.ClusterPostgresExtension;
import dev.forge.cluster.test.postgres.Leftovers;
import dev.forge.cluster.test.postgres.TestDatabase;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolutionException;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.opentest4j.TestAbortedException;
import org.springframework.core.annotation.AnnotatedElementUtils;

/** Implements {@link ClusterProcessTest}. */
final class ClusterProcessExtension implements BeforeEachCallback, AfterEachCallback, ParameterResolver {

    private static final Namespace NAMESPACE = Namespace.create(ClusterProcessExtension.class);

    /** Not a closeable: the store would close it after the callbacks of other extensions. */
    private record Fixture(
            ClusterProcesses processes, @Nullable Leftovers leftovers) {}

    @Override
    public void beforeEach(ExtensionContext context) {
        Class<?> testClass = context.getRequiredTestClass();
        ClusterProcessTest settings = settings(testClass);
        TestDatabase database = ClusterPostgresExtension.create(false, testClass.getSimpleName());
        Leftovers leftovers = settings.checkLeftovers()
                ? Leftovers.since(database, ClusterPostgresExtension.runsAlone(context))
                : null;
        var processes = new ClusterProcesses(settings, database);
        // Before the start, so that afterEach ends the processes of a start that fails.
        context.getStore(NAMESPACE).put(Fixture.class, new Fixture(processes, leftovers));
        processes.startAll();
    }

    @Override
    public void afterEach(ExtensionContext context) throws InterruptedException {
        Fixture fixture = context.getStore(NAMESPACE).remove(Fixture.class, Fixture.class);
        if (fixture == null) {
            return;
        }
        // An interrupted thread could not wait for the end of the processes.
        boolean interrupted = Thread.interrupted();
        try {
            end(fixture, context);
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static void end(Fixture fixture, ExtensionContext context) throws InterruptedException {
        try {
            context.getExecutionException()
                    .filter(failure -> !(failure instanceof TestAbortedException))
                    .ifPresent(
                            failure -> failure.addSuppressed(fixture.processes().output()));
        } finally {
            fixture.processes().end();
        }
        if (fixture.leftovers() != null) {
            // Sessions do not count: the database is dropped together with sessions that outlive a killed process.
            fixture.leftovers().check(ClusterPostgresExtension.grace(context));
        }
    }

    /** Returns the settings of the class, or of the enclosing one for a nested class. */
    private static ClusterProcessTest settings(Class<?> testClass) {
        for (Class<?> type = testClass; type != null; type = type.getEnclosingClass()) {
            ClusterProcessTest settings = AnnotatedElementUtils.findMergedAnnotation(type, ClusterProcessTest.class);
            if (settings != null) {
                return settings;
            }
        }
        throw new IllegalStateException(testClass + " has no @ClusterProcessTest");
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = parameter.getParameter().getType();
        return type == ClusterProcesses.class || type == TestDatabase.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Fixture fixture = context.getStore(NAMESPACE).get(Fixture.class, Fixture.class);
        Class<?> type = parameter.getParameter().getType();
        if (fixture == null) {
            throw new ParameterResolutionException(("@ClusterProcessTest: every test method has its own %s."
                            + " Only test, @BeforeEach and @AfterEach methods can have it as a parameter.")
                    .formatted(type.getSimpleName()));
        }
        return type == ClusterProcesses.class
                ? fixture.processes()
                : fixture.processes().database();
    }
}
