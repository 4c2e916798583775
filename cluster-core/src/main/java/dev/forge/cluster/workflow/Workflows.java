// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.job.Jobs;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/**
 * Starts workflows and controls their runs. All changes join the caller's transaction. In a read-only transaction they throw
 * {@link ReadOnlyTransactionException}. {@link WorkflowOperations} searches and exports runs.
 *
 * <p>{@link #signal}, {@link #cancel} and {@link #retry} wait at most 5 seconds for each row that another transaction has locked,
 * then throw {@link org.springframework.dao.CannotAcquireLockException}. Nothing was changed then; the caller's transaction can
 * continue.
 */
public interface Workflows {

    /**
     * Starts a run of the newest version that is not deprecated. Versions of this node come first, then those of live nodes;
     * otherwise the newest version any node has run, in which case the run waits for such a node. A node without the role
     * worker runs no workflow itself, so for it the versions of live workers come first.
     *
     * @throws WorkflowRejectedException if the run cannot be started, also if this node has the version and its method cannot
     *     read the input; the message says why
     * @throws ClusterNotReadyException in a constructor or a {@code @PostConstruct} method: versions are known after all beans
     *     have been created
     */
    default UUID start(String workflow, @Nullable Object input) {
        return start(workflow, input, null);
    }

    /**
     * Starts a run once per key: if a run with that key exists, ended or not, its id is returned. A key is kept as long as its
     * run. See {@link #start(String, Object)}.
     */
    UUID start(String workflow, @Nullable Object input, @Nullable String key);

    /**
     * Sends a signal to a run, which consumes it when it waits for a signal of that name.
     *
     * @return whether the signal was stored; false if the run is unknown or has ended
     */
    boolean signal(UUID run, String name, @Nullable Object payload);

    /**
     * Cancels a run: it compensates its completed steps. A step that is running ends first. Child runs are cancelled as well, and
     * a job that the run waits for is cancelled as by {@link Jobs#cancel}. A failed run compensates the steps that are not yet
     * compensated. A run whose method does not match its history compensates as soon as a matching method exists.
     *
     * @return whether this call changed anything; false if the run is unknown, already compensates with all its children, or
     *     has ended in another way
     */
    boolean cancel(UUID run, String reason);

    /**
     * Continues a run that has failed or whose method did not match its history. A step or compensation that has failed
     * permanently gets all its attempts again.
     *
     * @return whether the run continues; false if it is in another status, or is a child that its parent has replaced
     */
    boolean retry(UUID run);

    /** Returns a run with its steps. */
    Optional<WorkflowInfo> find(UUID run);

    /**
     * Returns the result of a completed run.
     *
     * @return the result; empty if the run is unknown, has not completed, or returned nothing
     * @throws IllegalArgumentException if the result cannot be read as that type
     */
    <T> Optional<T> result(UUID run, Class<T> type);

    /**
     * Returns the result of a completed run as a generic type, {@code new ParameterizedTypeReference<List<Order>>() {}}; see
     * {@link #result(UUID, Class)}.
     */
    <T> Optional<T> result(UUID run, ParameterizedTypeReference<T> type);
}
