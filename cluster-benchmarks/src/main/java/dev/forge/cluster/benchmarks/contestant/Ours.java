// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import com.sun.management.OperatingSystemMXBean;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.internal.cron.CronDeclarations;
import dev.forge.cluster.internal.cron.CronEngine;
import dev.forge.cluster.internal.database.ControlConnections;
import dev.forge.cluster.internal.database.Pooler;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.job.DefaultJobs;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.store.JobRecoveryStore.CrashRule;
import dev.forge.cluster.internal.job.worker.WorkerSettings;
import dev.forge.cluster.internal.leader.LeadershipBasis;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeSettings;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.node.NodeStore.Load;
import dev.forge.cluster.internal.runtime.Backoff;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.internal.workflow.store.WorkflowSettings;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.node.NodeMode;
import dev.forge.cluster.node.NodeRole;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import tools.jackson.databind.json.JsonMapper;

/** A node of Forge Cluster, wired as the starter wires it, with default settings unless a part changes them. */
public final class Ours implements AutoCloseable {

    /** The payload of the job that every contestant runs. */
    public record Trivial(long orderId) {}

    public static final int SLOTS = 20;
    public static final Set<NodeRole> WORKER = Set.of(NodeRole.values());
    /** Roles of a node that claims no jobs: another node runs the jobs that it enqueues, or they stay pending. */
    public static final Set<NodeRole> NO_WORKER = Set.of(NodeRole.GATEWAY, NodeRole.FUNCTION, NodeRole.SCHEDULER);

    public static final String JOB = "trivial";
    private static final double JITTER = 0.25;

    private final ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
    private final ControlConnections control;
    private final Node node;
    public final DefaultJobs jobs;
    public final WorkflowEngine flows;

    public Ours(String name, Server server, Set<NodeRole> roles, Consumer<Trivial> handler) {
        this(name, server, roles, Setup.DEFAULT, handler);
    }

    /**
     * The settings that differ between parts.
     *
     * @param transaction the transaction in which the handler is called; null for none
     * @param batchSize the number of jobs per call of the handler
     * @param retention how long completed jobs are kept
     * @param controlConnections the number of connections for the statements of the node
     */
    public record Setup(
            JobHandler.@Nullable Transaction transaction, int batchSize, Duration retention, int controlConnections) {

        public static final Setup DEFAULT = new Setup(null, 1, Duration.ofDays(1), 2);

        public Setup withTransaction(JobHandler.Transaction transaction) {
            return new Setup(transaction, batchSize, retention, controlConnections);
        }

        public Setup withBatchSize(int batchSize) {
            return new Setup(transaction, batchSize, retention, controlConnections);
        }

        public Setup withRetention(Duration retention) {
            return new Setup(transaction, batchSize, retention, controlConnections);
        }

        public Setup withControlConnections(int controlConnections) {
            return new Setup(transaction, batchSize, retention, controlConnections);
        }
    }

