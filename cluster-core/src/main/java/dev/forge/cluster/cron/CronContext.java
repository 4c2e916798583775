// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.cron;

import dev.forge.cluster.job.ClaimLostException;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.leader.NotLeaderException;
import java.time.Instant;
import java.util.Optional;
import java.util.function.Supplier;
import org.springframework.core.ParameterizedTypeReference;

/** The run of a cron; a parameter of its method. */
public interface CronContext {

    /** Returns the name of the cron. */
    String name();

    /** Returns the planned time, which is the same in every attempt. Use it instead of the clock to determine the period. */
    Instant slot();

    /** Returns when the leader fired the run. */
    Instant firedAt();

    /**
     * Returns the slot of the previous run, which may have failed. Empty if there was none. Triggered runs do not count as
     * previous runs.
     */
    Optional<Instant> previousSlot();

    /** Returns the {@linkplain CronDefinition#withPayload payload} of a cron that was created at run time; empty if it has none. */
    <T> Optional<T> payload(Class<T> type);

    /** Returns the payload as a generic type: {@code new ParameterizedTypeReference<List<Order>>() {}}. */
    <T> Optional<T> payload(ParameterizedTypeReference<T> type);

    /** Returns the number of this attempt, from 1. */
    int attempt();

    /**
     * Returns the term of the scheduler role. With {@link CronTarget#LEADER} it is the term in which this node leads; with {@link
     * CronTarget#ANY_WORKER} the term in which the run was fired, 0 if it was triggered. Terms never decrease.
     */
    long term();

    /**
     * Runs {@code work} in a transaction that commits only if this run still belongs to this node at the moment of the commit
     * and, with {@link CronTarget#LEADER}, only if this node still leads in this {@link #term()}. Joins the caller's transaction.
     *
     * @throws NotLeaderException if this node does not lead any more; nothing was written
     * @throws ClaimLostException if another node took the run over; nothing was written
     */
    <T> T fenced(Supplier<T> work);

    /** Runs {@code work} without a result; see {@link #fenced(Supplier)}. */
    default void fenced(Runnable work) {
        fenced(() -> {
            work.run();
            return true;
        });
    }

    /** Returns the job that carries this run: its id, progress, checkpoint and stop request. */
    JobContext job();
}
