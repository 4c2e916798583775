// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.actuate.EndpointValues.Sanitized;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.AttemptDescriptor;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.BulkDescriptor;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.ExplanationDescriptor;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.JobDescriptor;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.JobLogsDescriptor;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.JobNameStateDescriptor;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.JobStatusDescriptor;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.JobSummaryDescriptor;
import dev.forge.cluster.autoconfigure.actuate.JobsDescriptor.LogLineDescriptor;
import dev.forge.cluster.internal.job.store.JobReports;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.BulkResult;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobExplanation;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPage;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/** {@code /actuator/forgecluster/jobs}: lists jobs, shows one, cancels and retries jobs, pauses and resumes job names. */
final class JobsResource {

    private static final int DEFAULT_LIMIT = 50;

    private final Jobs jobs;
    private final JobReports reports;
    private final EndpointValues values;

    JobsResource(Jobs jobs, JobReports reports, EndpointValues values) {
        this.jobs = jobs;
        this.reports = reports;
        this.values = values;
    }

    /** Returns the number of unfinished jobs by status; at most 10,000 pending jobs of each name are counted. */
    Map<String, Long> counts() {
        var counts = new TreeMap<String, Long>();
        reports.unfinished()
                .forEach(count -> counts.merge(EnumText.hyphenated(count.status()), count.jobs(), Long::sum));
        return counts;
    }

    /** Returns a page of the jobs of a filter without their values; {@link Jobs#search} states its bounds and its order. */
    JobsDescriptor list(JobQuery query, @Nullable String after, @Nullable Integer limit, SecurityContext user) {
        requireVisible(query, user);
        try {
            JobPage page = jobs.search(query.filter(), EndpointRequests.limit(limit, DEFAULT_LIMIT), after);
            return new JobsDescriptor(
                    jobs.paused(),
                    page.jobs().stream().map(JobsResource::summary).toList(),
                    page.examined(),
                    page.cutOff(),
                    page.next());
        } catch (IllegalArgumentException e) {
            throw EndpointRequests.refused(e);
        }
    }

    /** Rejects a search for values that the user may not see: the number of jobs that it finds would disclose them. */
    private void requireVisible(JobQuery query, SecurityContext user) {
        if (query.selectsByValue() && !values.shownTo(user).isShown()) {
            throw EndpointRequests.invalid(
                    "group, key, metadata and error select by values that are hidden from this user"
                            + " (management.endpoint.forgecluster.show-values)");
        }
    }

    private static JobSummaryDescriptor summary(JobInfo job) {
        return new JobSummaryDescriptor(
                job.id(),
                job.name(),
                EnumText.hyphenated(job.status()),
                job.priority(),
                job.capability(),
                job.createdAt(),
                job.scheduledAt(),
                job.startedAt(),
                job.finishedAt(),
                job.attempts(),
                job.maxAttempts(),
                job.recoveries(),
                job.epoch(),
                job.nodeId());
    }

    /** Returns one job with its values and the reason why it is not running; null if there is no such job. */
    @Nullable
    JobDescriptor find(String id, SecurityContext user) {
        UUID job = jobId(id);
        if (job == null) {
            throw EndpointRequests.invalid("'%s' is not a job id".formatted(id));
        }
        JobInfo info = jobs.find(job).orElse(null);
        return info == null ? null : descriptor(info, jobs.explain(job), values.shownTo(user));
    }

    /** Returns the lines that the handler has logged for a job; null if there is no such job. */
    @Nullable
    JobLogsDescriptor logs(String id, SecurityContext user) {
        UUID job = jobId(id);
        if (job == null) {
            throw EndpointRequests.invalid("'%s' is not a job id".formatted(id));
        }
        Sanitized shown = values.shownTo(user);
        List<LogLineDescriptor> lines = jobs.logs(job).stream()
                .map(line -> new LogLineDescriptor(
                        line.time(), line.attempt(), line.epoch(), shown.value("log", line.message())))
                .toList();
        return lines.isEmpty() && jobs.find(job).isEmpty() ? null : new JobLogsDescriptor(job, lines);
    }

