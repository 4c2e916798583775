// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.Page;
import dev.forge.cluster.autoconfigure.operations.Caller;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer.Sanitized;
import dev.forge.cluster.internal.job.operate.JobRelationReports;
import dev.forge.cluster.internal.job.operate.JobRelationReports.Relations;
import dev.forge.cluster.internal.job.operate.JobReports;
import dev.forge.cluster.internal.job.row.JobNameStore;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.EnqueuedJob;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Jobs;
import dev.forge.cluster.job.operations.BulkResult;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobLogLine;
import dev.forge.cluster.job.operations.JobOperations;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The resource {@code jobs}: lists jobs, shows one, cancels, retries and duplicates jobs, pauses and resumes job names. */
final class JobsResource extends Resource {

    private static final int DEFAULT_LIMIT = 50;
    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList(
                    ResourceParameters.together(JobQuery.PARAMETERS, "after", "limit")
                            .toArray(String[]::new))
            .withEntry()
            .withChange("payload")
            .withChangeOfAll(JobsChange.PARAMETERS);

    private final Jobs jobs;
    private final JobOperations operations;
    private final Reports reports;
    private final ValueSanitizer values;

    /** The queries behind the resource, besides those of {@link JobOperations}. */
    record Reports(JobReports jobs, JobNameStore names, JobRelationReports relations, NodeReports nodes) {}

    JobsResource(Jobs jobs, JobOperations operations, Reports reports, ValueSanitizer values) {
        super("jobs", PARAMETERS);
        this.jobs = jobs;
        this.operations = operations;
        this.reports = reports;
        this.values = values;
    }

    /** Returns the number of unfinished jobs by status; at most 10,000 pending jobs of each name are counted. */
    Map<String, Long> counts() {
        var counts = new TreeMap<String, Long>();
        reports.jobs
                .unfinished()
                .forEach(count -> counts.merge(EnumText.hyphenated(count.status()), count.jobs(), Long::sum));
        return counts;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        if (!request.hasEntry()) {
            return request.result(list(request));
        }
        List<String> path = request.path();
        if (path.size() == 3 && path.get(2).equals("logs")) {
            return request.result(logs(path.get(1), request.caller()));
        }
        return request.result(path.size() == 2 ? find(path.get(1), request.caller()) : null);
    }

