// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.json;

import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.autoconfigure.attention.Attention;
import dev.forge.cluster.autoconfigure.handler.RateText;
import dev.forge.cluster.cron.CronRun;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.internal.job.operate.JobLimitReports;
import dev.forge.cluster.internal.leader.LeaderStore;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.ratelimit.RateLimitReports;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.BulkResult;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobHistory;
import dev.forge.cluster.job.operations.JobLimits;
import dev.forge.cluster.job.operations.JobLogLine;
import dev.forge.cluster.ratelimit.RateLimit;
import dev.forge.cluster.workflow.StepKind;
import dev.forge.cluster.workflow.WorkflowExport;
import dev.forge.cluster.workflow.WorkflowInfo;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The table of the records that become JSON: names that differ from those of the components, and the policy for values of the
 * application. The keys of {@code value} and {@code json} are those that sanitizing functions see.
 */
final class ApiRecords {

    private static final Map<Class<?>, RecordShape<?>> SHAPES = Stream.of(
                    RecordShape.of(JobInfo.class)
                            .open("name", "capability")
                            .openUnlessEmpty("tags")
                            .json("payload", "progress", "result")
                            .value("uniqueKey", "uniqueKey")
                            .value("group", "group")
                            .value("lastError", "error")
                            .by("metadata", ApiRecords::metadata)
                            .rename("nodeId", "node")
                            .rename("lastError", "error")
                            .details("payload", "progress", "result", "uniqueKey", "lastError", "metadata")
                            .without("attemptHistory"),
                    RecordShape.of(JobAttempt.class)
                            .value("error", "error")
                            .rename("nodeId", "node")
                            .millis("duration", "durationMillis"),
                    RecordShape.of(JobExplanation.class)
                            .words("reason", Enum::name)
                            .open("text")
                            .without("signal"),
                    RecordShape.of(JobLogLine.class).value("message", "log"),
                    RecordShape.of(BulkResult.class).open("next"),
                    RecordShape.of(JobBatchInfo.class)
                            .value("name", "batch")
                            .rename("total", "jobs")
                            .and("status", batch -> EnumText.hyphenated(batch.status())),
                    RecordShape.of(JobLimits.class)
                            .by("groupRate", (limits, shown) -> rate(limits))
                            .and("groupBurst", ApiRecords::burst),
                    RecordShape.of(JobLimitReports.GroupState.class).value("group", "group"),
                    RecordShape.of(JobHistory.class)
                            .open("name")
                            .by("step", (history, shown) -> history.step().toSeconds())
                            .rename("step", "stepSeconds")
                            .objects("points"),
                    RecordShape.of(JobHistory.Point.class),
                    RecordShape.of(JobHistory.Times.class)
                            .by("p50", (times, shown) -> rounded(times.p50()))
                            .by("p95", (times, shown) -> rounded(times.p95()))
                            .rename("p50", "p50Millis")
                            .rename("p95", "p95Millis"),
                    RecordShape.of(JobHistory.Backlog.class).millis("oldestDueAge", "oldestDueMillis"),
                    RecordShape.of(CronRun.class)
                            .without("cron")
                            .open("reason")
                            .words("jobStatus", status -> taskStatus((JobStatus) status))
                            .value("error", "error")
                            .rename("slot", "time")
                            .rename("jobStatus", "status")
                            .rename("attempts", "attempt")
                            .details("attempts", "error", "startedAt", "finishedAt", "term", "decidedAt"),
                    RecordShape.of(DaemonInfo.class).open("name", "candidates").objects("instances"),
                    RecordShape.of(DaemonInfo.Instance.class)
                            .open("nodeName")
                            .value("note", "note")
                            .value("lastError", "error")
                            .rename("number", "instance")
                            .rename("nodeId", "node")
                            .rename("lastError", "error"),
                    RecordShape.of(WorkflowInfo.class)
                            .open("name", "version")
                            .words("status", EnumText::underscored)
                            .json("input", "result", "progress")
                            .value("key", "key")
                            .value("lastError", "error")
                            .value("resolutionReason", "resolutionReason")
                            .value("awaits", "awaits")
                            .rename("lastError", "error")
                            .objectsUnlessEmpty("signals")
                            .details("key", "input", "result", "lastError", "resolutionReason", "progress", "signals")
                            .without("steps"),
                    RecordShape.of(WorkflowInfo.Signal.class).value("name", "awaits"),
                    RecordShape.of(WorkflowInfo.Step.class)
                            .by("name", ApiRecords::stepName)
                            .words("status", EnumText::underscored)
                            .by(
                                    "compensationAttempts",
                                    (step, shown) ->
                                            step.compensationAttempts() > 0 ? step.compensationAttempts() : null)
                            .by("result", (step, shown) -> shown.json("steps." + step.name(), step.result()))
                            .value("lastError", "error")
                            .rename("lastError", "error")
                            .objectsUnlessEmpty("attemptHistory"),
                    RecordShape.of(WorkflowInfo.Attempt.class)
                            .by("compensation", (attempt, shown) -> attempt.compensation() ? true : null)
                            .millis("duration", "durationMillis")
                            .value("error", "error"),
                    RecordShape.of(WorkflowExport.class)
                            .open("name", "version")
                            .words("status", EnumText::underscored)
                            .by("input", (run, shown) -> shown.exactJson("input", run.input()))
                            .objects("steps"),
                    RecordShape.of(WorkflowExport.Step.class)
                            .open("name")
                            .words("status", EnumText::underscored)
                            .by("result", (step, shown) -> shown.exactJson("steps." + step.name(), step.result()))
                            .value("lastError", "error"),
                    RecordShape.of(NodeReports.Row.class)
                            .open("key", "name", "hostname", "mode", "roles", "capabilities", "status", "version")
                            .without("heartbeatAge"),
                    RecordShape.of(LeaderStore.Leader.class).open("role"),
                    RecordShape.of(LockStore.Held.class).value("name", "lock"),
                    RecordShape.of(RateLimitReports.Bucket.class).value("key", "rateLimit"),
                    RecordShape.of(AuditEntry.class)
                            .open("who", "address", "action")
                            .by("target", ApiRecords::auditTarget)
                            // The name of a node is shown to everybody.
                            .by(
                                    "detail",
                                    (entry, shown) -> entry.action().equals("node.drain")
                                            ? entry.detail()
                                            : shown.value("detail", entry.detail()))
                            .value("reason", "reason"),
                    RecordShape.of(Attention.class).objects("items"),
                    RecordShape.of(Attention.Item.class).open("target", "text", "nextStep"))
            .map(RecordShape::complete)
            .collect(Collectors.toUnmodifiableMap(RecordShape::type, Function.identity()));

