// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * All daemons, as the resource {@code daemons} returns them.
 *
 * @param daemons the daemons
 */
public record DaemonsDescriptor(List<DaemonDescriptor> daemons) {

    /**
     * A daemon.
     *
     * @param name the name
     * @param scope cluster (one node runs it) or node (each node does)
     * @param paused whether it is paused
     * @param candidates the names of the active nodes that may run it
     * @param instances its instances
     */
    public record DaemonDescriptor(
            String name, String scope, boolean paused, List<String> candidates, List<InstanceDescriptor> instances) {}

    /**
     * An instance of a daemon.
     *
     * @param instance the number of the instance, from 0
     * @param status its status, such as running or failed
     * @param node the node that runs it; absent if none does
     * @param nodeName the name of that node
     * @param term the last term in which it ran; 0 for daemons that need no election
     * @param startedAt when its method was last started
     * @param restarts how often its method was restarted
     * @param note the last note of the daemon, sanitized
     * @param error its last error, sanitized
     */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record InstanceDescriptor(
            int instance,
            String status,
            @Nullable UUID node,
            @Nullable String nodeName,
            long term,
            @Nullable Instant startedAt,
            int restarts,
            @Nullable Object note,
            @Nullable Object error) {}

    /**
     * The response to a state change of a daemon.
     *
     * @param name the daemon
     * @param state paused or running
     */
    public record DaemonStateDescriptor(String name, String state) {}
}
