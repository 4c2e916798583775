// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.job.store.JobStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.job.ClusterCoordinator;
import dev.forge.cluster.job.JobPriority;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Tells other nodes that there are pending jobs. A loop sends one notification for all jobs that were announced since the last one,
 * so that callers neither wait for it nor see its failure.
 */
final class JobAnnouncements {

    /** How notifications about pending jobs begin; the id of the sender follows. */
    static final String PENDING_JOBS = "work ";

    private static final Duration INTERVAL = Duration.ofMillis(20);
    private static final Duration INTERVAL_WHILE_ALONE = Duration.ofMillis(250);
    private static final Duration RETRY = Duration.ofMillis(500);
    private static final Duration NOTHING_TO_SEND = Duration.ofHours(1);

    private final Node node;
    private final JobStore jobs;
    private final ClusterCoordinator coordinator;
    private final NodeLoop loop = NodeLoop.of("announce", this::untilNext, this::sendAnnouncement);

    /** The highest priority to announce; null: there is nothing to announce. */
    private final AtomicReference<@Nullable JobPriority> unannounced = new AtomicReference<>();

    private volatile long notBefore;

    /** @param coordinator carries notifications between nodes; null: NOTIFY */
    JobAnnouncements(Node node, JobStore jobs, @Nullable ClusterCoordinator coordinator, Runnable onWakeup) {
        this.node = node;
        this.jobs = jobs;
        this.coordinator = coordinator != null ? coordinator : new Notify();
        this.coordinator.registerWakeupListener(onWakeup);
    }

    void begin() {
        notBefore = node.nanos();
    }

    NodeLoop loop() {
        return loop;
    }

    boolean isConnected() {
        return coordinator.isConnected();
    }

    /** Announces pending jobs to other nodes; returns immediately. */
    void announce(JobPriority priority) {
        if (unannounced.getAndAccumulate(priority, JobAnnouncements::higher) == null) {
            loop.wake();
        }
    }

    private static JobPriority higher(@Nullable JobPriority one, JobPriority other) {
        return one == null || one.compareTo(other) < 0 ? other : one;
    }

    /** Sends one notification for all announced jobs, unless this node is alone or the last notification was just sent. */
    void sendAnnouncement() {
        if (node.isAlone() || !untilNext().isZero()) {
            return;
        }
        JobPriority highest = unannounced.getAndSet(null);
        if (highest == null) {
            return;
        }
        notBefore = node.nanos() + INTERVAL.toNanos();
        try {
            coordinator.notifyNewWork(highest);
        } catch (RuntimeException e) {
            notBefore = node.nanos() + RETRY.toNanos();
            unannounced.accumulateAndGet(highest, JobAnnouncements::higher);
            throw e;
        }
    }

    private Duration untilNext() {
        if (unannounced.get() == null) {
            return NOTHING_TO_SEND;
        }
        // A node that joins later may have searched before the jobs were committed.
        return node.isAlone() ? INTERVAL_WHILE_ALONE : Duration.ofNanos(Math.max(0, notBefore - node.nanos()));
    }

    /** Uses NOTIFY on a connection of the cluster, never in the transaction of the caller. */
    private final class Notify implements ClusterCoordinator {

        @Override
        public void notifyNewWork(JobPriority priority) {
            jobs.notifyOthers(PENDING_JOBS + node.id());
        }

        @Override
        public void registerWakeupListener(Runnable listener) {
            // JobEngine.heard() wakes the worker.
        }

        @Override
        public boolean isConnected() {
            return node.isListening();
        }
    }
}
