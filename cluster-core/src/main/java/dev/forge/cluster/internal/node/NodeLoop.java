// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.node;

import dev.forge.cluster.internal.runtime.Loop;
import java.time.Duration;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A loop that a {@link NodeComponent} declares. It runs from the node's start to its end, also while the node drains. The
 * component keeps this handle to wake the loop.
 */
public final class NodeLoop {

    private static final Duration CLEAN_UP = Duration.ofMinutes(1);

    /** Deleting from a large table, and vacuuming it, may take long. */
    private static final Duration CLEAN_UP_PATIENCE = Duration.ofHours(1);

    private final String name;
    private final Supplier<Duration> pause;
    private final Runnable pass;
    private final Duration patience;
    private final Kind kind;
    private volatile @Nullable Loop loop;

    /** What a loop is for: a node that a test steps runs only the passes that the test asks for. */
    public enum Kind {
        /** Moves the work of the application on: decides crons, releases jobs, recovers and repairs. */
        WORK,
        /** Keeps the node itself going: heartbeats, renewals, watches, statistics. */
        UPKEEP,
        /** Deletes old rows. */
        CLEAN_UP
    }

    private NodeLoop(String name, Supplier<Duration> pause, Runnable pass, Duration patience, Kind kind) {
        this.name = name;
        this.pause = pause;
        this.pass = pass;
        this.patience = patience;
        this.kind = kind;
    }

    /** Creates a loop that moves the work of the application on. */
    public static NodeLoop of(String name, Supplier<Duration> pause, Runnable pass) {
        return new NodeLoop(name, pause, pass, Loop.PASS_PATIENCE, Kind.WORK);
    }

    /** Creates a loop that keeps the node itself going. */
    public static NodeLoop upkeep(String name, Supplier<Duration> pause, Runnable pass) {
        return new NodeLoop(name, pause, pass, Loop.PASS_PATIENCE, Kind.UPKEEP);
    }

    /** Creates a loop that deletes old rows. It runs every minute, and only on the leader of the role log_compactor. */
    public static NodeLoop cleanUp(String name, Runnable pass) {
        return new NodeLoop(name, () -> CLEAN_UP, pass, CLEAN_UP_PATIENCE, Kind.CLEAN_UP);
    }

    /** Runs a pass now, or right after the one under way. Does nothing before the node starts and after its end. */
    public void wake() {
        Loop running = loop;
        if (running != null) {
            running.wake();
        }
    }

    /** Runs one pass on the caller's thread, whether or not this node leads. */
    void pass() {
        pass.run();
    }

    String name() {
        return name;
    }

    Supplier<Duration> pause() {
        return pause;
    }

    Duration patience() {
        return patience;
    }

    Kind kind() {
        return kind;
    }

    void runBy(Loop loop) {
        this.loop = loop;
    }
}
