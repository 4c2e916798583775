// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.daemon;

import dev.forge.cluster.node.NodeRole;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a bean method a daemon: code that runs all the time on one node of the cluster. If that node dies, drains or loses the
 * database, another node takes over. The method can take a {@link DaemonContext} and runs until it is asked to stop.
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
 * <p>A method that throws is restarted on the same node after a growing delay. A method that returns without being asked to
 * stop is finished until a node that has it starts or an operator resumes it; see {@link #restartOnReturn}.
 *
 * <p>String attributes support {@code ${...}} placeholders. Attributes that are not set use {@code forge.cluster.daemon.*}.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ClusterDaemon {

    /** The name, unique in the cluster. Default: the method's name in kebab case; {@code priceFeed} becomes {@code price-feed}. */
    String name() default "";

    /** Whether the daemon runs once in the cluster or on every node. */
    DaemonScope scope() default DaemonScope.CLUSTER;

    /** The number of instances in the whole cluster, spread over its nodes, between 1 and 1,000. */
    int instances() default 1;

    /** {@link #instances} as a text that may contain a placeholder. */
    String instancesString() default "";

    /**
     * The delay before a restart. It doubles with each run that ends early, up to five minutes, and starts over after a run of
     * one minute or of ten delays, whichever is longer.
     */
    String restartDelay() default "";

    /** How long a node must have been up before it runs the daemon. */
    String startupDelay() default "";

    /**
     * How many restarts in a row after an exception are allowed before the daemon has failed. The count starts over after a run
     * of one minute or of ten delays, whichever is longer. Default (a negative value): {@code forge.cluster.daemon.max-restarts}.
     */
    int maxRestarts() default -1;

    /** {@link #maxRestarts} as a text that may contain a placeholder. */
    String maxRestartsString() default "";

    /** The role that a node needs to run the daemon. */
    NodeRole role() default NodeRole.WORKER;

    /** The capability ({@code forge.cluster.node.capabilities}) that a node needs to run the daemon. Default: none. */
    String capability() default "";

    /** Whether a method that returns is restarted, after the same growing delay as one that threw, but without a limit. */
    boolean restartOnReturn() default false;
}
