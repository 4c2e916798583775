// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.work;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.atLeast;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import java.time.DateTimeException;
import java.time.Duration;
import java.time.ZoneId;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * Defaults of crons.
 *
 * @param zone Time zone of cron expressions.
 * @param misfire What happens to slots that could not fire in time: skip, fire-once or catch-up.
 * @param misfireThreshold How late a slot may fire without being a misfire.
 * @param catchUpLimit Largest number of missed slots that catch-up fires.
 * @param maxConcurrentJobs Number of cron runs that the leader executes at once, not counting crons for any worker. Default: 4, or
 *     fewer if crons are transactional and the application's HikariCP pool is small.
 * @param retention How long the outcomes of slots are kept.
 */
public record CronProperties(
        @DefaultValue("UTC") String zone,
        @DefaultValue("fire-once") Misfire misfire,
        @DefaultValue("10s") Duration misfireThreshold,
        @DefaultValue("10") int catchUpLimit,
        @Nullable Integer maxConcurrentJobs,
        @DefaultValue("7d") Duration retention) {
    public CronProperties {
        positive("cron.retention", retention);
        atLeast(1, "cron.max-concurrent-jobs", maxConcurrentJobs);
        positive("cron.misfire-threshold", misfireThreshold);
        atLeast(1, "cron.catch-up-limit", catchUpLimit);
        require(catchUpLimit <= 1_000, "cron.catch-up-limit", catchUpLimit, "must be at most 1000");
        require(ZoneId.getAvailableZoneIds().contains(zone) || isOffset(zone), "cron.zone", zone, "is not a time zone");
    }

    private static boolean isOffset(String zone) {
        try {
            ZoneId.of(zone);
            return true;
        } catch (DateTimeException e) {
            return false;
        }
    }

    /** What happens to missed slots. */
    public enum Misfire {
        /** They are dropped. */
        SKIP,
        /** One run replaces all of them. */
        FIRE_ONCE,
        /** Each of them runs, up to catch-up-limit. */
        CATCH_UP;

        /** Returns the constant of the API. */
        public dev.forge.cluster.cron.Misfire policy() {
            return dev.forge.cluster.cron.Misfire.valueOf(name());
        }
    }
}
