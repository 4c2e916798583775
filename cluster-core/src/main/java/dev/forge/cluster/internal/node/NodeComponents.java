// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.runtime.Loop;
import dev.forge.cluster.internal.runtime.ReservedPrefix;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.stream.Stream;

/** The components of a node, in the order of their registration, and the loops that run on it. */
final class NodeComponents {

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

    void register(NodeComponent component) {
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
        return components.stream()
                .flatMap(component -> component.handlers().stream())
                .sorted()
                .toList();
    }

    List<String> executorFacts() {
        return components.stream()
                .flatMap(component -> component.executorFacts().stream())
                .toList();
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

    List<ReservedPrefix> reservedPrefixes() {
        return components.stream()
                .flatMap(component -> component.reservedPrefixes().stream())
                .toList();
    }

    List<String> summary() {
        return components.stream()
                .flatMap(component -> component.summary().stream())
                .toList();
    }

    // Dead nodes ----------------------------------------------------------------------------------------------

    /** Releases what a dead node holds, inside of the transaction that declares it dead; see {@link NodeComponent}. */
    Runnable releaseHeldByDead(NodeStore nodes, UUID dead) {
        List<Runnable> afterCommit = components.stream()
                .map(component -> nodes.releaseApart(dead, () -> component.releaseHeldByDead(dead)))
                .toList();
        return () -> afterCommit.forEach(Runnable::run);
    }

    // Life cycle ----------------------------------------------------------------------------------------------

    /**
     * Waits until that time for the end of all executions, and interrupts and returns those that are left.
     *
     * @return how many executions were interrupted
     */
    int awaitIdleOrRelease(long deadline) {
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

    int loops() {
        return loops.size();
    }

    /** Returns the names of loops and threads that should have made progress long ago. */
    Stream<String> stuck() {
        return Stream.concat(
                loops.stream().filter(Loop::isStuck).map(Loop::name),
                components.stream().flatMap(component -> component.stuck().stream()));
    }

    /** Runs one pass of each loop of a kind on the caller's thread, in the order of registration. */
    void pass(NodeLoop.Kind kind) {
        declaredLoops.stream()
                .filter(declared -> declared.kind == kind)
                .forEach(declared -> runner.accept(declared.pass));
    }

    /** Has all loops that move work on make a pass now. */
    void wakeLoops() {
        declaredLoops.stream()
                .filter(declared -> declared.kind == NodeLoop.Kind.WORK)
                .forEach(declared -> declared.loop.wake());
    }
}
