package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterCoordinator;
import dev.forge.cluster.ClusterLocks;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.ClusterStateStore;
import dev.forge.cluster.Crons;
import dev.forge.cluster.Daemons;
import dev.forge.cluster.Jobs;
import dev.forge.cluster.LeaderStrategy;
import dev.forge.cluster.Leadership;
import dev.forge.cluster.NodeIdentityProvider;
import dev.forge.cluster.NodeMode;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.SchemaMode;
import dev.forge.cluster.StartupCoordinator;
import dev.forge.cluster.internal.engine.CronContexts;
import dev.forge.cluster.internal.engine.CronEngine;
import dev.forge.cluster.internal.engine.DaemonEngine;
import dev.forge.cluster.internal.engine.DaemonHandlers;
import dev.forge.cluster.internal.engine.FencedLeadership;
import dev.forge.cluster.internal.engine.JobEngine;
import dev.forge.cluster.internal.engine.JobHandlers;
import dev.forge.cluster.internal.engine.JobMonitor;
import dev.forge.cluster.internal.engine.Node;
import dev.forge.cluster.internal.engine.NodeSettings;
import dev.forge.cluster.internal.engine.StartupActions;
import dev.forge.cluster.internal.engine.StoredCrons;
import dev.forge.cluster.internal.engine.StoredDaemons;
import dev.forge.cluster.internal.engine.StoredJobs;
import dev.forge.cluster.internal.engine.StoredLocks;
import dev.forge.cluster.internal.engine.StoredStartupCoordinator;
import dev.forge.cluster.internal.engine.StoredStates;
import dev.forge.cluster.internal.engine.WorkSettings;
import dev.forge.cluster.internal.engine.WorkSettings.LaneSettings;
import dev.forge.cluster.internal.store.ControlConnections;
import dev.forge.cluster.internal.store.DaemonStore;
import dev.forge.cluster.internal.store.JobStore.CrashRule;
import dev.forge.cluster.internal.store.LeaderStore;
import dev.forge.cluster.internal.store.LeaderStore.Ground;
import dev.forge.cluster.internal.store.LockStore;
import dev.forge.cluster.internal.store.NodeStore;
import dev.forge.cluster.internal.store.Pooler;
import dev.forge.cluster.internal.store.Schema;
import dev.forge.cluster.internal.store.StateStore;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import javax.sql.DataSource;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration;
import org.springframework.boot.sql.init.dependency.DatabaseInitializationDependencyConfigurer;
import org.springframework.boot.thread.Threading;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.core.env.Environment;
import org.springframework.core.task.SimpleAsyncTaskExecutor;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.transaction.PlatformTransactionManager;
import tools.jackson.databind.json.JsonMapper;

/** Makes the application a node of its cluster. */
@AutoConfiguration(
        after = DataSourceAutoConfiguration.class,
        afterName = {
            "org.springframework.boot.flyway.autoconfigure.FlywayAutoConfiguration",
            "org.springframework.boot.liquibase.autoconfigure.LiquibaseAutoConfiguration",
            "org.springframework.boot.jdbc.autoconfigure.DataSourceTransactionManagerAutoConfiguration",
            "org.springframework.boot.hibernate.autoconfigure.HibernateJpaAutoConfiguration"
        })
@Conditional(OnClusterEnabled.class)
@EnableConfigurationProperties(ClusterProperties.class)
@Import(DatabaseInitializationDependencyConfigurer.class)
public final class ClusterAutoConfiguration {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    /** How long a statement of ours waits for one of our few connections. */
    private static final Duration CONTROL_PATIENCE = Duration.ofSeconds(2);

    @Bean
    ClusterDatabase clusterDatabase(ConfigurableListableBeanFactory beans, ClusterProperties properties) {
        return ClusterDatabase.of(beans, properties.directConnection());
    }

    @Bean
    Schema clusterSchema(ClusterDatabase database, ClusterProperties properties) {
        String name = properties.schema().name();
        Schema schema = open(
                database.direct(), properties, name != null ? name : Schema.currentSchemaOf(database.application()));
        if (properties.directConnection().url() != null) {
            schema.requireSeenBy(database.application());
        }
        if (properties.schema().mode() != SchemaMode.NONE && properties.node().mode() != NodeMode.OBSERVER) {
            schema.requireGrants();
        }
        return schema;
    }

    private static Schema open(DataSource direct, ClusterProperties properties, String name) {
        SchemaMode mode = properties.schema().mode();
        if (mode != SchemaMode.MIGRATE || properties.node().mode() != NodeMode.OBSERVER) {
            return Schema.open(direct, mode, name);
        }
        try {
            return Schema.open(direct, SchemaMode.VALIDATE, name);
        } catch (ClusterStartupException e) {
            throw new ClusterStartupException(
                    String.valueOf(e.getMessage()),
                    "forge.cluster.node.mode (observer): an observer changes nothing, and does not migrate the schema either."
                            + " Start another node of the cluster first.",
                    e);
        }
    }

