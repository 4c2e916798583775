package dev.forge.cluster.job;

import dev.forge.cluster.ReadOnlyTransactionException;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Enqueues jobs and looks after them. Enqueueing joins the caller's transaction: what rolls back was never enqueued.
 *
 * <p>In a listener that runs after a commit ({@code @TransactionalEventListener}) Spring still reports that transaction: give
 * the listener one of its own, {@code @Transactional(propagation = REQUIRES_NEW)}, as for any write.
 *
 * <p>The type of the payload says which job: the one whose handler takes it, or the one that its {@link JobName} names. An object
 * does not know its type arguments: a {@code Box<LocalDate>} finds the handler of {@code Box<LocalDate>} if no other handler takes
 * a {@code Box}. Handlers read payloads with their full generic type.
 *
 * <p>If this node has the handler, and the payload is not of just the class that the handler takes (a map, a subclass, anything
 * generic), it is read as a test, which costs one parse.
 *
 * <p>Handlers are known once all beans were created. Calls from constructors and {@code @PostConstruct} methods throw {@link
 * ClusterNotReadyException}. Changes in a read-only transaction throw {@link ReadOnlyTransactionException}, and a null argument an
 * {@link IllegalArgumentException} unless it is said to be allowed.
 */
public interface Jobs {

    /**
     * Enqueues a job as its handler declares.
     *
     * @throws JobRejectedException saying why it cannot be enqueued
     */
    default UUID enqueue(Object payload) {
        return enqueue(payload, JobOptions.defaults());
    }

    /** Enqueues a job; answers its id, or that of the active one with the same unique key. */
    UUID enqueue(Object payload, JobOptions options);

    /** Enqueues a job by name; its payload may be null. */
    default UUID enqueueNamed(String name, @Nullable Object payload) {
        return enqueueNamed(name, payload, JobOptions.defaults());
    }

    /**
     * Enqueues a job by name; its payload may be null. A name that no node has ever had a handler for is refused, unless
     * unfinished jobs bear it.
     *
     * @throws UnknownJobException for such a name
     */
    UUID enqueueNamed(String name, @Nullable Object payload, JobOptions options);

    /** Enqueues many at once, far faster than one by one; the ids are in the order of the payloads. */
    default List<UUID> enqueueAll(Collection<?> payloads) {
        return enqueueAll(payloads, JobOptions.defaults());
    }

    /** Enqueues many at once. A unique key would make them one, so there must be none. */
    List<UUID> enqueueAll(Collection<?> payloads, JobOptions options);

    /** A job as it stands now. */
    Optional<JobInfo> find(UUID id);

    /**
     * Calls a job off, wherever it is; a running handler is interrupted and what it still does is dropped. False if
     * there is no such job or it has ended already.
     *
     * @throws JobRejectedException if it carries a run of a workflow: {@code Workflows#cancel}
     */
    boolean cancel(UUID id);

    /**
     * Gives a failed, cancelled or abandoned job all its attempts again; false if it is none of these, or if another one
     * has its unique key by now.
     *
     * @throws JobRejectedException if it carries a run of a workflow: {@code Workflows#retry}
     */
    boolean retry(UUID id);

    /** No job of that name starts until {@link #resume}; those that run go on. */
    void pause(String name);

    /** Ends a {@link #pause}; false if there was none. */
    boolean resume(String name);

    /** The names that are paused. */
    Set<String> paused();

    /** Why a job is not running. */
    JobExplanation explain(UUID id);
}
