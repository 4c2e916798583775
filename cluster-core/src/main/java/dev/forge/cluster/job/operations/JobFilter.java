// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job.operations;

import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Selects jobs. Immutable; each {@code with} method returns a changed copy, and all conditions must hold.
 *
 * <pre>{@code
 * operations.search(JobFilter.all().withName("send-mail").withStatuses(JobStatus.FAILED, JobStatus.ABANDONED), 50);
 * }</pre>
 *
 * <p>Ids, tags, groups, statuses and times lead to their jobs through an index, and a batch to the jobs that were enqueued since it was
 * opened. The other conditions are checked job by job, within the bounds of {@link JobOperations#search}.
 */
public final class JobFilter {

    private static final JobFilter ALL = new JobFilter(new Draft());

    private final Draft conditions;

    private JobFilter(Draft conditions) {
        this.conditions = conditions;
    }

    /** Returns a filter that selects all jobs. Bulk operations take it only with {@link BulkOptions#withEverything}. */
    public static JobFilter all() {
        return ALL;
    }

    /** Selects jobs of that name. */
    public JobFilter withName(String name) {
        required("withName", "name", name);
        Draft draft = new Draft(conditions);
        draft.name = name;
        return new JobFilter(draft);
    }

    /** Selects jobs in one of these statuses; none given: in any status. */
    public JobFilter withStatuses(JobStatus... statuses) {
        required("withStatuses", "statuses", statuses);
        Set<JobStatus> wanted = EnumSet.noneOf(JobStatus.class);
        for (JobStatus status : statuses) {
            required("withStatuses", "status", status);
            wanted.add(status);
        }
        Draft draft = new Draft(conditions);
        draft.statuses = Collections.unmodifiableSet(wanted);
        return new JobFilter(draft);
    }

    /** Selects jobs that have all of these tags; none given: with or without tags. See {@link JobOptions#withTags}. */
    public JobFilter withTags(String... tags) {
        required("withTags", "tags", tags);
        var wanted = new TreeSet<String>();
        for (String tag : tags) {
            required("withTags", "tag", tag);
            wanted.add(tag);
        }
        Draft draft = new Draft(conditions);
        draft.tags = Collections.unmodifiableSet(wanted);
        return new JobFilter(draft);
    }

    /** Selects jobs of that group, of any name. See {@link JobOptions#withGroup}. */
    public JobFilter withGroup(String group) {
        required("withGroup", "group", group);
        Draft draft = new Draft(conditions);
        draft.group = group;
        return new JobFilter(draft);
    }

    /**
     * Selects jobs of that batch; not those of batches that are part of it. Without tags, group and statuses, all jobs that were
     * enqueued since the batch was opened are checked, the oldest first. See {@link JobOptions#withBatch}.
     */
    public JobFilter withBatch(UUID batch) {
        required("withBatch", "batch", batch);
        Draft draft = new Draft(conditions);
        draft.batch = batch;
        return new JobFilter(draft);
    }

    /**
     * Selects jobs with one of these ids.
     *
     * @param ids at most 1,000; none given: with any id
     */
    public JobFilter withIds(Collection<UUID> ids) {
        required("withIds", "ids", ids);
        ids.forEach(id -> required("withIds", "id", id));
        Draft draft = new Draft(conditions);
        draft.ids = Collections.unmodifiableSet(new TreeSet<>(ids));
        return new JobFilter(draft);
    }

    /** Selects jobs with that unique key. With a name, the active ones are found through an index. */
    public JobFilter withUniqueKey(String key) {
        required("withUniqueKey", "key", key);
        Draft draft = new Draft(conditions);
        draft.uniqueKey = key;
        return new JobFilter(draft);
    }

    /** Selects jobs whose metadata has that value for that key; called several times: all of the values. */
    public JobFilter withMetadata(String key, String value) {
        required("withMetadata", "key", key);
        required("withMetadata", "value", value);
        var entries = new TreeMap<>(conditions.metadata);
        entries.put(key, value);
        Draft draft = new Draft(conditions);
        draft.metadata = Collections.unmodifiableMap(entries);
        return new JobFilter(draft);
    }

    /**
     * Selects jobs whose last error contains that text, in upper and lower case as given. Without {@linkplain #withStatuses
     * statuses}, failed and abandoned jobs are searched, those that ended last first.
     */
    public JobFilter withError(String text) {
        required("withError", "text", text);
        Draft draft = new Draft(conditions);
        draft.error = text;
        return new JobFilter(draft);
    }

    /** Selects jobs that were enqueued at that time or later, by the database's clock. */
    public JobFilter withCreatedFrom(Instant from) {
        required("withCreatedFrom", "from", from);
        Draft draft = new Draft(conditions);
        draft.createdFrom = from;
        return new JobFilter(draft);
    }

    /** Selects jobs that were enqueued before that time, by the database's clock. */
    public JobFilter withCreatedBefore(Instant before) {
        required("withCreatedBefore", "before", before);
        Draft draft = new Draft(conditions);
        draft.createdBefore = before;
        return new JobFilter(draft);
    }

    /** Selects jobs that ended at that time or later, by the database's clock. */
    public JobFilter withFinishedFrom(Instant from) {
        required("withFinishedFrom", "from", from);
        Draft draft = new Draft(conditions);
        draft.finishedFrom = from;
        return new JobFilter(draft);
    }

    /** Selects jobs that ended before that time, by the database's clock. */
    public JobFilter withFinishedBefore(Instant before) {
        required("withFinishedBefore", "before", before);
        Draft draft = new Draft(conditions);
        draft.finishedBefore = before;
        return new JobFilter(draft);
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("JobFilter.%s: %s must not be null".formatted(method, parameter));
        }
    }

    /** See {@link #withName}. */
    public @Nullable String name() {
        return conditions.name;
    }

    /** See {@link #withStatuses}; empty for any status. */
    public Set<JobStatus> statuses() {
        return conditions.statuses;
    }

    /** See {@link #withTags}; empty: with or without tags. */
    public Set<String> tags() {
        return conditions.tags;
    }

    /** See {@link #withGroup}. */
    public @Nullable String group() {
        return conditions.group;
    }

    /** See {@link #withBatch}. */
    public @Nullable UUID batch() {
        return conditions.batch;
    }

    /** See {@link #withIds}; empty: with any id. */
    public Set<UUID> ids() {
        return conditions.ids;
    }

    /** See {@link #withUniqueKey}. */
    public @Nullable String uniqueKey() {
        return conditions.uniqueKey;
    }

    /** See {@link #withMetadata}. */
    public Map<String, String> metadata() {
        return conditions.metadata;
    }

    /** See {@link #withError}. */
    public @Nullable String error() {
        return conditions.error;
    }

    /** See {@link #withCreatedFrom}. */
    public @Nullable Instant createdFrom() {
        return conditions.createdFrom;
    }

    /** See {@link #withCreatedBefore}. */
    public @Nullable Instant createdBefore() {
        return conditions.createdBefore;
    }

    /** See {@link #withFinishedFrom}. */
    public @Nullable Instant finishedFrom() {
        return conditions.finishedFrom;
    }

    /** See {@link #withFinishedBefore}. */
    public @Nullable Instant finishedBefore() {
        return conditions.finishedBefore;
    }

    /**
     * Returns the conditions as text, in the words of the endpoint: {@code name=send-mail, status=failed or abandoned}. Values that
     * are not one plain word are quoted, so equal texts mean equal filters. Each condition contains an equals sign.
     */
    @Override
    public String toString() {
        var text = new StringJoiner(", ");
        text.setEmptyValue("every job");
        add(text, "name", conditions.name);
        add(
                text,
                "status",
                conditions.statuses.stream().map(status -> status.name().toLowerCase(Locale.ROOT)));
        conditions.tags.forEach(tag -> add(text, "tag", tag));
        add(text, "group", conditions.group);
        add(text, "batch", conditions.batch);
        add(text, "ids", conditions.ids.stream().map(UUID::toString));
        add(text, "key", conditions.uniqueKey);
        conditions.metadata.forEach((key, value) -> add(text, "metadata." + quoted(key), value));
        add(text, "error", conditions.error);
        add(text, "createdFrom", conditions.createdFrom);
        add(text, "createdBefore", conditions.createdBefore);
        add(text, "finishedFrom", conditions.finishedFrom);
        add(text, "finishedBefore", conditions.finishedBefore);
        return text.toString();
    }

    private static void add(StringJoiner text, String condition, @Nullable Object value) {
        if (value != null) {
            text.add(condition + "=" + quoted(value.toString()));
        }
    }

    private static void add(StringJoiner text, String condition, Stream<String> words) {
        String all = words.collect(Collectors.joining(" or "));
        if (!all.isEmpty()) {
            text.add(condition + "=" + all);
        }
    }

    private static String quoted(String value) {
        return !value.isEmpty()
                        && value.chars().allMatch(c -> Character.isLetterOrDigit(c) || "-_.:@/+".indexOf(c) >= 0)
                ? value
                : "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'";
    }

    /** The conditions while they are being changed; nobody changes them afterwards. */
    private static final class Draft {

        @Nullable
        String name;

        Set<JobStatus> statuses = Set.of();
        Set<String> tags = Set.of();

        @Nullable
        String group;

        @Nullable
        UUID batch;

        Set<UUID> ids = Set.of();

        @Nullable
        String uniqueKey;

        Map<String, String> metadata = Map.of();

        @Nullable
        String error;

        @Nullable
        Instant createdFrom;

        @Nullable
        Instant createdBefore;

        @Nullable
        Instant finishedFrom;

        @Nullable
        Instant finishedBefore;

        Draft() {}

        Draft(Draft other) {
            name = other.name;
            statuses = other.statuses;
            tags = other.tags;
            group = other.group;
            batch = other.batch;
            ids = other.ids;
            uniqueKey = other.uniqueKey;
            metadata = other.metadata;
            error = other.error;
            createdFrom = other.createdFrom;
            createdBefore = other.createdBefore;
            finishedFrom = other.finishedFrom;
            finishedBefore = other.finishedBefore;
        }
    }
}
