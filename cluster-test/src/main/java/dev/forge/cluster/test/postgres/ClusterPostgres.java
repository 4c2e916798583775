// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.postgres;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives a test class a database on a real PostgreSQL, as a parameter of type {@link TestDatabase} and, in a Spring test, as
 * {@code spring.datasource.*}.
 *
 * <p>A class without a Spring context has a database of its own. A Spring context has a database of its own: it is created
 * with the context, and shared by all classes that share the context ({@link #ownDatabase()} prevents that). A context that
 * replaces a dirty one has a new database.
 *
 * <p>The server is the one that {@code FORGE_TEST_JDBC_URL} names, otherwise one from Testcontainers if Docker is available,
 * otherwise an embedded one. It is started once per JVM.
 *
 * <p>A test that leaves a database session, a thread or a child process behind fails.
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@ExtendWith(ClusterPostgresExtension.class)
public @interface ClusterPostgres {

    /**
     * Whether the database has the cluster's tables from the start, cloned from a template. Set this to false if the
     * application's own Flyway must find an empty schema.
     */
    boolean migrated() default true;

    /**
     * Whether leftovers fail the test. Set this to false if something outlives the test on purpose. Spring tests are never
     * checked, because their cached contexts outlive them.
     */
    boolean checkLeftovers() default true;

    /**
     * Whether a Spring test class has a database, and with it a context, that no other class shares. By default classes with
     * the same context configuration share one cached context and its database, so they see each other's rows. Other tests
     * always have a database of their own.
     */
    boolean ownDatabase() default false;
}
