// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.actuate.EndpointClient.Response;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.springframework.context.ApplicationContext;
import tools.jackson.databind.json.JsonMapper;

/** Calls the HTTP API of an application without a web stack. */
public final class ApiClient {

    private static final JsonMapper JSON = JsonMapper.builder().build();
    private static final Map<String, String> HEADERS =
            Map.of("Content-Type", "application/json", "X-CSRF-TOKEN", "secret");

    private final OperationsApi api;
    private final Visitor visitor;

    private ApiClient(OperationsApi api, Set<Permission> permissions) {
        this.api = api;
        this.visitor = new Visitor("alice", permissions, () -> new Visitor.Csrf("X-CSRF-TOKEN", "secret"));
    }

    /** Returns a client of a user with all permissions. */
    public static ApiClient of(ApplicationContext context) {
        var nanos = new AtomicLong();
        return new ApiClient(
                new OperationsApi(
                        Access.SECURED,
                        context.getBean(ClusterOperations.class),
                        () -> new OperationsApi.About("orders", "1.0", "id", "node-1", null),
                        // So fast that no response is shared: tests want to see what they have changed.
                        () -> nanos.addAndGet(Duration.ofMinutes(1).toNanos())),
                Set.of(Permission.values()));
    }

    /** Returns a client of a user who may not see values. */
    public ApiClient blind() {
        return new ApiClient(api, Set.of(Permission.VIEW, Permission.OPERATE));
    }

    /** Reads a resource, an entry of it, or a part of an entry. */
    public Response get(String... path) {
        return get(Map.of(), path);
    }

    /** Reads with parameters. */
    public Response get(Map<String, ?> query, String... path) {
        var parameters = new TreeMap<String, Object>(query);
        if (path.length > 1) {
            parameters.put("id", path[1]);
        }
        String text = parameters.entrySet().stream()
                .map(entry -> entry.getKey() + "="
                        + URLEncoder.encode(String.valueOf(entry.getValue()), StandardCharsets.UTF_8))
                .collect(Collectors.joining("&"));
        return send("GET", path.length > 2 ? path[0] + "/" + path[2] : path[0], text, new byte[0]);
    }

    /** Changes the state of an entry. */
    public Response post(String state, String... path) {
        return change(Map.of("state", state, "reason", "test"), path);
    }

    /** Changes an entry, or all that match the members. */
    public Response change(Map<String, ?> members, String... path) {
        var body = new LinkedHashMap<String, Object>(members);
        if (path.length > 1) {
            body.put("id", path[1]);
        }
        return send("POST", path[0], "", JSON.writeValueAsBytes(body));
    }

    private Response send(String method, String path, String query, byte[] body) {
        SiteResponse response = api.serve(
                new SiteRequest(method, "/v1/" + path, query, HEADERS::get, "192.0.2.7", body, visitor),
                AuditSource.HTTP);
        return new Response(response.status(), JSON.readValue(response.body(), Object.class));
    }
}
