// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.daemon;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.autoconfigure.handler.AnnotatedMethods;
import dev.forge.cluster.autoconfigure.handler.AsynchronousHandlers;
import dev.forge.cluster.autoconfigure.handler.AttributeException;
import dev.forge.cluster.autoconfigure.handler.AttributeReader;
import dev.forge.cluster.autoconfigure.properties.work.DaemonProperties;
import dev.forge.cluster.daemon.ClusterDaemon;
import dev.forge.cluster.daemon.DaemonContext;
import dev.forge.cluster.daemon.DaemonScope;
import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.daemon.DaemonHandler;
import dev.forge.cluster.internal.daemon.DaemonHandlers;
import java.util.Arrays;
import java.util.Set;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.annotation.AnnotationTransactionAttributeSource;
import org.springframework.transaction.interceptor.TransactionAttribute;

/** Finds {@link ClusterDaemon} methods on all beans. */
public final class ClusterDaemonRegistrar implements SmartInitializingSingleton {

    private static final Set<Integer> WITHOUT_TRANSACTION = Set.of(
            TransactionDefinition.PROPAGATION_SUPPORTS,
            TransactionDefinition.PROPAGATION_NOT_SUPPORTED,
            TransactionDefinition.PROPAGATION_NEVER);

    private final ConfigurableListableBeanFactory beans;
    private final DaemonHandlers handlers;
    private final DaemonProperties usual;
    private final AttributeReader attributes;
    private final AnnotationTransactionAttributeSource transactions = new AnnotationTransactionAttributeSource(false);

    public ClusterDaemonRegistrar(
            ConfigurableListableBeanFactory beans, DaemonHandlers handlers, DaemonProperties usual) {
        this.beans = beans;
        this.handlers = handlers;
        this.usual = usual;
        this.attributes = new AttributeReader(beans);
    }

    @Override
    public void afterSingletonsInstantiated() {
        AnnotatedMethods.find(beans, ClusterDaemon.class).forEach(found -> handlers.add(handler(found)));
    }

    private DaemonHandler handler(AnnotatedMethods.Found<ClusterDaemon> found) {
        ClusterDaemon daemon = found.annotation();
        try {
            return new DaemonHandler(
                    name(found),
                    daemon.scope(),
                    instances(daemon),
                    new DaemonHandler.Needs(
                            daemon.role(),
                            attributes.textOrNull(daemon.capability()),
                            attributes.value(
                                    "startupDelay",
                                    daemon.startupDelay(),
                                    AttributeReader::notNegative,
                                    usual.startupDelay())),
                    new DaemonHandler.Restarts(
                            attributes.value(
                                    "restartDelay",
                                    daemon.restartDelay(),
                                    AttributeReader::positive,
                                    usual.restartDelay()),
                            attributes.valueOrNull(
                                    "maxRestarts",
                                    attributes.either(
                                            "maxRestarts", daemon.maxRestarts(), -1, daemon.maxRestartsString()),
                                    AttributeReader.atLeast(0),
                                    usual.maxRestarts()),
                            daemon.restartOnReturn()),
                    new DaemonHandler.Target(code(found), found.place()));
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new ClusterStartupException(
                    "@ClusterDaemon on %s: %s".formatted(found.place(), e.getMessage()),
                    AttributeException.action(
                            e, "A daemon takes a DaemonContext or nothing, and is neither private nor static."),
                    e);
        }
    }

    private String name(AnnotatedMethods.Found<ClusterDaemon> found) {
        String name = attributes.name(found.annotation().name(), found.method());
        if (name.indexOf('#') >= 0) {
            throw AttributeException.of(
                    "name", name, "must not contain #, which separates the number of an instance", null);
        }
        return name;
    }

    private int instances(ClusterDaemon daemon) {
        int instances = attributes.value(
                "instances",
                attributes.either("instances", daemon.instances(), 1, daemon.instancesString()),
                AttributeReader.between(1, 1_000),
                1);
        if (instances > 1 && daemon.scope() == DaemonScope.NODE) {
            throw AttributeException.of(
                    "instances",
                    String.valueOf(instances),
                    "a daemon of scope NODE has one instance on every node",
                    null);
        }
        return instances;
    }

    private DaemonHandler.Code code(AnnotatedMethods.Found<ClusterDaemon> found) {
        AnnotatedMethods.Call method = found.call(beans);
        AsynchronousHandlers.refuseFuture(
                found,
                "A daemon keeps its role until its method has returned, but the work of a future would continue beside its"
                        + " successor.",
                "Let the method run until it is asked to stop: wait for the future in it, with join() or block().");
        TransactionAttribute transaction = transactions.getTransactionAttribute(found.method(), found.type());
        if (transaction != null && !WITHOUT_TRANSACTION.contains(transaction.getPropagationBehavior())) {
            throw new ClusterStartupException(
                    "@ClusterDaemon on %s: it is @Transactional. Its transaction would stay open and hold a connection for as long as the daemon runs."
                            .formatted(found.place()),
                    "Remove @Transactional from the method, or set propagation = NOT_SUPPORTED if it is on the class. Call"
                            + " DaemonContext.fenced, or a @Transactional method of another bean, for each unit of work.");
        }
        Class<?>[] parameters = found.method().getParameterTypes();
        if (parameters.length > 1 || (parameters.length == 1 && parameters[0] != DaemonContext.class)) {
            throw new IllegalArgumentException("it has the parameters " + Arrays.toString(parameters));
        }
        return context -> {
            Object returned = parameters.length == 0 ? method.with() : method.with(context);
            if (AsyncResults.isAsync(returned)) {
                AsyncResults.cancel(returned);
                throw new IllegalStateException(
                        "%s returned a future: wait for it inside of the method, with join() or block()"
                                .formatted(found.place()));
            }
        };
    }
}
