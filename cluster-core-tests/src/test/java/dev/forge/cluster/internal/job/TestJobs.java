// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.cron.CronContext;
import dev.forge.cluster.cron.CronTarget;
import dev.forge.cluster.cron.Misfire;
import dev.forge.cluster.cron.Overlap;
import dev.forge.cluster.internal.cron.CronContexts;
import dev.forge.cluster.internal.cron.CronDeclarations;
import dev.forge.cluster.internal.cron.CronEngine;
import dev.forge.cluster.internal.cron.CronStore.Definition;
import dev.forge.cluster.internal.cron.CronStore.RunOptions;
import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.WorkerSettings;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.CrashRule;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.workflow.store.WorkflowJobs;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.observe.JobInterceptor;
import dev.forge.cluster.job.operations.JobLimits;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import javax.sql.DataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import tools.jackson.databind.json.JsonMapper;

/** Handlers and settings for tests, with the defaults of the auto-configuration. */
public final class TestJobs {

    public static final BackoffStrategy AT_ONCE = (attempts, failure) -> Duration.ofMillis(1);

    public final JobHandlers handlers = new JobHandlers();

    {
        handlers.reserve(new WorkflowJobs(run -> Optional.empty()));
    }

    private final CronDeclarations crons = new CronDeclarations(handlers);
    private final DataSource source;
    public int slots = 4;
    public Integer prefetch;
    public Duration lease = Duration.ofSeconds(60);
    public Duration heartbeat = Duration.ofSeconds(10);
    public Duration sweep = Duration.ofSeconds(10);
    public Duration grace = Duration.ofSeconds(60);
    public Duration poll = Duration.ofSeconds(5);
    boolean claiming = true;
    public int maxPayload = 1 << 20;
    public BackoffStrategy backoff = AT_ONCE;
    public Duration retention;
    public JobMonitor monitor = JobMonitor.NONE;
    public List<JobInterceptor> interceptors = List.of();
    public Duration ledger = Duration.ofDays(30);
    public final Map<Node, CronContexts> contexts = new ConcurrentHashMap<>();

    public TestJobs(DataSource source) {
        this.source = source;
    }

    /** The options of a test handler; change them with the withers. */
    public record Declared(
            String name,
            List<String> aliases,
            Type payload,
            int maxAttempts,
            Duration timeout,
            Set<Class<? extends Throwable>> noRetryFor,
            JobHandler.Transaction transaction,
            JobHandler.Grouping grouping) {

        public Declared taking(Type type) {
            return new Declared(name, aliases, type, maxAttempts, timeout, noRetryFor, transaction, grouping);
        }

        public Declared attempts(int max) {
            return new Declared(name, aliases, payload, max, timeout, noRetryFor, transaction, grouping);
        }

        public Declared timeout(Duration limit) {
            return new Declared(name, aliases, payload, maxAttempts, limit, noRetryFor, transaction, grouping);
        }

        Declared noRetryFor(Class<? extends Throwable> type) {
            return new Declared(name, aliases, payload, maxAttempts, timeout, Set.of(type), transaction, grouping);
        }

        Declared alias(String alias) {
            return new Declared(name, List.of(alias), payload, maxAttempts, timeout, noRetryFor, transaction, grouping);
        }

        public Declared grouped(JobHandler.GroupOfPayload group, JobLimits limits, boolean ordered) {
            return new Declared(
                    name,
                    aliases,
                    payload,
                    maxAttempts,
                    timeout,
                    noRetryFor,
                    transaction,
                    new JobHandler.Grouping(group, limits, ordered));
        }

        public Declared in(JobHandler.Transaction own) {
            return new Declared(name, aliases, payload, maxAttempts, timeout, noRetryFor, own, grouping);
        }
    }

    public static Declared job(String name) {
        return new Declared(name, List.of(), null, 3, null, Set.of(), null, JobHandler.Grouping.NONE);
    }

    public JobHandler.Transaction transaction(int isolation) {
        var definition = new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
        definition.setIsolationLevel(isolation);
        return new JobHandler.Transaction(new JdbcTransactionManager(source), definition);
    }

    public JobHandler.Transaction transaction() {
        return transaction(TransactionDefinition.ISOLATION_DEFAULT);
    }

    /** Adds a handler that takes many jobs at a time. */
    public TestJobs onMany(Declared declared, int size, Duration patience, JobHandler.BulkCode code) {
        handlers.add(new JobHandler(
                declared.name,
                declared.aliases,
                null,
                JobPriority.NORMAL.value(),
                new JobHandler.Limits(
                        declared.maxAttempts, backoff, 0, declared.noRetryFor, declared.timeout, retention),
                declared.grouping,
                new JobHandler.Target(
                        declared.payload,
                        declared.transaction,
                        (payload, context) -> {
                            Object returned = code.run(Arrays.asList(payload), List.of(context));
                            return returned instanceof List<?> list ? list.get(0) : null;
                        },
                        new JobHandler.Bulk(size, patience, code),
                        "TestJobs")));
        return this;
    }

    public TestJobs on(Declared declared, JobHandler.Code code) {
        handlers.add(new JobHandler(
                declared.name,
                declared.aliases,
                null,
                JobPriority.NORMAL.value(),
                new JobHandler.Limits(
                        declared.maxAttempts, backoff, 0, declared.noRetryFor, declared.timeout, retention),
                declared.grouping,
                new JobHandler.Target(declared.payload, declared.transaction, code, "test " + declared.name)));
        return this;
    }

