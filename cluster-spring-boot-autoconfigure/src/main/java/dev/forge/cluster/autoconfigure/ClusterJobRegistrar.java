package dev.forge.cluster.autoconfigure;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.ClusterCron;
import dev.forge.cluster.ClusterJob;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.JobContext;
import dev.forge.cluster.JobPriority;
import dev.forge.cluster.NodeMode;
import dev.forge.cluster.NodeRole;
import dev.forge.cluster.internal.engine.JobHandler;
import dev.forge.cluster.internal.engine.JobHandlers;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.GenericTypeResolver;

/** Finds {@link ClusterJob} and {@link ClusterCron} methods on all beans. */
final class ClusterJobRegistrar extends HandlerRegistrar {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private final ConfigurableListableBeanFactory beans;
    private final JobHandlers handlers;
    private final ClusterProperties cluster;
    private final ClusterDatabase database;
    private final AttributeReader attributes;
    private final JobLimits limits;
    private final MethodTransactions transactions;

    ClusterJobRegistrar(
            ConfigurableListableBeanFactory beans,
            JobHandlers handlers,
            ClusterProperties cluster,
            ClusterDatabase database) {
        this.beans = beans;
        this.handlers = handlers;
        this.cluster = cluster;
        this.database = database;
        this.attributes = new AttributeReader(beans);
        this.limits = new JobLimits(beans, cluster.job());
        this.transactions = new MethodTransactions(beans, database);
    }

    @Override
    void register() {
        AnnotatedMethods.find(beans, ClusterJob.class).forEach(found -> handlers.add(handler(found)));
        var crons = new ClusterCronReader(beans, cluster.cron(), limits, transactions);
        AnnotatedMethods.find(beans, ClusterCron.class).forEach(found -> crons.add(found, handlers));
        if (ClusterDatabase.HIKARI && isWorker()) {
            HikariSize.compare(this);
        }
    }

    private boolean isWorker() {
        return cluster.node().roles().contains(NodeRole.WORKER)
                && cluster.node().mode() != NodeMode.OBSERVER;
    }

    /** How many handlers may want a transaction at the same time: all slots of the executors that run such handlers. */
    private int transactionalSlots() {
        Function<String, String> routes = cluster.worker().routes();
        return handlers.all().stream()
                .filter(handler -> handler.target().transaction() != null)
                .flatMap(handler -> Stream.concat(Stream.of(handler.name()), handler.aliases().stream()))
                .map(routes)
                .distinct()
                .mapToInt(cluster.worker()::slots)
                .sum();
    }

    /** Apart, so that HikariCP may be absent. */
    private static final class HikariSize {
        static void compare(ClusterJobRegistrar registrar) {
            HikariDataSource hikari = ClusterDatabase.hikari(registrar.database.application());
            int slots = registrar.transactionalSlots();
            if (hikari != null && slots > hikari.getMaximumPoolSize()) {
                log.warn(
                        "Transactional jobs may want {} connections at once, but the pool '{}' has {} at most: raise"
                                + " spring.datasource.hikari.maximum-pool-size, or lower"
                                + " forge.cluster.worker.max-concurrent-jobs; until then jobs wait for each other, and"
                                + " requests for them",
                        slots,
                        hikari.getPoolName(),
                        hikari.getMaximumPoolSize());
            }
        }
    }

    private JobHandler handler(AnnotatedMethods.Found<ClusterJob> found) {
        ClusterJob job = found.annotation();
        try {
            return new JobHandler(
                    attributes.name(job.name(), found.method()),
                    Arrays.stream(job.aliases()).map(attributes::alias).toList(),
                    attributes.textOrNull(job.capability()),
                    attributes.value(
                            "priority",
                            job.priority(),
                            name -> JobPriority.of(name).value(),
                            JobPriority.NORMAL.value()),
                    limits.of(job.maxAttempts(), job.backoff(), Set.of(job.excluded()), job.timeout(), job.retention()),
                    target(found));
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new ClusterStartupException(
                    "@ClusterJob on %s: %s".formatted(found.place(), e.getMessage()),
                    AttributeException.action(
                            e,
                            "A handler takes at most one payload and a JobContext, in any order, and is neither private nor static."),
                    e);
        }
    }

    private JobHandler.Target target(AnnotatedMethods.Found<ClusterJob> found) {
        AnnotatedMethods.Call call = found.call(beans);
        Method method = found.method();
        Class<?>[] parameters = method.getParameterTypes();
        List<Type> payloads = IntStream.range(0, parameters.length)
                .filter(i -> parameters[i] != JobContext.class)
                .mapToObj(i -> GenericTypeResolver.resolveType(method.getGenericParameterTypes()[i], found.type()))
                .toList();
        if (payloads.size() > 1 || parameters.length > payloads.size() + 1) {
            throw new IllegalArgumentException("it takes " + Arrays.toString(parameters));
        }
        JobHandler.Code code = (payload, context) -> {
            @Nullable Object[] arguments = new @Nullable Object[parameters.length];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = parameters[i] == JobContext.class ? context : payload;
            }
            return call.with(arguments);
        };
        return new JobHandler.Target(
                payloads.isEmpty() ? null : payloads.get(0), transactions.of(found), code, found.place());
    }
}
