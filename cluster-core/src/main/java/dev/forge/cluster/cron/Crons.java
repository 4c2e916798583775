package dev.forge.cluster.cron;

import dev.forge.cluster.ClusterNotReadyException;
import java.util.List;
import java.util.Optional;
import java.util.UUID;

/**
 * The crons of the cluster: those that its applications declare with {@link ClusterCron}, and those that are made here at
 * run time, which live in the database. Changes join the caller's transaction; in a read-only one they throw {@link
 * ReadOnlyTransactionException}. {@link #create}, {@link #change} and {@link #trigger} need the application's handlers, which
 * are known once all beans were created: earlier they throw {@link ClusterNotReadyException}.
 */
public interface Crons {

    /**
     * Makes a cron.
     *
     * @throws CronRejectedException if there is one of that name, or saying what is wrong with it
     */
    void create(CronDefinition definition);

    /**
     * Changes a cron that was made here. Slots of the new schedule count from now on; slots that are due already are decided
     * under the old schedule.
     *
     * @throws CronRejectedException if there is none of that name, it is declared in code, or saying what is wrong with it
     */
    void change(CronDefinition definition);

    /**
     * Deletes a cron that was made here; false if there is none. A run that is under way goes on.
     *
     * @throws CronRejectedException if it is declared in code
     */
    boolean delete(String name);

    /** Skips its slots until {@link #resume}; false if there is no such cron. */
    boolean pause(String name);

    /** Ends a {@link #pause}; false if there is no such cron, or it was not paused. */
    boolean resume(String name);

    /**
     * Runs it now, paused or not, beside its schedule. Answers the job; empty if its former run has not ended and it may not
     * overlap.
     *
     * @throws CronRejectedException if there is no such cron
     */
    Optional<UUID> trigger(String name);

    /**
     * A cron as it stands now.
     *
     * @throws CronRejectedException if the name cannot be one: it holds a control character. So do all methods here
     */
    Optional<CronInfo> find(String name);

    /** All of them, by name. */
    List<CronInfo> list();

    /** What became of its slots, the latest first. */
    List<CronRun> runs(String name, int limit);
}
