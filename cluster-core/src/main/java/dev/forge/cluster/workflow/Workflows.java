// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.job.Jobs;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/**
 * Starts workflows and controls their runs. All changes join the caller's transaction. In a read-only transaction they throw
 * {@link ReadOnlyTransactionException}.
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
     * Exports the recorded history of a run, for a replay against other code: {@code workflows.export(run)} with {@link
     * WorkflowExport#masked()} for a file that leaves production, and {@link WorkflowExport#json()} for its text. One statement
     * reads it, so the history of a run in flight is that of one moment.
     *
     * @return the history with all values; empty if the run is unknown
     * @throws WorkflowRejectedException if the history has more than 10,000 steps, or more than 8 MB of input, results and errors
     */
    Optional<WorkflowExport> export(UUID run);

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

    /**
     * Returns the newest runs, newest first, without their steps; see {@link #list(String, String, WorkflowStatus, int)}.
     *
     * @param workflow the name of a workflow; null for all
     * @param status a status; null for all
     * @param limit the number of runs, between 1 and 1,000
     */
    default List<WorkflowInfo> list(@Nullable String workflow, @Nullable WorkflowStatus status, int limit) {
        return list(workflow, null, status, limit);
    }

    /**
     * Returns the newest runs, newest first, without their steps: the first page of {@link #search}, which says whether there are
     * others.
     *
     * @param workflow the name of a workflow; null for all
     * @param version a version; null for all
     * @param status a status; null for all
     * @param limit the number of runs, between 1 and 1,000
     */
    default List<WorkflowInfo> list(
            @Nullable String workflow, @Nullable String version, @Nullable WorkflowStatus status, int limit) {
        return search(workflow, version, status, null, limit).runs();
    }

    /**
     * Returns a page of runs, newest first, without their steps. A call looks at 10,000 runs at most, so it may find fewer than there
     * are: continue with {@link WorkflowPage#next()}. Runs in flight that have the status are found at once, however many others are
     * newer, if there are no more than 10,000 of them.
     *
     * @param workflow the name of a workflow; null for all
     * @param version a version; null for all
     * @param status a status; null for all
     * @param after {@link WorkflowPage#next()} of the previous page, or the id of its last run, which need not exist any more; null for
     *     the first page
     * @param limit the number of runs, between 1 and 1,000
     */
    WorkflowPage search(
            @Nullable String workflow,
            @Nullable String version,
            @Nullable WorkflowStatus status,
            @Nullable UUID after,
            int limit);
}