    /** Returns a page of the jobs of a filter without large values; {@link JobOperations#search(dev.forge.cluster.job.operations.JobFilter, int, String)} states its bounds and its order. */
    private JsonObject list(OperationRequest request) {
        Sanitized shown = values.shownTo(request.caller());
        try {
            int limit = request.limit(DEFAULT_LIMIT);
            Page<JobInfo> page = operations.search(new JobQuery(request).filter(), limit, request.text("after"));
            Map<UUID, Relations> relations =
                    reports.relations.of(page.items().stream().map(JobInfo::id).toList());
            Map<UUID, String> nodes = reports.nodes.names(page.items().stream()
                    .flatMap(job -> Stream.ofNullable(job.nodeId()))
                    .collect(Collectors.toSet()));
            return new JsonObject()
                    .with("paused", operations.paused())
                    .with(
                            "jobs",
                            page.items().stream()
                                    .map(job -> related(shown.summary(job), job, relations, nodes))
                                    .toList())
                    .with("cutOff", page.next() != null && page.items().size() < limit)
                    .with("next", page.next());
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
    }

    /** Adds the name of the node, and other jobs. */
    private static JsonObject related(
            JsonObject object, JobInfo job, Map<UUID, Relations> relations, Map<UUID, String> nodes) {
        Relations others = relations.getOrDefault(job.id(), Relations.NONE);
        return object.with("nodeName", nameOf(job.nodeId(), nodes))
                .with("waitsFor", orAbsent(others.waitsFor()))
                .with("waitsForBatch", others.batch())
                .with("awaitedBy", orAbsent(others.awaitedBy()));
    }

    private static @Nullable String nameOf(@Nullable UUID node, Map<UUID, String> nodes) {
        return node == null ? null : nodes.get(node);
    }

    private static <T> @Nullable List<T> orAbsent(List<T> list) {
        return list.isEmpty() ? null : list;
    }

    /** Returns one job with its values and the reason why it is not running; null if there is no such job. */
    private @Nullable JsonObject find(String id, Caller caller) {
        UUID job = requiredJobId(id);
        JobInfo info = jobs.find(job).orElse(null);
        if (info == null) {
            return null;
        }
        Map<UUID, String> nodes = reports.nodes.names(Stream.concat(
                        Stream.ofNullable(info.nodeId()),
                        info.attemptHistory().stream().flatMap(attempt -> Stream.ofNullable(attempt.nodeId())))
                .collect(Collectors.toSet()));
        Sanitized shown = values.shownTo(caller);
        JsonObject object = related(shown.object(info), info, reports.relations.of(List.of(job)), nodes);
        boolean whole = shown.isWhole(info.payload(), object.get("payload"));
        return object.with("payloadText", whole ? info.payload() : null)
                .with(
                        "attemptHistory",
                        orAbsent(info.attemptHistory().stream()
                                .map(attempt -> shown.object(attempt).with("nodeName", nameOf(attempt.nodeId(), nodes)))
                                .toList()))
                .with("explanation", explanation(operations.explain(job), info, object, shown));
    }

    /** Returns the explanation with what is shown of the unique key, the group and the signal that it names. */
    private static JsonObject explanation(JobExplanation explanation, JobInfo job, JsonObject object, Sanitized shown) {
        var shownOf = new HashMap<String, @Nullable Object>();
        note(shownOf, job.uniqueKey(), object.get("uniqueKey"));
        note(shownOf, job.group(), object.get("group"));
        note(shownOf, explanation.signal(), shown.value("awaits", explanation.signal()));
        return shown.object(explanation).with("text", masked(explanation.text(), shownOf));
    }

    /** A value that has two roles is shown only if it is shown in both. */
    private static void note(Map<String, @Nullable Object> shownOf, @Nullable String named, @Nullable Object shown) {
        if (named != null && !(named.equals(shown) && shownOf.containsKey(named))) {
            shownOf.put(named, shown);
        }
    }

    /** Replaces values that an explanation names by what is shown of them. In one pass: what is shown is not replaced again. */
    static String masked(String text, Map<String, @Nullable Object> shownOf) {
        if (shownOf.isEmpty()) {
            return text;
        }
        // The longest first: a value may contain another one and a quote.
        String named = shownOf.keySet().stream()
                .sorted(Comparator.comparing(String::length).reversed())
                .map(Pattern::quote)
                .collect(Collectors.joining("|", "'(", ")'"));
        return Pattern.compile(named)
                .matcher(text)
                .replaceAll(found -> Matcher.quoteReplacement("'" + shownOf.get(found.group(1)) + "'"));
    }

    /** Returns the lines that the handler has logged for a job; null if there is no such job. */
    private @Nullable JsonObject logs(String id, Caller caller) {
        UUID job = requiredJobId(id);
        List<JobLogLine> lines = operations.logs(job);
        return lines.isEmpty() && jobs.find(job).isEmpty()
                ? null
                : new JsonObject()
                        .with("id", job)
                        .with("lines", values.shownTo(caller).objects(lines));
    }

    @Override
    protected OperationResult change(OperationRequest request, String state) {
        return request.entry().isEmpty()
                ? request.result(changeAll(state, new JobsChange(request), values.shownTo(request.caller())))
                : changeState(request, state);
    }

    /** Changes all jobs that match a query. */
    private JsonObject changeAll(String state, JobsChange change, Sanitized shown) {
        try {
            BulkResult result = switch (state) {
                case "cancelled" -> operations.cancelAll(change.filter(), change.options());
                case "retry" -> operations.retryAll(change.filter(), change.options());
                case "deleted" -> operations.deleteAll(change.filter(), change.options());
                case "rescheduled" -> operations.rescheduleAll(change.filter(), change.at(), change.options());
                default ->
                    throw new InvalidOperationException(
                            "Unsupported state '%s' for all jobs of a query: use 'cancelled', 'retry', 'rescheduled' or 'deleted'; for one job or name, POST to jobs/{name or id}"
                                    .formatted(state));
            };
            return shown.object(result).with("preview", change.preview());
        } catch (JobRejectedException | MutationRefusedException | IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
    }

    /** Changes the state of one job, by id, or of all jobs of a name. */
    private OperationResult changeState(OperationRequest request, String state) {
        UUID job = jobId(request.entry());
        String payload = request.text("payload");
        try {
            if (payload != null) {
                requireMayEdit(request.caller(), job, state);
            }
            return job == null ? changeNameState(request, state) : request.result(changeJobState(job, state, payload));
        } catch (JobRejectedException e) {
            if (job != null && state.equals("duplicated") && !request.caller().seesValues()) {
                throw new InvalidOperationException(
                        "The job was rejected. Only users who may see values are told why: the reason may quote them.");
            }
            throw InvalidOperationException.because(e);
        } catch (MutationRefusedException e) {
            throw InvalidOperationException.because(e);
        }
    }

    private static void requireMayEdit(Caller caller, @Nullable UUID job, String state) {
        if (job == null || !(state.equals("retry") || state.equals("duplicated"))) {
            throw new InvalidOperationException(
                    "The parameter 'payload' needs the state 'retry' or 'duplicated' of one job");
        }
        if (!caller.seesValues()) {
            // What was shown as the old payload is masked, and would become the new one.
            throw new InvalidOperationException("A payload can be replaced only by users who may see payloads");
        }
    }

    /** @param payload another payload, as JSON; null: that of the job */
    private @Nullable JsonObject changeJobState(UUID job, String state, @Nullable String payload) {
        BooleanSupplier change = switch (state) {
            case "cancelled" -> () -> jobs.cancel(job);
            case "retry" -> () -> payload == null ? jobs.retry(job) : operations.retryWithPayload(job, payload);
            case "duplicated" -> null;
            default ->
                throw new InvalidOperationException(
                        "Unsupported state '%s' for a job: use 'cancelled', 'retry' or 'duplicated'".formatted(state));
        };
        if (change == null) {
            return duplicate(job, payload);
        }
        boolean changed = change.getAsBoolean();
        JobInfo info = jobs.find(job).orElse(null);
        if (info == null) {
            return null;
        }
        String status = EnumText.hyphenated(info.status());
        if (!changed) {
            throw new InvalidOperationException(
                    "Job %s is %s: state '%s' is not possible".formatted(job, status, state));
        }
        return new JsonObject().with("id", job).with("status", status);
    }

    private @Nullable JsonObject duplicate(UUID job, @Nullable String payload) {
        EnqueuedJob copy = operations.enqueueCopy(job, payload).orElse(null);
        if (copy == null) {
            return null;
        }
        if (!copy.created()) {
            throw new InvalidOperationException(
                    "Job %s was not duplicated: job %s has its unique key".formatted(job, copy.id()));
        }
        return new JsonObject().with("id", copy.id()).with("status", EnumText.hyphenated(JobStatus.PENDING));
    }

    private OperationResult changeNameState(OperationRequest request, String state) {
        String name = request.entry();
        switch (state) {
            case "paused" -> {
                try {
                    jobs.pause(name);
                } catch (JobRejectedException e) {
                    return new OperationResult.NotFound(String.valueOf(e.getMessage()));
                }
            }
            case "running" -> {
                // Resuming a name that is not paused succeeds without a change.
                if (!jobs.resume(name) && !reports.names.knows(name)) {
                    return request.notFound();
                }
            }
            default ->
                throw new InvalidOperationException(
                        "Unsupported state '%s' for jobs named '%s': use 'paused' or 'running'".formatted(state, name));
        }
        return request.result(new JsonObject().with("name", name).with("state", state));
    }

    private static UUID requiredJobId(String text) {
        UUID id = jobId(text);
        if (id == null) {
            throw new InvalidOperationException("'%s' is not a job id".formatted(text));
        }
        return id;
    }

    /** Parses a job id in its canonical form; null for any other text, which may be a job name. */
    private static @Nullable UUID jobId(String text) {
        try {
            UUID id = UUID.fromString(text);
            return id.toString().equalsIgnoreCase(text) ? id : null;
        } catch (IllegalArgumentException e) {
            return null;
        }
    }
}
