// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.row.JobInsertStore.NewJob;
import dev.forge.cluster.internal.job.row.JobRestartStore;
import dev.forge.cluster.internal.job.row.UniqueJobStore.UniqueJob;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobRejectedException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Creates jobs to insert from payloads and options, with the defaults of their handlers; rejects invalid ones. */
public final class NewJobFactory {

    private static final Instant EARLIEST = Instant.EPOCH;
    private static final Instant LATEST = Instant.parse("3000-01-01T00:00:00Z");
    private static final Duration LONGEST_DELAY = Duration.ofDays(36_500);
    private static final Duration SHORTEST_WINDOW = Duration.ofMillis(1);
    private static final Duration LONGEST_WINDOW = Duration.ofDays(366);
    private static final int MOST_INDEXED_BYTES = 2_400;
    private static final int MOST_TAGS = 10;
    private static final int LONGEST_TAG = 100;

    private final JobHandlers handlers;
    private final JobMonitor monitor;
    private final PayloadJson json;
    private final JobIds ids;

    public NewJobFactory(JobHandlers handlers, JobMonitor monitor, PayloadJson json, JobIds ids) {
        this.handlers = handlers;
        this.monitor = monitor;
        this.json = json;
        this.ids = ids;
    }

    /**
     * Creates a job from a payload and its options.
     *
     * @throws JobRejectedException if the payload or an option is invalid
     */
    public NewJob create(String name, @Nullable Object payload, JobOptions options) {
        JobHandler handler = handler(name);
        return create(name, payload, payloadText(name, payload, handler), handler, options);
    }

    /**
     * Creates a job whose payload is JSON.
     *
     * @throws JobRejectedException if the payload or an option is invalid
     */
    public NewJob createFromJson(String name, String payload, JobOptions options) {
        JobHandler handler = handler(name);
        requireReadable(name, payload, handler);
        return create(name, null, payload, handler, options);
    }

    private void requireReadable(String name, String payload, @Nullable JobHandler handler) {
        try {
            json.requireSize(payload);
            if (handler != null) {
                handler.target().requireReadable(json, null, payload);
            }
        } catch (IllegalArgumentException e) {
            throw new JobRejectedException("the payload of job '%s' %s".formatted(name, e.getMessage()), e);
        }
    }

    /**
     * Checks another payload for a job that exists. The group changes only if the handler took it from the old payload.
     *
     * @param payload JSON
     * @throws JobRejectedException if the payload is invalid
     */
    public JobRestartStore.Edit edit(JobInfo job, String payload) {
        JobHandler handler = handlers.named(job.name());
        try {
            json.requireValid(payload);
        } catch (IllegalArgumentException e) {
            throw new JobRejectedException("the payload of job '%s' %s".formatted(job.name(), e.getMessage()), e);
        }
        requireReadable(job.name(), payload, handler);
        String group = job.group();
        if (Objects.equals(group, declaredGroup(job, handler))) {
            group = group(job.name(), null, payload, handler, JobOptions.defaults());
        }
        requireIndexable(job.name(), job.capability(), group);
        return new JobRestartStore.Edit(payload, group);
    }

    private @Nullable String declaredGroup(JobInfo job, @Nullable JobHandler handler) {
        try {
            return group(job.name(), null, job.payload(), handler, JobOptions.defaults());
        } catch (JobRejectedException e) {
            // The payload has no group that the handler could take.
            return null;
        }
    }

    private @Nullable JobHandler handler(String name) {
        JobHandler handler = handlers.named(name);
        if (handler == null) {
            // @JobName may name a job whose handler is on other nodes.
            requireListable("job name", name);
        }
        return handler;
    }

