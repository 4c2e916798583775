// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.actuate;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.actuate.DaemonsDescriptor.DaemonDescriptor;
import dev.forge.cluster.autoconfigure.actuate.DaemonsDescriptor.DaemonStateDescriptor;
import dev.forge.cluster.autoconfigure.actuate.DaemonsDescriptor.InstanceDescriptor;
import dev.forge.cluster.autoconfigure.actuate.EndpointValues.Sanitized;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.runtime.EnumText;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.actuate.endpoint.SecurityContext;

/** {@code /actuator/forgecluster/daemons}: lists daemons, pauses and resumes them. */
final class DaemonsResource {

    private final Daemons daemons;
    private final EndpointValues values;

    DaemonsResource(Daemons daemons, EndpointValues values) {
        this.daemons = daemons;
        this.values = values;
    }

    /** Returns the number of instances by status. */
    Map<String, Long> counts() {
        var counts = new TreeMap<String, Long>();
        daemons.list().stream()
                .flatMap(daemon -> daemon.instances().stream())
                .forEach(instance -> counts.merge(EnumText.hyphenated(instance.status()), 1L, Long::sum));
        return counts;
    }

    DaemonsDescriptor list(SecurityContext user) {
        Sanitized shown = values.shownTo(user);
        return new DaemonsDescriptor(
                daemons.list().stream().map(daemon -> descriptor(daemon, shown)).toList());
    }

    /** Returns one daemon; null if there is no such daemon. */
    @Nullable
    DaemonDescriptor find(String name, SecurityContext user) {
        Sanitized shown = values.shownTo(user);
        return daemons.find(name).map(daemon -> descriptor(daemon, shown)).orElse(null);
    }

    private static DaemonDescriptor descriptor(DaemonInfo daemon, Sanitized shown) {
        return new DaemonDescriptor(
                daemon.name(),
                EnumText.hyphenated(daemon.scope()),
                daemon.paused(),
                daemon.candidates(),
                daemon.instances().stream()
                        .map(instance -> new InstanceDescriptor(
                                instance.number(),
                                EnumText.hyphenated(instance.status()),
                                instance.nodeId(),
                                instance.nodeName(),
                                instance.term(),
                                instance.startedAt(),
                                instance.restarts(),
                                shown.value("note", instance.note()),
                                shown.value("error", instance.lastError())))
                        .toList());
    }

    /** Pauses or resumes a daemon; returns null if there is no such daemon. */
    @Nullable
    DaemonStateDescriptor changeState(String name, String state) {
        try {
            switch (state) {
                case "paused" -> daemons.pause(name);
                case "running" -> daemons.resume(name);
                default ->
                    throw EndpointRequests.invalid(
                            "Unsupported state '%s' for a daemon: use 'paused' or 'running'".formatted(state));
            }
            return daemons.find(name)
                    .map(changed -> new DaemonStateDescriptor(name, state))
                    .orElse(null);
        } catch (MutationRefusedException e) {
            throw EndpointRequests.refused(e);
        }
    }
}
