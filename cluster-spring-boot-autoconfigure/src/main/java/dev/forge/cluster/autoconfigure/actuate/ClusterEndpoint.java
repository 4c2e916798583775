// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.EnumText;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
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

/** {@code /actuator/forgecluster}: shows the state of the cluster, and changes the state of its nodes, jobs, crons, daemons and runs. */
@Endpoint(id = "forgecluster", defaultAccess = Access.READ_ONLY)
public final class ClusterEndpoint {

    private static final Set<String> CHANGEABLE =
            Set.of("nodes", "jobs", "limits", "batches", "crons", "daemons", "workflows");

    /** How many requests may read resources at a time: they use the application's pool and may load large values. */
    static final int CONCURRENT_READS = 2;

    /** How many further requests may wait: each has a thread of the web server. */
    private static final int MOST_WAITING = 8;

    private static final Duration READ_PATIENCE = Duration.ofSeconds(5);

    private final Semaphore reads = new Semaphore(CONCURRENT_READS, true);
    private final String clusterName;
    private final Node node;
    private final LeaderStore leaders;
    private final Resources resources;

    /**
     * The resources below the endpoint.
     *
     * @param workflows null if the application has no workflow engine
     */
    record Resources(
            NodesResource nodes,
            LocksResource locks,
            JobsResource jobs,
            LimitsResource limits,
            BatchesResource batches,
            DemandResource demand,
            CronsResource crons,
            DaemonsResource daemons,
            @Nullable WorkflowsResource workflows) {}

    ClusterEndpoint(String clusterName, Node node, LeaderStore leaders, Resources resources) {
        this.clusterName = clusterName;
        this.node = node;
        this.leaders = leaders;
        this.resources = resources;
    }

    /** Returns the overview. */
    @ReadOperation
    public ClusterDescriptor cluster() {
        return new ClusterDescriptor(
                clusterName,
                new ClusterDescriptor.ThisNode(
                        String.valueOf(node.id()),
                        node.identity().name(),
                        EnumText.hyphenated(node.state()),
                        node.rolesLed()),
                leaders.leaders().stream()
                        .map(leader -> new ClusterDescriptor.Leader(
                                leader.role(), leader.node(), leader.term(), leader.acquiredAt()))
                        .toList(),
                resources.nodes.counts(),
                resources.jobs.counts(),
                resources.daemons.counts());
    }

    /**
     * Returns the descriptor of a resource, such as {@link JobsDescriptor}, or of one of its entries.
     *
     * @param user the user; null means an anonymous one
     * @param name returns only entries of that name, for jobs and workflows
     * @param status returns only entries with that status, for jobs and workflows
     * @param after returns only entries after that name, for crons and limits; continues a search, for jobs: {@link
     *     JobsDescriptor#next()}
     * @param limit the largest number of entries
     * @param tag returns only jobs with that tag; several with commas: with all of them
     * @param group returns only jobs of that group
     * @param key returns only jobs with that unique key
     * @param metadata returns only jobs with that entry, {@code key=value}
     * @param error returns only jobs whose error contains that text
     * @param createdFrom returns only jobs that were enqueued then or later
     * @param createdBefore returns only jobs that were enqueued earlier
     * @param finishedFrom returns only jobs that ended then or later
     * @param finishedBefore returns only jobs that ended earlier
     * @param path the resource, followed by the name or id of an entry
     * @return null if there is no such resource or entry; a response with status 400 if a parameter is invalid, and with status 503
     *     if too many other requests read
     */
    @ReadOperation
    @Nullable
    public Object resource(
            @Nullable SecurityContext user,
            @Nullable String name,
            @Nullable String status,
            @Nullable String after,
            @Nullable Integer limit,
            @Nullable String tag,
            @Nullable String group,
            @Nullable String key,
            @Nullable String metadata,
            @Nullable String error,
            @Nullable String createdFrom,
            @Nullable String createdBefore,
            @Nullable String finishedFrom,
            @Nullable String finishedBefore,
            @Selector(match = Match.ALL_REMAINING) String... path) {
        var jobs = new JobQuery(
                name,
                status,
                tag,
                group,
                key,
                metadata,
                error,
                createdFrom,
                createdBefore,
                finishedFrom,
                finishedBefore);
        var query = new Query(name, status, after, limit, user == null ? SecurityContext.NONE : user, jobs);
        return orBadRequest(() -> oneOfFew(() -> read(query, path)));
    }

