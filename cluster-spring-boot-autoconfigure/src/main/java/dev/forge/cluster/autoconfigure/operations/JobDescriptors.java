// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.autoconfigure.operations.JobsDescriptor.AttemptDescriptor;
import dev.forge.cluster.autoconfigure.operations.JobsDescriptor.ExplanationDescriptor;
import dev.forge.cluster.autoconfigure.operations.JobsDescriptor.JobDescriptor;
import dev.forge.cluster.autoconfigure.operations.JobsDescriptor.JobSummaryDescriptor;
import dev.forge.cluster.autoconfigure.operations.ValueSanitizer.Sanitized;
import dev.forge.cluster.internal.database.Timestamps;
import dev.forge.cluster.internal.job.store.JobRelationReports.Relations;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobExplanation;
import dev.forge.cluster.job.JobInfo;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** Makes descriptors of jobs, with sanitized values. */
final class JobDescriptors {

    private JobDescriptors() {}

    /** @param nodes the names of nodes by their ids */
    static JobSummaryDescriptor summary(JobInfo job, Relations relations, Map<UUID, String> nodes, Sanitized shown) {
        return new JobSummaryDescriptor(
                job.id(),
                job.name(),
                EnumText.hyphenated(job.status()),
                job.priority(),
                job.capability(),
                job.createdAt(),
                Timestamps.finite(job.scheduledAt()),
                Timestamps.finite(job.startedAt()),
                Timestamps.finite(job.finishedAt()),
                job.attempts(),
                job.maxAttempts(),
                job.recoveries(),
                job.epoch(),
                job.nodeId(),
                nameOf(job.nodeId(), nodes),
                shown.value("group", job.group()),
                orAbsent(job.tags()),
                job.batch(),
                orAbsent(relations.waitsFor()),
                relations.batch(),
                orAbsent(relations.awaitedBy()));
    }

    private static @Nullable String nameOf(@Nullable UUID node, Map<UUID, String> nodes) {
        return node == null ? null : nodes.get(node);
    }

    /** @param nodes the names of nodes by their ids */
    static JobDescriptor descriptor(
            JobInfo job, Relations relations, Map<UUID, String> nodes, JobExplanation explanation, Sanitized shown) {
        Object metadata = job.metadata().isEmpty() ? Map.of() : shown.value("metadata", new TreeMap<>(job.metadata()));
        Object uniqueKey = shown.value("uniqueKey", job.uniqueKey());
        Object group = shown.value("group", job.group());
        Object payload = shown.json("payload", job.payload());
        return new JobDescriptor(
                job.id(),
                job.name(),
                EnumText.hyphenated(job.status()),
                job.priority(),
                job.capability(),
                job.createdAt(),
                Timestamps.finite(job.scheduledAt()),
                Timestamps.finite(job.startedAt()),
                Timestamps.finite(job.finishedAt()),
                job.attempts(),
                job.maxAttempts(),
                job.recoveries(),
                job.epoch(),
                job.nodeId(),
                nameOf(job.nodeId(), nodes),
                metadata,
                uniqueKey,
                group,
                orAbsent(job.tags()),
                job.batch(),
                orAbsent(relations.waitsFor()),
                relations.batch(),
                orAbsent(relations.awaitedBy()),
                shown.json("progress", job.progress()),
                payload,
                shown.isWhole(job.payload(), payload) ? job.payload() : null,
                shown.json("result", job.result()),
                shown.value("error", job.lastError()),
                attempts(job.attemptHistory(), nodes, shown),
                new ExplanationDescriptor(explanation.reason(), explained(explanation, job, uniqueKey, group, shown)));
    }

    /** Returns the text with what is shown of the unique key, the group and the signal that it names. */
    private static String explained(
            JobExplanation explanation,
            JobInfo job,
            @Nullable Object uniqueKey,
            @Nullable Object group,
            Sanitized shown) {
        String text = masked(masked(explanation.text(), job.uniqueKey(), uniqueKey), job.group(), group);
        return masked(text, explanation.signal(), shown.value("awaits", explanation.signal()));
    }

    private static <T> @Nullable List<T> orAbsent(List<T> list) {
        return list.isEmpty() ? null : list;
    }

    private static @Nullable List<AttemptDescriptor> attempts(
            List<JobAttempt> attempts, Map<UUID, String> nodes, Sanitized shown) {
        return orAbsent(
                attempts.stream().map(attempt -> attempt(attempt, nodes, shown)).toList());
    }

    private static AttemptDescriptor attempt(JobAttempt attempt, Map<UUID, String> nodes, Sanitized shown) {
        Duration duration = attempt.duration();
        return new AttemptDescriptor(
                attempt.attempt(),
                attempt.epoch(),
                attempt.nodeId(),
                nameOf(attempt.nodeId(), nodes),
                attempt.startedAt(),
                duration == null ? null : duration.toMillis(),
                EnumText.hyphenated(attempt.result()),
                shown.value("error", attempt.error()));
    }

    /** Replaces a value that an explanation names by what is shown of it. */
    private static String masked(String text, @Nullable String named, @Nullable Object shown) {
        return named == null ? text : text.replace("'" + named + "'", "'" + shown + "'");
    }
}
