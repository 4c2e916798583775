// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.HiddenValuesException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.MissingReasonException;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.web.Visitor.Csrf;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataAccessResourceFailureException;
import org.springframework.dao.TransientDataAccessException;
import org.springframework.transaction.CannotCreateTransactionException;
import tools.jackson.databind.json.JsonMapper;

/**
 * The JSON API for operators, version 1, below whatever path it is served: it passes path, parameters and body of a request to {@link
 * ClusterOperations}.
 */
public final class OperationsApi {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private static final String VERSION_PATH = "/v1/";
    static final String SESSION_PATH = VERSION_PATH + "session";
    static final String UNAVAILABLE = "The database does not respond. Trying again.";
    static final String FAILED = "The request failed. The log of the node has the reason.";
    private static final String ID = "id";

    /** Not the application's mapper: its settings must not change names or dates of the API. */
    private static final JsonMapper JSON = JsonMapper.builder().build();

    private final Access access;
    private final ClusterOperations operations;
    private final Supplier<About> about;
    private final SharedReads reads;

    /**
     * What the session tells about the node.
     *
     * @param traceUrl the template of the address of a trace; null if traces are not linked
     */
    public record About(
            String cluster,
            String version,
            String nodeId,
            String nodeName,
            @Nullable String traceUrl) {}

    /**
     * Creates the API.
     *
     * @param about tells about the node
     * @param nanos a clock
     */
    public OperationsApi(Access access, ClusterOperations operations, Supplier<About> about, LongSupplier nanos) {
        this.access = access;
        this.operations = operations;
        this.about = about;
        this.reads = new SharedReads(nanos);
    }

    /**
     * Serves a request. Blocks.
     *
     * @param request its path begins with the version of the API
     * @param source where changes come from, for the audit trail
     */
    public SiteResponse serve(SiteRequest request, AuditSource source) {
        try {
            return serveOrThrow(request, source);
        } catch (RefusedRequestException e) {
            return refusal(e);
        } catch (DataAccessResourceFailureException
                | TransientDataAccessException
                | CannotCreateTransactionException e) {
            // Each open page would log the outage every few seconds.
            log.debug("Operations: {} {} failed", request.method(), Parameters.printable(request.path()), e);
            return refusal(new RefusedRequestException(503, "unavailable", UNAVAILABLE));
        } catch (RuntimeException e) {
            log.warn("Operations: {} {} failed", request.method(), Parameters.printable(request.path()), e);
            return refusal(new RefusedRequestException(500, "failed", FAILED));
        }
    }

    private SiteResponse serveOrThrow(SiteRequest request, AuditSource source) {
        require(request.visitor(), Permission.VIEW);
        if (!request.path().startsWith(VERSION_PATH)) {
            throw new RefusedRequestException(404, "not-found", "Unknown version of the API. Use v1/.");
        }
        if (request.path().equals(SESSION_PATH)) {
            if (!isAllowed(request, false)) {
                return otherMethod(false);
            }
            Parameters.requireKnown(Parameters.ofQuery(request.query()), Set.of());
            return json(200, session(request.visitor()));
        }
        Address address = Address.of(request.path().substring(VERSION_PATH.length()));
        if (!operations.resources().contains(address.resource)) {
            throw new RefusedRequestException(
                    404,
                    "not-found",
                    "Unknown resource. Known: session, " + String.join(", ", new TreeSet<>(operations.resources())));
        }
        boolean changeable = address.part == null
                && operations.changeParameters(List.of(address.resource, "any")).isPresent();
        if (!isAllowed(request, changeable)) {
            return otherMethod(changeable);
        }
        return request.isRead() ? read(address, request, source) : change(address.resource, request, source);
    }

    /**
     * The address of a resource: {@code jobs}, or a part of an entry: {@code jobs/logs}. Ids are parameters, because proxies and
     * servers treat encoded slashes in paths each in their own way.
     */
    private record Address(String resource, @Nullable String part) {

        static Address of(String path) {
            int slash = path.indexOf('/');
            return slash < 0
                    ? new Address(path, null)
                    : new Address(path.substring(0, slash), path.substring(slash + 1));
        }

        List<String> path(@Nullable String id) {
            if (part == null) {
                return id == null ? List.of(resource) : List.of(resource, id);
            }
            if (id == null) {
                throw RefusedRequestException.invalid("Parameter 'id' is missing");
            }
            return List.of(resource, id, part);
        }
    }

    private SiteResponse read(Address address, SiteRequest request, AuditSource source) {
        Map<String, String> parameters = Parameters.ofQuery(request.query());
        String id = parameters.remove(ID);
        List<String> path = address.path(id == null || id.isEmpty() ? null : id);
        Set<String> known = operations.readParameters(path).orElse(null);
        if (known == null) {
            throw RefusedRequestException.invalid("Unknown parameter 'id'. Known: "
                    + new TreeSet<>(
                            operations.readParameters(List.of(address.resource)).orElse(Set.of())));
        }
        Parameters.requireKnown(parameters, known);
        boolean values = request.visitor().may(Permission.VALUES);
        return reads.get(
                new SharedReads.Key(path, parameters, values),
                () -> json(
                        200, found(() -> operations.read(new Caller(values, null, null, source), path, parameters))));
    }

