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
    private static final int MOST_INDEXED_BYTES = 2_400;

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
        Duration delay = options.debounceDelay() != null ? options.debounceDelay() : options.delay();
        options.tags().forEach(tag -> requireStorable("tag", tag));
        return new NewJob(
                ids.next(),
                name,
                text,
                priority != null ? priority : handler != null ? handler.priority() : JobPriority.NORMAL.value(),
                needed,
                delay == null ? 0 : delay.toMillis(),
                options.at(),
                options.maxAttempts(),
                metadata(name, options),
                group,
                options.tags());
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
        String problem = null;
        if (window != null && options.uniqueKey() == null) {
            problem = "unique for %s needs a unique key".formatted(window);
        } else if (delay != null) {
            problem = debounceProblem(options, delay);
        }
        if (problem != null) {
            throw new JobRejectedException("Job '%s': %s".formatted(name, problem));
        }
    }

    private static @Nullable String debounceProblem(JobOptions options, Duration delay) {
        if (options.uniqueKey() == null) {
            return "debounce of %s needs a unique key".formatted(delay);
        }
        if (options.uniqueFor() != null) {
            return "debounce of %s and unique for %s exclude each other".formatted(delay, options.uniqueFor());
        }
        return options.delay() != null || options.at() != null
                ? "debounce of %s excludes a delay and a time".formatted(delay)
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
