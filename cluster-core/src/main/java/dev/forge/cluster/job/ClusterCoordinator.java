package dev.forge.cluster.job;

/**
 * Carries the news that there is work from one node to the others. News may get lost or come twice: nodes look for work
 * by themselves too, only later. A bean of this type replaces {@code NOTIFY} of PostgreSQL, and whatever
 * {@code forge.cluster.wakeup.type} says.
 */
public interface ClusterCoordinator {

    /**
     * Tells the others. Called after the commit, on a thread of the cluster's own, at most every few milliseconds and once
     * for all that was enqueued meanwhile. Should return soon; if it throws, it is called again a little later. Not called
     * while the node sees no other; what it would have told then is told as soon as one comes.
     *
     * @param priority the highest among what was enqueued
     */
    void notifyNewWork(JobPriority priority);

    /** The listener wants to run whenever another node has news. It does not block. */
    void registerWakeupListener(Runnable listener);

    /** Whether news gets through at present, as far as is known without asking; shown by the health component. */
    default boolean isConnected() {
        return true;
    }
}
