// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.handler;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobRejectedException;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.core.ResolvableType;
import org.springframework.util.ClassUtils;

/** The handlers of this node, by name and by payload type. Complete before the node starts. */
public final class JobHandlers {

    private static final Logger log = GuardedLogger.of(JobHandlers.class);

    private final Map<String, JobHandler> byName = new TreeMap<>();
    private final Map<Class<?>, List<JobHandler>> byPayload = new HashMap<>();
    private final Map<Class<?>, JobHandler> byPayloadOfCalls = new ConcurrentHashMap<>();
    /** Names of handlers that the leader may run, each with the error message for applications that enqueue such a job. */
    private final Map<String, String> ofLeader = new TreeMap<>();

    private final List<OwnedJobs> owned = new CopyOnWriteArrayList<>();
    private final BooleanSupplier completion;
    private volatile boolean complete;

    /** Creates handlers that are all added before the first query. */
    public JobHandlers() {
        this(() -> true);
    }

    /**
     * Creates handlers of which some are added later.
     *
     * @param completion adds all missing handlers; false if it is too early to know them
     */
    public JobHandlers(BooleanSupplier completion) {
        this.completion = completion;
    }

    /**
     * Checks that all handlers are known: an earlier call would not find its handler, or not use its priority and capability.
     *
     * @param call the method of the API, for the message
     * @throws ClusterNotReadyException if it is too early
     */
    public void requireComplete(String call) {
        if (!complete) {
            if (!completion.getAsBoolean()) {
                throw new ClusterNotReadyException(
                        ("%s: the application is still creating its beans, so its handlers are not known yet. Call this from"
                                        + " an ApplicationRunner or a method with @EventListener(ApplicationReadyEvent.class),"
                                        + " not from a constructor or a @PostConstruct method.")
                                .formatted(call));
            }
            complete = true;
        }
    }

    /**
     * Adds a handler.
     *
     * @throws ClusterStartupException if another handler has one of its names
     */
    public void add(JobHandler handler) {
        var names = new TreeSet<>(handler.aliases());
        names.add(handler.name());
        for (String name : names) {
            requireName(name, handler);
            JobHandler other = byName.putIfAbsent(name, handler);
            if (other != null) {
                throw new ClusterStartupException(
                        "Two handlers have the name '%s': %s and %s"
                                .formatted(
                                        name,
                                        other.target().description(),
                                        handler.target().description()),
                        "Give one of them another name: @ClusterJob(name = ...), @ClusterCron(name = ...); or remove the alias.");
            }
        }
        Type payload = handler.target().payloadType();
        if (payload != null) {
            byPayload
                    .computeIfAbsent(rawType(payload), type -> new ArrayList<>())
                    .add(handler);
        }
    }

    private static void requireName(String name, JobHandler handler) {
        try {
            Names.requireListable("job name", name);
        } catch (IllegalArgumentException e) {
            throw new ClusterStartupException(
                    "%s: %s".formatted(handler.target().description(), e.getMessage()),
                    "Give the handler another name or alias.",
                    e);
        }
    }

    private static Class<?> rawType(Type type) {
        return ClassUtils.resolvePrimitiveIfNecessary(
                ResolvableType.forType(type).toClass());
    }

    /**
     * Adds a handler whose jobs only the cluster enqueues, and which the leader may run.
     *
     * @param refusal the error message for applications that enqueue such a job, after its name
     */
    public void addForLeader(JobHandler handler, String refusal) {
        add(handler);
        ofLeader.put(handler.name(), refusal);
        handler.aliases().forEach(alias -> ofLeader.put(alias, refusal));
    }

    /** Returns the names and aliases of handlers that the leader may run, each with the error message for applications. */
    public Map<String, String> ofLeader() {
        return ofLeader;
    }

    /** Reserves the names of jobs that another capability enqueues for itself. */
    public void reserve(OwnedJobs jobs) {
        owned.removeIf(other -> other.prefix().equals(jobs.prefix()));
        owned.add(jobs);
    }

    /** Returns all reservations. */
    public List<OwnedJobs> owned() {
        return owned;
    }

    /** Returns the prefixes of the names of all {@link #owned} jobs. */
    public List<String> ownedPrefixes() {
        return owned.stream().map(OwnedJobs::prefix).toList();
    }

    /**
     * Rejects a call for a job that another capability has enqueued for itself: that capability controls its end and restart.
     *
     * @param advice returns what to call instead
     */
    public void rejectOwned(JobInfo job, Function<OwnedJobs, String> advice) {
        ownerOf(job.name()).ifPresent(found -> {
            throw new JobRejectedException("job %s ('%s') is one of the %s; %s"
                    .formatted(job.id(), job.name(), found.description(), advice.apply(found)));
        });
    }

    /** Returns the reservation that a name belongs to, if there is one. */
    public Optional<OwnedJobs> ownerOf(String name) {
        return owned.stream().filter(jobs -> jobs.matches(name)).findFirst();
    }

    /** Returns all names, including aliases. */
    public Set<String> names() {
        return byName.keySet();
    }

