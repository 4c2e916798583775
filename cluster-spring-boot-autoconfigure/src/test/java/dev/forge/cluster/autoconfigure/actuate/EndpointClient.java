// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.autoconfigure.operations.resource.ClusterOperationsAutoConfiguration;
import java.security.Principal;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.autoconfigure.endpoint.jackson.JacksonEndpointAutoConfiguration;
import org.springframework.boot.actuate.endpoint.EndpointId;
import org.springframework.boot.actuate.endpoint.InvocationContext;
import org.springframework.boot.actuate.endpoint.SecurityContext;
import org.springframework.boot.actuate.endpoint.invoke.OperationInvokerAdvisor;
import org.springframework.boot.actuate.endpoint.invoke.convert.ConversionServiceParameterValueMapper;
import org.springframework.boot.actuate.endpoint.jackson.EndpointJsonMapper;
import org.springframework.boot.actuate.endpoint.web.EndpointMediaTypes;
import org.springframework.boot.actuate.endpoint.web.WebEndpointHttpMethod;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;
import org.springframework.boot.actuate.endpoint.web.WebOperation;
import org.springframework.boot.actuate.endpoint.web.annotation.WebEndpointDiscoverer;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;

/**
 * Invokes the endpoint of an application as a request over HTTP would: Actuator converts and checks the arguments and writes the
 * response as JSON. Needs {@link JacksonEndpointAutoConfiguration} in the application.
 */
public final class EndpointClient {

    private final ApplicationContext context;
    private final @Nullable String role;

    private EndpointClient(ApplicationContext context, @Nullable String role) {
        this.context = context;
        this.role = role;
    }

    /** Returns a client of an anonymous user. */
    public static EndpointClient of(ApplicationContext context) {
        return new EndpointClient(context, null);
    }

    /** Returns a client of a user in that role. */
    EndpointClient inRole(String name) {
        return new EndpointClient(context, name);
    }

    /** A response; the body is parsed JSON. */
    public record Response(int status, @Nullable Object body) {

        /** Returns the member at a path of names and indexes; null if there is none. */
        public @Nullable Object at(Object... path) {
            Object value = body;
            for (Object step : path) {
                value = step instanceof Integer index
                        ? ((List<?>) Objects.requireNonNull(value)).get(index)
                        : ((Map<?, ?>) Objects.requireNonNull(value)).get(step);
            }
            return value;
        }

        /** Returns the array at a path of names and indexes. */
        public List<?> list(Object... path) {
            return (List<?>) Objects.requireNonNull(at(path));
        }

        /** Asserts the status and returns the error. */
        public String error(int expectedStatus) {
            assertThat(status).as(String.valueOf(body)).isEqualTo(expectedStatus);
            return String.valueOf(at("error"));
        }
    }

    /** Reads a resource; the status is 404 if there is none. */
    public Response get(String... path) {
        return get(Map.of(), path);
    }

    Response get(Map<String, Object> query, String... path) {
        return invoke(WebEndpointHttpMethod.GET, query, path);
    }

    /** Changes the state of an entry. */
    public Response post(String state, String... path) {
        return invoke(WebEndpointHttpMethod.POST, Map.of("state", state, "reason", "test"), path);
    }

    Response invoke(WebEndpointHttpMethod method, Map<String, Object> arguments, String... path) {
        WebOperation operation = operation(method, path.length > 0);
        var all = new HashMap<>(arguments);
        if (path.length > 0) {
            all.put(operation.getRequestPredicate().getMatchAllRemainingPathSegmentsVariable(), path);
        }
        Object result = operation.invoke(new InvocationContext(new User(role), all));
        if (result == null) {
            return new Response(404, null);
        }
        return result instanceof WebEndpointResponse<?> response
                ? new Response(response.getStatus(), json(response.getBody()))
                : new Response(200, json(result));
    }

    private WebOperation operation(WebEndpointHttpMethod method, boolean withPath) {
        var endpoints = new WebEndpointDiscoverer(
                context,
                new ConversionServiceParameterValueMapper(),
                EndpointMediaTypes.DEFAULT,
                List.of(),
                List.of(),
                context.getBeanProvider(OperationInvokerAdvisor.class)
                        .orderedStream()
                        .toList(),
                List.of(),
                List.of());
        return endpoints.getEndpoints().stream()
                .filter(endpoint -> endpoint.getEndpointId().equals(EndpointId.of("forgecluster")))
                .flatMap(endpoint -> endpoint.getOperations().stream())
                .filter(candidate -> candidate.getRequestPredicate().getHttpMethod() == method
                        && withPath
                                == (candidate.getRequestPredicate().getMatchAllRemainingPathSegmentsVariable() != null))
                .findFirst()
                .orElseThrow();
    }

    private @Nullable Object json(@Nullable Object body) {
        var mapper = context.getBean(EndpointJsonMapper.class).get();
        return mapper.readValue(mapper.writeValueAsString(body), Object.class);
    }

    private record User(@Nullable String role) implements SecurityContext {
        @Override
        public @Nullable Principal getPrincipal() {
            return role == null ? null : () -> "user";
        }

        @Override
        public boolean isUserInRole(String asked) {
            return asked.equals(role);
        }
    }

    /** Adds the endpoint, and the mapper of its JSON, to an application. */
    public static ApplicationContextRunner expose(ApplicationContextRunner runner) {
        return runner.withPropertyValues("management.endpoints.web.exposure.include=*")
                .withConfiguration(AutoConfigurations.of(
                        ClusterOperationsAutoConfiguration.class,
                        ClusterActuatorAutoConfiguration.class,
                        JacksonEndpointAutoConfiguration.class));
    }
}
