// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.daemon;

import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * A daemon as recorded in the database.
 *
 * @param paused whether an operator has paused the daemon
 * @param candidates the names of the active nodes that can run the daemon
 */
public record DaemonInfo(
        String name, DaemonScope scope, boolean paused, List<String> candidates, List<Instance> instances) {

    /**
     * An instance of a daemon.
     *
     * @param nodeId the node that has the instance; null if none has it
     * @param nodeName the name of that node
     * @param term the last term in which the instance ran; 0 for scope {@link DaemonScope#NODE}
     * @param startedAt when the method was last started
     * @param restarts the number of restarts since a node that has the daemon started or an operator resumed it
     * @param lastError the last exception; cleared after a run of one minute or of ten restart delays, whichever is longer
     * @param note the last {@link DaemonContext#note}
     */
    public record Instance(
            int number,
            DaemonStatus status,
            @Nullable UUID nodeId,
            @Nullable String nodeName,
            long term,
            @Nullable Instant startedAt,
            int restarts,
            @Nullable String lastError,
            @Nullable String note) {}
}
