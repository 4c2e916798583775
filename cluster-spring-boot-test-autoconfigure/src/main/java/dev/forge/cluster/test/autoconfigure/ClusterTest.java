// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.autoconfigure;

import dev.forge.cluster.test.ClusterTester;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.test.autoconfigure.OverrideAutoConfiguration;
import org.springframework.boot.test.context.filter.annotation.TypeExcludeFilters;
import org.springframework.context.annotation.ComponentScan.Filter;
import org.springframework.core.annotation.AliasFor;
import org.springframework.core.env.Environment;
import org.springframework.test.context.BootstrapWith;
import org.springframework.test.context.junit.jupiter.SpringExtension;

/**
 * Tests jobs, crons and workflows of an application on the real engine and a real database: with the beans that have such methods,
 * and without the web and the rest of the application. What handlers need is imported with {@code @Import}, or mocked. A test of the
 * whole application uses {@code @SpringBootTest} with {@link AutoConfigureClusterTester}.
 *
 * <p>Nothing runs by itself, and the time stands still: the test runs jobs and moves the time with the {@link ClusterTester}, which
 * it injects. Before each test all tables return to the rows that they had when the context had started. Test classes with the same
 * configuration share one context, so that its tests must not run concurrently.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Documented
@Inherited
@BootstrapWith(ClusterTestContextBootstrapper.class)
@ExtendWith(SpringExtension.class)
@OverrideAutoConfiguration(enabled = false)
@TypeExcludeFilters(ClusterTypeExcludeFilter.class)
@AutoConfigureCluster
@AutoConfigureClusterTester
@ImportAutoConfiguration
public @interface ClusterTest {

    /** What runs by itself. */
    @AliasFor(annotation = AutoConfigureClusterTester.class, attribute = "mode")
    ClusterTester.Mode mode() default ClusterTester.Mode.MANUAL;

    /**
     * How many nodes the cluster has. With more than one they run as in production, in mode LIVE, each in a context of its own and
     * with its own path to the database; {@link ClusterTester#node} injects faults into them.
     */
    @AliasFor(annotation = AutoConfigureClusterTester.class, attribute = "nodes")
    int nodes() default 1;

    /**
     * Whether the database has a synchronous standby, which {@link ClusterTester#promoteStandby} promotes. Needs several nodes, and
     * starts two embedded servers, also where the tests use another server.
     */
    @AliasFor(annotation = AutoConfigureClusterTester.class, attribute = "standby")
    boolean standby() default false;

    /**
     * Whether slots of crons fire when their time has come. Without, crons are there and can be triggered; {@link
     * ClusterTester#withoutCrons} is the same for a part of a test.
     */
    @AliasFor(annotation = AutoConfigureClusterTester.class, attribute = "crons")
    boolean crons() default true;

    /**
     * Whether DataSource beans that are not the cluster's may lead to other databases, such as one that the test starts in a
     * container. Otherwise such a bean fails the test, which would change a real database.
     */
    @AliasFor(annotation = AutoConfigureClusterTester.class, attribute = "otherDatabases")
    boolean otherDatabases() default false;

    /** Properties in form {@literal key=value} for the {@link Environment} of the test. */
    String[] properties() default {};

    /** Whether only beans with methods of the cluster are included; otherwise those of the filters. */
    boolean useDefaultFilters() default true;

    /** Filters of further beans to include. */
    Filter[] includeFilters() default {};

    /** Filters of beans to exclude. */
    Filter[] excludeFilters() default {};

    /** Auto-configurations to exclude. */
    @AliasFor(annotation = ImportAutoConfiguration.class, attribute = "exclude")
    Class<?>[] excludeAutoConfiguration() default {};
}
