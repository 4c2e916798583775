// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.enqueue;

import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.job.JobRejectedException;
import java.util.Map;

/**
 * Job names, unique keys and metadata keys that are reserved for the cluster. A job of the application with such a name or key could
 * replace a run, a job that a run waits for, or a job of another submitter. {@code forge_enqueue} rejects them with the same
 * messages.
 */
public final class ReservedNames {

    /** The prefix of reserved metadata keys. */
    public static final String METADATA_PREFIX = "forge.";

    private final Node node;
    private final JobHandlers handlers;

    public ReservedNames(Node node, JobHandlers handlers) {
        this.node = node;
        this.handlers = handlers;
    }

    /** Returns whether a name is reserved. */
    public boolean isReserved(String name) {
        return handlers.ownerOf(name).isPresent() || node.reservedPrefix(name).isPresent();
    }

    /**
     * Rejects reserved names.
     *
     * @throws JobRejectedException if applications may not enqueue jobs of that name
     */
    public void requireFreeName(String name) {
        handlers.ownerOf(name).ifPresent(owned -> {
            throw rejected("job name", "names", name, owned.prefix(), owned.description(), owned.startAdvice());
        });
        node.reservedPrefix(name).ifPresent(reserved -> {
            throw rejected("job name", "names", name, reserved.text(), reserved.owner(), reserved.advice());
        });
    }

    /**
     * Rejects reserved unique keys.
     *
     * @param metadata metadata of the job; it may have keys of the submitter that they name
     * @throws JobRejectedException if applications may not use that key
     */
    void requireFreeKey(String key, Map<String, String> metadata) {
        SubmitterKeys.require(key, metadata);
        handlers.ownerOf(key).ifPresent(owned -> {
            throw rejected(
                    "unique key",
                    "keys",
                    key,
                    owned.prefix(),
                    "jobs that " + owned.description() + " wait for",
                    "use another key");
        });
    }

    /**
     * Rejects reserved metadata keys.
     *
     * @throws JobRejectedException if applications may not use one of the keys
     */
    void requireFreeMetadata(Map<String, String> metadata) {
        metadata.forEach((key, value) -> {
            if (key.startsWith(METADATA_PREFIX) && !SubmitterKeys.isCurrentSubmitter(key, value)) {
                throw rejected("metadata key", "keys", key, METADATA_PREFIX, "the cluster", "use another key");
            }
        });
    }

    private static JobRejectedException rejected(
            String what, String kind, String text, String prefix, String owner, String advice) {
        return new JobRejectedException("%s '%s': %s that begin with %s are those of %s; %s"
                .formatted(what, Names.printable(text), kind, prefix, owner, advice));
    }
}
