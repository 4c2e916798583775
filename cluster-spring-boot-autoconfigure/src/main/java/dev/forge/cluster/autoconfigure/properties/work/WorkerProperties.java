// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.work;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atMost;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import dev.forge.cluster.autoconfigure.properties.value.NamePattern;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Execution of jobs on this node.
 *
 * @param maxConcurrentJobs Number of jobs that run at once on the default executor. Default: 10, or fewer if it runs transactional
 *     handlers or workflows, which hold connections: at least a third of the application's HikariCP pool stays free.
 * @param prefetch Number of claimed jobs that may wait for a free slot, at most 10,000; they wait here even if other nodes are
 *     idle. Default: adapted to the duration of jobs.
 * @param pollInterval Interval at which the worker polls for jobs if no wake-up arrives.
 * @param claiming Whether workers share the jobs by claiming them. If false, this node must be the only worker; while there is another
 *     one, it runs no jobs and is not ready.
 * @param executors Additional executors by name, each with its own slots.
 * @param routing Rules that assign jobs to executors. The first rule that matches applies.
 * @param defaultExecutor Executor of jobs that match no rule.
 * @param drainTarget Time within which workers should have run the due jobs. The endpoint and the metrics calculate the needed slots
 *     from it; nothing else depends on it.
 */
public record WorkerProperties(
        @Nullable Integer maxConcurrentJobs,
        @Nullable Integer prefetch,
        @DefaultValue("5s") Duration pollInterval,
        @DefaultValue("true") boolean claiming,
        @DefaultValue Map<String, Executor> executors,
        @DefaultValue List<Route> routing,
        @DefaultValue(WorkerProperties.DEFAULT_EXECUTOR) String defaultExecutor,
        @DefaultValue("1m") Duration drainTarget) {

    /** The name of the default executor. */
    public static final String DEFAULT_EXECUTOR = "default";

    private static final int MOST_PREFETCHED = 10_000;

    public WorkerProperties {
        atLeast(1, "worker.max-concurrent-jobs", maxConcurrentJobs);
        atLeast(0, "worker.prefetch", prefetch);
        atMost(MOST_PREFETCHED, "worker.prefetch", prefetch);
        positive("worker.poll-interval", pollInterval);
        positive("worker.drain-target", drainTarget);
        Map<String, Executor> known = Collections.unmodifiableMap(new TreeMap<>(executors));
        require(
                !known.containsKey(DEFAULT_EXECUTOR),
                "worker.executors." + DEFAULT_EXECUTOR,
                known.keySet(),
                "is built in; set its size with forge.cluster.worker.max-concurrent-jobs");
        known.forEach((name, executor) ->
                atLeast(1, "worker.executors." + name + ".max-concurrent-jobs", executor.maxConcurrentJobs));
        requireExecutor(known, "worker.default-executor", defaultExecutor);
        routing = List.copyOf(routing);
        for (int i = 0; i < routing.size(); i++) {
            requireExecutor(known, "worker.routing[%d].executor".formatted(i), routing.get(i).executor);
            requirePattern("worker.routing[%d].pattern".formatted(i), routing.get(i).pattern);
        }
        executors = known;
    }

    /** Returns the executor for a job name. */
    public Function<String, String> routes() {
        Map<NamePattern, String> routes = new LinkedHashMap<>();
        routing.forEach(route -> routes.put(
                new NamePattern(Objects.requireNonNull(route.pattern)), Objects.requireNonNull(route.executor)));
        return name -> routes.entrySet().stream()
                .filter(route -> route.getKey().matches(name))
                .map(Map.Entry::getValue)
                .findFirst()
                .orElse(defaultExecutor);
    }

    private static void requireExecutor(Map<String, Executor> known, String key, @Nullable String name) {
        require(
                DEFAULT_EXECUTOR.equals(name) || (name != null && known.containsKey(name)),
                key,
                name,
                "is not an executor; use default or one of forge.cluster.worker.executors %s"
                        .formatted(known.keySet()));
    }

    /** Rejects a malformed pattern. */
    public static void requirePattern(String key, @Nullable String pattern) {
        try {
            new NamePattern(pattern == null ? "" : pattern);
        } catch (IllegalArgumentException e) {
            require(false, key, pattern, "is malformed: " + e.getMessage());
        }
    }

    /**
     * An executor.
     *
     * @param maxConcurrentJobs Number of jobs that run at once on the executor.
     */
    public record Executor(int maxConcurrentJobs) {}

    /**
     * A routing rule.
     *
     * @param pattern Pattern of job names: segments separated by ::, * within a segment, ** for any number of segments.
     * @param executor Executor of the jobs that match.
     */
    public record Route(@Nullable String pattern, @Nullable String executor) {}
}
