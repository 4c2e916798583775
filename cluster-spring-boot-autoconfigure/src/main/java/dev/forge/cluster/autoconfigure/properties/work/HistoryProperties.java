// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.work;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * History of jobs, for charts.
 *
 * @param enabled Whether this node counts the jobs that it ends and adds the numbers to forge_job_history every ten seconds.
 * @param retention Time for which the history is kept, between 1h and 90d. After six hours it has steps of ten minutes.
 */
public record HistoryProperties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("7d") Duration retention) {

    private static final Duration SHORTEST = Duration.ofHours(1);
    private static final Duration LONGEST = Duration.ofDays(90);

    public HistoryProperties {
        require(
                retention.compareTo(SHORTEST) >= 0 && retention.compareTo(LONGEST) <= 0,
                "history.retention",
                retention,
                "must be between 1h and 90d");
    }
}
