// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeLoop;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * Collects what has changed and follows it up a little later, many changes at a time, in a loop of its own. Does nothing while nothing
 * changes, and takes a limited part of the time however much changes. A change that is lost because its node crashes, or because there
 * are too many, is found by the next sweep.
 */
final class FollowUps {

    private static final Duration INTERVAL = Duration.ofMillis(20);
    private static final Duration NOTHING_TO_DO = Duration.ofHours(1);

    /** The work takes at most this part of the time. */
    private static final int SHARE = 10;

    private static final int MOST_AT_A_TIME = 500;
    private static final int MOST_COLLECTED = 100_000;

    private final Node node;
    private final Consumer<List<UUID>> work;
    private final NodeLoop loop;
    private final Set<UUID> changed = ConcurrentHashMap.newKeySet();
    private volatile long notBefore;

    FollowUps(String loop, Node node, Consumer<List<UUID>> work) {
        this.node = node;
        this.work = work;
        this.loop = NodeLoop.of(loop, this::untilNext, this::pass);
        this.notBefore = node.nanos();
    }

    NodeLoop loop() {
        return loop;
    }

    void add(UUID id) {
        if (changed.size() < MOST_COLLECTED && changed.add(id)) {
            loop.wake();
        }
    }

    private Duration untilNext() {
        return changed.isEmpty() ? NOTHING_TO_DO : Duration.ofNanos(Math.max(0, notBefore - node.nanos()));
    }

    /** Follows up the next changes, unless the last pass has just ended. */
    void pass() {
        if (changed.isEmpty() || !untilNext().isZero()) {
            return;
        }
        List<UUID> next = changed.stream().limit(MOST_AT_A_TIME).toList();
        // Before the work: what changes meanwhile is followed up again.
        next.forEach(changed::remove);
        long start = node.nanos();
        try {
            work.accept(next);
        } catch (RuntimeException e) {
            changed.addAll(next);
            throw e;
        } finally {
            long end = node.nanos();
            notBefore = end + Math.max(INTERVAL.toNanos(), SHARE * (end - start));
        }
    }
}
