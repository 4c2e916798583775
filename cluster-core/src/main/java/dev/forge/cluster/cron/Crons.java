// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.Page;
import dev.forge.cluster.ReadOnlyTransactionException;
import java.time.Instant;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Lists and controls the crons of the cluster: those that applications declare with {@link ClusterCron}, and those that are
 * created here at run time and stored in the database. Changes join the caller's transaction; in a read-only one they throw
 * {@link ReadOnlyTransactionException}. {@link #create}, {@link #change} and {@link #trigger} need the application's handlers,
 * which are known after all beans have been created; earlier they throw {@link ClusterNotReadyException}.
 *
 * <p>All methods throw {@link CronRejectedException} if a name contains a control character.
 */
public interface Crons {

    /**
     * Creates a cron.
     *
     * @throws CronRejectedException if the name is taken or the definition is invalid; the message says why
     */
    void create(CronDefinition definition);

    /**
     * Replaces the definition of a cron that was created at run time. Slots of the new schedule count from now on; slots that
     * are due already are decided under the old schedule.
     *
     * @throws CronRejectedException if the cron is unknown or declared in code, or if the definition is invalid
     */
    void change(CronDefinition definition);

    /**
     * Deletes a cron that was created at run time. Runs that have been fired continue.
     *
     * @return whether the cron was deleted by this call; false if it is unknown
     * @throws CronRejectedException if the cron is declared in code
     */
    boolean delete(String name);

    /**
     * Skips the slots of a cron until {@link #resume}. The pause survives restarts.
     *
     * @return whether the cron was paused by this call; false if it is unknown or was already paused
     */
    boolean pause(String name);

    /**
     * Ends a {@link #pause}.
     *
     * @return whether the cron was resumed by this call; false if it is unknown or was not paused
     */
    boolean resume(String name);

    /**
     * Runs a cron now, in addition to its schedule and even if it is paused.
     *
     * @return the id of the job; empty if the previous run has not ended and the cron does not allow overlaps
     * @throws CronRejectedException if the cron is unknown
     */
    Optional<UUID> trigger(String name);

    /** Returns a cron by name. */
    Optional<CronInfo> find(String name);

    /** Returns the first page of the crons; see {@link #list(int, String)}. */
    default Page<CronInfo> list(int limit) {
        return list(limit, null);
    }

    /**
     * Returns crons page by page, ordered by name.
     *
     * @param limit the largest number of crons in the page, between 1 and 1,000
     * @param cursor {@link Page#next()} of the previous page; null: begins
     * @throws IllegalArgumentException if the cursor is not one of this list
     */
    Page<CronInfo> list(int limit, @Nullable String cursor);

    /** Returns the outcomes of the latest slots of a cron; see {@link #runs(String, int, String)}. */
    default Page<CronRun> runs(String name, int limit) {
        return runs(name, limit, null);
    }

    /**
     * Returns the outcomes of the slots of a cron page by page, latest first.
     *
     * @param limit the largest number of slots in the page, between 1 and 1,000
     * @param cursor {@link Page#next()} of the previous page of the same cron; null: begins
     * @throws IllegalArgumentException if the cursor is not one of this list
     */
    Page<CronRun> runs(String name, int limit, @Nullable String cursor);

    /**
     * Returns the outcomes of the latest slots of several crons, latest first, without the errors of their jobs. Reads them with one
     * statement. Crons without slots are absent.
     *
     * @param names the names of at most 1,000 crons
     * @param limit the number of slots of each cron, between 1 and 20
     */
    Map<String, List<CronRun>> latestRuns(Collection<String> names, int limit);

    /**
     * Returns the next slots of a cron, the earliest first; empty if there is no such cron, or if it never fires. Slots of a paused
     * cron are included.
     *
     * @param limit the largest number of slots, between 1 and 1,000
     */
    List<Instant> upcoming(String name, int limit);
}
