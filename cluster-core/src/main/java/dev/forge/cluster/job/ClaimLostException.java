package dev.forge.cluster.job;

/**
 * The job no longer belongs to this node: it was cancelled, or given to another after too long a silence. Whatever the
 * handler does from here on is dropped; it should end.
 */
public class ClaimLostException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    public ClaimLostException(String message) {
        super(message);
    }
}