    /** Bounds what readers take from the application: each waits for its turn, and gets status 503 if it does not come soon. */
    private @Nullable Object oneOfFew(Supplier<@Nullable Object> read) {
        try {
            if (reads.getQueueLength() >= MOST_WAITING
                    || !reads.tryAcquire(READ_PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
                return new WebEndpointResponse<>(
                        Map.of("error", "Too many requests read at the same time. Try again later."),
                        WebEndpointResponse.STATUS_SERVICE_UNAVAILABLE);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("Interrupted while waiting to read", e);
        }
        try {
            return read.get();
        } finally {
            reads.release();
        }
    }

    private record Query(
            @Nullable String name,
            @Nullable String status,
            @Nullable String after,
            @Nullable Integer limit,
            SecurityContext user,
            JobQuery jobs) {}

    private @Nullable Object read(Query query, String[] path) {
        query.jobs.requirePrintable();
        EndpointRequests.requirePrintable("after", query.after);
        EndpointRequests.requirePrintable("path", String.join("/", path));
        WorkflowsResource workflows = resources.workflows;
        return switch (String.join("/", path)) {
            case "nodes" -> resources.nodes.list();
            case "locks" -> resources.locks.list(query.limit, query.user);
            case "jobs" -> resources.jobs.list(query.jobs, query.after, query.limit, query.user);
            case "limits" -> resources.limits.list(query.after, query.limit);
            case "batches" -> resources.batches.list(query.limit, query.user);
            case "demand" -> resources.demand.read();
            case "crons" -> resources.crons.list(query.after, query.limit, query.user);
            case "daemons" -> resources.daemons.list(query.user);
            case "workflows" -> workflows == null ? null : workflows.list(query.name, query.status, query.limit);
            default -> readEntry(path, query.limit, query.user);
        };
    }

    private @Nullable Object readEntry(String[] path, @Nullable Integer limit, SecurityContext user) {
        String entry = entry(path);
        WorkflowsResource workflows = resources.workflows;
        return switch (path[0]) {
            case "jobs" -> readJob(path, user);
            case "limits" -> resources.limits.find(entry, limit, user);
            case "batches" -> path.length == 2 ? resources.batches.find(entry, user) : null;
            case "crons" -> resources.crons.find(entry, limit, user);
            case "daemons" -> resources.daemons.find(entry, user);
            case "workflows" -> workflows == null || path.length != 2 ? null : workflows.find(entry, user);
            default -> null;
        };
    }

    private @Nullable Object readJob(String[] path, SecurityContext user) {
        if (path.length == 3 && path[2].equals("logs")) {
            return resources.jobs.logs(path[1], user);
        }
        return path.length == 2 ? resources.jobs.find(path[1], user) : null;
    }

    /** Joins the path behind the resource: names may contain slashes. */
    private static String entry(String[] path) {
        return String.join("/", List.of(path).subList(1, path.length));
    }

    /**
     * Changes the state of an entry of a resource.
     *
     * @param user the user; null means an anonymous one
     * @param path the resource, followed by the name or id of the entry; only the resource {@code jobs}: all jobs that match the other
     *     parameters, which are those of {@link #resource}
     * @param state the requested state
     * @param everyJob whether an operation on jobs without a condition is meant
     * @param preview whether jobs are only counted
     * @param at the time for the state {@code rescheduled}
     * @param limit the largest number of jobs to change
     * @param after continues an operation on jobs
     * @param concurrency for limits: the number of jobs that may run at the same time
     * @param groupConcurrency for limits: the number of jobs of one group that may run at the same time
     * @param groupRate for limits: how often jobs of one group start, for example 10/s
     * @param groupBurst for limits: how many jobs of one group start at once after a quiet time
     * @param weight for limits: the number of jobs that the group starts whenever its turn comes
     * @param group for limits: the group that gets a weight; otherwise that of the jobs
     * @return the descriptor of the changed entry; a response with status 404 if there is no such entry, and with status 400 if the
     *     state is not possible
     */
    @WriteOperation
    @Nullable
    public Object changeState(
            @Nullable SecurityContext user,
            @Selector(match = Match.ALL_REMAINING) String[] path,
            String state,
            @Nullable Boolean everyJob,
            @Nullable Boolean preview,
            @Nullable String at,
            @Nullable Integer limit,
            @Nullable String after,
            @Nullable String name,
            @Nullable String status,
            @Nullable String tag,
            @Nullable String group,
            @Nullable String key,
            @Nullable String metadata,
            @Nullable String error,
            @Nullable String createdFrom,
            @Nullable String createdBefore,
            @Nullable String finishedFrom,
            @Nullable String finishedBefore,
            @Nullable Integer concurrency,
            @Nullable Integer groupConcurrency,
            @Nullable String groupRate,
            @Nullable Long groupBurst,
            @Nullable Integer weight) {
        boolean ofLimits = path.length > 0 && path[0].equals("limits");
        var limits = new LimitsResource.Change(
                concurrency, groupConcurrency, groupRate, groupBurst, ofLimits ? group : null, weight);
        var query = new JobQuery(
                name,
                status,
                tag,
                ofLimits ? null : group,
                key,
                metadata,
                error,
                createdFrom,
                createdBefore,
                finishedFrom,
                finishedBefore);
        var change = new JobsChange(
                query,
                Boolean.TRUE.equals(everyJob),
                Boolean.TRUE.equals(preview),
                at,
                limit,
                after,
                user == null ? SecurityContext.NONE : user);
        Object response = orBadRequest(() -> change(path, state, change, limits));
        // Spring Boot would turn null into a successful response to a POST.
        return response == null ? notFound("Not found: '%s'".formatted(String.join("/", path))) : response;
    }

    private @Nullable Object change(String[] path, String state, JobsChange jobs, LimitsResource.Change limits) {
        EndpointRequests.requirePrintable("path", String.join("/", path));
        EndpointRequests.requirePrintable("state", state);
        String entry = entry(path);
        if (entry.isEmpty() && path[0].equals("jobs")) {
            return resources.jobs.changeAll(state, jobs);
        }
        if (entry.isEmpty() && CHANGEABLE.contains(path[0])) {
            throw EndpointRequests.invalid(
                    "The state of all %1$s cannot be changed at once: POST to %1$s/{name or id}".formatted(path[0]));
        }
        if (!limits.isEmpty() && !path[0].equals("limits")) {
            throw EndpointRequests.invalid("Limits and weights are changed with a POST to limits/{name} only");
        }
        WorkflowsResource workflows = resources.workflows;
        return switch (path[0]) {
            case "limits" -> resources.limits.changeState(entry, state, limits);
            case "nodes" -> resources.nodes.changeState(entry, state);
            case "jobs" -> resources.jobs.changeState(entry, state);
            case "batches" -> resources.batches.changeState(entry, state, jobs.user());
            case "crons" -> resources.crons.changeState(entry, state);
            case "daemons" -> resources.daemons.changeState(entry, state);
            case "workflows" -> workflows == null ? null : workflows.changeState(entry, state);
            default -> null;
        };
    }

    static WebEndpointResponse<Map<String, String>> notFound(String message) {
        return new WebEndpointResponse<>(Map.of("error", message), WebEndpointResponse.STATUS_NOT_FOUND);
    }

    /** Puts the reason into the body: the response that Spring Boot makes of the exception does not contain it. */
    private static @Nullable Object orBadRequest(Supplier<@Nullable Object> operation) {
        try {
            return operation.get();
        } catch (InvalidEndpointRequestException e) {
            return new WebEndpointResponse<>(
                    Map.of("error", String.valueOf(e.getMessage())), WebEndpointResponse.STATUS_BAD_REQUEST);
        }
    }
}
