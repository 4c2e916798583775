package dev.forge.cluster;

/** A call needs the cluster, but {@code forge.cluster.enabled} is false. Nothing was read or written. */
public class ClusterDisabledException extends IllegalStateException {

    private static final long serialVersionUID = 1L;

    public ClusterDisabledException(String message) {
        super(message);
    }
}
