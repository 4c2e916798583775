package dev.forge.cluster.internal.engine;

import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.JobContext;
import dev.forge.cluster.JobPriority;
import dev.forge.cluster.PayloadCodec;
import dev.forge.cluster.internal.store.JobStore.CrashRule;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import javax.sql.DataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import tools.jackson.databind.json.JsonMapper;

/** Handlers and settings as the wiring would make them, and what a test wants to change about them. */
final class TestJobs {

    static final BackoffStrategy AT_ONCE = (attempts, failure) -> Duration.ofMillis(1);

    private final JobHandlers handlers = new JobHandlers();
    private final DataSource source;
    int slots = 4;
    Integer prefetch;
    Duration lease = Duration.ofSeconds(60);
    Duration heartbeat = Duration.ofSeconds(10);
    Duration sweep = Duration.ofSeconds(10);
    Duration grace = Duration.ofSeconds(60);
    Duration poll = Duration.ofSeconds(5);
    boolean claiming = true;
    int maxPayload = 1 << 20;
    BackoffStrategy backoff = AT_ONCE;
    JobMonitor monitor = JobMonitor.NONE;

    TestJobs(DataSource source) {
        this.source = source;
    }

    /** What a test handler is, beyond its code; change with the withers. */
    record Declared(
            String name,
            List<String> aliases,
            Type payload,
            int maxAttempts,
            Duration timeout,
            Set<Class<? extends Throwable>> excluded,
            JobHandler.Transaction transaction) {

        Declared taking(Type type) {
            return new Declared(name, aliases, type, maxAttempts, timeout, excluded, transaction);
        }

        Declared attempts(int max) {
            return new Declared(name, aliases, payload, max, timeout, excluded, transaction);
        }

        Declared timeout(Duration limit) {
            return new Declared(name, aliases, payload, maxAttempts, limit, excluded, transaction);
        }

        Declared excluding(Class<? extends Throwable> type) {
            return new Declared(name, aliases, payload, maxAttempts, timeout, Set.of(type), transaction);
        }

        Declared alias(String alias) {
            return new Declared(name, List.of(alias), payload, maxAttempts, timeout, excluded, transaction);
        }

        Declared in(JobHandler.Transaction own) {
            return new Declared(name, aliases, payload, maxAttempts, timeout, excluded, own);
        }
    }

    static Declared job(String name) {
        return new Declared(name, List.of(), null, 3, null, Set.of(), null);
    }

    JobHandler.Transaction transaction(int isolation) {
        var definition = new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
        definition.setIsolationLevel(isolation);
        return new JobHandler.Transaction(new JdbcTransactionManager(source), definition);
    }

    JobHandler.Transaction transaction() {
        return transaction(TransactionDefinition.ISOLATION_DEFAULT);
    }

    TestJobs on(Declared declared, JobHandler.Code code) {
        handlers.add(new JobHandler(
                declared.name,
                declared.aliases,
                null,
                JobPriority.NORMAL.value(),
                new JobHandler.Limits(declared.maxAttempts, backoff, 0, declared.excluded, declared.timeout, null),
                new JobHandler.Target(declared.payload, declared.transaction, code, "test " + declared.name)));
        return this;
    }

    TestJobs on(String name, Effect effect) {
        return on(job(name), (payload, context) -> {
            effect.apply(context);
            return null;
        });
    }

    interface Effect {
        void apply(JobContext context) throws Exception;
    }

    JobHandlers handlers() {
        return handlers;
    }

    WorkSettings settings() {
        var crash = new CrashRule(false, 10, 3);
        return new WorkSettings(
                claiming,
                poll,
                List.of(
                        new WorkSettings.LaneSettings("default", slots, prefetch, false),
                        new WorkSettings.LaneSettings("slow", 1, prefetch, false)),
                4,
                new WorkSettings.Leases(lease, heartbeat, Duration.ofMinutes(5), crash),
                new WorkSettings.Keeping(sweep, grace, Duration.ofDays(1), Duration.ofDays(7)));
    }

    static final class Json implements PayloadCodec {

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
