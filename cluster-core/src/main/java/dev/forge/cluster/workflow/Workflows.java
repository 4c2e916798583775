package dev.forge.cluster.workflow;

import dev.forge.cluster.ClusterNotReadyException;
import dev.forge.cluster.ReadOnlyTransactionException;
import dev.forge.cluster.job.Jobs;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * Starts workflows and looks after their runs. Whatever is changed joins the caller's transaction: what rolls back never
 * happened. In a read-only transaction changes throw {@link ReadOnlyTransactionException}.
 *
 * <p>{@link #signal}, {@link #cancel} and {@link #retry} wait at most 5 seconds for each row that another transaction has locked,
 * then throw {@link org.springframework.dao.CannotAcquireLockException}. Nothing was changed then; the caller's transaction can
 * continue.
 */
public interface Workflows {

    /**
     * Starts a run of the newest version that is not deprecated: of those this node has, or else of those that live nodes
     * have, or had: then it waits for one. A node without the role worker runs none itself: for it, what live workers have comes first.
     *
     * @throws WorkflowRejectedException saying why it cannot be started; also if this node has the version and cannot read the
     *     input as what its method takes
     * @throws ClusterNotReadyException in a constructor or a {@code @PostConstruct} method: versions are known once all beans were
     *     created
     */
    default UUID start(String workflow, @Nullable Object input) {
        return start(workflow, input, null);
    }

    /**
     * The same, once for a key: if there is a run with that key, ended or not, its id is the answer. Keys are kept as long as
     * their runs.
     */
    UUID start(String workflow, @Nullable Object input, @Nullable String key);

    /** Gives a run a signal, which it takes when it waits for one of that name; false if there is no such run, or it has ended. */
    boolean signal(UUID run, String name, @Nullable Object payload);

    /**
     * Lets a run undo what it has done; a step that runs at this moment comes to its end first. So do runs that it waits
     * for; a job that it waits for is called off as {@link Jobs#cancel} does. A run that has failed undoes what it has done, or
     * what is left of it; one whose method does not fit undoes once it does. False if there is no such run, or it
     * undoes already with all that it has started, or has ended otherwise.
     */
    boolean cancel(UUID run, String reason);

    /**
     * Lets a run go on that has failed or whose method did not fit: a step that has failed for good gets all its attempts
     * again, and so does a compensation. False if it is none of these, or a child whose parent waits for another child that
     * it has started in its place.
     */
    boolean retry(UUID run);

    /** A run as it stands, with its steps. */
    Optional<WorkflowInfo> find(UUID run);

    /**
     * What a run has returned; empty if it has not, or not yet.
     *
     * @throws IllegalArgumentException if it cannot be read as that type
     */
    <T> Optional<T> result(UUID run, Class<T> type);

    /** The newest runs, if wanted only of that workflow or status, without their steps; of the last 10,000 that were started. */
    List<WorkflowInfo> list(@Nullable String workflow, @Nullable WorkflowStatus status, int limit);
}
