// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.job.operations.JobFilter;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Options for enqueueing a job that override what its handler declares. Immutable; each {@code with} method returns a changed
 * copy, and throws {@link IllegalArgumentException} for null and for values out of range.
 *
 * <pre>{@code
 * jobs.enqueue(new SendReminder(id), JobOptions.defaults().withDelay(Duration.ofHours(1)).withUniqueKey(id));
 * }</pre>
 */
public final class JobOptions {

    private static final JobOptions DEFAULTS = new JobOptions(new Draft());

    private static final Duration LONGEST_DELAY = Duration.ofDays(36_500);
    private static final Instant EARLIEST = Instant.EPOCH;
    private static final Instant LATEST = Instant.parse("3000-01-01T00:00:00Z");
    private static final Duration SHORTEST_WINDOW = Duration.ofMillis(1);
    private static final Duration LONGEST_WINDOW = Duration.ofDays(366);
    private static final int MOST_TAGS = 10;
    private static final int LONGEST_TAG = 100;

    private final @Nullable Duration delay;
    private final @Nullable Instant at;
    private final @Nullable Integer priority;
    private final @Nullable String capability;
    private final Uniqueness uniqueness;
    private final @Nullable Integer maxAttempts;
    private final @Nullable String group;
    private final @Nullable UUID batch;
    private final StartAfter startAfter;
    private final Map<String, String> metadata;
    private final List<String> tags;

    private JobOptions(Draft draft) {
        this.delay = draft.delay;
        this.at = draft.at;
        this.priority = draft.priority;
        this.capability = draft.capability;
        this.uniqueness = draft.uniqueness;
        this.maxAttempts = draft.maxAttempts;
        this.group = draft.group;
        this.batch = draft.batch;
        this.startAfter = draft.startAfter;
        this.metadata = draft.metadata;
        this.tags = draft.tags;
    }

    /** The unique key of a job and what it means for further calls. */
    private record Uniqueness(
            @Nullable String key,
            UniquePolicy policy,
            @Nullable Duration window,
            @Nullable Duration debounceDelay,
            @Nullable Duration debounceMax) {

        static final Uniqueness NONE = new Uniqueness(null, UniquePolicy.KEEP, null, null, null);
    }

    /** A copy while it is being changed. */
    private static final class Draft {

        private @Nullable Duration delay;
        private @Nullable Instant at;
        private @Nullable Integer priority;
        private @Nullable String capability;
        private Uniqueness uniqueness = Uniqueness.NONE;
        private @Nullable Integer maxAttempts;
        private @Nullable String group;
        private @Nullable UUID batch;
        private StartAfter startAfter = StartAfter.NOTHING;
        private Map<String, String> metadata = Map.of();
        private List<String> tags = List.of();
    }

    private JobOptions with(Consumer<Draft> change) {
        var draft = new Draft();
        draft.delay = delay;
        draft.at = at;
        draft.priority = priority;
        draft.capability = capability;
        draft.uniqueness = uniqueness;
        draft.maxAttempts = maxAttempts;
        draft.group = group;
        draft.batch = batch;
        draft.startAfter = startAfter;
        draft.metadata = metadata;
        draft.tags = tags;
        change.accept(draft);
        return new JobOptions(draft);
    }

    /** Returns the options that the handler declares. */
    public static JobOptions defaults() {
        return DEFAULTS;
    }

    /**
     * Makes the job due after that delay, by the database's clock.
     *
     * @param delay between 0 and 36,500 days
     */
    public JobOptions withDelay(Duration delay) {
        required("withDelay", "delay", delay);
        requireRange("withDelay", "delay", delay, Duration.ZERO, LONGEST_DELAY);
        return with(draft -> {
            draft.delay = delay;
            draft.at = null;
        });
    }

    /**
     * Makes the job due at that time, by the database's clock. A time in the past means now.
     *
     * @param at between the years 1970 and 3000
     */
    public JobOptions withTime(Instant at) {
        required("withTime", "at", at);
        requireRange("withTime", "at", at, EARLIEST, LATEST);
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
        return with(draft -> draft.uniqueness = new Uniqueness(
                key.toString(), policy, uniqueness.window, uniqueness.debounceDelay, uniqueness.debounceMax));
    }

