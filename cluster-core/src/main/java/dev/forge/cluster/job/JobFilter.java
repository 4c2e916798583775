// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.time.Instant;
import java.util.EnumSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Selects jobs. Immutable; each {@code with} method returns a changed copy, and all conditions must hold.
 *
 * <pre>{@code
 * jobs.list(JobFilter.all().withName("send-mail").withStatuses(JobStatus.FAILED, JobStatus.ABANDONED), 50);
 * }</pre>
 */
public final class JobFilter {

    private static final JobFilter ALL = new JobFilter(null, Set.of(), null, null);

    private final @Nullable String name;
    private final Set<JobStatus> statuses;
    private final @Nullable Instant createdFrom;
    private final @Nullable Instant createdBefore;

    private JobFilter(
            @Nullable String name,
            Set<JobStatus> statuses,
            @Nullable Instant createdFrom,
            @Nullable Instant createdBefore) {
        this.name = name;
        this.statuses = statuses;
        this.createdFrom = createdFrom;
        this.createdBefore = createdBefore;
    }

    /** Returns a filter that selects all jobs. */
    public static JobFilter all() {
        return ALL;
    }

    /** Selects jobs of that name. */
    public JobFilter withName(String name) {
        required("withName", "name", name);
        return new JobFilter(name, statuses, createdFrom, createdBefore);
    }

    /** Selects jobs in one of these statuses; none given: in any status. */
    public JobFilter withStatuses(JobStatus... statuses) {
        required("withStatuses", "statuses", statuses);
        Set<JobStatus> wanted = EnumSet.noneOf(JobStatus.class);
        for (JobStatus status : statuses) {
            required("withStatuses", "status", status);
            wanted.add(status);
        }
        return new JobFilter(name, Set.copyOf(wanted), createdFrom, createdBefore);
    }

    /** Selects jobs that were enqueued at that time or later, by the database's clock. */
    public JobFilter withCreatedFrom(Instant from) {
        required("withCreatedFrom", "from", from);
        return new JobFilter(name, statuses, from, createdBefore);
    }

    /** Selects jobs that were enqueued before that time, by the database's clock. */
    public JobFilter withCreatedBefore(Instant before) {
        required("withCreatedBefore", "before", before);
        return new JobFilter(name, statuses, createdFrom, before);
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("JobFilter.%s: %s must not be null".formatted(method, parameter));
        }
    }

    /** See {@link #withName}. */
    public @Nullable String name() {
        return name;
    }

    /** See {@link #withStatuses}; empty for any status. */
    public Set<JobStatus> statuses() {
        return statuses;
    }

    /** See {@link #withCreatedFrom}. */
    public @Nullable Instant createdFrom() {
        return createdFrom;
    }

    /** See {@link #withCreatedBefore}. */
    public @Nullable Instant createdBefore() {
        return createdBefore;
    }
}
