// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.Claim.Stop;
import org.jspecify.annotations.Nullable;

/**
 * The state of an attempt; the package documentation has the table of states and events.
 *
 * @param stop why its handler should stop at once; null: it should not
 * @param asked whether the handler should stop when it can, because the node drains
 */
record AttemptState(Phase phase, @Nullable Stop stop, boolean asked) {

    static final AttemptState CLAIMED = new AttemptState(Phase.QUEUED, null, false);

    /** How far the job has come on this node. */
    enum Phase {
        /** Waits for a free slot. */
        QUEUED,
        /** Its handler runs. */
        RUNNING,
        /** Its handler has returned; its transaction may be open. */
        RETURNED,
        /** Its end is being written: a change of its row may come from this node. */
        ENDING,
        /** This node no longer deals with it. */
        ENDED
    }

    /** What can happen to an attempt. */
    enum Event {
        /** A thread is about to call the handler. */
        START,
        /** The handler has returned or thrown. */
        RETURN,
        /** The attempt takes too long. */
        TIMEOUT,
        /** The node begins to drain: the handler may end. */
        ASK,
        /** The time of the drain is over. */
        DRAIN,
        /** This node no longer holds the job: its claim was lost, or the job was cancelled. */
        LOSE,
        /** The job is returned before its start. */
        WITHDRAW,
        /** The common attempt with other jobs has failed: the job gets one of its own. */
        ISOLATE,
        /** The end is about to be written. */
        END,
        /** The end is written, by this or an earlier statement whose response was lost; or it was refused. */
        SETTLE
    }

    /** Returns the state after an event; the same one if the event changes nothing. */
    AttemptState after(Event event) {
        return switch (event) {
            case START -> phase == Phase.QUEUED && stop == null ? in(Phase.RUNNING) : this;
            case RETURN -> phase == Phase.RUNNING ? in(Phase.RETURNED) : this;
            case TIMEOUT -> phase == Phase.RUNNING && stop == null ? stoppedFor(Stop.TIMEOUT) : this;
            case ASK -> asked || phase == Phase.ENDED ? this : new AttemptState(phase, stop, true);
            case DRAIN -> phase.compareTo(Phase.RUNNING) <= 0 && stop == null ? stoppedFor(Stop.DRAIN) : this;
            case LOSE -> lost();
            case WITHDRAW -> phase == Phase.QUEUED ? in(Phase.ENDED) : this;
            case ISOLATE -> isolated();
            case END -> phase == Phase.RUNNING || phase == Phase.RETURNED ? in(Phase.ENDING) : this;
            case SETTLE -> phase == Phase.ENDING ? in(Phase.ENDED) : this;
        };
    }

    private AttemptState lost() {
        if (stop == Stop.LOST || phase == Phase.ENDED) {
            return this;
        }
        return new AttemptState(phase == Phase.QUEUED ? Phase.ENDED : phase, Stop.LOST, asked);
    }

    private AttemptState isolated() {
        if (phase == Phase.QUEUED || phase == Phase.ENDED) {
            return this;
        }
        // The timeout was that of the common attempt. A lost job has no attempt of its own here.
        return stop == Stop.LOST
                ? in(Phase.ENDED)
                : new AttemptState(Phase.QUEUED, stop == Stop.TIMEOUT ? null : stop, asked);
    }

    private AttemptState in(Phase next) {
        return new AttemptState(next, stop, asked);
    }

    private AttemptState stoppedFor(Stop reason) {
        return new AttemptState(phase, reason, asked);
    }

    /** Returns whether the handler should stop, at once or when it can. */
    boolean stopRequested() {
        return asked || stop != null;
    }
}
