// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.workflow;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.handler.AnnotatedMethods;
import dev.forge.cluster.autoconfigure.handler.AsynchronousHandlers;
import dev.forge.cluster.autoconfigure.handler.AttributeException;
import dev.forge.cluster.autoconfigure.handler.AttributeReader;
import dev.forge.cluster.autoconfigure.handler.HandlerRegistrar;
import dev.forge.cluster.internal.workflow.WorkflowEngine;
import dev.forge.cluster.internal.workflow.WorkflowHandler;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.core.GenericTypeResolver;
import org.springframework.transaction.annotation.AnnotationTransactionAttributeSource;

/** Finds {@link ClusterWorkflow} methods on all beans. */
final class ClusterWorkflowRegistrar extends HandlerRegistrar {

    private final ConfigurableListableBeanFactory beans;
    private final ObjectProvider<WorkflowEngine> engine;
    private final AttributeReader attributes;
    private final AnnotationTransactionAttributeSource transactions = new AnnotationTransactionAttributeSource(false);

    ClusterWorkflowRegistrar(ConfigurableListableBeanFactory beans, ObjectProvider<WorkflowEngine> engine) {
        this.beans = beans;
        this.engine = engine;
        this.attributes = new AttributeReader(beans);
    }

    @Override
    public void register() {
        AnnotatedMethods.find(beans, ClusterWorkflow.class)
                .forEach(found -> engine.getObject().add(handler(found)));
    }

    private WorkflowHandler handler(AnnotatedMethods.Found<ClusterWorkflow> found) {
        ClusterWorkflow workflow = found.annotation();
        try {
            return handler(
                    found,
                    new WorkflowVersion(attributes.name(workflow.name(), found.method()), version(workflow)),
                    workflow.deprecated());
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new ClusterStartupException(
                    "@ClusterWorkflow on %s: %s".formatted(found.place(), e.getMessage()),
                    AttributeException.action(
                            e,
                            "A workflow takes a WorkflowContext and at most one input, is neither private nor static, and has no"
                                    + " @Transactional: its steps have transactions, not its method."),
                    e);
        }
    }

    private String version(ClusterWorkflow workflow) {
        String version = attributes.text(workflow.version());
        if (version.isEmpty() || version.indexOf('@') >= 0) {
            throw AttributeException.of("version", version, "must not be empty, and must not contain @", null);
        }
        AttributeReader.requireName("version", version);
        return version;
    }

    private WorkflowHandler handler(
            AnnotatedMethods.Found<ClusterWorkflow> found, WorkflowVersion version, boolean deprecated) {
        AnnotatedMethods.Call call = found.call(beans);
        AsynchronousHandlers.refuseFuture(
                found,
                "Only the thread of a workflow's method may use its context.",
                "Return the value itself, and wait for futures inside of steps, with join() or block().");
        Method method = found.method();
        Class<?>[] parameters = method.getParameterTypes();
        List<Type> inputs = IntStream.range(0, parameters.length)
                .filter(i -> parameters[i] != WorkflowContext.class)
                .mapToObj(i -> GenericTypeResolver.resolveType(method.getGenericParameterTypes()[i], found.type()))
                .toList();
        if (inputs.size() > 1 || parameters.length != inputs.size() + 1) {
            throw new IllegalArgumentException("it has the parameters " + Arrays.toString(parameters));
        }
        if (transactions.getTransactionAttribute(method, found.type()) != null) {
            throw new IllegalArgumentException("it is @Transactional");
        }
        WorkflowHandler.Code code = (context, input) -> {
            @Nullable Object[] arguments = new @Nullable Object[parameters.length];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = parameters[i] == WorkflowContext.class ? context : input;
            }
            return call.with(arguments);
        };
        return new WorkflowHandler(version, deprecated, inputs.isEmpty() ? null : inputs.get(0), code, found.place());
    }
}
