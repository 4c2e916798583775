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

/**
 * Gives a {@code @SpringBootTest} a database of its own and a {@link ClusterTester}, which drives the cluster of the application. For
 * a slice without the rest of the application see {@link ClusterTest}.
 *
 * <p>Before each test all tables return to the rows that they had when the context had started.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Documented
@Inherited
public @interface AutoConfigureClusterTester {

    /** What runs by itself. */
    ClusterTester.Mode mode() default ClusterTester.Mode.MANUAL;

    /**
     * How many nodes the cluster has. With more than one they run as in production, in mode LIVE, each in a context of its own and
     * with its own path to the database; {@link ClusterTester#node} injects faults into them.
     */
    int nodes() default 1;

    /**
     * Whether the database has a synchronous standby, which {@link ClusterTester#promoteStandby} promotes. Needs several nodes, and
     * starts two embedded servers, also where the tests use another server.
     */
    boolean standby() default false;

    /**
     * Whether slots of crons fire when their time has come. Without, crons are there and can be triggered; {@link
     * ClusterTester#withoutCrons} is the same for a part of a test.
     */
    boolean crons() default true;

    /**
     * Whether DataSource beans that are not the cluster's may lead to other databases, such as one that the test starts in a
     * container. Otherwise such a bean fails the test, which would change a real database.
     */
    boolean otherDatabases() default false;
}
