package dev.forge.cluster.daemon;

import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.LeadershipLostException;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.function.Supplier;

/**
 * The daemon that a method runs as; its only parameter. It is asked to stop by {@link #stopRequested}, which ends an
 * {@link #awaitStop} at once, and some time later by an interrupt: after a second where its term is over, after {@code
 * forge.cluster.shutdown.drain-timeout} where it is only to end.
 */
public interface DaemonContext {

    /** The daemon's name. */
    String name();

    /** Which of its instances this is, from 0. */
    int instance();

    /** The name of the node that runs it. */
    String nodeName();

    /**
     * The term in which this node runs it: whoever runs it later has a higher one, unless a standby was promoted that had not
     * received the last transactions. 0 for a daemon of scope {@link DaemonScope#NODE}.
     */
    long term();

    /**
     * The fencing token of that term for systems outside of the database, see {@link Leadership#fencingToken}. Empty for a
     * daemon of scope {@link DaemonScope#NODE}, if the term is over, or if the server does not tell its timeline.
     */
    OptionalLong fencingToken();

    /** Whether to come to an end: the node drains, the daemon is paused or moves elsewhere, or the term is over. */
    boolean stopRequested();

    /**
     * Waits for the request to stop, for that long at most; whether it has come. What a daemon that does something again
     * and again waits with.
     *
     * @throws InterruptedException if somebody else than the cluster interrupts it
     */
    boolean awaitStop(Duration patience) throws InterruptedException;

    /**
     * Runs {@code work} in a transaction that commits only if the term in which this very method was started is the
     * current one at the moment of the commit. See {@link Leadership#fenced(String, Supplier)}; that a later term is this
     * node's too does not help.
     *
     * @throws LeadershipLostException if it is over; nothing was written then
     * @throws IllegalStateException for a daemon of scope {@link DaemonScope#NODE}
     */
    <T> T fenced(Supplier<T> work);

    /** See {@link #fenced(Supplier)}. */
    default void fenced(Runnable work) {
        fenced(() -> {
            work.run();
            return true;
        });
    }

    /** Shows operators how it fares. Written about once a second, the latest wins; see {@code forge_daemons.note}. */
    void note(String text);
}