    private NewJob create(
            String name, @Nullable Object payload, String text, @Nullable JobHandler handler, JobOptions options) {
        requireConsistent(name, options);
        Integer priority = options.priority();
        String capability = options.capability();
        Integer maxAttempts = options.maxAttempts();
        if (maxAttempts != null && maxAttempts < 1) {
            throw new JobRejectedException("Job '%s': max attempts %d must be at least 1".formatted(name, maxAttempts));
        }
        if (capability != null) {
            requireListable("capability", capability);
            if (capability.startsWith("@")) {
                throw new JobRejectedException(
                        "capability '%s': capabilities that begin with @ are reserved for the cluster"
                                .formatted(capability));
            }
        }
        String group = group(name, payload, text, handler, options);
        String needed = capability != null ? capability : handler != null ? handler.capability() : null;
        requireIndexable(name, needed, group);
        return new NewJob(
                ids.next(),
                name,
                text,
                priority != null ? priority : handler != null ? handler.priority() : JobPriority.NORMAL.value(),
                needed,
                delay(name, options.debounceDelay() != null ? options.debounceDelay() : options.delay()),
                time(name, options.at()),
                maxAttempts,
                metadata(name, options),
                group,
                tags(name, options));
    }

    /** Rejects texts that an entry of an index cannot hold together. The row of a job that waits is not in that index before its turn. */
    private static void requireIndexable(String name, @Nullable String capability, @Nullable String group) {
        long bytes = Stream.of(name, capability == null ? "" : capability, group == null ? "" : group)
                .mapToLong(text -> text.getBytes(StandardCharsets.UTF_8).length)
                .sum();
        if (bytes > MOST_INDEXED_BYTES) {
            throw new JobRejectedException(
                    "Job '%s': name, capability and group have %d bytes together; at most %d are possible"
                            .formatted(name, bytes, MOST_INDEXED_BYTES));
        }
    }

    private static List<String> tags(String name, JobOptions options) {
        List<String> tags = options.tags();
        if (tags.size() > MOST_TAGS) {
            throw new JobRejectedException(
                    "Job '%s': %d tags; at most %d are possible".formatted(name, tags.size(), MOST_TAGS));
        }
        for (String tag : tags) {
            requireStorable("tag", tag);
            if (tag.length() > LONGEST_TAG) {
                throw new JobRejectedException("Job '%s': tag of %d characters; at most %d are possible"
                        .formatted(name, tag.length(), LONGEST_TAG));
            }
        }
        return tags;
    }

    /** Returns a job to insert together with what its unique key means. */
    static UniqueJob unique(NewJob job, String key, JobOptions options) {
        Duration window = options.uniqueFor();
        Duration debounceMax = options.debounceMax();
        return new UniqueJob(
                job,
                key,
                options.uniquePolicy(),
                window == null ? null : window.toMillis(),
                debounceMax == null ? null : debounceMax.toMillis());
    }

    private static void requireConsistent(String name, JobOptions options) {
        Duration window = options.uniqueFor();
        Duration delay = options.debounceDelay();
        Duration max = options.debounceMax();
        String problem = null;
        if (window != null) {
            problem = windowProblem(options, window);
        }
        if (problem == null && delay != null && max != null) {
            problem = debounceProblem(options, delay, max);
        }
        if (problem != null) {
            throw new JobRejectedException("Job '%s': %s".formatted(name, problem));
        }
    }

    private static @Nullable String windowProblem(JobOptions options, Duration window) {
        if (options.uniqueKey() == null) {
            return "unique for %s needs a unique key".formatted(window);
        }
        return window.compareTo(SHORTEST_WINDOW) < 0 || window.compareTo(LONGEST_WINDOW) > 0
                ? "unique for %s must lie between 1 millisecond and 366 days".formatted(window)
                : null;
    }

    private static @Nullable String debounceProblem(JobOptions options, Duration delay, Duration max) {
        if (options.uniqueKey() == null) {
            return "debounce of %s needs a unique key".formatted(delay);
        }
        if (options.uniqueFor() != null) {
            return "debounce of %s and unique for %s exclude each other".formatted(delay, options.uniqueFor());
        }
        if (options.delay() != null || options.at() != null) {
            return "debounce of %s excludes a delay and a time".formatted(delay);
        }
        return delay.compareTo(SHORTEST_WINDOW) < 0 || delay.compareTo(max) > 0 || max.compareTo(LONGEST_WINDOW) > 0
                ? "debounce of %s must lie between 1 millisecond and its maximum (%s), which must not exceed 366 days"
                        .formatted(delay, max)
                : null;
    }

