package dev.forge.cluster.internal.job;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobRejectedException;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ResolvableType;
import org.springframework.util.ClassUtils;

/** The handlers of this node, by name and by the type of their payload. Filled before the node starts. */
public final class JobHandlers {

    private final Map<String, JobHandler> byName = new TreeMap<>();
    private final Map<Class<?>, List<JobHandler>> byPayload = new HashMap<>();
    private final Map<Class<?>, JobHandler> byPayloadOfCalls = new ConcurrentHashMap<>();
    /** Handlers whose jobs the leader may run, each with what to tell an application that enqueues such a job. */
    private final Map<String, String> ofLeader = new TreeMap<>();

    private final List<OwnedJobs> owned = new CopyOnWriteArrayList<>();
    private final BooleanSupplier completion;
    private volatile boolean complete;

    /** For those that are added before anybody asks. */
    public JobHandlers() {
        this(() -> true);
    }

    /** @param completion adds all handlers that are still missing; false if it is too early to know them */
    public JobHandlers(BooleanSupplier completion) {
        this.completion = completion;
    }

    /**
     * Demands that all handlers are known: a call that asks for one earlier would be told that there is none, or lose its
     * priority and capability.
     *
     * @param call the method of the API, for people
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
     * @throws ClusterStartupException if another one has one of its names
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
            Names.require("job name", name);
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
     * @param refusal what to tell an application that enqueues such a job, after its name
     */
    public void addForLeader(JobHandler handler, String refusal) {
        add(handler);
        ofLeader.put(handler.name(), refusal);
    }

    /** Returns the names of handlers that the leader may run, each with the refusal for applications that enqueue one. */
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

    /** Returns the reservation that a name belongs to, if there is one. */
    public Optional<OwnedJobs> ownerOf(String name) {
        return owned.stream().filter(jobs -> jobs.matches(name)).findFirst();
    }

    /** Every name, aliases included. */
    public Set<String> names() {
        return byName.keySet();
    }

    /** Every handler, once. */
    public Collection<JobHandler> all() {
        return Set.copyOf(byName.values());
    }

    /** By its name or an alias. */
    public @Nullable JobHandler named(String name) {
        return byName.get(name);
    }

    /**
     * The handler for payloads of that class. An object does not know its type arguments, so that a handler of {@code
     * Box<LocalDate>} takes every {@code Box} if no other handler takes one.
     *
     * @throws JobRejectedException if there is none, or several of them
     */
    JobHandler taking(Class<?> payload) {
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

    /** Those of its class, else of the nearest superclass, else of the most special interfaces. */
    private List<JobHandler> candidates(Class<?> payload) {
        for (Class<?> type = payload; type != null && type != Object.class; type = type.getSuperclass()) {
            List<JobHandler> own = accepting(type, payload);
            if (!own.isEmpty()) {
                return own;
            }
        }
        List<Class<?>> faces = byPayload.keySet().stream()
                .filter(type -> type.isInterface() && type.isAssignableFrom(payload))
                .toList();
        return faces.stream()
                .filter(face -> faces.stream().noneMatch(other -> other != face && face.isAssignableFrom(other)))
                .flatMap(face -> accepting(face, payload).stream())
                .toList();
    }

    /** The handlers of a type, but not those whose type arguments are others than the class of the payload has fixed. */
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
                ("No @ClusterJob method of this application takes a %s; they take %s. Add one, or put @JobName on the type or"
                                + " call enqueueNamed if its handler is on other nodes.")
                        .formatted(payload.getTypeName(), payloadTypes()));
    }

    private static JobRejectedException takenBySeveral(Class<?> payload, List<JobHandler> handlers) {
        return new JobRejectedException(
                "Several jobs take a %s: %s. Say which one is meant: enqueueNamed(\"%s\", payload), or @JobName on the type."
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

    /** The types by which jobs can be enqueued here. */
    private Set<String> payloadTypes() {
        var types = new TreeSet<String>();
        byPayload.values().forEach(handlers -> handlers.forEach(handler -> types.add(typeName(handler))));
        return types;
    }
}
