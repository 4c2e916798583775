package dev.forge.cluster;

/**
 * A call came before this node could serve it: its handlers are known once all beans were created, and it joins the cluster
 * after that. Nothing was written. Constructors and {@code @PostConstruct} methods are too early; an {@code ApplicationRunner} and a listener for {@code
 * ApplicationReadyEvent} are not.
 */
public class ClusterNotReadyException extends IllegalStateException {

    private static final long serialVersionUID = 1L;

    public ClusterNotReadyException(String message) {
        super(message);
    }
}
