package dev.forge.cluster.cron;

/** What becomes of a slot of a cron whose former run has not ended yet. */
public enum Overlap {
    /**
     * It is skipped. Where slots are {@linkplain Misfire#CATCH_UP caught up} it waits for the former run instead, up to the
     * limit: then runs never overlap, and none is left out.
     */
    SKIP,
    /** It runs beside the former one. */
    ALLOW
}