    private static JobDescriptor descriptor(JobInfo job, JobExplanation explanation, Sanitized shown) {
        var metadata = new TreeMap<String, @Nullable Object>();
        job.metadata().forEach((key, value) -> metadata.put(key, shown.value("metadata." + key, value)));
        Object uniqueKey = shown.value("uniqueKey", job.uniqueKey());
        Object group = shown.value("group", job.group());
        return new JobDescriptor(
                job.id(),
                job.name(),
                EnumText.hyphenated(job.status()),
                job.priority(),
                job.capability(),
                job.createdAt(),
                job.scheduledAt(),
                job.startedAt(),
                job.finishedAt(),
                job.attempts(),
                job.maxAttempts(),
                job.recoveries(),
                job.epoch(),
                job.nodeId(),
                metadata,
                uniqueKey,
                group,
                job.tags().isEmpty() ? null : job.tags(),
                shown.json("progress", job.progress()),
                shown.json("payload", job.payload()),
                shown.json("result", job.result()),
                shown.value("error", job.lastError()),
                attempts(job.attemptHistory(), shown),
                new ExplanationDescriptor(
                        explanation.reason(),
                        masked(masked(explanation.text(), job.uniqueKey(), uniqueKey), job.group(), group)));
    }

    private static @Nullable List<AttemptDescriptor> attempts(List<JobAttempt> attempts, Sanitized shown) {
        return attempts.isEmpty()
                ? null
                : attempts.stream().map(attempt -> attempt(attempt, shown)).toList();
    }

    private static AttemptDescriptor attempt(JobAttempt attempt, Sanitized shown) {
        Duration duration = attempt.duration();
        return new AttemptDescriptor(
                attempt.attempt(),
                attempt.epoch(),
                attempt.nodeId(),
                attempt.startedAt(),
                duration == null ? null : duration.toMillis(),
                EnumText.hyphenated(attempt.result()),
                shown.value("error", attempt.error()));
    }

    /** Replaces a unique key or group that an explanation names by what is shown of it. */
    private static String masked(String text, @Nullable String named, @Nullable Object shown) {
        return named == null ? text : text.replace("'" + named + "'", "'" + shown + "'");
    }

    /** Changes all jobs that match a query. */
    BulkDescriptor changeAll(String state, JobsChange change) {
        change.query().requirePrintable();
        requireVisible(change.query(), change.user());
        try {
            BulkResult result = switch (state) {
                case "cancelled" -> jobs.cancelAll(change.filter(), change.options());
                case "retry" -> jobs.retryAll(change.filter(), change.options());
                case "deleted" -> jobs.deleteAll(change.filter(), change.options());
                case "rescheduled" -> {
                    Instant at = JobQuery.time("at", change.at());
                    if (at == null) {
                        throw EndpointRequests.invalid("State 'rescheduled' needs the parameter 'at'");
                    }
                    yield jobs.rescheduleAll(change.filter(), at, change.options());
                }
                default ->
                    throw EndpointRequests.invalid(
                            "Unsupported state '%s' for all jobs of a query: use 'cancelled', 'retry', 'rescheduled' or 'deleted'; for one job or name, POST to jobs/{name or id}"
                                    .formatted(state));
            };
            return new BulkDescriptor(
                    result.examined(), result.matched(), result.changed(), change.preview(), result.next());
        } catch (JobRejectedException | MutationRefusedException | IllegalArgumentException e) {
            throw EndpointRequests.refused(e);
        }
    }

    /** Changes the state of one job, by id, or of all jobs of a name; returns null if there is none. */
    @Nullable
    Object changeState(String idOrName, String state) {
        UUID job = jobId(idOrName);
        try {
            return job == null ? changeNameState(idOrName, state) : changeJobState(job, state);
        } catch (JobRejectedException | MutationRefusedException e) {
            throw EndpointRequests.refused(e);
        }
    }

    private @Nullable JobStatusDescriptor changeJobState(UUID job, String state) {
        BooleanSupplier change = switch (state) {
            case "cancelled" -> () -> jobs.cancel(job);
            case "retry" -> () -> jobs.retry(job);
            default ->
                throw EndpointRequests.invalid(
                        "Unsupported state '%s' for a job: use 'cancelled' or 'retry'".formatted(state));
        };
        boolean changed = change.getAsBoolean();
        JobInfo info = jobs.find(job).orElse(null);
        if (info == null) {
            return null;
        }
        String status = EnumText.hyphenated(info.status());
        if (!changed) {
            throw EndpointRequests.invalid("Job %s is %s: state '%s' is not possible".formatted(job, status, state));
        }
        return new JobStatusDescriptor(job, status);
    }

    private @Nullable Object changeNameState(String name, String state) {
        switch (state) {
            case "paused" -> {
                try {
                    jobs.pause(name);
                } catch (JobRejectedException e) {
                    return ClusterEndpoint.notFound(String.valueOf(e.getMessage()));
                }
            }
            case "running" -> {
                // Resuming a name that is not paused succeeds without a change.
                if (!jobs.resume(name) && !reports.knows(name)) {
                    return null;
                }
            }
            default ->
                throw EndpointRequests.invalid(
                        "Unsupported state '%s' for jobs named '%s': use 'paused' or 'running'".formatted(state, name));
        }
        return new JobNameStateDescriptor(name, state);
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
