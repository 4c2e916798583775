// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.row;

import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.operations.JobFilter;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** The conditions of a filter as SQL on a row {@code j}. */
public final class JobConditions {

    private static final Instant EARLIEST = Instant.parse("0001-01-01T00:00:00Z");
    private static final Instant LATEST = Instant.parse("9999-12-31T00:00:00Z");

    /** One text for all filters: the driver and the schema keep each statement that they have seen. */
    public static final String MATCHES = """
            (:name::text IS NULL OR j.name = :name)
            AND (:statuses::text[] IS NULL OR j.status = ANY (:statuses::text[]))
            AND (:tags::text[] IS NULL OR j.tags @> :tags::text[])
            AND (:group::text IS NULL OR j.job_group = :group)
            AND (:batch::uuid IS NULL OR j.batch_id = :batch)
            AND (:ids::uuid[] IS NULL OR j.id = ANY (:ids::uuid[]))
            AND (:key::text IS NULL OR j.unique_key = :key)
            AND (:createdFrom::timestamptz IS NULL OR j.created_at >= :createdFrom)
            AND (:createdBefore::timestamptz IS NULL OR j.created_at < :createdBefore)
            AND (:finishedFrom::timestamptz IS NULL OR j.finished_at >= :finishedFrom)
            AND (:finishedBefore::timestamptz IS NULL OR j.finished_at < :finishedBefore)
            AND (:metadataKeys::text[] IS NULL
                 OR NOT EXISTS (SELECT FROM unnest(:metadataKeys::text[], :metadataValues::text[]) AS m (key, value)
                                WHERE (j.metadata ->> m.key) IS DISTINCT FROM m.value))
            AND (:error::text IS NULL OR strpos(j.last_error, :error) > 0)""";

    private JobConditions() {}

    /** Returns the parameters of {@link #MATCHES}. */
    public static Map<String, @Nullable Object> parameters(JobFilter filter, Set<JobStatus> statuses) {
        var parameters = new HashMap<String, @Nullable Object>();
        parameters.put("name", filter.name());
        parameters.put("statuses", statuses.isEmpty() ? null : words(statuses));
        parameters.put("tags", filter.tags().isEmpty() ? null : filter.tags().toArray(String[]::new));
        parameters.put("group", filter.group());
        parameters.put("batch", filter.batch());
        parameters.put("ids", filter.ids().isEmpty() ? null : filter.ids().toArray(UUID[]::new));
        parameters.put("key", filter.uniqueKey());
        parameters.put("createdFrom", storable(filter.createdFrom()));
        parameters.put("createdBefore", storable(filter.createdBefore()));
        parameters.put("finishedFrom", storable(filter.finishedFrom()));
        parameters.put("finishedBefore", storable(filter.finishedBefore()));
        boolean metadata = !filter.metadata().isEmpty();
        parameters.put("metadataKeys", metadata ? filter.metadata().keySet().toArray(String[]::new) : null);
        parameters.put("metadataValues", metadata ? filter.metadata().values().toArray(String[]::new) : null);
        parameters.put("error", filter.error());
        return parameters;
    }

    /** Returns the statuses that a filter selects; empty: all. */
    public static Set<JobStatus> statuses(JobFilter filter) {
        if (!filter.statuses().isEmpty()) {
            return filter.statuses();
        }
        if (filter.error() != null) {
            return EnumSet.of(JobStatus.FAILED, JobStatus.ABANDONED);
        }
        return filter.finishedFrom() == null && filter.finishedBefore() == null
                ? Set.of()
                : EnumSet.of(JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.ABANDONED);
    }

    public static String[] words(Set<JobStatus> statuses) {
        return statuses.stream().map(EnumText::underscored).sorted().toArray(String[]::new);
    }

    /** Returns a time within the range of PostgreSQL. */
    public static @Nullable OffsetDateTime storable(@Nullable Instant time) {
        if (time == null) {
            return null;
        }
        Instant latest = time.isAfter(LATEST) ? LATEST : time;
        return (latest.isBefore(EARLIEST) ? EARLIEST : latest).atOffset(ZoneOffset.UTC);
    }
}
