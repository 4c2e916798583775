// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.MutationRefusedException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer.Sanitized;
import dev.forge.cluster.daemon.Daemons;
import dev.forge.cluster.internal.runtime.EnumText;
import java.util.Map;
import java.util.TreeMap;

/** The resource {@code daemons}: lists daemons, pauses and resumes them. */
final class DaemonsResource extends Resource {

    private static final ResourceParameters PARAMETERS =
            ResourceParameters.ofList().withEntry().withChange();

    private final Daemons daemons;
    private final ValueSanitizer values;

    DaemonsResource(Daemons daemons, ValueSanitizer values) {
        super("daemons", PARAMETERS);
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

    @Override
    protected OperationResult read(OperationRequest request) {
        Sanitized shown = values.shownTo(request.caller());
        return request.result(
                request.hasEntry()
                        ? daemons.find(request.entry()).map(shown::object).orElse(null)
                        : new JsonObject().with("daemons", shown.objects(daemons.list())));
    }

    /** Pauses or resumes a daemon. */
    @Override
    protected OperationResult change(OperationRequest request, String state) {
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
                    .map(changed -> new JsonObject().with("name", name).with("state", state))
                    .orElse(null));
        } catch (MutationRefusedException e) {
            throw InvalidOperationException.because(e);
        }
    }
}
