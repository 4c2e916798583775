package dev.forge.cluster.cron;

/** What becomes of slots that passed while nobody could fire them, by more than {@code forge.cluster.cron.misfire-threshold}. */
public enum Misfire {
    /** As {@code forge.cluster.cron.misfire} says. */
    DEFAULT,
    /** None of them runs. */
    SKIP,
    /** The last of them runs, for all of them. */
    FIRE_ONCE,
    /** Each of them runs, the oldest first, up to the limit. */
    CATCH_UP
}