    @Bean
    @ConditionalOnMissingBean
    NodeIdentityProvider clusterNodeIdentityProvider(ClusterProperties properties) {
        return new ConfiguredNodeIdentity(properties.node());
    }

    @Bean
    ClusterName clusterName(ClusterProperties properties, Environment environment) {
        return new ClusterName(
                properties.name() != null
                        ? properties.name()
                        : environment.getProperty("spring.application.name", "application"));
    }

    /** What logs, metrics and the endpoint call the cluster. */
    record ClusterName(String text) {}

    @Bean
    ClusterLifecycle.Parts clusterParts(
            ClusterProperties properties,
            ClusterDatabase database,
            Schema schema,
            NodeIdentityProvider identities,
            ApplicationContext context) {
        Pooler pooler = Pooler.detect(database.direct());
        var control =
                new ControlConnections(database.direct(), pooler, properties.controlConnections(), CONTROL_PATIENCE);
        ThreadPoolTaskScheduler scheduler = scheduler();
        var events = new EventThread(context);
        var node = new Node(
                settings(properties, database, ground(properties.leader().strategy(), pooler)),
                new Node.Members(
                        schema,
                        database.direct(),
                        control,
                        new NodeStore(schema, control.urgent(), crash(properties.job())),
                        identities),
                scheduler,
                events);
        node.onLostLeadership(properties.node().onLostLeadership(), () -> exit(context));
        node.onWritableAgain(database::renewPool);
        return new ClusterLifecycle.Parts(
                control, scheduler, events, node, new KeepAliveThread(context.getEnvironment()));
    }

    // Takes what the node does too: it must be there, with its handlers, when the node joins.
    @Bean
    ClusterLifecycle clusterLifecycle(
            ClusterProperties properties,
            ClusterName name,
            Schema schema,
            ClusterLifecycle.Parts parts,
            ClusterLifecycle.Works works) {
        return new ClusterLifecycle(properties, name.text(), schema, parts, works);
    }

    @Bean
    ClusterLifecycle.Works clusterWorks(StoredCrons.Engines engines, DaemonEngine daemons, JobSlots slots) {
        return new ClusterLifecycle.Works(engines.jobs(), engines.crons(), daemons, slots);
    }

    @Bean
    JobSlots clusterJobSlots(ClusterProperties properties, JobHandlers handlers, ClusterDatabase database) {
        return new JobSlots(properties, handlers, database);
    }

    @Bean
    JobHandlers clusterJobHandlers(ConfigurableListableBeanFactory beans, ObjectProvider<HandlerRegistrar> registrars) {
        return new JobHandlers(() -> HandlerRegistrar.complete(beans, registrars));
    }

    @Bean
    static ClusterJobRegistrar clusterJobRegistrar(
            ConfigurableListableBeanFactory beans,
            JobHandlers handlers,
            ClusterProperties properties,
            ClusterDatabase database) {
        return new ClusterJobRegistrar(beans, handlers, properties, database);
    }

    @Bean
    JobEngine.Tools clusterJobTools(
            ClusterDatabase database,
            ClusterProperties properties,
            ObjectProvider<PayloadCodec> codec,
            ObjectProvider<JobMonitor> monitors,
            ObjectProvider<ClusterCoordinator> coordinator) {
        return new JobEngine.Tools(
                database.application(),
                codec.getIfAvailable(NoJson::new),
                JobMonitors.of(monitors.orderedStream().toList()),
                coordinator.getIfAvailable(),
                Math.toIntExact(properties.job().maxPayloadSize().toBytes()));
    }

    @Bean
    JobEngine clusterJobEngine(
            ClusterProperties properties,
            ClusterLifecycle.Parts parts,
            JobHandlers handlers,
            JobEngine.Tools tools,
            JobSlots slots,
            Environment environment) {
        return new JobEngine(
                parts.node(),
                work(properties, slots, Threading.VIRTUAL.isActive(environment)),
                handlers,
                tools,
                properties.worker().routes());
    }

    @Bean
    @ConditionalOnMissingBean
    Jobs clusterJobs(
            ClusterDatabase database,
            ClusterProperties properties,
            ClusterLifecycle.Parts parts,
            JobEngine engine,
            JobEngine.Tools tools,
            JobHandlers handlers) {
        return new StoredJobs(
                parts.node(),
                engine,
                handlers,
                new StoredJobs.Setup(database.application(), parts.control().shared(), tools));
    }

