package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.NodeMode;
import dev.forge.cluster.internal.engine.CronEngine;
import dev.forge.cluster.internal.engine.DaemonEngine;
import dev.forge.cluster.internal.engine.JobEngine;
import dev.forge.cluster.internal.engine.Node;
import dev.forge.cluster.internal.store.ControlConnections;
import dev.forge.cluster.internal.store.LeaderStore.Ground;
import dev.forge.cluster.internal.store.Schema;
import dev.forge.cluster.internal.store.WorkflowStore;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * The one place where the cluster starts and stops with the application. Stopped and started again (as Spring does to
 * test contexts it pauses) the node joins anew.
 */
final class ClusterLifecycle implements SmartLifecycle {

    /**
     * Joins after the web server has started and leaves before it stops taking requests, so that a load balancer which
     * watches readiness has turned away by then. The application's own lifecycle beans of the default phase start later
     * and stop earlier. Leaving takes as long as the drain needs: stop() returns when it is done, so Spring's timeout
     * for a phase does not cut it short.
     */
    static final int PHASE = DEFAULT_PHASE - 512;

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private final ClusterProperties properties;
    private final String clusterName;
    private final Schema schema;
    private final Parts parts;
    private final Works works;
    private volatile boolean running;

    /** What starts and stops together. */
    record Parts(
            ControlConnections control,
            ThreadPoolTaskScheduler scheduler,
            EventThread events,
            Node node,
            KeepAliveThread keepAlive) {}

    /** What the node does besides being a member: it must be there, with its handlers, when the node joins. */
    record Works(JobEngine jobs, CronEngine crons, DaemonEngine daemons, JobSlots slots) {}

    ClusterLifecycle(ClusterProperties properties, String clusterName, Schema schema, Parts parts, Works works) {
        this.works = works;
        this.properties = properties;
        this.clusterName = clusterName;
        this.schema = schema;
        this.parts = parts;
    }

    @Override
    public void start() {
        properties.warnings().forEach(log::warn);
        // All handlers are known by now, and no job has begun.
        works.slots.choose();
        parts.control.reopen();
        parts.control.warm();
        // A thread for each loop, and one for a drain on an operator's order: however many wait for the database, those
        // that
        // beat, and those that end what this node may not do any more, do not.
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
        ClusterProperties.Node node = properties.node();
        Ground ground = parts.node.settings().election().ground();
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
                ground == Ground.LOCK ? "advisory-lock" : "lease");
        log.info(
                "Connections: {}{} control, beside the application's pool",
                ground == Ground.LOCK ? "1 session, " : "",
                properties.controlConnections());
        works.slots.report();
        JobEngine jobs = works.jobs;
        var names = new TreeSet<>(jobs.names());
        Set<String> crons = works.crons.names();
        names.removeAll(crons);
        Set<String> workflows = new TreeSet<>();
        names.stream()
                .filter(WorkflowStore::isWorkflow)
                .forEach(name -> workflows.add(name.substring(WorkflowStore.PREFIX.length())));
        names.removeIf(WorkflowStore::isWorkflow);
        if (jobs.isWorking() && !names.isEmpty()) {
            log.info("Jobs: {} on executors {}", names, jobs.executors());
        }
        if (!crons.isEmpty()) {
            log.info("Crons: {}", crons);
        }
        if (!works.daemons.names().isEmpty()) {
            log.info("Daemons: {}", works.daemons.names());
        }
        if (!workflows.isEmpty()) {
            log.info("Workflows: {}", workflows);
        }
    }

    static String word(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    static String version() {
        String version = ClusterLifecycle.class.getPackage().getImplementationVersion();
        return version != null ? version : "development";
    }
}
