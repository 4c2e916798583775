// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import dev.forge.cluster.internal.database.NotificationChannel;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.job.ClusterCoordinator;
import dev.forge.cluster.job.JobPriority;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Tells other nodes that there are pending jobs. A loop sends one notification for all jobs that were announced since the last one,
 * so that callers neither wait for it nor see its failure.
 */
public final class JobAnnouncements {

    /** How notifications about pending jobs begin; the id of the sender follows, and perhaps the queue of the jobs. */
    public static final String PENDING_JOBS = "work ";

    /** Names and capabilities contain no control characters. */
    private static final String SEPARATOR = "\n";

    private static final String GROUPED = "grouped";

    private static final Duration INTERVAL = Duration.ofMillis(20);
    private static final Duration INTERVAL_WHILE_ALONE = Duration.ofMillis(250);
    private static final Duration RETRY = Duration.ofMillis(500);
    private static final Duration NOTHING_TO_SEND = Duration.ofHours(1);

    private final Node node;
    private final NotificationChannel channel;
    private final @Nullable ClusterCoordinator coordinator;
    private final NodeLoop loop = NodeLoop.upkeep("announce", this::untilNext, this::sendAnnouncement);

    /** What to announce; null: nothing. */
    private final AtomicReference<@Nullable Announcement> unannounced = new AtomicReference<>();

    private volatile long notBefore;

    /** @param coordinator carries notifications between nodes; null: NOTIFY */
    public JobAnnouncements(
            Node node, NotificationChannel channel, @Nullable ClusterCoordinator coordinator, Runnable onWakeup) {
        this.node = node;
        this.channel = channel;
        this.coordinator = coordinator;
        if (coordinator != null) {
            coordinator.registerWakeupListener(onWakeup);
        }
    }

    public void begin() {
        notBefore = node.nanos();
    }

    public NodeLoop loop() {
        return loop;
    }

    public boolean isConnected() {
        return coordinator != null ? coordinator.isConnected() : node.isListening();
    }

    /**
     * Pending jobs that other nodes do not know of yet.
     *
     * @param priority the highest priority of these jobs
     * @param queue the only queue that they are in; null if they may be in several
     */
    private record Announcement(
            JobPriority priority, @Nullable Queue queue) {

        static Announcement merge(@Nullable Announcement one, Announcement other) {
            if (one == null) {
                return other;
            }
            return new Announcement(
                    one.priority.compareTo(other.priority) < 0 ? other.priority : one.priority,
                    Objects.equals(one.queue, other.queue) ? one.queue : null);
        }
    }

    /**
     * Announces pending jobs to other nodes; returns immediately.
     *
     * @param queue the queue that they are in, where nodes can claim them without a search; null if unknown
     */
    public void announce(JobPriority priority, @Nullable Queue queue) {
        if (unannounced.getAndAccumulate(new Announcement(priority, queue), Announcement::merge) == null) {
            loop.wake();
        }
    }

    /** Sends one notification for all announced jobs, unless this node is alone or the last notification was just sent. */
    public void sendAnnouncement() {
        if (node.peers().isAlone() || !untilNext().isZero()) {
            return;
        }
        Announcement announcement = unannounced.getAndSet(null);
        if (announcement == null) {
            return;
        }
        notBefore = node.nanos() + INTERVAL.toNanos();
        try {
            send(announcement);
        } catch (RuntimeException e) {
            notBefore = node.nanos() + RETRY.toNanos();
            unannounced.accumulateAndGet(announcement, Announcement::merge);
            throw e;
        }
    }

    private Duration untilNext() {
        if (unannounced.get() == null) {
            return NOTHING_TO_SEND;
        }
        // A node that joins later may have searched before the jobs were committed.
        return node.peers().isAlone() ? INTERVAL_WHILE_ALONE : Duration.ofNanos(Math.max(0, notBefore - node.nanos()));
    }

    /** Sends an announcement, with NOTIFY on a connection of the cluster, never in the transaction of the caller. */
    private void send(Announcement announcement) {
        Queue queue = announcement.queue;
        if (coordinator != null) {
            coordinator.notifyNewWork(announcement.priority);
        } else {
            channel.send(PENDING_JOBS
                    + node.id()
                    + (queue == null
                            ? ""
                            : Stream.of(
                                            queue.priority(),
                                            queue.grouped() ? GROUPED : "",
                                            queue.capability(),
                                            queue.name())
                                    .map(String::valueOf)
                                    .collect(Collectors.joining(SEPARATOR, SEPARATOR, ""))));
        }
    }

    /**
     * An announcement of another node, or of this one.
     *
     * @param queue the only queue with new jobs; null if there may be several
     */
    public record Received(String sender, @Nullable Queue queue) {}

    /** Parses a notification; null if it announces no jobs. */
    public static @Nullable Received received(String news) {
        if (!news.startsWith(PENDING_JOBS)) {
            return null;
        }
        String[] parts = news.substring(PENDING_JOBS.length()).split(SEPARATOR, 5);
        return new Received(parts[0], parts.length == 5 ? queue(parts[1], parts[2], parts[3], parts[4]) : null);
    }

    private static @Nullable Queue queue(String priority, String grouped, String capability, String name) {
        try {
            return new Queue(name, capability, Integer.parseInt(priority), grouped.equals(GROUPED));
        } catch (NumberFormatException e) {
            return null;
        }
    }
}
