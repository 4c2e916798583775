// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import static dev.forge.cluster.internal.PatientAwaits.await;

import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.audit.OperatorSource;
import dev.forge.cluster.internal.audit.Audit;
import dev.forge.cluster.internal.cron.CronContexts;
import dev.forge.cluster.internal.cron.CronEngine;
import dev.forge.cluster.internal.cron.DefaultCrons;
import dev.forge.cluster.internal.daemon.DaemonEngine;
import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.connection.Pooler;
import dev.forge.cluster.internal.job.DefaultJobOperations;
import dev.forge.cluster.internal.job.DefaultJobs;
import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.job.TestJobs;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.history.JobHistoryCounters;
import dev.forge.cluster.internal.job.history.JobHistoryKeeper;
import dev.forge.cluster.internal.leader.FencedLeadership;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.lock.DefaultClusterLocks;
import dev.forge.cluster.internal.lock.LockCleanUp;
import dev.forge.cluster.internal.lock.LockKeeper;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import dev.forge.cluster.internal.startup.StartupActionStore;
import dev.forge.cluster.internal.state.StateCleanUp;
import dev.forge.cluster.internal.state.StateStore;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.node.NodeIdentity;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** Several nodes in this JVM on one PostgreSQL database. Closing stops those that still run. */
public final class TestCluster implements AutoCloseable {

    public final TestDatabase database;
    public final Schema schema;
    /** The data source of the application. */
    public final DataSource source;

    private final DataSource direct;

    public final List<Member> members = new ArrayList<>();

    /** The histories of nodes whose jobs have {@link JobHistoryCounters} as their monitor. */
    public final Map<Node, JobHistoryKeeper> histories = new ConcurrentHashMap<>();

    /** Tells who operates the nodes outside of {@code AuditTrail.as}. */
    public OperatorSource operators = Optional::empty;

    public TestCluster(TestDatabase database) {
        this(database, "public");
    }

    public TestCluster(TestDatabase database, String schemaName) {
        this(database, schemaName, database.dataSource(), database.newSessions());
    }

    /** Creates a cluster whose nodes have only the rights of a data source. */
    public TestCluster(TestDatabase database, String schemaName, DataSource source) {
        this(database, schemaName, source, source);
    }

    private TestCluster(TestDatabase database, String schemaName, DataSource source, DataSource direct) {
        this.database = database;
        this.source = source;
        this.direct = direct;
        this.schema = Schema.open(database.dataSource(), SchemaMode.MIGRATE, schemaName);
        database.clear();
    }

    /** A node with its connections, locks, jobs and events. */
    public record Member(
            Node node,
            ControlConnections control,
            FencedLeadership leadership,
            DefaultClusterLocks locks,
            LockKeeper keeper,
            List<Object> events,
            ThreadPoolTaskScheduler scheduler,
            JobEngine engine,
            DefaultJobs jobs,
            DefaultJobOperations operations,
            CronEngine cronEngine,
            DefaultCrons crons) {

        /** Waits for the end of a job and returns it. */
        public JobInfo ended(UUID id) {
            await().until(() -> jobs.find(id).orElseThrow().status().isFinal());
            return jobs.find(id).orElseThrow();
        }

        public void stop() {
            node.stop();
            scheduler.shutdown();
            control.close();
        }
    }

    public Member start(String name, UnaryOperator<NodeSettings> change) {
        return start(name, direct, change);
    }

    /** Starts a node that runs these jobs. */
    public Member start(String name, TestJobs jobs, UnaryOperator<NodeSettings> change) {
        return start(name, direct, jobs, change);
    }

    public Member start(String name, DataSource direct, UnaryOperator<NodeSettings> change) {
        return start(name, direct, new TestJobs(source), change);
    }

    public Member start(String name, DataSource direct, TestJobs jobs, UnaryOperator<NodeSettings> change) {
        Member member = create(name, direct, jobs, change);
        members.add(member);
        member.node.start();
        return member;
    }

    public Member create(String name, UnaryOperator<NodeSettings> change) {
        return create(name, direct, change);
    }

    public Member create(String name, TestJobs jobs, UnaryOperator<NodeSettings> change) {
        return create(name, direct, jobs, change);
    }

    public Member create(String name, DataSource direct, UnaryOperator<NodeSettings> change) {
        return create(name, direct, new TestJobs(source), change);
    }

