package dev.forge.cluster.daemon;

import dev.forge.cluster.node.NodeRole;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a bean method a daemon: something that runs all the time, on one node of the cluster. When that node dies,
 * drains or loses the database, another one takes over. The method may take a {@link DaemonContext}, and runs until it is
 * asked to stop.
 *
 * <pre>{@code
 * @ClusterDaemon
 * void priceFeed(DaemonContext daemon) throws InterruptedException {
 *     while (!daemon.awaitStop(Duration.ofMillis(200))) {
 *         Price price = exchange.next();
 *         daemon.fenced(() -> prices.store(price));
 *     }
 * }
 * }</pre>
 *
 * <p>An exception starts it again on the same node, after a growing delay. A method that returns without having been
 * asked to is done, until a node that has it starts or an operator resumes it; see {@link #restartOnReturn}.
 *
 * <p>Every text may hold placeholders, {@code "${feeds.count}"}. What is left empty is taken from {@code
 * forge.cluster.daemon.*}.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ClusterDaemon {

    /** Unique in the cluster. By default the method's name in kebab case: {@code priceFeed} is {@code price-feed}. */
    String name() default "";

    /** Once in the cluster, or once on every node. */
    DaemonScope scope() default DaemonScope.CLUSTER;

    /** How many of it the whole cluster runs, spread over its nodes; one by default, 1,000 at most. */
    String instances() default "";

    /**
     * How long it waits before it is started again. Twice as long each time that it ends soon, up to five minutes; a run of
     * a minute, or of ten delays if that is longer, begins anew.
     */
    String restartDelay() default "";

    /** For how long a node must have been up before it runs it. */
    String startupDelay() default "";

    /**
     * How many times in a row it is started again after an exception before it has failed. A run of a minute, or of ten
     * delays if that is longer, begins the count anew.
     */
    String maxRestarts() default "";

    /** The role a node must have to run it. */
    NodeRole role() default NodeRole.WORKER;

    /** What a node must offer ({@code forge.cluster.node.capabilities}) to run it; by default nothing. */
    String capability() default "";

    /** Whether a method that returns is started again, after the same growing delay as one that threw, but without end. */
    boolean restartOnReturn() default false;
}
