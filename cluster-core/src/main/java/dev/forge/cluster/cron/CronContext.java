package dev.forge.cluster.cron;

import dev.forge.cluster.job.ClaimLostException;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.leader.LeadershipLostException;
import java.time.Instant;
import java.util.Optional;
import java.util.function.Supplier;

/** One run of a cron; a parameter of its method. */
public interface CronContext {

    /** The cron's name. */
    String name();

    /** The time for which it was planned. The same at every attempt: take it, not the clock, to say which period is meant. */
    Instant slot();

    /** When the leader fired it. */
    Instant firedAt();

    /**
     * The slot of the run before this one, whatever became of that run: it may have failed. Empty if there was none. A run that
     * was triggered is nobody's previous one.
     */
    Optional<Instant> previousSlot();

    /** What {@link CronDefinition#withPayload} says, where the cron was made at run time; empty if it says nothing. */
    <T> Optional<T> payload(Class<T> type);

    /** Which attempt this is, from 1. */
    int attempt();

    /**
     * The term of the scheduler role: in which this node leads where the leader runs it, in which it was fired elsewhere; 0
     * elsewhere if it was triggered. Terms only ever grow.
     */
    long term();

    /**
     * Runs {@code work} in a transaction that commits only if this run is still this node's at the moment of the commit, and
     * if the leader runs it, only if this node still leads in this {@link #term()}. Joins a transaction that is under way.
     *
     * @throws LeadershipLostException if it does not lead any more; nothing was written then
     * @throws ClaimLostException if the run was given to another node; nothing was written then
     */
    <T> T fenced(Supplier<T> work);

    /** See {@link #fenced(Supplier)}. */
    default void fenced(Runnable work) {
        fenced(() -> {
            work.run();
            return true;
        });
    }

    /** The job that is this run: its id, its progress, its checkpoint, whether it is to stop. */
    JobContext job();
}
