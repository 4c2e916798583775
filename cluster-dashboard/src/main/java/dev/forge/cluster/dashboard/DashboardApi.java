// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.dashboard;

import dev.forge.cluster.dashboard.DashboardData.Author;
import dev.forge.cluster.dashboard.Visitor.Csrf;
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

/** The JSON API of the dashboard, version 1. */
final class DashboardApi {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private static final String VERSION_PATH = "/api/v1/";
    static final String SESSION_PATH = VERSION_PATH + "session";
    static final String UNAVAILABLE = "The database does not respond. Trying again.";
    static final String FAILED = "The request failed. The log of the node has the reason.";
    private static final String ID = "id";

    /** Not the application's mapper: its settings must not change names or dates of the API. */
    private static final JsonMapper JSON = JsonMapper.builder().build();

    private final Access access;
    private final DashboardData data;
    private final Supplier<About> about;
    private final SharedReads reads;

    /**
     * What the session tells about the node.
     *
     * @param traceUrl the template of the address of a trace; null if traces are not linked
     */
    record About(
            String cluster,
            String version,
            String nodeId,
            String nodeName,
            @Nullable String traceUrl) {}

    DashboardApi(Access access, DashboardData data, Supplier<About> about, LongSupplier nanos) {
        this.access = access;
        this.data = data;
        this.about = about;
        this.reads = new SharedReads(nanos);
    }

    /** Serves a request of the API. Blocks. */
    DashboardResponse serve(DashboardRequest request) {
        try {
            return serveOrThrow(request);
        } catch (RefusedRequestException e) {
            return refusal(e);
        } catch (DataAccessResourceFailureException
                | TransientDataAccessException
                | CannotCreateTransactionException e) {
            // Each open page would log the outage every few seconds.
            log.debug("Dashboard: {} {} failed", request.method(), Parameters.printable(request.path()), e);
            return refusal(new RefusedRequestException(503, "unavailable", UNAVAILABLE));
        } catch (RuntimeException e) {
            log.warn("Dashboard: {} {} failed", request.method(), Parameters.printable(request.path()), e);
            return refusal(new RefusedRequestException(500, "failed", FAILED));
        }
    }

    private DashboardResponse serveOrThrow(DashboardRequest request) {
        require(request.visitor(), Permission.VIEW);
        if (!request.path().startsWith(VERSION_PATH)) {
            throw new RefusedRequestException(404, "not-found", "Unknown version of the API. Use api/v1/.");
        }
        if (request.path().equals(SESSION_PATH)) {
            if (!isAllowed(request, false)) {
                return otherMethod(false);
            }
            Parameters.requireKnown(Parameters.ofQuery(request.query()), Set.of());
            return json(200, session(request.visitor()));
        }
        Address address = Address.of(request.path().substring(VERSION_PATH.length()));
        if (!data.resources().contains(address.resource)) {
            throw new RefusedRequestException(
                    404,
                    "not-found",
                    "Unknown resource. Known: session, " + String.join(", ", new TreeSet<>(data.resources())));
        }
        boolean changeable = address.part == null
                && data.changeParameters(List.of(address.resource, "any")).isPresent();
        if (!isAllowed(request, changeable)) {
            return otherMethod(changeable);
        }
        return request.isRead() ? read(address, request) : change(address.resource, request);
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

    private DashboardResponse read(Address address, DashboardRequest request) {
        Map<String, String> parameters = Parameters.ofQuery(request.query());
        String id = parameters.remove(ID);
        List<String> path = address.path(id == null || id.isEmpty() ? null : id);
        Set<String> known = data.readParameters(path).orElse(null);
        if (known == null) {
            throw RefusedRequestException.invalid("Unknown parameter 'id'. Known: "
                    + new TreeSet<>(
                            data.readParameters(List.of(address.resource)).orElse(Set.of())));
        }
        Parameters.requireKnown(parameters, known);
        boolean values = request.visitor().may(Permission.VALUES);
        return reads.get(
                new SharedReads.Key(path, parameters, values), () -> json(200, data.read(path, parameters, values)));
    }

    private DashboardResponse change(String resource, DashboardRequest request) {
        Visitor visitor = request.visitor();
        require(visitor, Permission.OPERATE);
        requireSameSite(request);
        String type = String.valueOf(request.header("Content-Type")).toLowerCase(Locale.ROOT);
        if (!type.matches("application/json\\s*(;.*)?")) {
            throw new RefusedRequestException(415, "invalid", "The content type must be application/json");
        }
        if (request.body().length > DashboardRequest.LARGEST_BODY) {
            throw new RefusedRequestException(
                    413, "invalid", "The body is larger than %d bytes".formatted(DashboardRequest.LARGEST_BODY));
        }
        Parameters.requireKnown(Parameters.ofQuery(request.query()), Set.of());
        Map<String, String> parameters = Parameters.ofBody(request.body());
        Parameters.requireNoneEmpty(parameters);
        String id = parameters.remove(ID);
        String state = parameters.remove("state");
        List<String> path = id == null ? List.of(resource) : List.of(resource, id);
        Set<String> known = data.changeParameters(path)
                .orElseThrow(() -> RefusedRequestException.invalid("Parameter 'id' is missing"));
        Parameters.requireKnown(parameters, known);
        if (state == null) {
            throw RefusedRequestException.invalid("Parameter 'state' is missing");
        }
        var author = new Author(visitor.user(), request.address(), visitor.may(Permission.VALUES));
        try {
            return json(200, data.change(path, state, parameters, author));
        } finally {
            reads.clear();
        }
    }

    /**
     * The application's filter has compared the token already, unless the application excludes this path. Then the header alone is
     * the protection: other sites cannot set it.
     */
    private static void requireSameSite(DashboardRequest request) {
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
            throw new RefusedRequestException(403, "csrf", "Changes are accepted from the dashboard only");
        }
    }

    private static final String NO_CSRF =
            "The application's CSRF protection is off, so the dashboard changes nothing. Enable it for the dashboard's path.";

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
                    403, "read-only", "The dashboard changes nothing, because the application has no Spring Security");
        }
        if (visitor.user() == null) {
            throw new RefusedRequestException(401, "unauthenticated", "Log in to the application first");
        }
        throw new RefusedRequestException(
                403,
                "forbidden",
                "This needs one of the authorities in forge.cluster.dashboard.authorities." + permission.text());
    }

    private static boolean isAllowed(DashboardRequest request, boolean changeable) {
        return request.isRead() || (changeable && request.method().equals("POST"));
    }

    private static DashboardResponse otherMethod(boolean changeable) {
        String allowed = changeable ? "GET, HEAD, POST" : "GET, HEAD";
        return refusal(new RefusedRequestException(405, "invalid", "Allowed methods: " + allowed))
                .withHeader("Allow", allowed);
    }

    private static DashboardResponse refusal(RefusedRequestException e) {
        DashboardResponse response =
                json(e.status(), Map.of("error", String.valueOf(e.getMessage()), "code", e.code()));
        return e.status() == 503 ? response.withHeader("Retry-After", "2") : response;
    }

    private static DashboardResponse json(int status, Object body) {
        return new DashboardResponse(
                status,
                Map.of("Content-Type", "application/json", "Cache-Control", "no-store"),
                JSON.writeValueAsBytes(body));
    }
}
