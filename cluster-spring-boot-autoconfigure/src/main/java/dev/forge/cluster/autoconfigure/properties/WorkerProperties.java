package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;

import dev.forge.cluster.internal.runtime.NamePattern;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * How this node works on jobs.
 *
 * @param maxConcurrentJobs How many jobs run at once on the default executor. By default 10, or fewer if it runs transactional
 *     handlers or workflows, which hold connections: at least a third of the application's HikariCP pool stays free.
 * @param prefetch How many claimed jobs may wait for a free slot; measured from how long jobs take by default.
 * @param pollInterval Pause between two looks for work when nothing wakes the worker.
 * @param claiming Whether workers share the jobs by claiming them. False: this node expects to be the only worker,
 *     takes nothing while there is another, and is not ready then.
 * @param executors Further executors by name, each with slots of its own.
 * @param routing Which jobs run on which executor: the first rule that matches decides.
 * @param defaultExecutor The executor of jobs that no rule matches.
 */
public record WorkerProperties(
        @Nullable Integer maxConcurrentJobs,
        @Nullable Integer prefetch,
        @DefaultValue("5s") Duration pollInterval,
        @DefaultValue("true") boolean claiming,
        @DefaultValue Map<String, Executor> executors,
        @DefaultValue List<Route> routing,
        @DefaultValue(WorkerProperties.DEFAULT_EXECUTOR) String defaultExecutor) {

    public static final String DEFAULT_EXECUTOR = "default";

    public WorkerProperties {
        atLeast(1, "worker.max-concurrent-jobs", maxConcurrentJobs);
        atLeast(0, "worker.prefetch", prefetch);
        positive("worker.poll-interval", pollInterval);
        Map<String, Executor> known = Map.copyOf(executors);
        require(
                !known.containsKey(DEFAULT_EXECUTOR),
                "worker.executors." + DEFAULT_EXECUTOR,
                known.keySet(),
                "is there already; its size is forge.cluster.worker.max-concurrent-jobs");
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

    /** Which executor runs the jobs of a name. */
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
                "is not an executor; known are default and forge.cluster.worker.executors %s"
                        .formatted(known.keySet()));
    }

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
     * @param maxConcurrentJobs How many jobs run at once on it.
     */
    public record Executor(int maxConcurrentJobs) {}

    /**
     * A routing rule.
     *
     * @param pattern Names of jobs: segments separated by ::, * within a segment, ** for any number of segments.
     * @param executor Where these jobs run.
     */
    public record Route(@Nullable String pattern, @Nullable String executor) {}
}
