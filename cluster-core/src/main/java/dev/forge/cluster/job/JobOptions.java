// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Options for enqueueing a job that override what its handler declares. Immutable; each {@code with} method returns a changed
 * copy.
 *
 * <pre>{@code
 * jobs.enqueue(new SendReminder(id), JobOptions.defaults().withDelay(Duration.ofHours(1)).withUniqueKey(id));
 * }</pre>
 */
public final class JobOptions {

    private static final JobOptions DEFAULTS = new JobOptions(new Draft());

    private final @Nullable Duration delay;
    private final @Nullable Instant at;
    private final @Nullable Integer priority;
    private final @Nullable String capability;
    private final @Nullable String uniqueKey;
    private final UniquePolicy uniquePolicy;
    private final @Nullable Integer maxAttempts;
    private final @Nullable String group;
    private final @Nullable UUID batch;
    private final After after;
    private final Map<String, String> metadata;

    private JobOptions(Draft draft) {
        this.delay = draft.delay;
        this.at = draft.at;
        this.priority = draft.priority;
        this.capability = draft.capability;
        this.uniqueKey = draft.uniqueKey;
        this.uniquePolicy = draft.uniquePolicy;
        this.maxAttempts = draft.maxAttempts;
        this.group = draft.group;
        this.batch = draft.batch;
        this.after = draft.after;
        this.metadata = draft.metadata;
    }

    /** A copy while it is being changed. */
    private static final class Draft {

        private @Nullable Duration delay;
        private @Nullable Instant at;
        private @Nullable Integer priority;
        private @Nullable String capability;
        private @Nullable String uniqueKey;
        private UniquePolicy uniquePolicy = UniquePolicy.KEEP;
        private @Nullable Integer maxAttempts;
        private @Nullable String group;
        private @Nullable UUID batch;
        private After after = After.NOTHING;
        private Map<String, String> metadata = Map.of();
    }

    private JobOptions with(Consumer<Draft> change) {
        var draft = new Draft();
        draft.delay = delay;
        draft.at = at;
        draft.priority = priority;
        draft.capability = capability;
        draft.uniqueKey = uniqueKey;
        draft.uniquePolicy = uniquePolicy;
        draft.maxAttempts = maxAttempts;
        draft.group = group;
        draft.batch = batch;
        draft.after = after;
        draft.metadata = metadata;
        change.accept(draft);
        return new JobOptions(draft);
    }

    /** Returns the options that the handler declares. */
    public static JobOptions defaults() {
        return DEFAULTS;
    }

    /** Makes the job due after that delay, by the database's clock. */
    public JobOptions withDelay(Duration delay) {
        required("withDelay", "delay", delay);
        return with(draft -> {
            draft.delay = delay;
            draft.at = null;
        });
    }

    /** Makes the job due at that time, by the database's clock. A time in the past means now. */
    public JobOptions withTime(Instant at) {
        required("withTime", "at", at);
        return with(draft -> {
            draft.delay = null;
            draft.at = at;
        });
    }

    /** Sets the priority. */
    public JobOptions withPriority(JobPriority priority) {
        required("withPriority", "priority", priority);
        return with(draft -> draft.priority = priority.value());
    }

    /** Sets the capability that a node needs to run the job. */
    public JobOptions withCapability(String capability) {
        required("withCapability", "capability", capability);
        return with(draft -> draft.capability = capability);
    }

    /** Allows at most one active job of that name and key; an active job is {@linkplain UniquePolicy#KEEP kept}. */
    public JobOptions withUniqueKey(Object key) {
        return withUniqueKey(key, UniquePolicy.KEEP);
    }

    /**
     * Allows at most one active job of that name and key.
     *
     * @param key at most 500 characters without control characters. Keys that begin with {@code @http/} belong to jobs that were
     *     submitted over HTTP, keys that begin with {@code workflow:} to jobs that workflows wait for
     */
    public JobOptions withUniqueKey(Object key, UniquePolicy policy) {
        required("withUniqueKey", "key", key);
        required("withUniqueKey", "policy", policy);
        return with(draft -> {
            draft.uniqueKey = key.toString();
            draft.uniquePolicy = policy;
        });
    }

    /** Sets the number of attempts before the job has failed. */
    public JobOptions withMaxAttempts(int maxAttempts) {
        return with(draft -> draft.maxAttempts = maxAttempts);
    }

