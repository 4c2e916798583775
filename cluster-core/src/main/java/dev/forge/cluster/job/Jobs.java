// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.job.operations.JobOperations;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/**
 * Enqueues, finds and controls jobs. Enqueueing joins the caller's transaction: after a rollback the job was never enqueued.
 * {@link JobOperations} searches jobs, changes many at once and sets limits.
 *
 * <p>In a listener that runs after a commit ({@code @TransactionalEventListener}) Spring still reports the committed transaction.
 * Give such a listener a transaction of its own, {@code @Transactional(propagation = REQUIRES_NEW)}, as for every write.
 *
 * <p>The type of the payload selects the job: the one whose handler takes that type, or the one that its {@link JobName} names.
 * An object does not know its type arguments, so a {@code Box<LocalDate>} finds the handler of {@code Box<LocalDate>} if no other
 * handler takes a {@code Box}. Handlers read payloads with their full generic type.
 *
 * <p>If this node has the handler and the payload is not exactly of the class that the handler takes (a map, a subclass, a
 * generic type), the payload is read once as a check, which costs one parse.
 *
 * <p>Handlers are known after all beans have been created. Calls from constructors and {@code @PostConstruct} methods throw {@link
 * ClusterNotReadyException}. Changes in a read-only transaction throw {@link ReadOnlyTransactionException}. A null argument throws
 * {@link IllegalArgumentException} unless the parameter allows null.
 */
public interface Jobs {

    /**
     * Enqueues a job with the options that its handler declares.
     *
     * @throws JobRejectedException if the job cannot be enqueued; the message says why
     */
    default EnqueuedJob enqueue(Object payload) {
        return enqueue(payload, JobOptions.defaults());
    }

    /**
     * Enqueues a job.
     *
     * @return the new job, or the active job with the same unique key, or the job of its {@linkplain JobOptions#withUniqueFor window}
     * @throws JobRejectedException if the job cannot be enqueued; the message says why
     */
    EnqueuedJob enqueue(Object payload, JobOptions options);

    /** Enqueues a job by name with the options that its handler declares; see {@link #enqueueNamed(String, Object, JobOptions)}. */
    default EnqueuedJob enqueueNamed(String name, @Nullable Object payload) {
        return enqueueNamed(name, payload, JobOptions.defaults());
    }

    /**
     * Enqueues a job by name.
     *
     * @param payload the payload; null for a handler that takes none
     * @throws UnknownJobException if no node of the cluster has ever had a handler of that name
     * @throws JobRejectedException if the job cannot be enqueued; the message says why
     */
    EnqueuedJob enqueueNamed(String name, @Nullable Object payload, JobOptions options);

    /** Enqueues many jobs with the options that their handlers declare; see {@link #enqueueAll(Collection, JobOptions)}. */
    default List<EnqueuedJob> enqueueAll(Collection<?> payloads) {
        return enqueueAll(payloads, JobOptions.defaults());
    }

    /**
     * Enqueues many jobs in one transaction, much faster than one by one. The options must not contain a unique key.
     *
     * @return the jobs in the order of the payloads
     */
    List<EnqueuedJob> enqueueAll(Collection<?> payloads, JobOptions options);

    /**
     * Enqueues many jobs in one transaction, each with its own options, for example a unique key. Jobs with unique keys are enqueued in
     * the order of names and keys, so that concurrent calls cannot deadlock. If several of them have the same key, the order of the
     * payloads decides.
     *
     * @param options returns the options of a payload
     * @return the jobs in the order of the payloads
     */
    <T> List<EnqueuedJob> enqueueAll(Collection<T> payloads, Function<? super T, JobOptions> options);

    /**
     * Opens a batch, to which jobs are added with {@link JobOptions#withBatch}. Its callbacks are inserted with it and wait for it.
     *
     * @throws JobRejectedException if a callback cannot be enqueued, or if the parent is unknown or closed; the message says why
     */
    JobBatch batch(JobBatchOptions options);

    /** Returns a batch that was opened before. Its {@link JobBatch#info} says whether it exists. */
    JobBatch batch(UUID id);

    /** Returns a job by id. */
    Optional<JobInfo> find(UUID id);

    /**
     * Returns the result of a completed job.
     *
     * @return the result; empty if the job is unknown, has not completed, or returned nothing
     * @throws IllegalArgumentException if the result cannot be read as that type
     */
    <T> Optional<T> result(UUID id, Class<T> type);

    /**
     * Returns the result of a completed job as a generic type, {@code new ParameterizedTypeReference<List<Order>>() {}}; see
     * {@link #result(UUID, Class)}.
     */
    <T> Optional<T> result(UUID id, ParameterizedTypeReference<T> type);

    /**
     * Cancels a job in any unfinished status. A running handler is interrupted, and its result is discarded. A transactional handler
     * that cancels its own job commits its writes together with the cancellation.
     *
     * @return whether the job was cancelled by this call; false if it is unknown or has ended
     * @throws JobRejectedException if the job carries a run of a workflow; use {@code Workflows.cancel}
     */
    boolean cancel(UUID id);

    /**
     * Retries a failed, cancelled or abandoned job with all its attempts.
     *
     * @return whether the job was enqueued again; false if it is in another status, or if another job has its unique key
     * @throws JobRejectedException if the job carries a run of a workflow; use {@code Workflows.retry}
     */
    boolean retry(UUID id);

    /**
     * Keeps jobs of that name from starting until {@link #resume}. Running jobs continue. The pause survives restarts.
     *
     * @return whether the name was paused by this call; false if it was already paused
     * @throws UnknownJobException if no node has ever had a handler of that name and no unfinished job has it
     */
    boolean pause(String name);

    /**
     * Ends a {@link #pause}.
     *
     * @return whether the name was resumed by this call; false if it was not paused
     */
    boolean resume(String name);
}
