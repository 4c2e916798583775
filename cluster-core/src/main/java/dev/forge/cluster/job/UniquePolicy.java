// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

/** What happens to a new job whose unique key belongs to an active one. */
public enum UniquePolicy {
    /** The active job stays unchanged, and its id is returned. */
    KEEP,
    /**
     * The new job replaces an active one that has not started. If the active job is running, the new one waits until it ends,
     * so that the two never run at the same time. (A running job that is cancelled ends immediately, before its handler notices.)
     */
    REPLACE
}
