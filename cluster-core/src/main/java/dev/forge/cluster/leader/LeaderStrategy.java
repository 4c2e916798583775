package dev.forge.cluster.leader;

/** How leaders are elected. */
public enum LeaderStrategy {
    /** {@link #ADVISORY_LOCK}, or {@link #LEASE} behind a transaction pooler. */
    AUTO,
    /** A session-bound lock, free the moment its holder's connection ends. */
    ADVISORY_LOCK,
    /** A row that must be renewed; needs no session, hence works through a transaction pooler. */
    LEASE
}
