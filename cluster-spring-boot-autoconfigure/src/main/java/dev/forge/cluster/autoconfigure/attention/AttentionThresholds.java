// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.attention;

import java.time.Duration;

/**
 * From where on something needs attention.
 *
 * @param failures number of failed attempts of a job name in the last hour
 * @param failureRatio share of these among all attempts of the name, from which on they count
 * @param criticalRatio share from which on they are critical
 * @param failedWithin how long ago jobs, batches and runs may have failed
 * @param overdue how long a job may be due before it starts
 * @param criticalOverdue how long until that is critical
 * @param restarts number of restarts of a daemon
 * @param deaths number of nodes of one name that joined and died in the last hour
 * @param draining how long a node may drain
 */
record AttentionThresholds(
        int failures,
        double failureRatio,
        double criticalRatio,
        Duration failedWithin,
        Duration overdue,
        Duration criticalOverdue,
        int restarts,
        int deaths,
        Duration draining) {

    static final AttentionThresholds DEFAULTS = new AttentionThresholds(
            5, 0.1, 0.5, Duration.ofDays(1), Duration.ofMinutes(10), Duration.ofHours(1), 5, 3, Duration.ofMinutes(30));
}
