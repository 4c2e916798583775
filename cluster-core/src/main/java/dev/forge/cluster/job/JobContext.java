package dev.forge.cluster.job;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

/** The job a handler is working on; a parameter of its method. */
public interface JobContext {

    /** The id of the job, the same at every attempt. */
    UUID id();

    /** The name under which it was enqueued. */
    String name();

    /** Which attempt this is, from 1. */
    int attempt();

    /** How many there may be. */
    int maxAttempts();

    /** Grows with every claim: a fencing token for systems outside of the database. */
    long epoch();

    /** What to hand to other systems so that they do a thing once: the job's id, stable across attempts. */
    default String idempotencyKey() {
        return id().toString();
    }

    /** When it was due. */
    Instant scheduledAt();

    /** The name of the node that runs it. */
    String nodeName();

    /** What the enqueuer attached. */
    Map<String, String> metadata();

    /** Shows how far it is. Written with the next batch, the latest wins; see {@code forge_jobs.progress}. */
    void progress(int percent, String message);

    /**
     * Remembers something for the next attempt. Stored when it returns; on a transactional handler, whose effects a
     * failure undoes anyway, together with the failure. In a native image its type must be known: put Spring's
     * {@code @RegisterReflectionForBinding(State.class)} on the handler.
     *
     * @throws ClaimLostException if the job is no longer this node's
     */
    void checkpoint(Object state);

    /** What an earlier attempt, or this one, has remembered. */
    <T> Optional<T> checkpoint(Class<T> type);

    /** Whether to come to an end: the node drains, the attempt took too long, or the job was cancelled or lost. */
    boolean stopRequested();
}
