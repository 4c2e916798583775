// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.endpoint.EndpointId;
import org.springframework.boot.actuate.endpoint.OperationType;
import org.springframework.boot.actuate.endpoint.invoke.OperationInvoker;
import org.springframework.boot.actuate.endpoint.invoke.OperationInvokerAdvisor;
import org.springframework.boot.actuate.endpoint.invoke.OperationParameter;
import org.springframework.boot.actuate.endpoint.invoke.OperationParameters;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;

/**
 * Rejects requests to the endpoint of the cluster with parameters that its methods do not have. Spring Boot drops them, so that {@link
 * ClusterOperations}, which rejects parameters that a resource does not have, would not see them.
 */
final class UnknownParameters implements OperationInvokerAdvisor {

    /** Where further parameters are known. */
    static final String API =
            "Use the HTTP API for operators: forge.cluster.operations.enabled, or api/v1/ of the dashboard.";

    private final EndpointId endpoint;
    private final ObjectProvider<ClusterOperations> operations;

    UnknownParameters(String endpoint, ObjectProvider<ClusterOperations> operations) {
        this.endpoint = EndpointId.of(endpoint);
        this.operations = operations;
    }

    @Override
    public OperationInvoker apply(
            EndpointId id, OperationType type, @Nullable OperationParameters parameters, OperationInvoker invoker) {
        if (!id.equals(endpoint) || parameters == null) {
            return invoker;
        }
        Set<String> known =
                parameters.stream().map(OperationParameter::getName).collect(Collectors.toUnmodifiableSet());
        return context -> {
            var unknown = new TreeSet<>(context.getArguments().keySet());
            unknown.removeAll(known);
            return unknown.isEmpty()
                    ? invoker.invoke(context)
                    : new WebEndpointResponse<>(
                            Map.of("error", message(type, context.getArguments(), unknown, known)),
                            WebEndpointResponse.STATUS_BAD_REQUEST);
        };
    }

    private String message(OperationType type, Map<String, Object> arguments, Set<String> unknown, Set<String> known) {
        Set<String> all = ofResource(type, arguments, known);
        var here = new TreeSet<>(all);
        here.retainAll(known);
        String message = "Unknown parameters %s. Known: %s".formatted(unknown, here);
        return Collections.disjoint(all, unknown) ? message : message + ". " + API;
    }

    /** Returns the parameters of the resource that a request is for; all of the operation if there is no such resource. */
    private Set<String> ofResource(OperationType type, Map<String, Object> arguments, Set<String> all) {
        ClusterOperations resources = operations.getIfAvailable();
        if (resources == null || !(arguments.get(ClusterEndpoint.PATH) instanceof String[] path)) {
            return all;
        }
        return (type == OperationType.READ
                        ? resources.readParameters(List.of(path))
                        : resources.changeParameters(List.of(path)))
                .orElse(all);
    }
}