    /**
     * Allows at most one job of the {@linkplain #withUniqueKey(Object) unique key} within that time (a throttle). The window opens when
     * the job is enqueued. Until its end, calls with the same name, key and this option return the id of that job, also after the job
     * has completed and after its row was deleted. A rollback of the transaction that enqueued the job removes its window.
     *
     * <ul>
     *   <li>The window ends early if the job fails permanently, is cancelled or is abandoned: it has not done its work.
     *   <li>If calls for one key use different windows, the shorter one counts.
     *   <li>The rules of the key hold, too: if the job is still active when its window ends, a call returns the active job, and the
     *       next window opens with the next job. With {@link UniquePolicy#REPLACE} a call overwrites a job that is pending; once the
     *       job has started, further calls in the window change nothing.
     *   <li>Calls without this option neither open a window nor obey one.
     * </ul>
     *
     * <p>{@link Jobs} rejects a window without a unique key or together with {@link #withDebounce}.
     *
     * @param window between one millisecond and 366 days, by the database's clock
     */
    public JobOptions withUniqueFor(Duration window) {
        required("withUniqueFor", "window", window);
        requireRange("withUniqueFor", "window", window, SHORTEST_WINDOW, LONGEST_WINDOW);
        return with(draft -> draft.uniqueness = new Uniqueness(
                uniqueness.key, uniqueness.policy, window, uniqueness.debounceDelay, uniqueness.debounceMax));
    }

    /**
     * Starts the job when no call with its name and {@linkplain #withUniqueKey(Object) unique key} has been made for {@code delay}, at
     * the latest {@code max} after the first call. Each call moves the start of the pending job to {@code delay} from now and replaces
     * its payload and options: the latest call wins, whatever the {@link UniquePolicy}. If the job has already been claimed or runs,
     * the call creates a new job, which waits for the end of the running one as with {@link UniquePolicy#REPLACE}. So no call is
     * lost. With {@code max} equal to {@code delay}, calls replace the payload but never move the start.
     *
     * <p>A job that waits for its next attempt counts as pending: it starts at the latest {@code max} after the start of its last
     * attempt, with all attempts.
     *
     * <p>{@link Jobs} rejects a debounce without a unique key, or together with {@link #withDelay}, {@link #withTime} or {@link
     * #withUniqueFor}.
     *
     * @param delay at least one millisecond, by the database's clock
     * @param max not shorter than {@code delay}, at most 366 days
     */
    public JobOptions withDebounce(Duration delay, Duration max) {
        required("withDebounce", "delay", delay);
        required("withDebounce", "max", max);
        requireRange("withDebounce", "max", max, SHORTEST_WINDOW, LONGEST_WINDOW);
        requireRange("withDebounce", "delay", delay, SHORTEST_WINDOW, max);
        return with(draft ->
                draft.uniqueness = new Uniqueness(uniqueness.key, uniqueness.policy, uniqueness.window, delay, max));
    }

