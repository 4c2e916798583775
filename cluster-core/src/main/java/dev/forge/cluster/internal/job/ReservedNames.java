package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobRejectedException;
import java.util.Map;

/**
 * Job names, unique keys and metadata that the cluster uses for itself. A job of the application with such a name or key could
 * take the place of a run, of a job that a run waits for, or of another submitter's job. {@code forge_enqueue} refuses them with
 * the same words.
 */
public final class ReservedNames {

    /** Keys of metadata that begin like this belong to the cluster. */
    static final String METADATA_PREFIX = "forge.";

    private final Node node;
    private final JobHandlers handlers;

    public ReservedNames(Node node, JobHandlers handlers) {
        this.node = node;
        this.handlers = handlers;
    }

    /** Returns whether jobs of that name are the cluster's own. */
    public boolean isReserved(String name) {
        return handlers.ownerOf(name).isPresent() || node.reservedPrefix(name).isPresent();
    }

    /**
     * Refuses names of jobs that the cluster enqueues for itself.
     *
     * @throws JobRejectedException if applications may not enqueue jobs of that name
     */
    public void requireFreeName(String name) {
        handlers.ownerOf(name).ifPresent(owned -> {
            throw refused("job name", "names", name, owned.prefix(), owned.description(), owned.startAdvice());
        });
        node.reservedPrefix(name).ifPresent(reserved -> {
            throw refused("job name", "names", name, reserved.text(), reserved.owner(), reserved.advice());
        });
    }

    /**
     * Refuses keys that are the cluster's own.
     *
     * @param metadata of the job; they name its submitter, whose keys it may have
     * @throws JobRejectedException if applications may not use that key
     */
    void requireFreeKey(String key, Map<String, String> metadata) {
        SubmitterKeys.require(key, metadata);
        handlers.ownerOf(key).ifPresent(owned -> {
            throw refused(
                    "unique key",
                    "keys",
                    key,
                    owned.prefix(),
                    "jobs that " + owned.description() + " wait for",
                    "use another key");
        });
    }

    private static JobRejectedException refused(
            String what, String kind, String text, String prefix, String owner, String advice) {
        return new JobRejectedException("%s '%s': %s that begin with %s are those of %s; %s"
                .formatted(what, Names.printable(text), kind, prefix, owner, advice));
    }
}