    public Member create(String name, DataSource direct, TestJobs work, UnaryOperator<NodeSettings> change) {
        var scheduler = new ThreadPoolTaskScheduler();
        scheduler.setPoolSize(3);
        scheduler.setRemoveOnCancelPolicy(true);
        scheduler.setThreadNamePrefix("node-" + name + "-");
        scheduler.initialize();
        var control = new ControlConnections(direct, Pooler.NONE, 2, Duration.ofSeconds(2));
        List<Object> events = new CopyOnWriteArrayList<>();
        var node = new Node(
                change.apply(TestNodes.candidate()),
                new Node.Resources(
                        schema,
                        direct,
                        control,
                        new NodeStore(schema, control.urgent()),
                        () -> new NodeIdentity(name, name),
                        new Audit(schema, () -> operators.current(), events::add)),
                Node.Drive.by(scheduler),
                events::add);
        var leadership =
                new FencedLeadership(node, new LeaderStore(schema, source), new JdbcTransactionManager(source));
        var keeper = new LockKeeper(new LockStore(schema, control), Duration.ofSeconds(60), node::nanos);
        var locks =
                new DefaultClusterLocks(node, new LockStore(schema, control), keeper, new CallerTransaction(source));
        var tools = new JobEngine.Dependencies(
                source, new TestJobs.Json(), work.monitor, () -> work.interceptors, null, work.maxPayload);
        var engine = new JobEngine(
                node, work.settings(), work.handlers(), tools, job -> job.startsWith("slow") ? "slow" : "default");
        var jobs = new DefaultJobs(node, engine, work.handlers(), tools, control.shared());
        var operations = new DefaultJobOperations(node, engine, work.handlers(), tools, control.shared());
        var cronEngine = new CronEngine(node, engine, work.crons(), JobMonitor.NONE, work.cronSettings());
        work.contexts(node, new CronContexts(node, leadership, source));
        var crons = new DefaultCrons(node, new DefaultCrons.Engines(engine, cronEngine), work.crons(), source, tools);
        node.components()
                .register(new LockCleanUp(
                        new LockStore(schema, node.resources().nodes().source()),
                        StartupActionStore.KEPT_LOCKS,
                        node::nanos));
        node.components().register(keeper);
        node.components().register(new NodeComponent() {
            @Override
            public List<ReservedPrefix> reservedPrefixes() {
                return List.of(DaemonEngine.RESERVED);
            }
        });
        node.components().register(engine);
        if (work.monitor instanceof JobHistoryCounters counters) {
            var history = new JobHistoryKeeper(node, counters, Duration.ofDays(7), engine::names);
            histories.put(node, history);
            node.components().register(history);
        }
        node.components().register(cronEngine);
        node.components().register(new StateCleanUp(new StateStore(schema, control, control), node::nanos));
        return new Member(
                node,
                control,
                leadership,
                locks,
                keeper,
                events,
                scheduler,
                engine,
                jobs,
                operations,
                cronEngine,
                crons);
    }

    /** Returns all nodes that were started, including stopped ones. */
    public List<Member> members() {
        return members;
    }

    public String status(String name) {
        return database.jdbc()
                .sql("SELECT status FROM %s.forge_nodes WHERE name = ? ORDER BY started_at DESC LIMIT 1"
                        .formatted(schema.name()))
                .param(name)
                .query((row, n) -> row.getString(1))
                .optional()
                .orElse("absent");
    }

    public long term(String role) {
        return database.jdbc()
                .sql("SELECT coalesce(max(current_term), 0) FROM %s.forge_leaders WHERE role = ?"
                        .formatted(schema.name()))
                .param(role)
                .query(Long.class)
                .single();
    }

    @Override
    public void close() {
        members.forEach(Member::stop);
    }

    /** Inserts a row as a killed node leaves it, with deadlines as that node would have declared them. */
    public UUID insertNode(String name, Integer livenessKey, String stale, String dead) {
        UUID id = UUID.randomUUID();
        database.jdbc()
                .sql("""
                INSERT INTO forge_nodes (id, node_key, name, hostname, roles, status, version, stale_at, dead_at, liveness_key)
                VALUES (:id, :name, :name, 'host', '{worker}', 'active', '1', clock_timestamp() + :stale::interval,
                        clock_timestamp() + :dead::interval, :key)
                """)
                .param("id", id)
                .param("name", name)
                .param("stale", stale)
                .param("dead", dead)
                .param("key", livenessKey)
                .update();
        return id;
    }
}
