// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeLoop;
import java.time.Duration;
import org.slf4j.Logger;

/** Limits claims to half of the slots while the CPU is overloaded. */
public final class OverloadProtection {

    private static final Logger log = GuardedLogger.of(OverloadProtection.class);
    private static final Duration OVERLOADED_FOR = Duration.ofSeconds(5);
    private static final double OVERLOADED = 0.9;
    private static final Duration CHECK_INTERVAL = Duration.ofSeconds(1);

    private final Node node;
    private final Worker worker;
    private volatile long overloadedSince;
    private volatile boolean active;

    public OverloadProtection(Node node, Worker worker) {
        this.node = node;
        this.worker = worker;
    }

    /** Called before the loop starts. */
    public void begin() {
        overloadedSince = node.nanos();
        active = false;
    }

    public NodeLoop loop() {
        return NodeLoop.upkeep("watch-load", () -> CHECK_INTERVAL, this::check);
    }

    private void check() {
        long now = node.nanos();
        Double cpu = node.settings().presence().load().get().cpu();
        boolean high = cpu != null && cpu > OVERLOADED;
        if (!high) {
            overloadedSince = now;
        }
        boolean over = now - overloadedSince >= OVERLOADED_FOR.toNanos();
        if (over != active) {
            active = over;
            log.info(
                    over
                            ? "CPU overloaded: claiming for half of the slots"
                            : "CPU no longer overloaded: claiming for all slots");
            worker.throttle(over);
        }
    }

    public boolean isActive() {
        return active;
    }
}