    /**
     * Sets the number of attempts before the job has failed.
     *
     * @param maxAttempts at least 1
     */
    public JobOptions withMaxAttempts(int maxAttempts) {
        if (maxAttempts < 1) {
            throw new IllegalArgumentException(
                    "JobOptions.withMaxAttempts: maxAttempts (%d) must be at least 1".formatted(maxAttempts));
        }
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
     * Starts the job when all of these jobs have completed. If one of them fails, is cancelled or abandoned, the job is cancelled.
     * A job that no longer exists counts as completed. Replaces earlier jobs. A job that waits for others has no unique key.
     *
     * @param jobs between 1 and 1,000 jobs
     */
    public JobOptions withStartAfterSuccessOf(UUID... jobs) {
        required("withStartAfterSuccessOf", "jobs", jobs);
        return withStartAfterSuccessOf(Arrays.asList(jobs));
    }

    /** Starts the job when all of these jobs have completed; see {@link #withStartAfterSuccessOf(UUID...)}. */
    public JobOptions withStartAfterSuccessOf(Collection<UUID> jobs) {
        return withStartAfter("withStartAfterSuccessOf", jobs, false);
    }

    /**
     * Starts the job when all of these jobs have ended, whether they completed or not. Apart from that like {@link
     * #withStartAfterSuccessOf(UUID...)}.
     */
    public JobOptions withStartAfterEndOf(UUID... jobs) {
        required("withStartAfterEndOf", "jobs", jobs);
        return withStartAfterEndOf(Arrays.asList(jobs));
    }

    /** Starts the job when all of these jobs have ended; see {@link #withStartAfterEndOf(UUID...)}. */
    public JobOptions withStartAfterEndOf(Collection<UUID> jobs) {
        return withStartAfter("withStartAfterEndOf", jobs, true);
    }

    private JobOptions withStartAfter(String method, Collection<UUID> jobs, boolean anyway) {
        required(method, "jobs", jobs);
        jobs.forEach(job -> required(method, "jobs[]", job));
        requireRange(method, "number of jobs", jobs.size(), 1, StartAfter.MOST);
        return with(draft -> draft.startAfter = new StartAfter(Set.copyOf(jobs), anyway));
    }

    /**
     * The jobs that a job waits for.
     *
     * @param jobs these jobs; empty: none
     * @param anyway whether the job runs even if one of them does not complete; otherwise it is cancelled
     */
    public record StartAfter(Set<UUID> jobs, boolean anyway) {

        private static final int MOST = 1_000;
        private static final StartAfter NOTHING = new StartAfter(Set.of(), false);

        /** Creates a value. */
        public StartAfter {
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

    /**
     * Attaches tags by which the job can be found, {@link JobFilter#withTags}. Replaces earlier ones; duplicates count once.
     *
     * @param tags at most 10, each with at most 100 characters without control characters
     */
    public JobOptions withTags(String... tags) {
        required("withTags", "tags", tags);
        var distinct = new LinkedHashSet<String>();
        for (String tag : tags) {
            required("withTags", "tag", tag);
            requireRange("withTags", "length of tag", tag.length(), 1, LONGEST_TAG);
            distinct.add(tag);
        }
        requireRange("withTags", "number of tags", distinct.size(), 0, MOST_TAGS);
        return with(draft -> draft.tags = List.copyOf(distinct));
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("JobOptions.%s: %s must not be null".formatted(method, parameter));
        }
    }

    private static <T extends Comparable<T>> void requireRange(
            String method, String parameter, T value, T least, T most) {
        if (value.compareTo(least) < 0 || value.compareTo(most) > 0) {
            throw new IllegalArgumentException("JobOptions.%s: %s (%s) must be between %s and %s"
                    .formatted(method, parameter, value, least, most));
        }
    }

    /** Returns the delay after which the job is due; null: none. */
    public @Nullable Duration delay() {
        return delay;
    }

    /** Returns the time at which the job is due; null: no given time. */
    public @Nullable Instant at() {
        return at;
    }

    /** Returns the priority as a number; null: as the handler declares. */
    public @Nullable Integer priority() {
        return priority;
    }

    /** Returns the capability that a node needs; null: as the handler declares. */
    public @Nullable String capability() {
        return capability;
    }

    /** Returns the unique key; null: none. */
    public @Nullable String uniqueKey() {
        return uniqueness.key;
    }

    /** Returns what a call does if an active job has the unique key. */
    public UniquePolicy uniquePolicy() {
        return uniqueness.policy;
    }

    /** Returns the length of the window in which the key is unique; null: no window. */
    public @Nullable Duration uniqueFor() {
        return uniqueness.window;
    }

    /** Returns how long no further call must come before the job starts; null if and only if {@link #debounceMax} is. */
    public @Nullable Duration debounceDelay() {
        return uniqueness.debounceDelay;
    }

    /** Returns the longest time from the first call to the start of the job; null: no debounce. */
    public @Nullable Duration debounceMax() {
        return uniqueness.debounceMax;
    }

    /** Returns the number of attempts; null: as the handler declares. */
    public @Nullable Integer maxAttempts() {
        return maxAttempts;
    }

    /** Returns the group of the job; null: as the handler declares. */
    public @Nullable String group() {
        return group;
    }

    /** Returns the batch that the job belongs to; null: none. */
    public @Nullable UUID batch() {
        return batch;
    }

    /** Returns the jobs that must end before the job starts. */
    public StartAfter startAfter() {
        return startAfter;
    }

    /** Returns the texts for the handler, by key. */
    public Map<String, String> metadata() {
        return metadata;
    }

    /** Returns the tags without duplicates. */
    public List<String> tags() {
        return tags;
    }
}