    @Bean
    CronEngine clusterCronEngine(
            ClusterProperties properties,
            ClusterLifecycle.Parts parts,
            JobEngine jobs,
            JobEngine.Tools tools,
            JobHandlers handlers) {
        ClusterProperties.Cron cron = properties.cron();
        return new CronEngine(
                parts.node(),
                jobs,
                handlers,
                tools.monitor(),
                new CronEngine.Settings(
                        cron.misfireThreshold(),
                        cron.retention(),
                        new CronEngine.Defaults(cron.zone(), cron.misfire().policy(), cron.catchUpLimit())));
    }

    @Bean
    CronContexts clusterCronContexts(
            ClusterDatabase database,
            Schema schema,
            ClusterLifecycle.Parts parts,
            ObjectProvider<PlatformTransactionManager> managers) {
        return new CronContexts(
                parts.node(),
                new FencedLeadership(
                        parts.node(), new LeaderStore(schema, database.application()), database.transactions(managers)),
                database.application());
    }

    @Bean
    DaemonHandlers clusterDaemonHandlers() {
        return new DaemonHandlers();
    }

    @Bean
    static ClusterDaemonRegistrar clusterDaemonRegistrar(
            ConfigurableListableBeanFactory beans, DaemonHandlers handlers, ClusterProperties properties) {
        return new ClusterDaemonRegistrar(beans, handlers, properties.daemon());
    }

    // With a fence of its own: the application may have replaced the Leadership bean.
    @Bean
    DaemonEngine clusterDaemonEngine(
            ClusterDatabase database,
            Schema schema,
            ClusterLifecycle.Parts parts,
            DaemonHandlers handlers,
            ObjectProvider<PlatformTransactionManager> managers) {
        return new DaemonEngine(
                parts.node(),
                handlers,
                new FencedLeadership(
                        parts.node(),
                        new LeaderStore(schema, database.application()),
                        database.transactions(managers)));
    }

    @Bean
    @ConditionalOnMissingBean
    Crons clusterCrons(
            ClusterDatabase database,
            ClusterLifecycle.Parts parts,
            StoredCrons.Engines engines,
            JobEngine.Tools tools,
            JobHandlers handlers) {
        return new StoredCrons(parts.node(), engines, handlers, database.application(), tools);
    }

    @Bean
    StoredCrons.Engines clusterEngines(JobEngine jobs, CronEngine crons) {
        return new StoredCrons.Engines(jobs, crons);
    }

