// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.cron;

import dev.forge.cluster.internal.cron.CronStore.Definition;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Caches parsed schedules. */
final class CronSchedules {

    /** More than any application has; crons that change again and again must not fill the memory. */
    private static final int MOST_CACHED = 10_000;

    private final Map<String, CronSchedule> parsed = new ConcurrentHashMap<>();

    /**
     * Returns the schedule of a cron.
     *
     * @throws IllegalArgumentException if the expression or the zone cannot be parsed
     */
    CronSchedule of(Definition definition) {
        if (parsed.size() >= MOST_CACHED) {
            parsed.clear();
        }
        return parsed.computeIfAbsent(
                definition.expression() + " " + definition.zone(),
                text -> CronSchedule.of(definition.expression(), definition.zone()));
    }

    void clear() {
        parsed.clear();
    }
}