    public TestJobs on(String name, Effect effect) {
        return on(job(name), (payload, context) -> {
            effect.apply(context);
            return null;
        });
    }

    public interface Effect {
        void apply(JobContext context) throws Exception;
    }

    /** The options of a test cron; change them with the withers. The leader runs it once per slot. */
    public record Cron(Definition definition, int maxAttempts, JobHandler.Transaction transaction) {

        public Cron anyWorker(String capability) {
            Definition d = definition;
            return with(new Definition(
                    d.name(),
                    d.handler(),
                    d.expression(),
                    d.zone(),
                    CronTarget.ANY_WORKER,
                    capability,
                    d.misfire(),
                    d.catchUpLimit(),
                    d.overlap(),
                    d.jitterMillis(),
                    d.run()));
        }

        public Cron misfire(Misfire misfire, int limit) {
            Definition d = definition;
            return with(new Definition(
                    d.name(),
                    d.handler(),
                    d.expression(),
                    d.zone(),
                    d.target(),
                    d.capability(),
                    misfire,
                    limit,
                    d.overlap(),
                    d.jitterMillis(),
                    d.run()));
        }

        public Cron overlapping() {
            Definition d = definition;
            return with(new Definition(
                    d.name(),
                    d.handler(),
                    d.expression(),
                    d.zone(),
                    d.target(),
                    d.capability(),
                    d.misfire(),
                    d.catchUpLimit(),
                    Overlap.ALLOW,
                    d.jitterMillis(),
                    d.run()));
        }

        public Cron jitter(Duration jitter) {
            Definition d = definition;
            return with(new Definition(
                    d.name(),
                    d.handler(),
                    d.expression(),
                    d.zone(),
                    d.target(),
                    d.capability(),
                    d.misfire(),
                    d.catchUpLimit(),
                    d.overlap(),
                    jitter.toMillis(),
                    d.run()));
        }

        public Cron in(JobHandler.Transaction own) {
            return new Cron(definition, maxAttempts, own);
        }

        private Cron with(Definition changed) {
            return new Cron(changed, maxAttempts, transaction);
        }
    }

    public static Cron cron(String name, String expression) {
        return new Cron(
                new Definition(
                        name,
                        name,
                        expression,
                        "UTC",
                        CronTarget.LEADER,
                        null,
                        Misfire.FIRE_ONCE,
                        10,
                        Overlap.SKIP,
                        0,
                        RunOptions.DEFAULTS),
                3,
                null);
    }

    public TestJobs on(Cron cron, CronEffect effect) {
        return on(cron, job -> {}, effect);
    }

    /**
     * Adds a cron.
     *
     * @param before called between the claim and the run
     */
    public TestJobs on(Cron cron, Effect before, CronEffect effect) {
        Definition definition = cron.definition;
        crons.add(
                new JobHandler(
                        definition.name(),
                        List.of(),
                        definition.capability(),
                        JobPriority.NORMAL.value(),
                        new JobHandler.Limits(cron.maxAttempts, backoff, 0, Set.of(), null, null),
                        new JobHandler.Target(
                                null,
                                cron.transaction,
                                (payload, job) -> {
                                    before.apply(job);
                                    return contextsOf(job).run(job, context -> {
                                        effect.apply(context);
                                        return null;
                                    });
                                },
                                "test " + definition.name())),
                definition);
        return this;
    }

    public interface CronEffect {
        void apply(CronContext context) throws Exception;
    }

    /** Sets the cron contexts of a node: several nodes of a test may share these handlers. */
    public void contexts(Node node, CronContexts its) {
        contexts.put(node, its);
    }

    private CronContexts contextsOf(Claim job) {
        return contexts.entrySet().stream()
                .filter(entry -> job.node().equals(entry.getKey().id()))
                .findFirst()
                .orElseThrow()
                .getValue();
    }

    public CronEngine.Settings cronSettings() {
        return new CronEngine.Settings(
                Duration.ofMinutes(1), ledger, new CronEngine.Defaults("UTC", Misfire.FIRE_ONCE, 10));
    }

    public JobHandlers handlers() {
        return handlers;
    }

    public CronDeclarations crons() {
        return crons;
    }

    public WorkerSettings settings() {
        var crash = new CrashRule(false, 10, 3);
        return new WorkerSettings(
                claiming,
                poll,
                List.of(
                        new WorkerSettings.LaneSettings("default", slots, prefetch, false),
                        new WorkerSettings.LaneSettings("slow", 1, prefetch, false)),
                4,
                new WorkerSettings.Leases(lease, heartbeat, Duration.ofMinutes(5), crash),
                new WorkerSettings.Keeping(sweep, grace, Duration.ofDays(1), Duration.ofDays(7)));
    }

    public static final class Json implements PayloadCodec {

        private final JsonMapper mapper = JsonMapper.builder().build();

        @Override
        public String write(Object value) {
            return mapper.writeValueAsString(value);
        }

        @Override
        public Object read(String json, Type type) {
            return mapper.readValue(json, mapper.constructType(type));
        }
    }
}