    private static final Pattern ID = Pattern.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");

    private ApiRecords() {}

    static RecordShape<?> shape(Class<?> type) {
        RecordShape<?> shape = SHAPES.get(type);
        if (shape == null) {
            throw new IllegalStateException(type + " has no JSON");
        }
        return shape;
    }

    /** Returns all types of the table. */
    static Set<Class<?>> types() {
        return SHAPES.keySet();
    }

    private static @Nullable Object metadata(JobInfo job, ValueSanitizer.Sanitized shown) {
        return job.metadata().isEmpty() ? Map.of() : shown.value("metadata", new TreeMap<>(job.metadata()));
    }

    private static @Nullable String rate(JobLimits limits) {
        RateLimit rate = limits.groupRate();
        return rate == null ? null : RateText.of(rate);
    }

    private static @Nullable Long burst(JobLimits limits) {
        RateLimit rate = limits.groupRate();
        return rate == null ? null : Long.valueOf(rate.burst());
    }

    /** Half a millisecond, which stands for all shorter times, becomes zero. */
    private static long rounded(Duration time) {
        return time.plusNanos(499_999).toMillis();
    }

    /** Maps the status of a job to the words of Spring Boot's {@code scheduledtasks}. */
    private static String taskStatus(JobStatus status) {
        return switch (status) {
            case PENDING, CLAIMED, RUNNING -> "STARTED";
            case COMPLETED -> "SUCCESS";
            case FAILED, CANCELLED, ABANDONED -> "ERROR";
        };
    }

    /** The name of a signal is hidden like that of the signal that the run awaits. */
    private static String stepName(WorkflowInfo.Step step, ValueSanitizer.Sanitized shown) {
        return step.kind() == StepKind.SIGNAL ? String.valueOf(shown.value("awaits", step.name())) : step.name();
    }

    /** The text of a filter may contain groups, keys and metadata; the id of the only job does not. */
    private static @Nullable Object auditTarget(AuditEntry entry, ValueSanitizer.Sanitized shown) {
        boolean filter = (entry.call() != null || entry.action().startsWith("jobs."))
                && !ID.matcher(entry.target()).matches();
        return filter ? shown.value("filter", entry.target()) : entry.target();
    }
}
