package dev.forge.cluster;

/**
 * Carries the news that there is work from one node to the others. News may get lost or come twice: nodes look for work
 * by themselves too, only later. A bean of this type replaces {@code NOTIFY} of PostgreSQL.
 */
public interface ClusterCoordinator {

    /** Tells the others. Called after the commit, at most every few milliseconds; must not block. */
    void notifyNewWork(JobPriority priority);

    /** The listener wants to run whenever another node has news. */
    void registerWakeupListener(Runnable listener);
}
