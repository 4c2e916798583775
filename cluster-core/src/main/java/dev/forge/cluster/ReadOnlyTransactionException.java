package dev.forge.cluster;

/** A change of the cluster's tables was called for in a read-only transaction. Nothing was written. */
public class ReadOnlyTransactionException extends IllegalStateException {

    private static final long serialVersionUID = 1L;

    public ReadOnlyTransactionException(String message) {
        super(message);
    }
}