    @Bean
    @ConditionalOnMissingBean
    Daemons clusterDaemons(Schema schema, ClusterLifecycle.Parts parts, DaemonEngine engine) {
        return new StoredDaemons(
                parts.node(), engine, new DaemonStore(schema, parts.control().shared()));
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(JsonMapper.class)
    static class JacksonConfiguration {

        @Bean
        @ConditionalOnMissingBean(PayloadCodec.class)
        PayloadCodec clusterPayloadCodec(ObjectProvider<JsonMapper> mappers) {
            return new JacksonPayloadCodec(
                    mappers.getIfUnique(() -> JsonMapper.builder().build()));
        }
    }

    /** Where nothing can write JSON, jobs without payload and result still run. */
    private static final class NoJson implements PayloadCodec {

        private static final String MISSING =
                "nothing here writes JSON: add spring-boot-starter-jackson, or define a PayloadCodec bean";

        @Override
        public String write(@Nullable Object value) {
            throw new IllegalStateException(MISSING);
        }

        @Override
        public @Nullable Object read(String json, Type type) {
            throw new IllegalStateException(MISSING);
        }
    }

    private static CrashRule crash(JobProperties job) {
        return new CrashRule(
                job.crashPolicy() == JobProperties.CrashPolicy.FAIL, job.maxAttempts(), job.maxRecoveries());
    }

    private static WorkSettings work(ClusterProperties properties, JobSlots slots, boolean virtualThreads) {
        WorkerProperties worker = properties.worker();
        JobProperties job = properties.job();
        List<LaneSettings> lanes = new ArrayList<>();
        lanes.add(new LaneSettings(WorkerProperties.DEFAULT_EXECUTOR, slots::jobs, worker.prefetch(), virtualThreads));
        worker.executors()
                .forEach((name, executor) -> lanes.add(
                        new LaneSettings(name, executor.maxConcurrentJobs(), worker.prefetch(), virtualThreads)));
        Duration grace = properties.sweep().startupGrace();
        return new WorkSettings(
                worker.claiming(),
                worker.pollInterval(),
                lanes,
                slots::crons,
                new WorkSettings.Leases(
                        job.leaseDuration(), job.heartbeatInterval(), job.claimStartTimeout(), crash(job)),
                new WorkSettings.Keeping(
                        properties.sweep().interval(),
                        grace != null ? grace : job.leaseDuration(),
                        job.retention().completed(),
                        job.retention().failed()));
    }

    @Bean
    @ConditionalOnMissingBean
    Leadership clusterLeadership(
            ClusterDatabase database,
            Schema schema,
            ClusterLifecycle.Parts parts,
            ObjectProvider<PlatformTransactionManager> managers) {
        return new FencedLeadership(
                parts.node(), new LeaderStore(schema, database.application()), database.transactions(managers));
    }

    @Bean
    static LeaderRoleRegistrar clusterLeaderRoleRegistrar(
            ConfigurableListableBeanFactory beans, ObjectProvider<Leadership> leadership) {
        return new LeaderRoleRegistrar(beans, leadership);
    }

    @Bean
    @ConditionalOnMissingBean
    ClusterLocks clusterLocks(ClusterProperties properties, Schema schema, ClusterLifecycle.Parts parts) {
        return new StoredLocks(
                parts.node(),
                new LockStore(schema, parts.control().shared()),
                properties.lock().leaseDuration());
    }

    @Bean
    @ConditionalOnMissingBean
    StartupCoordinator clusterStartupCoordinator(
            ClusterLocks locks, ClusterProperties properties, Schema schema, ClusterLifecycle.Parts parts) {
        ClusterProperties.Startup startup = properties.startup();
        return new StoredStartupCoordinator(
                locks,
                startup.leaseDuration(),
                new StartupActions(
                        parts.node(),
                        schema,
                        parts.control(),
                        StartupActions.Timing.waitingFor(startup.waitTimeout())));
    }

    @Bean
    @ConditionalOnMissingBean
    ClusterStateStore clusterStateStore(
            ClusterDatabase database, Schema schema, ClusterLifecycle.Parts parts, JobEngine.Tools tools) {
        return new StoredStates(
                parts.node(),
                new StateStore(schema, database.application(), parts.control().shared()),
                tools.codec(),
                tools.maxBytes());
    }

    private static Ground ground(LeaderStrategy strategy, Pooler pooler) {
        if (pooler == Pooler.TRANSACTION && strategy == LeaderStrategy.ADVISORY_LOCK) {
            throw new ClusterStartupException(
                    "forge.cluster.leader.strategy (advisory-lock) needs a session of its own, but a transaction pooler"
                            + " stands between this node and the database",
                    "Point forge.cluster.direct-connection.url past the pooler, or set"
                            + " forge.cluster.leader.strategy=auto to elect by leases.");
        }
        if (pooler == Pooler.TRANSACTION && strategy == LeaderStrategy.AUTO) {
            log.warn(
                    "A transaction pooler stands between this node and the database: leaders are elected by leases, and"
                            + " a crash is noticed by missing heartbeats. forge.cluster.direct-connection.url past the pooler"
                            + " makes both faster.");
        }
        return pooler == Pooler.TRANSACTION || strategy == LeaderStrategy.LEASE ? Ground.LEASE : Ground.LOCK;
    }

    /** On a thread of its own: closing the context waits for the node's loops, one of which asks for this. */
    private static void exit(ApplicationContext context) {
        new SimpleAsyncTaskExecutor("forge-cluster-exit-")
                .execute(() -> System.exit(SpringApplication.exit(context, () -> 1)));
    }

    /** Not a bean: it would become the scheduler of the application's own {@code @Scheduled} methods. */
    private static ThreadPoolTaskScheduler scheduler() {
        var scheduler = new ThreadPoolTaskScheduler();
        scheduler.setThreadNamePrefix("forge-cluster-");
        scheduler.setRemoveOnCancelPolicy(true);
        scheduler.setDaemon(true);
        return scheduler;
    }

    private static NodeSettings settings(ClusterProperties properties, ClusterDatabase database, Ground ground) {
        ClusterProperties.Node node = properties.node();
        ClusterProperties.Heartbeat heartbeat = properties.heartbeat();
        ClusterProperties.Leader leader = properties.leader();
        return new NodeSettings(
                new NodeSettings.Presence(
                        ConfiguredNodeIdentity.hostname(),
                        node.mode(),
                        node.roles(),
                        node.capabilities(),
                        ClusterLifecycle.version(),
                        node.info(),
                        new NodeLoad(database)),
                new NodeSettings.Heartbeat(
                        heartbeat.interval(),
                        heartbeat.adaptive(),
                        heartbeat.maxInterval(),
                        heartbeat.staleThreshold(),
                        heartbeat.deadThreshold()),
                new NodeSettings.Detection(
                        properties.detection().interval(),
                        properties.detection().livenessLock()),
                new NodeSettings.Election(
                        ground,
                        leader.checkInterval(),
                        leader.leaseDuration(),
                        leader.renewInterval(),
                        ClusterProperties.Leader.LOCAL_DEADLINE),
                properties.shutdown().drainTimeout());
    }
}
