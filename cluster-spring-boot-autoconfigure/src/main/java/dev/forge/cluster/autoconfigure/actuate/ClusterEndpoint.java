package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeStore;
import dev.forge.cluster.internal.runtime.Names;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.Access;
import org.springframework.boot.actuate.endpoint.InvalidEndpointRequestException;
import org.springframework.boot.actuate.endpoint.SecurityContext;
import org.springframework.boot.actuate.endpoint.annotation.Endpoint;
import org.springframework.boot.actuate.endpoint.annotation.ReadOperation;
import org.springframework.boot.actuate.endpoint.annotation.Selector;
import org.springframework.boot.actuate.endpoint.annotation.Selector.Match;
import org.springframework.boot.actuate.endpoint.annotation.WriteOperation;
import org.springframework.boot.actuate.endpoint.web.WebEndpointResponse;

/** {@code /actuator/forgecluster}: what the cluster knows of itself, and orders to it. */
@Endpoint(id = "forgecluster", defaultAccess = Access.READ_ONLY)
public final class ClusterEndpoint {

    private static final Set<String> ORDERED = Set.of("nodes", "jobs", "crons", "daemons", "workflows");

    private final String clusterName;
    private final Node node;
    private final Stores stores;
    private final JobsResource jobs;
    private final LocksResource locks;
    private final CronsResource crons;
    private final DaemonsResource daemons;
    private final @Nullable WorkflowsResource workflows;

    /** Where it reads. */
    record Stores(NodeStore nodes, LeaderStore leaders, LockStore locks) {}

    ClusterEndpoint(
            String clusterName,
            Node node,
            Stores stores,
            JobsResource jobs,
            CronsResource crons,
            DaemonsResource daemons,
            @Nullable WorkflowsResource workflows) {
        this.workflows = workflows;
        this.crons = crons;
        this.jobs = jobs;
        this.daemons = daemons;
        this.clusterName = clusterName;
        this.node = node;
        this.stores = stores;
        this.locks = new LocksResource(stores.locks, jobs);
    }

    @ReadOperation
    public Map<String, Object> cluster() {
        var self = new LinkedHashMap<String, Object>();
        self.put("id", String.valueOf(node.id()));
        self.put("name", node.identity().name());
        self.put("state", ClusterLifecycle.word(node.state()));
        self.put("leads", node.rolesLed());
        var overview = new LinkedHashMap<String, Object>();
        overview.put("cluster", clusterName);
        overview.put("node", self);
        overview.put("leaders", stores.leaders.leaders());
        overview.put(
                "nodes",
                stores.nodes.all().stream()
                        .collect(Collectors.groupingBy(NodeStore.Row::status, TreeMap::new, Collectors.counting())));
        overview.put("jobs", jobs.counts());
        overview.put("daemons", daemons.counts());
        return overview;
    }

    @ReadOperation
    @Nullable
    public Object resource(
            @Nullable SecurityContext reader,
            @Nullable String name,
            @Nullable String status,
            @Nullable Integer limit,
            @Selector(match = Match.ALL_REMAINING) String... path) {
        return answer(
                () -> resource(new Query(name, status, limit, reader == null ? SecurityContext.NONE : reader), path));
    }

    /** What was asked for, besides the path. */
    private record Query(
            @Nullable String name,
            @Nullable String status,
            @Nullable Integer limit,
            SecurityContext reader) {}

    public @Nullable Object resource(Query query, String[] path) {
        requirePrintable("name", query.name);
        requirePrintable("status", query.status);
        requirePrintable("path", String.join("/", path));
        return switch (String.join("/", path)) {
            case "nodes" -> Map.of("nodes", stores.nodes.all());
            case "locks" -> locks.list(query.limit, query.reader);
            case "jobs" -> jobs.list(query.name, query.status, query.limit);
            case "crons" -> crons.list(query.reader);
            case "daemons" -> daemons.list(query.reader);
            case "workflows" -> workflows == null ? null : workflows.list(query.name, query.status, query.limit);
            default -> one(path, query.limit, query.reader);
        };
    }

    /** PostgreSQL refuses a NUL as a failure of its own, which would be the server's fault and not the client's. */
    private static void requirePrintable(String what, @Nullable String text) {
        if (text != null) {
            try {
                Names.requirePrintable(what, text);
            } catch (IllegalArgumentException e) {
                throw new InvalidEndpointRequestException(String.valueOf(e.getMessage()), "Not printable", e);
            }
        }
    }

    private @Nullable Object one(String[] path, @Nullable Integer limit, SecurityContext reader) {
        String name = name(path);
        return switch (path[0]) {
            case "jobs" -> path.length == 2 ? jobs.one(name, reader) : null;
            case "crons" -> crons.one(name, limit, reader);
            case "daemons" -> daemons.one(name, reader);
            case "workflows" -> workflows == null || path.length != 2 ? null : workflows.one(name, reader);
            default -> null;
        };
    }

    /** What follows the resource; names may hold slashes. */
    private static String name(String[] path) {
        return String.join("/", List.of(path).subList(1, path.length));
    }

    @WriteOperation
    @Nullable
    public Object order(@Selector(match = Match.ALL_REMAINING) String[] path, String state) {
        Object answer = answer(() -> obey(path, state));
        // Without an answer a POST has succeeded in the eyes of Spring Boot.
        return answer == null ? notFound("there is no '%s'".formatted(String.join("/", path))) : answer;
    }

    static WebEndpointResponse<Map<String, String>> notFound(String message) {
        return new WebEndpointResponse<>(Map.of("error", message), WebEndpointResponse.STATUS_NOT_FOUND);
    }

    /** Says in the body what is wrong with a request: what Spring Boot makes of the exception keeps it to itself. */
    private static @Nullable Object answer(Supplier<@Nullable Object> operation) {
        try {
            return operation.get();
        } catch (InvalidEndpointRequestException e) {
            return new WebEndpointResponse<>(
                    Map.of("error", String.valueOf(e.getMessage())), WebEndpointResponse.STATUS_BAD_REQUEST);
        }
    }

    /** Null if there is no such thing. */
    private @Nullable Object obey(String[] path, String state) {
        requirePrintable("path", String.join("/", path));
        requirePrintable("state", state);
        String name = name(path);
        if (name.isEmpty() && ORDERED.contains(path[0])) {
            String message = "an order to all %1$s at once is unknown; POST %1$s/{one of them}".formatted(path[0]);
            throw new InvalidEndpointRequestException(message, message);
        }
        return switch (path[0]) {
            case "jobs" -> jobs.order(name, state);
            case "crons" -> crons.order(name, state);
            case "daemons" -> daemons.order(name, state);
            case "nodes" -> orderNode(name, state);
            case "workflows" -> workflows == null ? null : workflows.order(name, state);
            default -> null;
        };
    }

    private @Nullable Object orderNode(String node, String state) {
        if (!state.equals("draining")) {
            throw new InvalidEndpointRequestException(
                    "state '%s' of a node cannot be ordered; 'draining' can".formatted(state),
                    "A node takes the state draining only");
        }
        return stores.nodes.drain(id(node)) ? Map.of("id", node, "state", state) : null;
    }

    private static UUID id(String text) {
        try {
            return UUID.fromString(text);
        } catch (IllegalArgumentException e) {
            throw new InvalidEndpointRequestException("'%s' is not the id of a node".formatted(text), "Not an id");
        }
    }
}
