package dev.forge.cluster.internal.engine;

import static org.awaitility.Awaitility.await;

import dev.forge.cluster.JobInfo;
import dev.forge.cluster.NodeIdentity;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.internal.store.ControlConnections;
import dev.forge.cluster.internal.store.LeaderStore;
import dev.forge.cluster.internal.store.LockStore;
import dev.forge.cluster.internal.store.NodeStore;
import dev.forge.cluster.internal.store.Pooler;
import dev.forge.cluster.internal.store.Schema;
import dev.forge.cluster.test.TestDatabase;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;
import javax.sql.DataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** Several nodes in this JVM on one real database; closing stops those that still run. */
final class TestCluster implements AutoCloseable {

    final TestDatabase database;
    final Schema schema;
    /** What the application's statements run on. */
    final DataSource source;

    private final List<Member> members = new ArrayList<>();

    TestCluster(TestDatabase database) {
        this(database, "public");
    }

    TestCluster(TestDatabase database, String schemaName) {
        this(database, schemaName, database.dataSource());
    }

    TestCluster(TestDatabase database, String schemaName, DataSource source) {
        this.database = database;
        this.source = source;
        this.schema = Schema.open(database.dataSource(), SchemaMode.MIGRATE, schemaName);
        database.jdbc()
                .sql(
                        "TRUNCATE %1$s.forge_nodes, %1$s.forge_leaders, %1$s.forge_leader_leases, %1$s.forge_locks, %1$s.forge_jobs, %1$s.forge_job_pauses, %1$s.forge_job_names, %1$s.forge_crons, %1$s.forge_cron_runs, %1$s.forge_cron_sets, %1$s.forge_cron_memories"
                                .formatted(schemaName))
                .update();
    }

    /** A node with everything that hangs on it. */
    record Member(
            Node node,
            ControlConnections control,
            FencedLeadership leadership,
            StoredLocks locks,
            List<Object> events,
            ThreadPoolTaskScheduler scheduler,
            JobEngine engine,
            StoredJobs jobs,
            CronEngine cronEngine,
            StoredCrons crons) {

        /** The job, once it has ended. */
        JobInfo ended(UUID id) {
            await().until(() -> jobs.find(id).orElseThrow().status().isFinal());
            return jobs.find(id).orElseThrow();
        }

        void stop() {
            node.stop();
            scheduler.shutdown();
            control.close();
        }
    }

    Member start(String name, UnaryOperator<NodeSettings> change) {
        return start(name, source, change);
    }

    /** A node that runs these jobs. */
    Member start(String name, TestJobs jobs, UnaryOperator<NodeSettings> change) {
        return start(name, source, jobs, change);
    }

    Member start(String name, DataSource direct, UnaryOperator<NodeSettings> change) {
        return start(name, direct, new TestJobs(direct), change);
    }

    Member start(String name, DataSource direct, TestJobs jobs, UnaryOperator<NodeSettings> change) {
        Member member = create(name, direct, jobs, change);
        members.add(member);
        member.node.start();
        return member;
    }

    Member create(String name, DataSource direct, UnaryOperator<NodeSettings> change) {
        return create(name, direct, new TestJobs(direct), change);
    }

    Member create(String name, DataSource direct, TestJobs work, UnaryOperator<NodeSettings> change) {
        var scheduler = new ThreadPoolTaskScheduler();
        scheduler.setPoolSize(3);
        scheduler.setRemoveOnCancelPolicy(true);
        scheduler.setThreadNamePrefix("node-" + name + "-");
        scheduler.initialize();
        var control = new ControlConnections(direct, Pooler.NONE, 2, Duration.ofSeconds(2));
        List<Object> events = new CopyOnWriteArrayList<>();
        var node = new Node(
                change.apply(TestNodes.candidate()),
                new Node.Members(
                        schema,
                        direct,
                        control,
                        new NodeStore(schema, control.urgent()),
                        () -> new NodeIdentity(name, name)),
                scheduler,
                events::add);
        var leadership =
                new FencedLeadership(node, new LeaderStore(schema, source), new JdbcTransactionManager(source));
        var locks = new StoredLocks(node, new LockStore(schema, control), Duration.ofSeconds(60));
        var tools = new JobEngine.Tools(source, new TestJobs.Json(), work.monitor, null, work.maxPayload);
        var engine = new JobEngine(
                node, work.settings(), work.handlers(), tools, job -> job.startsWith("slow") ? "slow" : "default");
        var jobs = new StoredJobs(node, engine, work.handlers(), new StoredJobs.Setup(source, control.shared(), tools));
        var cronEngine = new CronEngine(node, engine, work.handlers(), JobMonitor.NONE, work.cronSettings());
        work.contexts(node, new CronContexts(node, leadership, source));
        var crons = new StoredCrons(node, new StoredCrons.Engines(engine, cronEngine), work.handlers(), source, tools);
        return new Member(node, control, leadership, locks, events, scheduler, engine, jobs, cronEngine, crons);
    }

    /** Those that were started, stopped ones too. */
    List<Member> members() {
        return members;
    }

    String status(String name) {
        return database.jdbc()
                .sql("SELECT status FROM %s.forge_nodes WHERE name = ? ORDER BY started_at DESC LIMIT 1"
                        .formatted(schema.name()))
                .param(name)
                .query((row, n) -> row.getString(1))
                .optional()
                .orElse("absent");
    }

    long term(String role) {
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
}
