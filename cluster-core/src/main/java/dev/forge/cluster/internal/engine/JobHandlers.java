package dev.forge.cluster.internal.engine;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.store.CronStore.Definition;
import java.lang.reflect.Type;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/** The jobs and crons this node knows, by name and by the type of their payload. Filled before the node starts. */
public final class JobHandlers {

    private final Map<String, JobHandler> byName = new TreeMap<>();
    private final Map<Type, JobHandler> byPayload = new HashMap<>();
    private final Set<Type> ambiguous = new HashSet<>();
    private final Map<String, Definition> crons = new TreeMap<>();

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
        if (payload != null && byPayload.putIfAbsent(payload, handler) != null) {
            ambiguous.add(payload);
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

    /** Adds the handler of a cron, which has the cron's name. */
    public void addCron(JobHandler handler, Definition cron) {
        add(handler);
        crons.put(cron.name(), cron);
    }

    /** The crons that are declared here, by name. */
    Map<String, Definition> crons() {
        return crons;
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

    @Nullable
    JobHandler taking(Type payload) {
        return byPayload.get(payload);
    }

    /** Whether several handlers take that type: then only the name says which one is meant. */
    boolean isAmbiguous(Type payload) {
        return ambiguous.contains(payload);
    }

    /** The types by which jobs can be enqueued here. */
    Set<String> payloadTypes() {
        var types = new TreeSet<String>();
        byPayload.keySet().forEach(type -> types.add(type.getTypeName()));
        return types;
    }
}
