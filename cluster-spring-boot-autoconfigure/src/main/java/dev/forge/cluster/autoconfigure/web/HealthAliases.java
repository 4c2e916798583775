// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.web;

import dev.forge.cluster.internal.job.JobEngine;
import dev.forge.cluster.internal.node.Node;
import java.util.Map;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** {@code /_api/health} and {@code /_api/ready}, for probes that do not support Actuator. Both return a status without counts. */
final class HealthAliases {

    static final String HEALTH = "/_api/health";
    static final String READY = "/_api/ready";

    private static final Verdict UP = new Verdict("UP", true);

    private final String version;
    private final Supplier<@Nullable Verdict> actuator;
    private final Own own;

    /**
     * Whether the node accepts requests.
     *
     * @param status the status code of Actuator
     */
    record Verdict(String status, boolean ready) {}

    /**
     * The sources of readiness without Actuator.
     *
     * @param accepting whether the application accepts traffic
     * @param stranded whether workflow runs are in flight whose code is missing
     */
    record Own(
            Node node,
            JobEngine engine,
            boolean includesDatabase,
            Supplier<Boolean> accepting,
            Supplier<Boolean> stranded) {

        Verdict verdict() {
            if (node.state() != Node.State.RUNNING
                    || !accepting.get()
                    || stranded.get()
                    || node.requiredLeadership().isUnready()) {
                return new Verdict("OUT_OF_SERVICE", false);
            }
            boolean down = (includesDatabase && !node.contact().isRecent())
                    || !node.stuckLoops().isEmpty()
                    || engine.isCrowded()
                    || engine.claimProblem() != null;
            return down ? new Verdict("DOWN", false) : UP;
        }
    }

    /** @param actuator returns the result of the readiness group of Actuator; null if there is none */
    HealthAliases(String version, Supplier<@Nullable Verdict> actuator, Own own) {
        this.version = version;
        this.actuator = actuator;
        this.own = own;
    }

    /** Reports that the process responds, and nothing else. */
    Map<String, Object> health() {
        return Map.<String, Object>of("status", "UP", "version", version);
    }

    Verdict ready() {
        Verdict verdict = actuator.get();
        return verdict != null ? verdict : own.verdict();
    }
}
