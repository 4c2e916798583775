// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.ClusterDatabase;
import dev.forge.cluster.autoconfigure.handler.AnnotatedMethods;
import dev.forge.cluster.autoconfigure.handler.AttributeException;
import dev.forge.cluster.autoconfigure.handler.AttributeReader;
import dev.forge.cluster.autoconfigure.handler.HandlerRegistrar;
import dev.forge.cluster.autoconfigure.handler.JobLimits;
import dev.forge.cluster.autoconfigure.handler.MethodTransactions;
import dev.forge.cluster.autoconfigure.properties.ClusterProperties;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobPriority;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.GenericTypeResolver;

/** Finds {@link ClusterJob} methods on all beans. */
public final class ClusterJobRegistrar extends HandlerRegistrar {

    private static final int MOST_TOGETHER = 1_000;
    private static final Duration LONGEST_WAIT = Duration.ofSeconds(10);

    private final ConfigurableListableBeanFactory beans;
    private final JobHandlers handlers;
    private final AttributeReader attributes;
    private final JobLimits limits;
    private final MethodTransactions transactions;
    private final JobGroups groups;

    public ClusterJobRegistrar(
            ConfigurableListableBeanFactory beans,
            JobHandlers handlers,
            ClusterProperties cluster,
            ClusterDatabase database) {
        this.beans = beans;
        this.handlers = handlers;
        this.attributes = new AttributeReader(beans);
        this.limits = new JobLimits(beans, cluster.job());
        this.transactions = new MethodTransactions(beans, database);
        this.groups = new JobGroups(attributes);
    }

    @Override
    public void register() {
        AnnotatedMethods.warnOfHidden(beans);
        AnnotatedMethods.find(beans, ClusterJob.class).forEach(found -> handlers.add(handler(found)));
        handlers.warnOfSharedPayloads();
    }

    private JobHandler handler(AnnotatedMethods.Found<ClusterJob> found) {
        ClusterJob job = found.annotation();
        try {
            JobHandler.Target target =
                    size(job) > 1 ? BulkTargets.of(beans, found, bulk(job), transactions.of(found)) : target(found);
            return new JobHandler(
                    attributes.name(job.name(), found.method()),
                    Arrays.stream(job.aliases()).map(attributes::alias).toList(),
                    attributes.textOrNull(job.capability()),
                    attributes.value(
                            "priority",
                            attributes.either("priority", job.priority(), JobPriority.NORMAL, job.priorityString()),
                            name -> JobPriority.of(name).value(),
                            JobPriority.NORMAL.value()),
                    limits.of(
                            attributes.either("maxAttempts", job.maxAttempts(), 0, job.maxAttemptsString()),
                            job.backoff(),
                            Set.of(job.noRetryFor()),
                            job.timeout(),
                            job.retention()),
                    groups.of(job, target.payloadType()),
                    target);
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new ClusterStartupException(
                    "@ClusterJob on %s: %s".formatted(found.place(), e.getMessage()),
                    AttributeException.action(
                            e,
                            "A handler takes at most one payload and a JobContext, in any order, and is neither private nor static."),
                    e);
        }
    }

    private int size(ClusterJob job) {
        return attributes.value(
                "batchSize",
                attributes.either("batchSize", job.batchSize(), 1, job.batchSizeString()),
                text -> {
                    int size = Integer.parseInt(text);
                    if (size < 1 || size > MOST_TOGETHER) {
                        throw new IllegalArgumentException("must be between 1 and " + MOST_TOGETHER);
                    }
                    return size;
                },
                1);
    }

    private BulkTargets.Size bulk(ClusterJob job) {
        Duration patience = attributes.value(
                "batchWait",
                job.batchWait(),
                text -> {
                    Duration wait = DurationStyle.detectAndParse(text);
                    if (wait.isNegative() || wait.compareTo(LONGEST_WAIT) > 0) {
                        throw new IllegalArgumentException("must be between 0 and " + LONGEST_WAIT.toSeconds() + "s");
                    }
                    return wait;
                },
                Duration.ZERO);
        return new BulkTargets.Size(size(job), patience);
    }

    private JobHandler.Target target(AnnotatedMethods.Found<ClusterJob> found) {
        if (!attributes.text(found.annotation().batchWait()).isEmpty()) {
            throw AttributeException.withAction(
                    "batchWait needs a batchSize of more than 1",
                    "Set batchSize and take a List of payloads, or remove batchWait.");
        }
        AnnotatedMethods.Call call = found.call(beans);
        Method method = found.method();
        Class<?>[] parameters = method.getParameterTypes();
        List<Type> payloads = IntStream.range(0, parameters.length)
                .filter(i -> parameters[i] != JobContext.class)
                .mapToObj(i -> GenericTypeResolver.resolveType(method.getGenericParameterTypes()[i], found.type()))
                .toList();
        if (payloads.size() > 1 || parameters.length > payloads.size() + 1) {
            throw new IllegalArgumentException("it has the parameters " + Arrays.toString(parameters));
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
