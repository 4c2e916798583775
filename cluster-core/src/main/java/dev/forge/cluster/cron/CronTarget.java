package dev.forge.cluster.cron;

/** Who runs what a cron fires. */
public enum CronTarget {
    /**
     * The node that leads the scheduler role, on a small pool of its own; it need not be a worker. If that node does not
     * know the cron, another one with the role scheduler that does.
     */
    LEADER,
    /** Any worker that knows it, like any other job. */
    ANY_WORKER
}