    public Ours(String name, Server server, Set<NodeRole> roles, Setup setup, Consumer<Trivial> handler) {
        Schema schema = server.schema();
        DataSource direct = server.direct();
        DataSource application = server.pool();
        scheduler.setPoolSize(3);
        scheduler.setRemoveOnCancelPolicy(true);
        scheduler.setThreadNamePrefix(name + "-");
        scheduler.initialize();
        control = new ControlConnections(direct, Pooler.NONE, setup.controlConnections, Duration.ofSeconds(2));
        control.warm();
        var crash = new CrashRule(false, 10, 3);
        node = new Node(
                settings(roles),
                new Node.Resources(
                        schema,
                        direct,
                        control,
                        new NodeStore(schema, control.urgent()),
                        () -> new NodeIdentity(name, name)),
                scheduler,
                event -> {});
        var handlers = new JobHandlers();
        handlers.add(new JobHandler(
                JOB,
                List.of(),
                null,
                JobPriority.NORMAL.value(),
                new JobHandler.Limits(
                        10,
                        new Backoff(Backoff.Growth.EXPONENTIAL, Duration.ofSeconds(2), 2, Duration.ofMinutes(5)),
                        JITTER,
                        Set.of(),
                        null,
                        null),
                new JobHandler.Target(
                        Trivial.class,
                        setup.transaction,
                        (payload, context) -> {
                            handler.accept((Trivial) payload);
                            return null;
                        },
                        setup.batchSize == 1
                                ? null
                                : new JobHandler.Bulk(setup.batchSize, Duration.ZERO, (payloads, contexts) -> {
                                    payloads.forEach(payload -> handler.accept((Trivial) payload));
                                    return null;
                                }),
                        "Ours")));
        var tools = new JobEngine.Dependencies(application, new Json(), JobMonitor.NONE, List::of, null, 1 << 20);
        var engine = new JobEngine(
                node,
                new WorkerSettings(
                        true,
                        Duration.ofSeconds(5),
                        List.of(new WorkerSettings.LaneSettings("default", SLOTS, null, false)),
                        4,
                        new WorkerSettings.Leases(
                                Duration.ofSeconds(60), Duration.ofSeconds(10), Duration.ofMinutes(5), crash),
                        new WorkerSettings.Keeping(
                                Duration.ofSeconds(10), Duration.ofSeconds(60), setup.retention, Duration.ofDays(7))),
                handlers,
                tools,
                job -> "default");
        node.register(engine);
        node.register(new CronEngine(
                node,
                engine,
                new CronDeclarations(handlers),
                JobMonitor.NONE,
                new CronEngine.Settings(
                        Duration.ofSeconds(10),
                        Duration.ofDays(7),
                        new CronEngine.Defaults("UTC", Misfire.FIRE_ONCE, 10))));
        var access = new DefaultJobs.Dependencies(application, control.shared(), tools);
        jobs = new DefaultJobs(node, engine, handlers, access);
        flows = new WorkflowEngine(
                node,
                engine,
                handlers,
                new WorkflowEngine.Resources(access, new JdbcTransactionManager(application)),
                new WorkflowSettings(
                        10,
                        new Backoff(Backoff.Growth.EXPONENTIAL, Duration.ofSeconds(2), 2, Duration.ofMinutes(5)),
                        JITTER,
                        new WorkflowSettings.Retention(Duration.ofDays(1), Duration.ofDays(7)),
                        new WorkflowSettings.StrandedCheck(Duration.ofSeconds(2), false),
                        WorkflowSettings.Limits.DEFAULTS));
        node.register(flows);
    }

    public void start() {
        node.start();
    }

    public UUID id() {
        return Objects.requireNonNull(node.id());
    }

    public void enqueueOne() {
        jobs.enqueue(new Trivial(42), JobOptions.defaults());
    }

    @Override
    public void close() {
        node.stop();
        scheduler.shutdown();
        control.close();
    }

    /** Returns the CPU load of the process, or null if unknown. An overloaded node claims fewer jobs. */
    private static @Nullable Double cpuLoad() {
        if (ManagementFactory.getOperatingSystemMXBean() instanceof OperatingSystemMXBean system) {
            // Called once, because each call measures the load since the previous call.
            double load = system.getProcessCpuLoad();
            return load >= 0 ? (Double) load : null;
        }
        return null;
    }

    private static NodeSettings settings(Set<NodeRole> roles) {
        return new NodeSettings(
                new NodeSettings.Presence(
                        "host",
                        NodeMode.AUTO,
                        roles,
                        List.of("general"),
                        "1.0",
                        Map.of(),
                        () -> new Load(0, 0, cpuLoad(), null)),
                new NodeSettings.Heartbeat(
                        Duration.ofSeconds(5),
                        false,
                        Duration.ofMinutes(1),
                        Duration.ofSeconds(10),
                        Duration.ofSeconds(15)),
                new NodeSettings.Detection(Duration.ofMillis(250), true),
                new NodeSettings.Election(
                        LeadershipBasis.LOCK,
                        Duration.ofMillis(250),
                        Duration.ofSeconds(5),
                        Duration.ofSeconds(1),
                        Duration.ofSeconds(3)),
                Duration.ofSeconds(30));
    }

    private static final class Json implements PayloadCodec {

        private final JsonMapper mapper = JsonMapper.builder().build();

        @Override
        public String write(@Nullable Object value) {
            return mapper.writeValueAsString(value);
        }

        @Override
        public @Nullable Object read(String json, Type type) {
            return mapper.readValue(json, mapper.constructType(type));
        }
    }
}