    /** Returns all handlers. */
    public Collection<JobHandler> all() {
        return new LinkedHashSet<>(byName.values());
    }

    /** Returns the handler with that name or alias; null if there is none. */
    public @Nullable JobHandler named(String name) {
        return byName.get(name);
    }

    /**
     * Returns the handler for payloads of that class. Objects do not know their type arguments, so that a handler of {@code
     * Box<LocalDate>} takes every {@code Box} if no other handler takes one.
     *
     * @throws JobRejectedException if there is no such handler, or more than one
     */
    public JobHandler taking(Class<?> payload) {
        JobHandler known = byPayloadOfCalls.get(payload);
        if (known != null) {
            return known;
        }
        List<JobHandler> candidates = candidates(payload);
        if (candidates.size() != 1) {
            throw candidates.isEmpty() ? takenByNone(payload) : takenBySeveral(payload, candidates);
        }
        byPayloadOfCalls.put(payload, candidates.get(0));
        return candidates.get(0);
    }

    /** Returns the names and aliases of all handlers for payloads of that class. */
    public Set<String> namesTaking(Class<?> payload) {
        return candidates(payload).stream()
                .flatMap(handler -> handler.names().stream())
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** Returns the handlers of the class, else of the nearest superclass, else of the most specific interfaces. */
    private List<JobHandler> candidates(Class<?> payload) {
        for (Class<?> type = payload; type != null && type != Object.class; type = type.getSuperclass()) {
            List<JobHandler> own = accepting(type, payload);
            if (!own.isEmpty()) {
                return own;
            }
        }
        List<Class<?>> interfaces = byPayload.keySet().stream()
                .filter(type -> type.isInterface() && type.isAssignableFrom(payload))
                .toList();
        return interfaces.stream()
                .filter(candidate ->
                        interfaces.stream().noneMatch(other -> other != candidate && candidate.isAssignableFrom(other)))
                .flatMap(candidate -> accepting(candidate, payload).stream())
                .toList();
    }

    /** Returns the handlers of a type, except for those whose type arguments differ from those of the payload class. */
    private List<JobHandler> accepting(Class<?> type, Class<?> payload) {
        List<JobHandler> handlers = byPayload.getOrDefault(type, List.of());
        ResolvableType own = ResolvableType.forClass(payload).as(type);
        return own.hasUnresolvableGenerics()
                ? handlers
                : handlers.stream()
                        .filter(handler -> handler.target().payloadType() instanceof Class<?>
                                || ResolvableType.forType(handler.target().payloadType())
                                        .isAssignableFrom(own))
                        .toList();
    }

    private JobRejectedException takenByNone(Class<?> payload) {
        return new JobRejectedException(
                ("No @ClusterJob method of this application takes a %s; they take %s. Add such a method. If the handler is on other"
                                + " nodes, put @JobName on the type or call enqueueNamed.")
                        .formatted(payload.getTypeName(), payloadTypes()));
    }

    private static JobRejectedException takenBySeveral(Class<?> payload, List<JobHandler> handlers) {
        return new JobRejectedException(
                "Several jobs take a %s: %s. Select one: enqueueNamed(\"%s\", payload), or @JobName on the type."
                        .formatted(
                                payload.getTypeName(),
                                handlers.stream()
                                        .map(handler -> "%s (%s)".formatted(handler.name(), typeName(handler)))
                                        .sorted()
                                        .collect(Collectors.joining(", ")),
                                handlers.get(0).name()));
    }

    private static String typeName(JobHandler handler) {
        Type type = handler.target().payloadType();
        return type == null ? "nothing" : type.getTypeName();
    }

    /**
     * Warns about handlers between which {@link #taking} cannot choose. Types of the JDK say nothing about the job: their jobs are
     * enqueued by name.
     */
    public void warnOfSharedPayloads() {
        byPayload.forEach((type, handlers) -> {
            if (!type.getName().startsWith("java.") && !type.isAnnotationPresent(JobName.class)) {
                handlers.stream()
                        .collect(Collectors.groupingBy(JobHandlers::typeName, TreeMap::new, Collectors.toList()))
                        .forEach(JobHandlers::warnOfShared);
            }
        });
    }

    private static void warnOfShared(String payload, List<JobHandler> handlers) {
        if (handlers.size() > 1) {
            log.warn(
                    "Several jobs take a {}: {}. Calls of enqueue with such a payload are rejected: call enqueueNamed, put @JobName on"
                            + " the type, or give each handler a type of its own.",
                    payload,
                    handlers.stream()
                            .map(handler -> "%s (%s)"
                                    .formatted(handler.name(), handler.target().description()))
                            .sorted()
                            .collect(Collectors.joining(", ")));
        }
    }

    /** Returns the payload types of all handlers. */
    private Set<String> payloadTypes() {
        var types = new TreeSet<String>();
        byPayload.values().forEach(handlers -> handlers.forEach(handler -> types.add(typeName(handler))));
        return types;
    }
}
