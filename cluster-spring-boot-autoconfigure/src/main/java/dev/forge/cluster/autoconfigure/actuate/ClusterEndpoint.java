// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.ClusterDescriptor;
import dev.forge.cluster.autoconfigure.operations.ClusterOperations;
import dev.forge.cluster.autoconfigure.operations.HiddenValuesException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.JobsDescriptor;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import java.security.Principal;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Supplier;
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
 * {@code /actuator/forgecluster}: shows the state of the cluster, and changes the state of its nodes, jobs, crons, daemons and runs.
 * Translates requests and results of {@link ClusterOperations}.
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

    /** Returns the overview. */
    @ReadOperation
    public ClusterDescriptor cluster() {
        return operations.overview();
    }

    /**
     * Returns the descriptor of a resource, such as {@link JobsDescriptor}, or of one of its entries.
     *
     * @param user the user; null means an anonymous one
     * @param name returns only entries of that name, for jobs and workflows
     * @param status returns only entries with that status, for jobs and workflows
     * @param after returns only entries after that name, id or key, for crons, limits, batches, workflows and rate limits; continues a search,
     *     for jobs: {@link JobsDescriptor#next()}
     * @param limit the largest number of entries
     * @param tag returns only jobs with that tag; several with commas: with all of them
     * @param group returns only jobs of that group
     * @param batch returns only jobs of that batch
     * @param key returns only jobs with that unique key
     * @param metadata returns only jobs with that entry, {@code key=value}
     * @param error returns only jobs whose error contains that text
     * @param createdFrom returns only jobs that were enqueued then or later
     * @param createdBefore returns only jobs that were enqueued earlier
     * @param finishedFrom returns only jobs that ended then or later
     * @param finishedBefore returns only jobs that ended earlier
     * @param ids returns only jobs with one of these ids, with commas
     * @param version returns only runs of that version, for workflows
     * @param range the length of the time, for the history and the names of jobs
     * @param who returns only entries of that principal, for the audit trail
     * @param source returns only entries of that source, for the audit trail
     * @param action returns only entries of that action, for the audit trail
     * @param target returns only entries about that id or name, for the audit trail
     * @param before returns only entries before that id, for the audit trail
     * @param recent the number of latest slots of each cron, for crons
     * @param values masked or full, for the history of a run
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
            @Nullable String tag,
            @Nullable String group,
            @Nullable String batch,
            @Nullable String key,
            @Nullable String metadata,
            @Nullable String error,
            @Nullable String createdFrom,
            @Nullable String createdBefore,
            @Nullable String finishedFrom,
            @Nullable String finishedBefore,
            @Nullable String ids,
            @Nullable String version,
            @Nullable String range,
            @Nullable String who,
            @Nullable String source,
            @Nullable String action,
            @Nullable String target,
            @Nullable Long before,
            @Nullable Integer recent,
            @Nullable String values,
            @Selector(match = Match.ALL_REMAINING) String... path) {
        var given = new HashMap<String, @Nullable Object>();
        given.put("name", name);
        given.put("status", status);
        given.put("after", after);
        given.put("limit", limit);
        given.put("tag", tag);
        given.put("group", group);
        given.put("batch", batch);
        given.put("key", key);
        given.put("metadata", metadata);
        given.put("error", error);
        given.put("createdFrom", createdFrom);
        given.put("createdBefore", createdBefore);
        given.put("finishedFrom", finishedFrom);
        given.put("finishedBefore", finishedBefore);
        given.put("ids", ids);
        given.put("version", version);
        given.put("range", range);
        given.put("who", who);
        given.put("source", source);
        given.put("action", action);
        given.put("target", target);
        given.put("before", before);
        given.put("recent", recent);
        given.put("values", values);
        return response(
                () -> operations.read(caller(user), List.of(path), texts(given)),
                // Spring Boot turns null into a response with status 404.
                notFound -> null);
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
     * @param payload for a job that is retried or duplicated: another payload, as JSON
     * @param signal for a run: the name of the signal
     * @param value for a run: the value of the signal, as JSON
     * @param reason why the caller makes the change; needed for the states {@code cancelled} and {@code deleted}
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
            @Nullable String batch,
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
            @Nullable Integer weight,
            @Nullable String ids,
            @Nullable String payload,
            @Nullable String signal,
            @Nullable String value,
            @Nullable String reason) {
        var given = new HashMap<String, @Nullable Object>();
        given.put("everyJob", everyJob);
        given.put("preview", preview);
        given.put("at", at);
        given.put("limit", limit);
        given.put("after", after);
        given.put("name", name);
        given.put("status", status);
        given.put("tag", tag);
        given.put("group", group);
        given.put("batch", batch);
        given.put("key", key);
        given.put("metadata", metadata);
        given.put("error", error);
        given.put("createdFrom", createdFrom);
        given.put("createdBefore", createdBefore);
        given.put("finishedFrom", finishedFrom);
        given.put("finishedBefore", finishedBefore);
        given.put("concurrency", concurrency);
        given.put("groupConcurrency", groupConcurrency);
        given.put("groupRate", groupRate);
        given.put("groupBurst", groupBurst);
        given.put("weight", weight);
        given.put("ids", ids);
        given.put("payload", payload);
        given.put("signal", signal);
        given.put("value", value);
        given.put("reason", reason);
        return response(
                () -> operations.change(caller(user), List.of(path), state, texts(given)),
                // Spring Boot would turn null into a successful response to a POST.
                notFound -> error(WebEndpointResponse.STATUS_NOT_FOUND, notFound.message()));
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

    private static Map<String, String> texts(Map<String, @Nullable Object> given) {
        var texts = new HashMap<String, String>();
        given.forEach((parameter, value) -> {
            if (value != null) {
                texts.put(parameter, value.toString());
            }
        });
        return texts;
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
            return found.descriptor();
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
