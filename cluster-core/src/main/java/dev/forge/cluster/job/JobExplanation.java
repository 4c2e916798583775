package dev.forge.cluster.job;

/**
 * Why a job is not running.
 *
 * @param text the same in a sentence, with names and times
 */
public record JobExplanation(Reason reason, String text) {

    /** The first that applies, in this order. */
    public enum Reason {
        /** There is no such job; perhaps its retention has passed. */
        NOT_FOUND,
        /** It is. */
        RUNNING,
        /** It is, past its timeout: its handler ignores the interrupt. */
        RUNNING_PAST_TIMEOUT,
        /** A node has it and will start it. */
        CLAIMED,
        /** It has ended. */
        FINISHED,
        /** The job with its unique key that runs must end first. */
        WAITING_FOR_PREDECESSOR,
        /** Its name is paused. */
        PAUSED,
        /** Its time has not come. */
        NOT_DUE,
        /** No live node has the role worker. */
        NO_LIVE_WORKER,
        /** No live worker has a handler of that name. */
        UNKNOWN_NAME,
        /** No live worker that knows it offers its capability. */
        NO_CAPABLE_WORKER,
        /** Every worker that could take it is full. */
        WORKERS_FULL,
        /** Nothing stands in its way: it is about to start. */
        ABOUT_TO_START
    }
}
