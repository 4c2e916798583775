// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.Page;
import dev.forge.cluster.internal.job.enqueue.ReservedNames;
import dev.forge.cluster.internal.job.enqueue.SubmitterKeys;
import dev.forge.cluster.internal.job.operate.JobExportReports.Exported;
import dev.forge.cluster.internal.job.operate.JobSearchReports.Found;
import dev.forge.cluster.internal.job.row.JobRestartStore;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobFilter;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.DataAccessException;

/** Exports jobs as lines of JSON, and reads such lines. */
public final class JobExports {

    /** What a line has besides the payload: error, metadata and names. */
    private static final int REST = 1_000_000;

    private final JobSearchReports search;
    private final JobExportReports store;
    private final int maxBytes;

    public JobExports(JobSearchReports search, JobExportReports store, int maxBytes) {
        this.search = search;
        this.store = store;
        this.maxBytes = maxBytes;
    }

    public Page<String> export(JobFilter filter, int limit, @Nullable String cursor) {
        JobFilter selected =
                filter.statuses().isEmpty() ? filter.withStatuses(JobStatus.FAILED, JobStatus.ABANDONED) : filter;
        Found found = search.find("JobOperations.export", selected, limit, cursor);
        if (found.hits().isEmpty()) {
            return new Page<>(List.of(), found.next());
        }
        List<@Nullable String> lines = store.export(found.ids());
        // The page may have had no room for all of them.
        String next = lines.size() < found.hits().size()
                ? found.hits().get(lines.size() - 1).cursor()
                : found.next();
        return new Page<>(lines.stream().filter(Objects::nonNull).toList(), next);
    }

    /** A job to enqueue again. */
    public record Line(String name, String payload, JobOptions options) {}

    /**
     * Returns a job that exists as a line to enqueue again; null if there is no such job.
     *
     * @param edit replaces its payload; null: it keeps it
     */
    @Nullable
    public Line copy(UUID id, JobRestartStore.@Nullable Edit edit) {
        String exported = store.export(List.of(id)).get(0);
        if (exported == null) {
            return null;
        }
        Exported job = store.parse(exported);
        return edit == null ? line(job, job.payload(), job.group()) : line(job, edit.payload(), edit.group());
    }

    /**
     * Parses an exported line.
     *
     * @throws JobRejectedException if the line is not an exported job
     */
    public Line parse(String line) {
        if (line.length() > maxBytes + REST) {
            throw invalid("it has %d characters".formatted(line.length()), null);
        }
        Exported exported;
        try {
            exported = store.parse(line);
        } catch (DataAccessException e) {
            throw invalid("it is not a JSON object with the members of an exported job", e);
        }
        return line(exported, exported.payload(), exported.group());
    }

    private static Line line(Exported exported, @Nullable String payload, @Nullable String group) {
        if (exported.name() == null) {
            throw invalid("it has no name", null);
        }
        try {
            return new Line(exported.name(), payload == null ? "{}" : payload, options(exported, group));
        } catch (IllegalArgumentException e) {
            throw invalid(String.valueOf(e.getMessage()), e);
        }
    }

    private static JobOptions options(Exported exported, @Nullable String group) {
        JobOptions options = JobOptions.defaults().withTags(exported.tags().toArray(String[]::new));
        if (exported.priority() != null) {
            options = options.withPriority(JobPriority.of(exported.priority()));
        }
        if (exported.capability() != null) {
            options = options.withCapability(exported.capability());
        }
        if (exported.maxAttempts() != null) {
            options = options.withMaxAttempts(exported.maxAttempts());
        }
        // Keys of jobs that were submitted by HTTP belong to their submitter.
        if (exported.uniqueKey() != null && !exported.uniqueKey().startsWith(SubmitterKeys.PREFIX)) {
            options = options.withUniqueKey(exported.uniqueKey());
        }
        if (group != null) {
            options = options.withGroup(group);
        }
        for (int i = 0; i < exported.metadataKeys().size(); i++) {
            String key = exported.metadataKeys().get(i);
            // Of the run, the trace or the submitter that the exported job had.
            if (!key.startsWith(ReservedNames.METADATA_PREFIX)) {
                options = options.withMetadata(key, exported.metadataValues().get(i));
            }
        }
        return options;
    }

    private static JobRejectedException invalid(String reason, @Nullable Exception cause) {
        String message = "JobOperations.enqueueExported: the line is no exported job: " + reason;
        return cause == null ? new JobRejectedException(message) : new JobRejectedException(message, cause);
    }
}
