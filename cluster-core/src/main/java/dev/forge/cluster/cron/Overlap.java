// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

/** What happens to a slot while the previous run has not ended. */
public enum Overlap {
    /**
     * The slot is skipped. With {@link Misfire#CATCH_UP} it waits for the previous run instead, up to the limit, so that runs
     * never overlap and no slot is left out.
     */
    SKIP,
    /** The slot runs beside the previous run. */
    ALLOW
}
