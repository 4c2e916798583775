// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import dev.forge.cluster.BackoffStrategy;
import java.time.Duration;

/**
 * The settings of workflows.
 *
 * @param attempts of steps that declare no number of their own, and of compensations
 * @param backoff of steps that declare none of their own
 * @param jitter the part by which a pause between attempts varies, between 0 and 1
 */
public record WorkflowSettings(
        int attempts,
        BackoffStrategy backoff,
        double jitter,
        Retention retention,
        StrandedCheck strandedCheck,
        Limits limits) {

    /**
     * How long ended runs are kept.
     *
     * @param failed of all runs that did not complete
     */
    public record Retention(Duration completed, Duration failed) {}

    /**
     * How a node looks for runs in flight whose version has no code. Such runs make the node unready.
     *
     * @param interval between two checks
     * @param clusterWide whether only runs count that no live node can continue; otherwise those that this node cannot
     */
    public record StrandedCheck(Duration interval, boolean clusterWide) {}

    /**
     * How large a run may become.
     *
     * @param historyBytes of its input and its recorded results
     */
    public record Limits(SignalLimits signals, long historyBytes) {

        /** The default values of the properties. */
        public static final Limits DEFAULTS = new Limits(new SignalLimits(1_000, 16 << 20), 32 << 20);
    }

    /**
     * How many unconsumed signals a run may have.
     *
     * @param bytes of their payloads
     */
    public record SignalLimits(int signals, long bytes) {}
}