    /**
     * Puts the job into a group, such as the customer that it works for. The groups of jobs of one name take turns, and {@link
     * ClusterJob#groupConcurrency()}, {@link ClusterJob#groupRate()} and {@link ClusterJob#ordered()} apply to each of them.
     *
     * @param group at most 500 characters without control characters
     */
    public JobOptions withGroup(Object group) {
        required("withGroup", "group", group);
        return with(draft -> draft.group = group.toString());
    }

    /** Adds the job to an open {@link JobBatch}. Such a job has no unique key. */
    public JobOptions withBatch(UUID batch) {
        required("withBatch", "batch", batch);
        return with(draft -> draft.batch = batch);
    }

    /**
     * Lets the job wait until all of these jobs have completed. If one of them fails, is cancelled or abandoned, the job is
     * cancelled. A job that no longer exists has completed. Such a job has no unique key.
     *
     * @param jobs between 1 and 1,000 jobs
     */
    public JobOptions withAfter(UUID... jobs) {
        required("withAfter", "jobs", jobs);
        return withAfter(Arrays.asList(jobs));
    }

    /** Lets the job wait until all of these jobs have completed; see {@link #withAfter(UUID...)}. */
    public JobOptions withAfter(Collection<UUID> jobs) {
        return withAfter(jobs, false);
    }

    /** Lets the job wait until all of these jobs have ended, whether they completed or not; see {@link #withAfter(UUID...)}. */
    public JobOptions withAfterEnd(Collection<UUID> jobs) {
        return withAfter(jobs, true);
    }

    private JobOptions withAfter(Collection<UUID> jobs, boolean anyway) {
        required("withAfter", "jobs", jobs);
        jobs.forEach(job -> required("withAfter", "jobs[]", job));
        if (jobs.isEmpty() || jobs.size() > After.MOST) {
            throw new IllegalArgumentException("JobOptions.withAfter: the number of jobs (%d) must be between 1 and %d"
                    .formatted(jobs.size(), After.MOST));
        }
        return with(draft -> draft.after = new After(Set.copyOf(jobs), anyway));
    }

    /**
     * The jobs that a job waits for.
     *
     * @param jobs these jobs; empty: none
     * @param anyway whether the job runs even if one of them does not complete; otherwise it is cancelled
     */
    public record After(Set<UUID> jobs, boolean anyway) {

        private static final int MOST = 1_000;
        private static final After NOTHING = new After(Set.of(), false);

        /** Creates a value. */
        public After {
            jobs = Set.copyOf(jobs);
        }
    }

    /**
     * Attaches a text that the handler finds in {@link JobContext#metadata()}.
     *
     * @param key keys that begin with {@code forge.} are reserved: {@link Jobs} rejects them
     */
    public JobOptions withMetadata(String key, String value) {
        required("withMetadata", "key", key);
        required("withMetadata", "value", value);
        var extended = new TreeMap<>(metadata);
        extended.put(key, value);
        return with(draft -> draft.metadata = Collections.unmodifiableMap(extended));
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("JobOptions.%s: %s must not be null".formatted(method, parameter));
        }
    }

    /** See {@link #withDelay}. */
    public @Nullable Duration delay() {
        return delay;
    }

    /** See {@link #withTime}. */
    public @Nullable Instant at() {
        return at;
    }

    /** See {@link #withPriority}. */
    public @Nullable Integer priority() {
        return priority;
    }

    /** See {@link #withCapability}. */
    public @Nullable String capability() {
        return capability;
    }

    /** See {@link #withUniqueKey(Object)}. */
    public @Nullable String uniqueKey() {
        return uniqueKey;
    }

    /** See {@link #withUniqueKey(Object, UniquePolicy)}. */
    public UniquePolicy uniquePolicy() {
        return uniquePolicy;
    }

    /** See {@link #withMaxAttempts}. */
    public @Nullable Integer maxAttempts() {
        return maxAttempts;
    }

    /** See {@link #withGroup}. */
    public @Nullable String group() {
        return group;
    }

    /** See {@link #withBatch}. */
    public @Nullable UUID batch() {
        return batch;
    }

    /** See {@link #withAfter(UUID...)}. */
    public After after() {
        return after;
    }

    /** See {@link #withMetadata}. */
    public Map<String, String> metadata() {
        return metadata;
    }
}
