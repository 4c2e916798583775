package dev.forge.cluster.test;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives a test class a database of its own on a real PostgreSQL, as a parameter of type {@link TestDatabase} and, in a
 * Spring test, as {@code spring.datasource.*}.
 *
 * <p>The server is the one that {@code FORGE_TEST_JDBC_URL} names; else one from Testcontainers if Docker answers; else
 * an embedded one. It is started once per JVM.
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
     * Whether the cluster's tables are there from the start (cloned, hence fast). Say false where the application's own
     * Flyway must find an empty schema.
     */
    boolean migrated() default true;

    /**
     * Whether leftovers fail the test. Say false where something outlives the test on purpose; Spring tests, whose cached
     * contexts do, are not checked anyway.
     */
    boolean checkLeftovers() default true;
}
