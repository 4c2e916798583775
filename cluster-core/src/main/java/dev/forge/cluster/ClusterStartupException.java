package dev.forge.cluster;

/**
 * The cluster cannot start as it is configured or as it finds the database. The message says what was found and where;
 * {@link #action()} says what to do about it.
 */
public class ClusterStartupException extends RuntimeException {

    private final String action;

    public ClusterStartupException(String message, String action) {
        super(message);
        this.action = action;
    }

    public ClusterStartupException(String message, String action, Throwable cause) {
        super(message, cause);
        this.action = action;
    }

    /** The next step, ready to be copied where that is possible. */
    public String action() {
        return action;
    }
}
