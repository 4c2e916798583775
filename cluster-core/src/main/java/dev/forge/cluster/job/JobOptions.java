// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
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

    private static final JobOptions DEFAULTS =
            new JobOptions(null, null, null, null, null, UniquePolicy.KEEP, null, null, null, Map.of());

    private final @Nullable Duration delay;
    private final @Nullable Instant at;
    private final @Nullable Integer priority;
    private final @Nullable String capability;
    private final @Nullable String uniqueKey;
    private final UniquePolicy uniquePolicy;
    private final @Nullable Integer maxAttempts;
    private final @Nullable String group;
    private final @Nullable UUID batch;
    private final Map<String, String> metadata;

    private JobOptions(
            @Nullable Duration delay,
            @Nullable Instant at,
            @Nullable Integer priority,
            @Nullable String capability,
            @Nullable String uniqueKey,
            UniquePolicy uniquePolicy,
            @Nullable Integer maxAttempts,
            @Nullable String group,
            @Nullable UUID batch,
            Map<String, String> metadata) {
        this.delay = delay;
        this.at = at;
        this.priority = priority;
        this.capability = capability;
        this.uniqueKey = uniqueKey;
        this.uniquePolicy = uniquePolicy;
        this.maxAttempts = maxAttempts;
        this.group = group;
        this.batch = batch;
        this.metadata = metadata;
    }

    /** Returns the options that the handler declares. */
    public static JobOptions defaults() {
        return DEFAULTS;
    }

    /** Makes the job due after that delay, by the database's clock. */
    public JobOptions withDelay(Duration delay) {
        required("withDelay", "delay", delay);
        return new JobOptions(
                delay, null, priority, capability, uniqueKey, uniquePolicy, maxAttempts, group, batch, metadata);
    }

    /** Makes the job due at that time, by the database's clock. A time in the past means now. */
    public JobOptions withTime(Instant at) {
        required("withTime", "at", at);
        return new JobOptions(
                null, at, priority, capability, uniqueKey, uniquePolicy, maxAttempts, group, batch, metadata);
    }

    /** Sets the priority. */
    public JobOptions withPriority(JobPriority priority) {
        required("withPriority", "priority", priority);
        return new JobOptions(
                delay, at, priority.value(), capability, uniqueKey, uniquePolicy, maxAttempts, group, batch, metadata);
    }

    /** Sets the capability that a node needs to run the job. */
    public JobOptions withCapability(String capability) {
        required("withCapability", "capability", capability);
        return new JobOptions(
                delay, at, priority, capability, uniqueKey, uniquePolicy, maxAttempts, group, batch, metadata);
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
        return new JobOptions(
                delay, at, priority, capability, key.toString(), policy, maxAttempts, group, batch, metadata);
    }

    /** Sets the number of attempts before the job has failed. */
    public JobOptions withMaxAttempts(int maxAttempts) {
        return new JobOptions(
                delay, at, priority, capability, uniqueKey, uniquePolicy, maxAttempts, group, batch, metadata);
    }

    /**
     * Puts the job into a group, such as the customer that it works for. The groups of jobs of one name take turns, and {@link
     * ClusterJob#groupConcurrency()}, {@link ClusterJob#groupRate()} and {@link ClusterJob#ordered()} apply to each of them.
     *
     * @param group at most 500 characters without control characters
     */
    public JobOptions withGroup(Object group) {
        required("withGroup", "group", group);
        return new JobOptions(
                delay,
                at,
                priority,
                capability,
                uniqueKey,
                uniquePolicy,
                maxAttempts,
                group.toString(),
                batch,
                metadata);
    }

    /** Adds the job to an open {@link JobBatch}. Such a job has no unique key. */
    public JobOptions withBatch(UUID batch) {
        required("withBatch", "batch", batch);
        return new JobOptions(
                delay, at, priority, capability, uniqueKey, uniquePolicy, maxAttempts, group, batch, metadata);
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
        return new JobOptions(
                delay,
                at,
                priority,
                capability,
                uniqueKey,
                uniquePolicy,
                maxAttempts,
                group,
                batch,
                Collections.unmodifiableMap(extended));
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

    /** See {@link #withMetadata}. */
    public Map<String, String> metadata() {
        return metadata;
    }
}
