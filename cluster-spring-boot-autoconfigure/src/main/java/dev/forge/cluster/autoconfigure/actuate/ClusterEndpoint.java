// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.HiddenValuesException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import java.security.Principal;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.Access;
import org.springframework.boot.actuate.endpoint.SecurityContext;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;
import org.springframework.boot.actuate.endpoint.annotation.Selector;
import org.springframework.boot.actuate.endpoint.annotation.Selector.Match;
import org.springframework.boot.actuate.endpoint.annotation.WriteOperation;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;

/**
 * {@code /actuator/forgecluster}, for monitoring and scripts: shows the state of the cluster, and changes the state of one of its nodes,
 * jobs, crons, daemons, batches or runs. Translates requests and results of {@link ClusterOperations}. Everything else is done with the
 * HTTP API for operators.
 */
@Endpoint(id = "forgecluster", defaultAccess = Access.READ_ONLY)
public final class ClusterEndpoint {

    private static final int FORBIDDEN = 403;

    /** The argument with the segments of the path. */
    static final String PATH = "path";

    private final ClusterOperations operations;
    private final ClusterEndpointProperties properties;

    ClusterEndpoint(ClusterOperations operations, ClusterEndpointProperties properties) {
        this.operations = operations;
        this.properties = properties;
    }

    /** Returns the overview, which has no values of the application. */
    @ReadOperation
    @Nullable
    public Object cluster() {
        return response(() -> operations.read(caller(null), List.of("overview"), Map.of()), notFound -> null);
    }

    /**
     * Returns a resource, or one of its entries. Searches with further conditions belong to the HTTP API.
     *
     * @param user the user; null means an anonymous one
     * @param name returns only entries of that name
     * @param status returns only entries with that status
     * @param after returns only entries after that name, id or key; continues a search of jobs
     * @param limit the largest number of entries
     * @param path the resource, followed by the name or id of an entry
     * @return null if there is no such resource or entry; a response with status 400 if a parameter is invalid, with status 403 if
     *     the application cannot protect the resource, and with status 503 if too many other requests read
     */
    @ReadOperation
    @Nullable
    public Object resource(
            @Nullable SecurityContext user,
            @Nullable String name,
            @Nullable String status,
            @Nullable String after,
            @Nullable Integer limit,
            @Selector(match = Match.ALL_REMAINING) String... path) {
        var parameters = new HashMap<String, String>();
        put(parameters, "name", name);
        put(parameters, "status", status);
        put(parameters, "after", after);
        put(parameters, "limit", limit);
        return response(
                () -> operations.read(caller(user), List.of(path), parameters),
                // Spring Boot turns null into a response with status 404.
                notFound -> null);
    }

    /**
     * Changes the state of an entry of a resource. Changes of many entries, and those with further parameters, belong to the HTTP API.
     *
     * @param user the user; null means an anonymous one
     * @param path the resource, followed by the name or id of the entry
     * @param state the requested state
     * @param reason why the caller makes the change; needed for the states {@code cancelled} and {@code deleted}
     * @return the changed entry; a response with status 404 if there is no such entry, and with status 400 if the state is not possible
     */
    @WriteOperation
    @Nullable
    public Object changeState(
            @Nullable SecurityContext user,
            @Selector(match = Match.ALL_REMAINING) String[] path,
            String state,
            @Nullable String reason) {
        boolean many = Stream.of(path).skip(1).allMatch(String::isEmpty);
        if (many && operations.changeParameters(List.of(path)).isPresent()) {
            return error(
                    WebEndpointResponse.STATUS_BAD_REQUEST,
                    "The endpoint changes one entry at a time: POST to %1$s/{name or id}. %2$s"
                            .formatted(path[0], UnknownParameters.API));
        }
        var parameters = new HashMap<String, String>();
        put(parameters, "reason", reason);
        return response(
                () -> operations.change(caller(user), List.of(path), state, parameters),
                // Spring Boot would turn null into a successful response to a POST.
                notFound -> error(WebEndpointResponse.STATUS_NOT_FOUND, notFound.message()));
    }

    private static void put(Map<String, String> parameters, String name, @Nullable Object value) {
        if (value != null) {
            parameters.put(name, value.toString());
        }
    }

    /** Actuator does not tell the address of its users. */
    private Caller caller(@Nullable SecurityContext user) {
        SecurityContext known = user == null ? SecurityContext.NONE : user;
        Principal principal = known.getPrincipal();
        return new Caller(
                properties.showValues().isShown(known, properties.roles()),
                principal == null ? null : principal.getName(),
                null,
                AuditSource.ENDPOINT);
    }

    /** Puts reasons into the body: a response that Spring Boot makes of an exception does not contain them. */
    private static @Nullable Object response(
            Supplier<OperationResult> operation, Function<OperationResult.NotFound, @Nullable Object> notFound) {
        OperationResult result;
        try {
            result = operation.get();
        } catch (HiddenValuesException e) {
            return error(
                    WebEndpointResponse.STATUS_BAD_REQUEST,
                    e.getMessage() + " (management.endpoint.forgecluster.show-values)");
        } catch (InvalidOperationException e) {
            return error(WebEndpointResponse.STATUS_BAD_REQUEST, String.valueOf(e.getMessage()));
        }
        if (result instanceof OperationResult.Found found) {
            return found.body();
        }
        if (result instanceof OperationResult.Denied denied) {
            return error(FORBIDDEN, denied.message());
        }
        return result instanceof OperationResult.NotFound missing
                ? notFound.apply(missing)
                : error(WebEndpointResponse.STATUS_SERVICE_UNAVAILABLE, ((OperationResult.Busy) result).message());
    }

    private static WebEndpointResponse<Map<String, String>> error(int status, String message) {
        return new WebEndpointResponse<>(Map.of("error", message), status);
    }
}
