// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.workflow.StepProbe;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Supplier;

/** Lets steps of workflows fail, and the node die before or after one. */
final class StepFaults implements StepProbe {

    private final Map<String, Failing> failing = new ConcurrentHashMap<>();
    private final Set<String> crashBefore = ConcurrentHashMap.newKeySet();
    private final Set<String> crashAfter = ConcurrentHashMap.newKeySet();
    private final Map<UUID, List<Executed>> executed = new ConcurrentHashMap<>();
    private final Runnable crash;

    /** A step that has completed, or was compensated. */
    record Executed(String step, boolean compensation) {}

    private record Failing(int requested, int left, Supplier<? extends Exception> failure) {}

    /** @param crash ends all claims of the node, as its death would */
    StepFaults(Runnable crash) {
        this.crash = crash;
    }

    void fail(String step, int times, Supplier<? extends Exception> failure) {
        failing.put(step, new Failing(times, times, failure));
    }

    void crashBefore(String step) {
        crashBefore.add(step);
    }

    void crashAfter(String step) {
        crashAfter.add(step);
    }

    /** Returns the faults that have not happened yet. */
    Set<String> unused() {
        var unused = new TreeSet<String>();
        failing.forEach((step, f) ->
                unused.add("failStep '%s' (failed %d of %d times)".formatted(step, f.requested - f.left, f.requested)));
        crashBefore.forEach(step -> unused.add("crashBeforeStep '%s'".formatted(step)));
        crashAfter.forEach(step -> unused.add("crashAfterStep '%s'".formatted(step)));
        return unused;
    }

    void forget() {
        executed.clear();
        failing.clear();
        crashBefore.clear();
        crashAfter.clear();
    }

    /** Returns what a run has executed in this test, in order. */
    List<Executed> executedIn(UUID run) {
        return List.copyOf(executed.getOrDefault(run, List.of()));
    }

    @Override
    public void before(Claim run, String step, boolean compensation) throws Exception {
        if (crashBefore.remove(step)) {
            crash.run();
            // The claim is lost: whatever the attempt does is not recorded.
            throw new InterruptedException("the node of the test has died");
        }
        Failing next = compensation ? null : failing.get(step);
        if (next != null) {
            failing.compute(
                    step,
                    (name, f) -> f == null || f.left <= 1 ? null : new Failing(f.requested, f.left - 1, f.failure));
            throw next.failure.get();
        }
    }

    @Override
    public void after(Claim run, String step, boolean compensation) {
        executed.computeIfAbsent(run.id(), id -> new CopyOnWriteArrayList<>()).add(new Executed(step, compensation));
        if (crashAfter.remove(step)) {
            crash.run();
        }
    }
}
