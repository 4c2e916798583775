// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.autoconfigure.ClientAddress;
import dev.forge.cluster.autoconfigure.web.HealthAliases.Verdict;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.http.CacheControl;
import org.springframework.http.HttpMethod;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.servlet.ModelAndView;
import org.springframework.web.servlet.function.RequestPredicates;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.RouterFunctions;
import org.springframework.web.servlet.function.ServerRequest;
import org.springframework.web.servlet.function.ServerResponse;

/**
 * The routes of the HTTP API. They do not use the application's message converters and exception handlers, so that responses do not
 * depend on the application.
 */
final class WebRoutes {

    private static final String RETRY_AFTER_SECONDS = "5";

    private final int limit;
    private final WebJobs jobs;
    private final JsonRpc rpc;
    private final Operators operators;

    /** Makes the client of a request known to the audit trail. */
    record Operators(AuditTrail trail, ClientAddress addresses) {

        <T> T as(ServerRequest request, Supplier<T> operation) {
            String name = client(request).name();
            var operator = new Operator(
                    name.isBlank() ? "unknown" : name, addresses.exact(request.servletRequest()), AuditSource.HTTP);
            return trail.as(operator, null, operation);
        }
    }

    /** Serves a request of one method at one path. */
    @FunctionalInterface
    private interface Operation {
        ServerResponse serve(ServerRequest request);
    }

    /** @param limit the largest size of a body in bytes */
    WebRoutes(int limit, WebJobs jobs, JsonRpc rpc, Operators operators) {
        this.limit = limit;
        this.jobs = jobs;
        this.rpc = rpc;
        this.operators = operators;
    }

    /** Returns the routes of jobs and JSON-RPC under a path. */
    RouterFunction<ServerResponse> under(String path) {
        String base = path.equals("/") ? "" : path;
        return resource(base + "/jobs", Map.of(HttpMethod.POST, this::submit))
                .and(resource(
                        base + "/jobs/{id}",
                        Map.of(
                                HttpMethod.GET, request -> ok(jobs.show(request.pathVariable("id"), client(request))),
                                HttpMethod.DELETE,
                                        request -> ok(operators.as(
                                                request,
                                                () -> jobs.cancel(request.pathVariable("id"), client(request)))))))
                .and(resource(path, Map.of(HttpMethod.POST, this::call)));
    }

    /** Returns the routes of the health aliases, at their fixed paths. */
    static RouterFunction<ServerResponse> aliases(HealthAliases aliases) {
        return resource(HealthAliases.HEALTH, Map.of(HttpMethod.GET, request -> ok(aliases.health())))
                .and(resource(HealthAliases.READY, Map.of(HttpMethod.GET, request -> {
                    Verdict verdict = aliases.ready();
                    return json(
                            verdict.ready() ? HttpStatus.OK : HttpStatus.SERVICE_UNAVAILABLE,
                            Map.of("status", verdict.status()),
                            MediaType.APPLICATION_JSON,
                            Map.of());
                })));
    }

    private ServerResponse submit(ServerRequest request) {
        Map<String, Object> job =
                jobs.submit(JsonBody.parse(JsonBody.read(request.servletRequest(), limit)), client(request));
        String location = request.servletRequest().getRequestURI() + "/" + job.get("id");
        return json(HttpStatus.ACCEPTED, job, MediaType.APPLICATION_JSON, Map.of("Location", location));
    }

    private ServerResponse call(ServerRequest request) {
        Object answer = rpc.answer(JsonBody.read(request.servletRequest(), limit), client(request));
        return answer == null ? ServerResponse.noContent().build() : ok(answer);
    }

    private static Submitter client(ServerRequest request) {
        return Submitter.of(request.servletRequest());
    }

    // One route for all methods of a path, so that the Allow header can list them.
    private static RouterFunction<ServerResponse> resource(String path, Map<HttpMethod, Operation> operations) {
        Set<String> allowed = new TreeSet<>();
        operations.keySet().forEach(method -> allowed.add(method.name()));
        if (operations.containsKey(HttpMethod.GET)) {
            allowed.add(HttpMethod.HEAD.name());
        }
        allowed.add(HttpMethod.OPTIONS.name());
        String allow = String.join(", ", allowed);
        return RouterFunctions.route(RequestPredicates.path(path), request -> {
            HttpMethod method = request.method();
            if (method.equals(HttpMethod.OPTIONS)) {
                return ServerResponse.noContent().header("Allow", allow).build();
            }
            // The container omits the body.
            Operation operation = operations.get(method.equals(HttpMethod.HEAD) ? HttpMethod.GET : method);
            if (operation == null) {
                return problem(
                        new Refusal(HttpStatus.METHOD_NOT_ALLOWED, "allowed methods are " + allow),
                        Map.of("Allow", allow));
            }
            try {
                return operation.serve(request);
            } catch (RuntimeException e) {
                Refusal refusal = Refusal.of(e);
                return problem(
                        refusal,
                        refusal.status() == HttpStatus.SERVICE_UNAVAILABLE
                                ? Map.of("Retry-After", RETRY_AFTER_SECONDS)
                                : Map.of());
            }
        });
    }

    private static ServerResponse ok(Object value) {
        return json(HttpStatus.OK, value, MediaType.APPLICATION_JSON, Map.of());
    }

    private static ServerResponse problem(Refusal refusal, Map<String, String> headers) {
        return json(refusal.status(), refusal.problem(), MediaType.APPLICATION_PROBLEM_JSON, headers);
    }

    private static ServerResponse json(HttpStatus status, Object value, MediaType type, Map<String, String> headers) {
        byte[] body = JsonBody.write(value);
        var response = ServerResponse.status(status)
                .contentType(type)
                .contentLength(body.length)
                .cacheControl(CacheControl.noStore());
        headers.forEach((name, text) -> response.header(name, text));
        return response.build((request, answer) -> {
            answer.getOutputStream().write(body);
            return nothing();
        });
    }

    /** No view. */
    private static @Nullable ModelAndView nothing() {
        return null;
    }
}
