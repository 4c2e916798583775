package dev.forge.cluster.startup;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.MutationRefusedException;
import java.time.Duration;

/**
 * Lets one node do for all nodes what must be done when they start. A bean of this type replaces the default, which keeps
 * its locks in {@code forge_locks} and completed actions in {@code forge_startup_actions}.
 */
public interface StartupCoordinator {

    /** Whether this node may do it now, with {@code forge.cluster.startup.lease-duration} as its time. */
    default boolean tryAcquire(String action) {
        return tryAcquire(action, Duration.ofMinutes(5));
    }

    /** Whether this node may do it now. Should it not finish within {@code ttl}, another may begin. */
    boolean tryAcquire(String action, Duration ttl);

    /** Says that it is done, or given up; another may begin. */
    void release(String action);

    /**
     * Runs an action once in the whole cluster. The first node to call this runs the action; nodes that call it meanwhile
     * wait until it is completed, at most for {@code forge.cluster.startup.wait-timeout}; nodes that call it later return
     * at once.
     *
     * <p>Completion is recorded for each name and version, for good. Another version of the same name runs again, never
     * at the same time as a former one. An action that throws is not recorded: the exception reaches the caller, and the
     * next node that calls this, or already waits, runs the action.
     *
     * <p>Should the node crash, another node runs the action from the beginning as soon as the first one was declared dead,
     * or 30 seconds later. The same may happen to a node that cannot reach the database for that long while it runs the
     * action. If another node has taken over, the first one records nothing and throws; otherwise its completion is recorded
     * when the database is back, for which it waits as long as {@code forge.cluster.startup.wait-timeout}. So an action may be
     * begun more than once, and must be able to bear that; it is recorded once.
     *
     * <p>May be called as soon as beans are created (from an {@code ApplicationRunner}, a {@code SmartInitializingSingleton},
     * a {@code @PostConstruct} method): the node need not have joined the cluster. Blocks the caller.
     *
     * @param name what is done
     * @param version which version of it, compared by equality
     * @param action what to do
     * @return whether this node has run the action
     * @throws ClusterStartupException if another node did not complete the action in time, or another node has
     *     taken over while this node ran the action
     * @throws MutationRefusedException if the action is yet to be run and this node may not change the cluster
     */
    default boolean once(String name, String version, Runnable action) {
        throw new UnsupportedOperationException(getClass().getName() + " does not support once(name, version, action)");
    }

    /**
     * See {@link #once(String, String, Runnable)}.
     *
     * @param patience how long to wait for another node that runs the action
     */
    default boolean once(String name, String version, Duration patience, Runnable action) {
        throw new UnsupportedOperationException(
                getClass().getName() + " does not support once(name, version, patience, action)");
    }
}
