// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.autoconfigure.handler.AnnotatedMethods;
import dev.forge.cluster.autoconfigure.handler.AttributeException;
import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
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
            // Without its type argument, a payload would be a Map, whatever the handler expects.
            if (!(type instanceof ParameterizedType list) || list.getRawType() != List.class) {
                throw parameters(method);
            }
            Type element = list.getActualTypeArguments()[0];
            // Kotlin compiles List<JobContext> to List<? extends JobContext>.
            contexts[i] = ResolvableType.forType(element).toClass() == JobContext.class;
            if (!contexts[i]) {
                if (payloads != null) {
                    throw parameters(method);
                }
                payloads = element;
            }
        }
        if (payloads == null || contexts.length > 2) {
            throw parameters(method);
        }
        requireResults(method, found.type());
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
                (payload, context) -> {
                    Object returned = code.run(Collections.singletonList(payload), List.of(context));
                    List<?> results = JobHandler.Bulk.results(
                            transaction == null ? AsyncResults.await(returned) : AsyncResults.requireFinished(returned),
                            1);
                    return results.isEmpty() ? null : results.get(0);
                },
                new JobHandler.Bulk(size.jobs, size.patience, code),
                found.place());
    }

    private static IllegalArgumentException parameters(Method method) {
        return AttributeException.withAction(
                "with batchSize it takes a List of payloads, and optionally a List<JobContext>, but it has the parameters "
                        + Arrays.toString(method.getGenericParameterTypes()),
                "Declare it like void %s(List<Document> documents, List<JobContext> jobs), or remove batchSize."
                        .formatted(method.getName()));
    }

    /** Rejects results that no call could assign to its jobs: each call would fail after its work is done. */
    private static void requireResults(Method method, Class<?> type) {
        Class<?> value = AsyncResults.valueType(ResolvableType.forMethodReturnType(method, type))
                .toClass();
        boolean isNothing = value == void.class || value == Void.class;
        // Object is what is known of a wildcard.
        boolean isPerhapsList = List.class.isAssignableFrom(value) || value.isAssignableFrom(List.class);
        if (!isNothing && !isPerhapsList) {
            throw AttributeException.withAction(
                    "with batchSize it returns nothing, or a List with a result or an Outcome for each job, but it returns "
                            + method.getGenericReturnType(),
                    "Return void or a List, or remove batchSize.");
        }
    }
}
