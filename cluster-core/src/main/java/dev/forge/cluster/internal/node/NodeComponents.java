// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;

/** The components of a node, in the order of their registration, and the loops that run on it. */
public final class NodeComponents {

    private static final Logger log = GuardedLogger.of(Node.class);

    private final Loop.Environment environment;
    private final LongSupplier nanos;
    private final DeferredInterrupts interrupts;
    private final Consumer<Runnable> runner;
    private final BooleanSupplier mayCleanUp;
    private final List<NodeComponent> components = new CopyOnWriteArrayList<>();
    private final List<Loop> loops = new CopyOnWriteArrayList<>();
    private final List<DeclaredLoop> declaredLoops = new CopyOnWriteArrayList<>();

    private record DeclaredLoop(NodeLoop.Kind kind, Loop loop, Runnable pass) {}

    /**
     * @param runner runs each pass of a loop
     * @param mayCleanUp whether this node leads the role log_compactor
     */
    NodeComponents(
            Loop.Environment environment,
            DeferredInterrupts interrupts,
            Consumer<Runnable> runner,
            BooleanSupplier mayCleanUp) {
        this.environment = environment;
        this.nanos = environment.nanos();
        this.interrupts = interrupts;
        this.runner = runner;
        this.mayCleanUp = mayCleanUp;
    }

    /** Adds a component. Components start, drain and stop in the order of registration, which ends when the node starts. */
    public void register(NodeComponent component) {
        components.add(component);
        component.loops().forEach(this::add);
    }

    /** Adds a loop, which runs from the node's start to its end. */
    void add(NodeLoop declared) {
        Runnable pass = () -> {
            if (declared.kind() != NodeLoop.Kind.CLEAN_UP || mayCleanUp.getAsBoolean()) {
                declared.pass();
            }
        };
        var loop = new Loop(
                declared.name(), declared.pause(), () -> runner.accept(pass), environment, declared.patience());
        declared.runBy(loop);
        loops.add(loop);
        declaredLoops.add(new DeclaredLoop(declared.kind(), loop, pass));
    }

    List<NodeComponent> all() {
        return components;
    }

    void forEach(Consumer<NodeComponent> action) {
        components.forEach(action);
    }

    // Properties ----------------------------------------------------------------------------------------------

    int load() {
        return components.stream().mapToInt(NodeComponent::load).sum();
    }

    boolean isBusy() {
        return components.stream().anyMatch(NodeComponent::isBusy);
    }

    List<String> handlers() {
        return all(NodeComponent::handlers).sorted().toList();
    }

    List<String> executorFacts() {
        return all(NodeComponent::executorFacts).toList();
    }

    private <T> Stream<T> all(Function<NodeComponent, ? extends Collection<T>> property) {
        return components.stream().flatMap(component -> property.apply(component).stream());
    }

    /** Returns slots and further facts for the {@code info} of the node's row. */
    Map<String, String> facts() {
        var facts = new HashMap<String, String>();
        facts.put(
                "slots",
                Integer.toString(
                        components.stream().mapToInt(NodeComponent::slots).sum()));
        components.forEach(component -> facts.putAll(component.facts()));
        return facts;
    }

    /** Returns the beginnings of names that components of this node use for themselves. */
    public List<ReservedPrefix> reservedPrefixes() {
        return all(NodeComponent::reservedPrefixes).toList();
    }

    /** Returns one line for each kind of work that this node does, for the log. */
    public List<String> summary() {
        return all(NodeComponent::summary).toList();
    }

    // Life cycle ----------------------------------------------------------------------------------------------

    /** Begins nothing new, waits that long for executions under way, and interrupts and returns those that are left. */
    void drain(@Nullable UUID node, Duration timeout, Level level) {
        components.forEach(NodeComponent::quiesce);
        log.atLevel(level)
                .log(
                        "Node {}: draining. Running jobs: {}; they may take {} to end (forge.cluster.shutdown.drain-timeout).",
                        node,
                        load(),
                        timeout);
        long begin = nanos.getAsLong();
        int interrupted = awaitIdleOrRelease(begin + timeout.toNanos());
        log.atLevel(level)
                .log(
                        "Node {}: drained in {}. Interrupted jobs: {}.",
                        node,
                        Duration.ofNanos(nanos.getAsLong() - begin).truncatedTo(ChronoUnit.MILLIS),
                        interrupted);
    }

    private int awaitIdleOrRelease(long deadline) {
        int unfinished = 0;
        for (NodeComponent component : components) {
            boolean idle = false;
            try {
                long patience = interrupts.isInterrupted() ? 0 : Math.max(0, deadline - nanos.getAsLong());
                idle = component.awaitIdle(Duration.ofNanos(patience));
            } catch (InterruptedException e) {
                interrupts.defer();
            }
            if (!idle) {
                unfinished += component.load();
                component.release();
                interrupts.absorb();
            }
        }
        return unfinished;
    }

    void end() {
        for (NodeComponent component : components) {
            try {
                component.end();
            } catch (InterruptedException e) {
                interrupts.defer();
            }
        }
    }

    void startLoops() {
        loops.forEach(Loop::start);
    }

    /** Stops all loops; waits that long in total for passes that are under way. */
    void stopLoops(Duration patience) {
        long deadline = nanos.getAsLong() + patience.toNanos();
        for (Loop loop : loops) {
            try {
                loop.stop(Duration.ofNanos(Math.max(0, deadline - nanos.getAsLong())));
            } catch (InterruptedException e) {
                interrupts.defer();
            }
        }
    }

    /** Returns the number of loops: with as many threads no loop waits for another. */
    public int loops() {
        return loops.size();
    }

    /** Returns the names of loops and threads that should have made progress long ago. */
    Stream<String> stuck() {
        return Stream.concat(loops.stream().filter(Loop::isStuck).map(Loop::name), all(NodeComponent::stuck));
    }

    /** Runs one pass of each loop of a kind on the caller's thread, in the order of registration. */
    void pass(NodeLoop.Kind kind) {
        declaredLoops.stream()
                .filter(declared -> declared.kind == kind)
                .forEach(declared -> runner.accept(declared.pass));
    }

    /** Wakes all loops that move work on. */
    void wakeLoops() {
        declaredLoops.stream()
                .filter(declared -> declared.kind == NodeLoop.Kind.WORK)
                .forEach(declared -> declared.loop.wake());
    }
}