    private SiteResponse change(String resource, SiteRequest request, AuditSource source) {
        Visitor visitor = request.visitor();
        require(visitor, Permission.OPERATE);
        requireSameSite(request);
        String type = String.valueOf(request.header("Content-Type")).toLowerCase(Locale.ROOT);
        if (!type.matches("application/json\\s*(;.*)?")) {
            throw new RefusedRequestException(415, "invalid", "The content type must be application/json");
        }
        if (request.body().length > SiteRequest.LARGEST_BODY) {
            throw new RefusedRequestException(
                    413, "invalid", "The body is larger than %d bytes".formatted(SiteRequest.LARGEST_BODY));
        }
        Parameters.requireKnown(Parameters.ofQuery(request.query()), Set.of());
        Map<String, String> parameters = Parameters.ofBody(request.body());
        Parameters.requireNoneEmpty(parameters);
        String id = parameters.remove(ID);
        String state = parameters.remove("state");
        List<String> path = id == null ? List.of(resource) : List.of(resource, id);
        Set<String> known = operations
                .changeParameters(path)
                .orElseThrow(() -> RefusedRequestException.invalid("Parameter 'id' is missing"));
        Parameters.requireKnown(parameters, known);
        if (state == null) {
            throw RefusedRequestException.invalid("Parameter 'state' is missing");
        }
        var caller = new Caller(visitor.may(Permission.VALUES), visitor.user(), request.address(), source);
        try {
            return json(200, found(() -> operations.change(caller, path, state, parameters)));
        } finally {
            reads.clear();
        }
    }

    private static Map<String, @Nullable Object> found(Supplier<OperationResult> operation) {
        OperationResult result;
        try {
            result = operation.get();
        } catch (HiddenValuesException e) {
            throw RefusedRequestException.invalid(e.getMessage() + " (forge.cluster.operations.authorities.values)");
        } catch (MissingReasonException e) {
            throw new RefusedRequestException(400, "reason-required", String.valueOf(e.getMessage()));
        } catch (InvalidOperationException e) {
            throw RefusedRequestException.invalid(String.valueOf(e.getMessage()));
        }
        if (result instanceof OperationResult.NotFound missing) {
            throw new RefusedRequestException(404, "not-found", missing.message());
        }
        if (result instanceof OperationResult.Denied denied) {
            throw new RefusedRequestException(403, "forbidden", denied.message());
        }
        if (result instanceof OperationResult.Busy busy) {
            throw new RefusedRequestException(503, "busy", busy.message());
        }
        return ((OperationResult.Found) result).body();
    }

    /**
     * The application's filter has compared the token already, unless the application excludes this path. Then the header alone is
     * the protection: other sites cannot set it.
     */
    private static void requireSameSite(SiteRequest request) {
        Csrf csrf = request.visitor().csrf().get();
        if (csrf == null) {
            throw new RefusedRequestException(403, "read-only", NO_CSRF);
        }
        String token = request.header(csrf.header());
        String site = request.header("Sec-Fetch-Site");
        if (token == null || token.isBlank()) {
            throw new RefusedRequestException(403, "csrf", "The header %s is missing".formatted(csrf.header()));
        }
        if (site != null && !site.equals("same-origin") && !site.equals("none")) {
            throw new RefusedRequestException(403, "csrf", "Changes are accepted from the own site only");
        }
    }

    private static final String NO_CSRF =
            "The application's CSRF protection is off for this path, so nothing can be changed. Enable it.";

    private Map<String, Object> session(Visitor visitor) {
        About node = about.get();
        var session = new LinkedHashMap<String, Object>();
        session.put("cluster", node.cluster());
        session.put("version", node.version());
        session.put("node", Map.of("id", node.nodeId(), "name", node.nodeName()));
        if (visitor.user() != null) {
            session.put("user", visitor.user());
        }
        session.put(
                "permissions",
                visitor.permissions().stream().sorted().map(Permission::text).toList());
        if (node.traceUrl() != null) {
            session.put("traceUrl", node.traceUrl());
        }
        if (!visitor.may(Permission.OPERATE)) {
            session.put(
                    "readOnly",
                    access == Access.OPEN
                            ? "Read-only, and values are hidden: the application has no Spring Security."
                            : "Read-only: you lack the permission to change states.");
            return session;
        }
        Csrf csrf = visitor.csrf().get();
        if (csrf == null) {
            session.put("readOnly", NO_CSRF);
        } else {
            session.put("csrf", Map.of("header", csrf.header(), "token", csrf.token()));
        }
        return session;
    }

    /** Status 401 means that a login may help, 403 that it does not. */
    private void require(Visitor visitor, Permission permission) {
        if (visitor.may(permission)) {
            return;
        }
        if (access == Access.OPEN) {
            throw new RefusedRequestException(
                    403, "read-only", "Nothing can be changed, because the application has no Spring Security");
        }
        if (visitor.user() == null) {
            throw new RefusedRequestException(401, "unauthenticated", "Log in to the application first");
        }
        throw new RefusedRequestException(
                403,
                "forbidden",
                "This needs one of the authorities in forge.cluster.operations.authorities." + permission.text());
    }

    private static boolean isAllowed(SiteRequest request, boolean changeable) {
        return request.isRead() || (changeable && request.method().equals("POST"));
    }

    private static SiteResponse otherMethod(boolean changeable) {
        String allowed = changeable ? "GET, HEAD, POST" : "GET, HEAD";
        return refusal(new RefusedRequestException(405, "invalid", "Allowed methods: " + allowed))
                .withHeader("Allow", allowed);
    }

    private static SiteResponse refusal(RefusedRequestException e) {
        SiteResponse response = json(e.status(), Map.of("error", String.valueOf(e.getMessage()), "code", e.code()));
        return e.status() == 503 ? response.withHeader("Retry-After", "2") : response;
    }

    private static SiteResponse json(int status, Object body) {
        return new SiteResponse(
                status,
                Map.of("Content-Type", "application/json", "Cache-Control", "no-store"),
                JSON.writeValueAsBytes(body));
    }
}
