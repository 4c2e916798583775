package dev.forge.cluster.job;

/** A job was enqueued, or paused, by a name that is no job's. The message says which names there are. */
public class UnknownJobException extends JobRejectedException {

    private static final long serialVersionUID = 1L;

    public UnknownJobException(String message) {
        super(message);
    }
}
