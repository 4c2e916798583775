// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

/** What happens to slots that are overdue by more than {@code forge.cluster.cron.misfire-threshold} because no node could fire them. */
public enum Misfire {
    /** As configured by {@code forge.cluster.cron.misfire}. */
    DEFAULT,
    /** No overdue slot runs. */
    SKIP,
    /** Only the latest overdue slot runs. */
    FIRE_ONCE,
    /** All overdue slots run, oldest first, up to the limit. */
    CATCH_UP
}
