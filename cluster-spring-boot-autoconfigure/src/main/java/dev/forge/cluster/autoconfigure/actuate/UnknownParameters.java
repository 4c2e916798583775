// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.EndpointId;
import org.springframework.boot.actuate.endpoint.OperationType;
import org.springframework.boot.actuate.endpoint.invoke.OperationInvoker;
import org.springframework.boot.actuate.endpoint.invoke.OperationInvokerAdvisor;
import org.springframework.boot.actuate.endpoint.invoke.OperationParameter;
import org.springframework.boot.actuate.endpoint.invoke.OperationParameters;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;

/**
 * Rejects requests to the endpoint of the cluster with parameters that it does not have. Spring Boot ignores them, and a misspelt
 * condition would let an operation change all jobs.
 */
final class UnknownParameters implements OperationInvokerAdvisor {

    private final EndpointId endpoint;

    UnknownParameters(String endpoint) {
        this.endpoint = EndpointId.of(endpoint);
    }

    @Override
    public OperationInvoker apply(
            EndpointId id, OperationType type, @Nullable OperationParameters parameters, OperationInvoker invoker) {
        if (!id.equals(endpoint) || parameters == null) {
            return invoker;
        }
        var known = new TreeSet<>(
                parameters.stream().map(OperationParameter::getName).collect(Collectors.toSet()));
        return context -> {
            var unknown = new TreeSet<>(context.getArguments().keySet());
            unknown.removeAll(known);
            return unknown.isEmpty()
                    ? invoker.invoke(context)
                    : new WebEndpointResponse<>(
                            Map.of("error", "Unknown parameters %s. Known: %s".formatted(unknown, known)),
                            WebEndpointResponse.STATUS_BAD_REQUEST);
        };
    }
}
