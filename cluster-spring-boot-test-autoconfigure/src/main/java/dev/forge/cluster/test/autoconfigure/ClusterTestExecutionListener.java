// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.NodeRuntime;
import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.internal.cron.CronEngine;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.job.operations.JobOperations;
import dev.forge.cluster.test.ClusterTestLifecycle;
import dev.forge.cluster.test.TestedNode;
import dev.forge.cluster.workflow.Workflows;
import org.springframework.beans.factory.NoSuchBeanDefinitionException;
import org.springframework.context.ApplicationContext;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.context.TestContext;
import org.springframework.test.context.TestContextAnnotationUtils;
import org.springframework.test.context.support.AbstractTestExecutionListener;

/** Begins each test with clean tables and a new time; before the transaction of a test begins. */
final class ClusterTestExecutionListener extends AbstractTestExecutionListener {

    /** Before the listener of transactions, and before that of {@code @Sql}. */
    private static final int ORDER = 3_900;

    @Override
    public int getOrder() {
        return ORDER;
    }

    /** Keeps the first rows of all tables, before {@code @BeforeAll} methods and scripts of the class add others. */
    @Override
    public void beforeTestClass(TestContext test) throws Exception {
        if (TestContextAnnotationUtils.hasAnnotation(test.getTestClass(), AutoConfigureClusterTester.class)) {
            prepare(test);
        }
    }

    /** Prepares a context once: the first test of a class may have a new one, because an earlier method made the former dirty. */
    private static void prepare(TestContext test) throws Exception {
        ApplicationContext context = test.getApplicationContext();
        ClusterTestLifecycle lifecycle = context.getBean(ClusterTestLifecycle.class);
        if (lifecycle.isPrepared()) {
            return;
        }
        try {
            lifecycle.drive(tested(context));
            FurtherNodes further = context.getBeanProvider(FurtherNodes.class).getIfAvailable();
            if (further != null) {
                further.start();
            }
            lifecycle.keep();
        } catch (Exception | Error e) {
            // Its node must not go on, and the next class must not find it half prepared.
            test.markApplicationContextDirty(DirtiesContext.HierarchyMode.EXHAUSTIVE);
            throw e;
        }
    }

    @Override
    public void beforeTestMethod(TestContext test) throws Exception {
        if (TestContextAnnotationUtils.hasAnnotation(test.getTestClass(), AutoConfigureClusterTester.class)) {
            prepare(test);
            test.getApplicationContext().getBean(ClusterTestLifecycle.class).begin();
        } else if (test.hasApplicationContext()) {
            test.getApplicationContext().getBeanProvider(RecordedJobs.class).ifAvailable(RecordedJobs::clear);
        }
    }

    @Override
    public void afterTestMethod(TestContext test) {
        if (test.hasApplicationContext() && test.getTestException() == null) {
            test.getApplicationContext()
                    .getBeanProvider(ClusterTestLifecycle.class)
                    .ifAvailable(ClusterTestLifecycle::requireFaultsHappened);
        }
    }

    private static TestedNode tested(ApplicationContext context) {
        try {
            return new TestedNode(
                    context.getBean(NodeRuntime.class).node(),
                    context.getBean(JobEngine.class),
                    context.getBean(InspectableJobs.class),
                    context.getBean(JobOperations.class),
                    context.getBean(WorkflowEngine.class),
                    context.getBean(Workflows.class),
                    context.getBean(Crons.class),
                    context.getBean(CronEngine.class),
                    context.getBean(ClusterDatabase.class).application());
        } catch (NoSuchBeanDefinitionException e) {
            throw new IllegalStateException(
                    "The context has no cluster (%s). Is forge.cluster.enabled false, is Jobs a mock, or is this a slice such as @WebMvcTest? Use @ClusterTest or @SpringBootTest."
                            .formatted(e.getMessage()),
                    e);
        }
    }
}
