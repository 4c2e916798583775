// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobWaitReports;
import dev.forge.cluster.internal.job.operate.JobWaitReports.LimitedName;
import dev.forge.cluster.internal.runtime.EnumText;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.MultiGauge;
import io.micrometer.core.instrument.Tags;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.springframework.dao.DataAccessException;

/**
 * Gauges of the jobs that have limits. Groups are no tags: there may be any number of them. A thousand names with limits and four
 * reasons bound the meters.
 */
final class JobLimitGauges {

    private final JobWaitReports reports;
    private final JobHandlers handlers;
    private final MultiGauge held;
    private final MultiGauge limits;
    private final MultiGauge waiting;

    JobLimitGauges(MeterRegistry registry, String cluster, JobWaitReports reports, JobHandlers handlers) {
        this.reports = reports;
        this.handlers = handlers;
        this.held = MultiGauge.builder("forge.cluster.jobs.held")
                .description("Jobs that nodes have claimed or run, of names with limits")
                .tag("cluster", cluster)
                .register(registry);
        this.limits = MultiGauge.builder("forge.cluster.jobs.limit")
                .description("Jobs of a name that may run at the same time")
                .tag("cluster", cluster)
                .register(registry);
        this.waiting = MultiGauge.builder("forge.cluster.jobs.waiting")
                .description(
                        "Due jobs that a limit keeps waiting, by the first limit that explains it; of a name at most 10,000"
                                + " jobs in 1,000 groups are considered, and 1,000 jobs of a group")
                .tag("cluster", cluster)
                .register(registry);
    }

    /** Counts; returns nothing if the database does not respond: no value is better than an outdated one. */
    List<LimitedName> count() {
        Map<String, String> aliases = new HashMap<>();
        for (JobHandler handler : handlers.all()) {
            handler.names().stream()
                    .filter(name -> !name.equals(handler.name()))
                    .forEach(alias -> aliases.put(alias, handler.name()));
        }
        try {
            return reports.limitedNames(aliases);
        } catch (DataAccessException e) {
            return List.of();
        }
    }

    void show(List<LimitedName> names) {
        List<MultiGauge.Row<?>> heldRows = new ArrayList<>();
        List<MultiGauge.Row<?>> limitRows = new ArrayList<>();
        List<MultiGauge.Row<?>> waitingRows = new ArrayList<>();
        for (LimitedName name : names) {
            heldRows.add(MultiGauge.Row.of(Tags.of("job", name.name()), name.held()));
            Integer concurrency = name.concurrency();
            if (concurrency != null) {
                limitRows.add(MultiGauge.Row.of(Tags.of("job", name.name()), concurrency));
            }
            name.waiting()
                    .forEach((reason, jobs) -> waitingRows.add(MultiGauge.Row.of(
                            Tags.of("job", name.name(), "reason", EnumText.hyphenated(reason)), jobs)));
        }
        held.register(heldRows, true);
        limits.register(limitRows, true);
        waiting.register(waitingRows, true);
    }

    void forget() {
        show(List.of());
    }
}
