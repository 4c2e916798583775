// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.node.NodeProperties;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.node.NodeMode;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;

/**
 * Starts and stops the node with the application context. A context that is stopped and started again (as Spring does when it
 * pauses test contexts) joins the cluster again with a new membership.
 */
public final class ClusterLifecycle implements SmartLifecycle {

    /**
     * The node joins after the web server has started and leaves before the server stops accepting requests, so that a load
     * balancer that checks readiness has time to stop routing to it. Lifecycle beans of the default phase start later and stop
     * earlier. {@link #stop} returns after the drain, so that Spring's timeout for a phase does not cut the drain short.
     */
    public static final int PHASE = DEFAULT_PHASE - 512;

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private final ClusterProperties properties;
    private final String clusterName;
    private final Schema schema;
    private final NodeRuntime runtime;
    private volatile boolean running;

    ClusterLifecycle(ClusterProperties properties, String clusterName, Schema schema, NodeRuntime runtime) {
        this.properties = properties;
        this.clusterName = clusterName;
        this.schema = schema;
        this.runtime = runtime;
    }

    @Override
    public void start() {
        properties.warnings().forEach(log::warn);
        runtime.control().reopen();
        runtime.control().warm();
        // A thread for each loop, so that heartbeats and deadlines never wait for a loop that waits for the database,
        // and one for a drain that an operator requests.
        runtime.scheduler().setPoolSize(runtime.node().components().loops() + 1);
        runtime.scheduler().initialize();
        runtime.events().start();
        try {
            runtime.node().start();
        } catch (RuntimeException e) {
            release();
            throw e;
        }
        runtime.keepAlive().start();
        running = true;
        logSummary();
    }

    @Override
    public void stop() {
        try {
            runtime.node().stop();
        } finally {
            release();
            // Last: a JVM without other non-daemon threads would not wait for the drain.
            runtime.keepAlive().stop();
            running = false;
        }
    }

    private void release() {
        runtime.scheduler().shutdown();
        runtime.events().stop();
        runtime.control().close();
    }

    @Override
    public boolean isRunning() {
        return running;
    }

    @Override
    public int getPhase() {
        return PHASE;
    }

    private void logSummary() {
        NodeProperties node = properties.node();
        LeadershipBasis basis = runtime.node().settings().election().basis();
        log.info(
                "Forge Cluster {}: cluster '{}', node '{}' ({}), roles {}{}",
                version(),
                clusterName,
                runtime.node().identity().name(),
                runtime.node().id(),
                runtime.node().settings().presence().effectiveRoles().stream()
                        .sorted()
                        .map(EnumText::hyphenated)
                        .collect(Collectors.joining(", ")),
                node.mode() == NodeMode.AUTO ? "" : ", mode " + EnumText.hyphenated(node.mode()));
        log.info(
                "Database: {}, schema '{}' version {}, leader strategy {}",
                schema.server(),
                schema.name(),
                schema.version(),
                basis == LeadershipBasis.LOCK ? "advisory-lock" : "lease");
        log.info(
                "Connections: {}{} control, in addition to the application's pool",
                basis == LeadershipBasis.LOCK ? "1 session, " : "",
                properties.controlConnections());
        runtime.node().components().summary().forEach(log::info);
    }

    /** Returns the version of Forge Cluster. */
    public static String version() {
        String version = ClusterLifecycle.class.getPackage().getImplementationVersion();
        return version != null ? version : "development";
    }
}
