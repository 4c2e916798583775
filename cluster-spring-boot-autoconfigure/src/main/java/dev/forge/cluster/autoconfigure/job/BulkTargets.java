// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.autoconfigure.handler.AnnotatedMethods;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.GenericTypeResolver;
import org.springframework.core.ResolvableType;

/** Reads the signatures of handlers that take many jobs at a time. */
final class BulkTargets {

    private BulkTargets() {}

    /** How many jobs a call takes, and how long it waits for them. */
    record Size(int jobs, Duration patience) {}

    /** @throws IllegalArgumentException if the method cannot take many jobs */
    static JobHandler.Target of(
            ConfigurableListableBeanFactory beans,
            AnnotatedMethods.Found<ClusterJob> found,
            Size size,
            JobHandler.@Nullable Transaction transaction) {
        Method method = found.method();
        Type payloads = null;
        boolean[] contexts = new boolean[method.getParameterCount()];
        for (int i = 0; i < contexts.length; i++) {
            Type type = GenericTypeResolver.resolveType(method.getGenericParameterTypes()[i], found.type());
            ResolvableType list = ResolvableType.forType(type);
            if (list.toClass() != List.class || !list.hasGenerics()) {
                throw signature(method);
            }
            contexts[i] = list.getGeneric().toClass() == JobContext.class;
            if (!contexts[i]) {
                if (payloads != null) {
                    throw signature(method);
                }
                payloads = list.getGeneric().getType();
            }
        }
        if (payloads == null || contexts.length > 2) {
            throw signature(method);
        }
        AnnotatedMethods.Call call = found.call(beans);
        JobHandler.BulkCode code = (values, jobs) -> {
            @Nullable Object[] arguments = new @Nullable Object[contexts.length];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = contexts[i] ? jobs : values;
            }
            return call.with(arguments);
        };
        return new JobHandler.Target(
                payloads,
                transaction,
                (payload, context) -> single(code, payload, context),
                new JobHandler.Bulk(size.jobs, size.patience, code),
                found.place());
    }

    private static @Nullable Object single(JobHandler.BulkCode code, @Nullable Object payload, JobContext context)
            throws Throwable {
        Object returned = code.run(Collections.singletonList(payload), List.of(context));
        if (returned instanceof List<?> results) {
            if (results.size() != 1) {
                throw new IllegalStateException("the handler returned %d results for 1 job".formatted(results.size()));
            }
            return results.get(0);
        }
        return returned;
    }

    private static IllegalArgumentException signature(Method method) {
        return new IllegalArgumentException(
                "with batchSize it takes a List of payloads, and optionally a List<JobContext>, but it has the parameters "
                        + Arrays.toString(method.getGenericParameterTypes()));
    }
}
