// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.job;

import dev.forge.cluster.job.operations.JobOperations;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.helpers.MessageFormatter;
import org.springframework.core.ParameterizedTypeReference;

/** The job that a handler runs; a parameter of its method. */
public interface JobContext {

    /** Returns the id of the job, which is the same in every attempt. */
    UUID id();

    /** Returns the name under which the job was enqueued. */
    String name();

    /** Returns the number of this attempt, from 1. */
    int attempt();

    /** Returns the number of attempts that are allowed. */
    int maxAttempts();

    /** Returns a fencing token for systems outside the database. It grows with every claim. */
    long epoch();

    /** Returns an idempotency key for other systems: the job's id, which is the same in every attempt. */
    default String idempotencyKey() {
        return id().toString();
    }

    /** Returns when the job was due. */
    Instant scheduledAt();

    /** Returns the name of the node that runs the job. */
    String nodeName();

    /** Returns the group of the job; null: none. */
    @Nullable
    String group();

    /** Returns the {@link JobBatch} that the job belongs to, or whose callback it is; null: none. */
    @Nullable
    UUID batch();

    /** Returns the metadata that was attached when the job was enqueued. */
    Map<String, String> metadata();

    /** Publishes the progress in {@code forge_jobs.progress}. Written with the next batch; the latest wins. */
    void progress(int percent, String message);

    /**
     * Logs a line that is shown with the job: {@link JobOperations#logs}. Lines are written about twice a second and when the handler returns,
     * not in the transaction of the handler: they survive a failed attempt. A crash of the node loses those of the last second. The
     * last 500 lines of a job are kept, with up to 1,000 characters each. Lines that are logged after the handler has returned may be
     * lost.
     */
    void log(String message);

    /**
     * Logs a line with arguments, {@code job.log("{} of {} rows imported", done, all)}; see {@link #log(String)}.
     *
     * @param format text with a {@code {}} for each argument, as in SLF4J
     */
    default void log(String format, @Nullable Object... arguments) {
        log(MessageFormatter.arrayFormat(format, arguments).getMessage());
    }

    /**
     * Records a state for the next attempt. It is stored when this method returns; for a transactional handler, whose writes a
     * failure rolls back anyway, it is stored together with the failure. In a native image the type must be registered: put
     * Spring's {@code @RegisterReflectionForBinding(State.class)} on the handler.
     *
     * @throws ClaimLostException if the job no longer belongs to this node
     */
    void checkpoint(Object state);

    /** Returns the state that an earlier attempt, or this one, has recorded. */
    <T> Optional<T> checkpoint(Class<T> type);

    /** Returns the recorded state as a generic type: {@code new ParameterizedTypeReference<List<Order>>() {}}. */
    <T> Optional<T> checkpoint(ParameterizedTypeReference<T> type);

    /**
     * Returns whether the handler should return: the node drains, the attempt timed out, or the job was cancelled or lost. At the
     * beginning of a drain only this method says so; handlers that still run after {@code forge.cluster.shutdown.drain-timeout} are
     * interrupted. A handler that stops before its work is done returns {@code Outcome.snooze(Duration.ZERO)}, so that another node
     * continues it: any other return completes the job.
     */
    boolean stopRequested();
}
