// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.operations.DaemonsDescriptor.DaemonDescriptor;
import dev.forge.cluster.autoconfigure.operations.DaemonsDescriptor.DaemonStateDescriptor;
import dev.forge.cluster.autoconfigure.operations.DaemonsDescriptor.InstanceDescriptor;
import dev.forge.cluster.autoconfigure.operations.ValueSanitizer.Sanitized;
import dev.forge.cluster.daemon.DaemonInfo;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.runtime.EnumText;
import java.util.Map;
import java.util.TreeMap;

/** The resource {@code daemons}: lists daemons, pauses and resumes them. */
final class DaemonsResource implements Resource {

    private static final ResourceParameters PARAMETERS =
            ResourceParameters.ofList().withEntry().withChange();

    private final Daemons daemons;
    private final ValueSanitizer values;

    DaemonsResource(Daemons daemons, ValueSanitizer values) {
        this.daemons = daemons;
        this.values = values;
    }

    @Override
    public String name() {
        return "daemons";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    /** Returns the number of instances by status. */
    Map<String, Long> counts() {
        var counts = new TreeMap<String, Long>();
        daemons.list().stream()
                .flatMap(daemon -> daemon.instances().stream())
                .forEach(instance -> counts.merge(EnumText.hyphenated(instance.status()), 1L, Long::sum));
        return counts;
    }

    @Override
    public OperationResult read(OperationRequest request) {
        Sanitized shown = values.shownTo(request.caller());
        return request.result(
                request.hasEntry()
                        ? daemons.find(request.entry())
                                .map(daemon -> descriptor(daemon, shown))
                                .orElse(null)
                        : new DaemonsDescriptor(daemons.list().stream()
                                .map(daemon -> descriptor(daemon, shown))
                                .toList()));
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

    /** Pauses or resumes a daemon. */
    @Override
    public OperationResult change(OperationRequest request, String state) {
        String name = request.entry();
        try {
            switch (state) {
                case "paused" -> daemons.pause(name);
                case "running" -> daemons.resume(name);
                default ->
                    throw new InvalidOperationException(
                            "Unsupported state '%s' for a daemon: use 'paused' or 'running'".formatted(state));
            }
            return request.result(daemons.find(name)
                    .map(changed -> new DaemonStateDescriptor(name, state))
                    .orElse(null));
        } catch (MutationRefusedException e) {
            throw InvalidOperationException.because(e);
        }
    }
}
