package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.autoconfigure.properties.NodeProperties;
import dev.forge.cluster.internal.database.ControlConnections;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.node.NodeMode;
import java.util.Locale;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * The one place where the cluster starts and stops with the application. Stopped and started again (as Spring does to
 * test contexts it pauses) the node joins anew.
 */
public final class ClusterLifecycle implements SmartLifecycle {

    /**
     * Joins after the web server has started and leaves before it stops taking requests, so that a load balancer which
     * watches readiness has turned away by then. The application's own lifecycle beans of the default phase start later
     * and stop earlier. Leaving takes as long as the drain needs: stop() returns when it is done, so Spring's timeout
     * for a phase does not cut it short.
     */
    public static final int PHASE = DEFAULT_PHASE - 512;

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private final ClusterProperties properties;
    private final String clusterName;
    private final Schema schema;
    private final Parts parts;
    private volatile boolean running;

    /** What starts and stops together. */
    public record Parts(
            ControlConnections control,
            ThreadPoolTaskScheduler scheduler,
            EventThread events,
            Node node,
            KeepAliveThread keepAlive) {}

    ClusterLifecycle(ClusterProperties properties, String clusterName, Schema schema, Parts parts) {
        this.properties = properties;
        this.clusterName = clusterName;
        this.schema = schema;
        this.parts = parts;
    }

    @Override
    public void start() {
        properties.warnings().forEach(log::warn);
        parts.control.reopen();
        parts.control.warm();
        // A thread for each loop, and one for a drain on an operator's order: heartbeats and deadlines never wait for
        // loops
        // that wait for the database.
        parts.scheduler.setPoolSize(parts.node.loops() + 1);
        parts.scheduler.initialize();
        parts.events.start();
        try {
            parts.node.start();
        } catch (RuntimeException e) {
            release();
            throw e;
        }
        parts.keepAlive.start();
        running = true;
        report();
    }

    @Override
    public void stop() {
        try {
            parts.node.stop();
        } finally {
            release();
            // Last: a JVM without other threads would not wait for the drain.
            parts.keepAlive.stop();
            running = false;
        }
    }

    private void release() {
        parts.scheduler.shutdown();
        parts.events.stop();
        parts.control.close();
    }

    @Override
    public boolean isRunning() {
        return running;
    }

    @Override
    public int getPhase() {
        return PHASE;
    }

    private void report() {
        NodeProperties node = properties.node();
        LeadershipBasis basis = parts.node.settings().election().basis();
        log.info(
                "Forge Cluster {}: cluster '{}', node '{}' ({}), roles {}{}",
                version(),
                clusterName,
                parts.node.identity().name(),
                parts.node.id(),
                parts.node.settings().presence().effectiveRoles().stream()
                        .sorted()
                        .map(ClusterLifecycle::word)
                        .collect(Collectors.joining(", ")),
                node.mode() == NodeMode.AUTO ? "" : ", mode " + word(node.mode()));
        log.info(
                "Database: {}, schema '{}' version {}, leader strategy {}",
                schema.server(),
                schema.name(),
                schema.version(),
                basis == LeadershipBasis.LOCK ? "advisory-lock" : "lease");
        log.info(
                "Connections: {}{} control, beside the application's pool",
                basis == LeadershipBasis.LOCK ? "1 session, " : "",
                properties.controlConnections());
        parts.node.summary().forEach(log::info);
    }

    public static String word(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    public static String version() {
        String version = ClusterLifecycle.class.getPackage().getImplementationVersion();
        return version != null ? version : "development";
    }
}
