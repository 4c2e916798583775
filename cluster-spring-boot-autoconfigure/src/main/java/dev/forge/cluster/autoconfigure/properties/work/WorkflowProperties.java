// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.work;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.util.unit.DataSize;

/**
 * Workflows.
 *
 * @param readinessInterval Interval at which a node checks for runs that its code cannot continue.
 * @param strandedScope Which runs make a node unready. Node: runs whose code this node lacks. Cluster: runs whose code no live node has.
 * @param maxPendingSignals Number of signals of one run that may wait to be consumed. Further signals are rejected.
 * @param maxPendingSignalsSize Total size of the payloads of these signals.
 * @param maxHistorySize Total size of the input and the recorded results of one run. A step that would exceed it fails without a retry.
 */
public record WorkflowProperties(
        @DefaultValue("2s") Duration readinessInterval,
        @DefaultValue("node") StrandedScope strandedScope,
        @DefaultValue("1000") int maxPendingSignals,
        @DefaultValue("16MB") DataSize maxPendingSignalsSize,
        @DefaultValue("32MB") DataSize maxHistorySize) {

    private static final int MAX_SIGNALS = 100_000;
    private static final DataSize LARGEST = DataSize.ofMegabytes(512);

    public WorkflowProperties {
        positive("workflow.readiness-interval", readinessInterval);
        atLeast(1, "workflow.max-pending-signals", maxPendingSignals);
        require(
                maxPendingSignals <= MAX_SIGNALS,
                "workflow.max-pending-signals",
                maxPendingSignals,
                "must not exceed %d".formatted(MAX_SIGNALS));
        size("workflow.max-pending-signals-size", maxPendingSignalsSize);
        size("workflow.max-history-size", maxHistorySize);
    }

    private static void size(String key, DataSize value) {
        require(value.toBytes() > 0, key, value, "must be larger than zero");
        require(value.compareTo(LARGEST) <= 0, key, value, "must not exceed 512MB");
    }

    /** Which runs make a node unready. */
    public enum StrandedScope {
        /** Runs whose code this node lacks. */
        NODE,
        /** Runs whose code no live node has. */
        CLUSTER
    }
}
