package dev.forge.cluster.internal.engine;

import dev.forge.cluster.JobRejectedException;
import dev.forge.cluster.internal.store.DaemonStore;
import dev.forge.cluster.internal.store.WorkflowStore;
import java.util.Map;

/**
 * Beginnings of job names and unique keys that the cluster uses for itself. A job of the application with such a name or key could
 * take the place of a run, of a job that a run waits for, or of another submitter's job. {@code forge_enqueue} refuses them with
 * the same words.
 */
final class ReservedNames {

    private ReservedNames() {}

    /** Whether jobs of that name are the cluster's own. */
    static boolean isReserved(String name) {
        return WorkflowStore.isWorkflow(name) || DaemonStore.isDaemon(name);
    }

    /** @throws JobRejectedException if jobs of that name are not the application's to enqueue */
    static void requireFreeName(String name) {
        if (WorkflowStore.isWorkflow(name)) {
            throw new JobRejectedException(
                    "job name '%s': names that begin with %s are those of runs of workflows; Workflows.start begins one"
                            .formatted(Names.printable(name), WorkflowStore.PREFIX));
        }
        if (DaemonStore.isDaemon(name)) {
            throw new JobRejectedException(
                    "job name '%s': names that begin with %s are those of daemons; use another name"
                            .formatted(Names.printable(name), DaemonStore.PREFIX));
        }
    }

    /**
     * Refuses keys that are the cluster's own.
     *
     * @param metadata of the job; they name its submitter, whose keys it may have
     * @throws JobRejectedException if the key is not the application's to use
     */
    static void requireFreeKey(String key, Map<String, String> metadata) {
        SubmitterKeys.require(key, metadata);
        if (key.startsWith(WorkflowStore.PREFIX)) {
            throw new JobRejectedException(
                    "unique key '%s': keys that begin with %s are those of jobs that runs of workflows wait for; use another key"
                            .formatted(Names.printable(key), WorkflowStore.PREFIX));
        }
    }
}
