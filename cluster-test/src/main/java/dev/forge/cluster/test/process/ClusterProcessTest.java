// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test.process;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.TcpProxy;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Runs an application in several processes for each test method of a class, so that a test can kill, freeze and disconnect
 * nodes as happens in production. Parameters of type {@link ClusterProcesses} and {@link TestDatabase} give access to them.
 *
 * <pre>{@code
 * @ClusterProcessTest(application = OrderApplication.class)
 * class CrashTests {
 *
 *     @Test
 *     void second_node_takes_over(ClusterProcesses cluster) {
 *         cluster.kill(0);
 *         cluster.eventually(() -> assertThat(leader(cluster.database())).isEqualTo("process-1"));
 *     }
 * }
 * }</pre>
 *
 * <p>Each test method has a new, empty database and new processes. The processes are ready before the {@code @BeforeEach}
 * methods run: {@code /actuator/health/readiness} has returned 200, so the application needs a web server and Spring Boot's
 * actuator. After the {@code @AfterEach} methods all processes are killed and the database is dropped, also if the test has
 * failed. A failure has the last lines of each process's output as a suppressed exception.
 *
 * <p>The parameters are available to test methods, {@code @BeforeEach} and {@code @AfterEach} methods. The server is the one
 * of {@link ClusterPostgres}, which cannot be combined with this annotation.
 *
 * @see AppProcess
 * @see TcpProxy
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@ExtendWith(ClusterProcessExtension.class)
public @interface ClusterProcessTest {

    /** The class whose {@code main} method each process runs. */
    Class<?> application();

    /**
     * The number of processes that run when a test begins. With 0, tests start their processes themselves with {@link
     * ClusterProcesses#start}, for example after they have prepared the database.
     */
    int processes() default 2;

    /**
     * Application properties of all processes in the form {@code key=value}. They take precedence over the properties that
     * the fixture sets: {@code spring.datasource.*}, {@code server.port} and {@code forge.cluster.node.name}.
     */
    String[] properties() default {};

    /**
     * Whether each process reaches the database through a {@link TcpProxy} of its own, which {@link
     * ClusterProcesses#cutFromDatabase} and {@link ClusterProcesses#slowDown} need.
     */
    boolean proxied() default true;

    /**
     * Whether threads and child processes that the test leaves behind fail it. Set this to false if something outlives the
     * test on purpose.
     */
    boolean checkLeftovers() default true;
}
