package dev.forge.cluster.job;

import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * How to enqueue a job, beyond what its handler declares. Immutable; each method answers a changed copy.
 *
 * <pre>{@code
 * jobs.enqueue(new SendReminder(id), JobOptions.defaults().withDelay(Duration.ofHours(1)).withUniqueKey(id));
 * }</pre>
 */
public final class JobOptions {

    private static final JobOptions DEFAULTS =
            new JobOptions(null, null, null, null, null, UniquePolicy.KEEP, null, Map.of());

    private final @Nullable Duration delay;
    private final @Nullable Instant at;
    private final @Nullable Integer priority;
    private final @Nullable String capability;
    private final @Nullable String uniqueKey;
    private final UniquePolicy uniquePolicy;
    private final @Nullable Integer maxAttempts;
    private final Map<String, String> metadata;

    private JobOptions(
            @Nullable Duration delay,
            @Nullable Instant at,
            @Nullable Integer priority,
            @Nullable String capability,
            @Nullable String uniqueKey,
            UniquePolicy uniquePolicy,
            @Nullable Integer maxAttempts,
            Map<String, String> metadata) {
        this.delay = delay;
        this.at = at;
        this.priority = priority;
        this.capability = capability;
        this.uniqueKey = uniqueKey;
        this.uniquePolicy = uniquePolicy;
        this.maxAttempts = maxAttempts;
        this.metadata = metadata;
    }

    /** As the handler declares. */
    public static JobOptions defaults() {
        return DEFAULTS;
    }

    /** Due that long after it was enqueued, by the database's clock. */
    public JobOptions withDelay(Duration delay) {
        required("withDelay", "delay", delay);
        return new JobOptions(delay, null, priority, capability, uniqueKey, uniquePolicy, maxAttempts, metadata);
    }

    /** Due at that time, by the database's clock; a time in the past means now. */
    public JobOptions withTime(Instant at) {
        required("withTime", "at", at);
        return new JobOptions(null, at, priority, capability, uniqueKey, uniquePolicy, maxAttempts, metadata);
    }

    /** How urgent it is. */
    public JobOptions withPriority(JobPriority priority) {
        required("withPriority", "priority", priority);
        return new JobOptions(delay, at, priority.value(), capability, uniqueKey, uniquePolicy, maxAttempts, metadata);
    }

    /** What a node must offer to run it. */
    public JobOptions withCapability(String capability) {
        required("withCapability", "capability", capability);
        return new JobOptions(delay, at, priority, capability, uniqueKey, uniquePolicy, maxAttempts, metadata);
    }

    /** At most one active job of its name has that key; an active one is {@linkplain UniquePolicy#KEEP kept}. */
    public JobOptions withUniqueKey(Object key) {
        return withUniqueKey(key, UniquePolicy.KEEP);
    }

    /**
     * At most one active job of its name has that key.
     *
     * @param key at most 500 characters, none of them a control character; keys that begin with {@code @http/} are those of
     *     jobs submitted over HTTP, keys that begin with {@code workflow:} those of jobs that runs of workflows wait for
     */
    public JobOptions withUniqueKey(Object key, UniquePolicy policy) {
        required("withUniqueKey", "key", key);
        required("withUniqueKey", "policy", policy);
        return new JobOptions(delay, at, priority, capability, key.toString(), policy, maxAttempts, metadata);
    }

    /** How often it is tried before it has failed. */
    public JobOptions withMaxAttempts(int maxAttempts) {
        return new JobOptions(delay, at, priority, capability, uniqueKey, uniquePolicy, maxAttempts, metadata);
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

    /** See {@link #withMetadata}. */
    public Map<String, String> metadata() {
        return metadata;
    }
}
