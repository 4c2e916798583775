// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.autoconfigure.actuate.ClusterEndpoint;
import dev.forge.cluster.autoconfigure.actuate.DecidedValues;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;

/** Reads and changes through the Actuator endpoint of the cluster. */
final class EndpointData implements DashboardData {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private final ObjectProvider<ClusterEndpoint> endpoints;

    EndpointData(ObjectProvider<ClusterEndpoint> endpoints) {
        this.endpoints = endpoints;
    }

    @Override
    public Result read(Resource resource, Map<String, String> parameters, boolean values) {
        ClusterEndpoint endpoint = endpoint();
        if (resource == Resource.OVERVIEW) {
            return new Result(200, endpoint.cluster());
        }
        if (resource == Resource.JOB_LOGS && !parameters.containsKey("id")) {
            throw RefusedRequestException.invalid("Parameter 'id' is missing");
        }
        return result(endpoint.resource(
                new DecidedValues(values),
                parameters.get("name"),
                parameters.get("status"),
                parameters.get("after"),
                number(parameters.get("limit")),
                parameters.get("tag"),
                parameters.get("group"),
                parameters.get("key"),
                parameters.get("metadata"),
                parameters.get("error"),
                parameters.get("createdFrom"),
                parameters.get("createdBefore"),
                parameters.get("finishedFrom"),
                parameters.get("finishedBefore"),
                path(resource, parameters.get("id"))));
    }

    @Override
    public Result change(Resource resource, Map<String, Object> parameters, Operator operator) {
        var typed = new Typed(parameters);
        String state = typed.text("state");
        if (state == null) {
            throw RefusedRequestException.invalid("Parameter 'state' is missing");
        }
        String id = typed.text("id");
        Integer weight = typed.integer("weight");
        Result result = result(endpoint()
                .changeState(
                        new DecidedValues(operator.values()),
                        path(resource, id),
                        state,
                        typed.flag("everyJob"),
                        typed.flag("preview"),
                        typed.text("at"),
                        typed.integer("limit"),
                        typed.text("after"),
                        typed.text("name"),
                        typed.text("status"),
                        typed.text("tag"),
                        typed.text("group"),
                        typed.text("key"),
                        typed.text("metadata"),
                        typed.text("error"),
                        typed.text("createdFrom"),
                        typed.text("createdBefore"),
                        typed.text("finishedFrom"),
                        typed.text("finishedBefore"),
                        typed.integer("concurrency"),
                        typed.integer("groupConcurrency"),
                        typed.text("groupRate"),
                        typed.number("groupBurst"),
                        weight));
        if (result.status() < 400 && !Boolean.TRUE.equals(typed.flag("preview"))) {
            log.info(
                    "Dashboard: user '{}' set {} {} to '{}', reason: {}",
                    Parameters.printable(operator.user()),
                    resource.path(),
                    id == null ? "of a query" : "'" + Parameters.printable(id) + "'",
                    Parameters.printable(state),
                    operator.reason() == null ? "none given" : "'" + Parameters.printable(operator.reason()) + "'");
        }
        return result;
    }

    private ClusterEndpoint endpoint() {
        ClusterEndpoint endpoint = endpoints.getIfAvailable();
        if (endpoint == null) {
            throw new RefusedRequestException(
                    503,
                    "unavailable",
                    "The dashboard reads the endpoint forgecluster, which is not available: add spring-boot-starter-actuator"
                            + " and expose forgecluster in management.endpoints.web.exposure.include");
        }
        return endpoint;
    }

    private static String[] path(Resource resource, @Nullable String id) {
        if (resource == Resource.JOB_LOGS) {
            return new String[] {"jobs", String.valueOf(id), "logs"};
        }
        return id == null ? new String[] {resource.path()} : new String[] {resource.path(), id};
    }

    private static Result result(@Nullable Object response) {
        if (response == null) {
            return new Result(404, Map.of("error", "Not found", "code", "not-found"));
        }
        if (response instanceof WebEndpointResponse<?> web) {
            Object body = web.getBody();
            return new Result(web.getStatus(), body == null ? Map.of() : body);
        }
        return new Result(200, response);
    }

    private static @Nullable Integer number(@Nullable String text) {
        try {
            return text == null ? null : Integer.valueOf(text);
        } catch (NumberFormatException e) {
            throw RefusedRequestException.invalid(
                    "Parameter 'limit' (%s) is not a number".formatted(Parameters.printable(text)));
        }
    }

    /** Members of a body with their types. */
    private record Typed(Map<String, Object> members) {

        @Nullable
        String text(String name) {
            return as(String.class, "a text", name);
        }

        @Nullable
        Boolean flag(String name) {
            return as(Boolean.class, "true or false", name);
        }

        @Nullable
        Integer integer(String name) {
            return as(Integer.class, "a whole number", name);
        }

        @Nullable
        Long number(String name) {
            Object value = members.get(name);
            return value instanceof Long large ? large : longOf(integer(name));
        }

        private static @Nullable Long longOf(@Nullable Integer small) {
            return small == null ? null : small.longValue();
        }

        private <T> @Nullable T as(Class<T> type, String kind, String name) {
            Object value = members.get(name);
            if (value == null) {
                return null;
            }
            if (!type.isInstance(value)) {
                throw RefusedRequestException.invalid("Parameter '%s' (%s) must be %s"
                        .formatted(name, Parameters.printable(String.valueOf(value)), kind));
            }
            return type.cast(value);
        }
    }
}