    private String payloadText(String name, @Nullable Object payload, @Nullable JobHandler handler) {
        try {
            String text = payload == null ? "{}" : json.write(payload);
            if (handler != null) {
                handler.target().requireReadable(json, payload, text);
            }
            return text;
        } catch (IllegalArgumentException e) {
            String type = payload == null ? "none" : payload.getClass().getName();
            // Maps and lists come from HTTP clients, which do not know Java types.
            String what = type.startsWith("java.") ? "" : " (" + type + ")";
            throw new JobRejectedException("the payload of job '%s'%s %s".formatted(name, what, e.getMessage()), e);
        }
    }

    private @Nullable String group(
            String name, @Nullable Object payload, String text, @Nullable JobHandler handler, JobOptions options) {
        String group = options.group();
        JobHandler.GroupOfPayload declared =
                handler == null ? null : handler.grouping().group();
        if (group == null && handler != null && declared != null) {
            try {
                group = declared.of(handler.target().payload(json, payload, text));
            } catch (IllegalArgumentException e) {
                throw new JobRejectedException("Job '%s': %s".formatted(name, e.getMessage()), e);
            }
        }
        if (group != null) {
            requireStorable("group", group);
        }
        return group;
    }

    private String metadata(String name, JobOptions options) {
        Map<String, String> origin = monitor.origin(name);
        if (origin.isEmpty() && options.metadata().isEmpty()) {
            return "{}";
        }
        var all = new TreeMap<>(origin);
        all.putAll(options.metadata());
        try {
            return json.write(all);
        } catch (IllegalArgumentException e) {
            throw new JobRejectedException("the metadata of job '%s' %s".formatted(name, e.getMessage()), e);
        }
    }

    private static long delay(String name, @Nullable Duration delay) {
        if (delay == null) {
            return 0;
        }
        if (delay.isNegative() || delay.compareTo(LONGEST_DELAY) > 0) {
            throw new JobRejectedException(
                    "Job '%s': delay %s must lie between 0 and 100 years".formatted(name, delay));
        }
        return delay.toMillis();
    }

    private static @Nullable Instant time(String name, @Nullable Instant at) {
        if (at != null && (at.isBefore(EARLIEST) || at.isAfter(LATEST))) {
            throw new JobRejectedException(
                    "Job '%s': time %s must lie between %s and %s".formatted(name, at, EARLIEST, LATEST));
        }
        return at;
    }

    /**
     * Returns a time that the database can store.
     *
     * @throws JobRejectedException if no job can be due at that time
     */
    public static Instant requireTime(String call, Instant at) {
        if (at.isBefore(EARLIEST) || at.isAfter(LATEST)) {
            throw new JobRejectedException(
                    "%s: time %s must lie between %s and %s".formatted(call, at, EARLIEST, LATEST));
        }
        return at;
    }

    /**
     * Rejects a text that the database cannot store.
     *
     * @throws JobRejectedException if the table cannot store that text as a key or group
     */
    public static void requireStorable(String what, String text) {
        require(Names::require, what, text);
    }

    /**
     * Rejects a text that the database cannot store as a name.
     *
     * @throws JobRejectedException if the table cannot store that text as a job name or capability
     */
    public static void requireListable(String what, String text) {
        require(Names::requireListable, what, text);
    }

    private static void require(BiConsumer<String, String> check, String what, String text) {
        try {
            check.accept(what, text);
        } catch (IllegalArgumentException e) {
            throw new JobRejectedException(String.valueOf(e.getMessage()), e);
        }
    }
}
