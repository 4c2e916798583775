// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.daemon;

import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.NotLeaderException;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.function.Supplier;

/**
 * The run of a daemon; the only parameter of its method. A stop is requested by {@link #stopRequested}, which ends {@link
 * #awaitStop} immediately, and later by an interrupt: after one second if the term is over, otherwise after {@code
 * forge.cluster.shutdown.drain-timeout}.
 */
public interface DaemonContext {

    /** Returns the name of the daemon. */
    String name();

    /** Returns the number of this instance, from 0. */
    int instance();

    /** Returns the name of the node that runs the daemon. */
    String nodeName();

    /**
     * Returns the term in which this node runs the daemon. Every later run has a higher term, unless a standby was promoted that
     * had not received the last transactions. 0 for a daemon of scope {@link DaemonScope#NODE}.
     */
    long term();

    /**
     * Returns the fencing token of the term for systems outside the database; see {@link Leadership#fencingToken}. Empty for a
     * daemon of scope {@link DaemonScope#NODE}, if the term is over, or if the server does not reveal its timeline.
     */
    OptionalLong fencingToken();

    /** Returns whether the method should return: the node drains, the daemon is paused or moves, or the term is over. */
    boolean stopRequested();

    /**
     * Waits until a stop is requested, at most for {@code timeout}. Daemons that repeat something use this method instead of
     * {@code Thread.sleep}.
     *
     * @return whether a stop was requested
     * @throws InterruptedException if the thread is interrupted by something other than the cluster
     */
    boolean awaitStop(Duration timeout) throws InterruptedException;

    /**
     * Runs {@code work} in a transaction that commits only if the term in which this run of the method started is current at the
     * moment of the commit. See {@link Leadership#fenced(String, Supplier)}. A later term of the same node is rejected, too.
     *
     * @throws NotLeaderException if the term is over; nothing was written
     * @throws IllegalStateException for a daemon of scope {@link DaemonScope#NODE}
     */
    <T> T fenced(Supplier<T> work);

    /** Runs {@code work} without a result; see {@link #fenced(Supplier)}. */
    default void fenced(Runnable work) {
        fenced(() -> {
            work.run();
            return true;
        });
    }

    /** Publishes a short status for operators in {@code forge_daemons.note}. Written about once a second; the latest wins. */
    void note(String text);
}
