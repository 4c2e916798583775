// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.leader;

/** How leaders are elected. */
public enum LeaderStrategy {
    /** Uses {@link #ADVISORY_LOCK}, or {@link #LEASE} behind a transaction pooler. */
    AUTO,
    /** A session lock, which PostgreSQL releases as soon as the connection of the leader ends. */
    ADVISORY_LOCK,
    /** A row that the leader renews. Needs no session and therefore works through a transaction pooler. */
    LEASE
}
