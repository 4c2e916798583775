// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.metrics;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import io.micrometer.tracing.Span;
import io.micrometer.tracing.Tracer;
import io.micrometer.tracing.propagation.Propagator;
import java.util.HashMap;
import java.util.Map;

/** Attaches the enqueuer's trace to a new job, in the headers that the application's tracer is configured for. */
public final class JobOrigins implements JobMonitor {

    private final Tracer tracer;
    private final Propagator propagator;

    public JobOrigins(Tracer tracer, Propagator propagator) {
        this.tracer = tracer;
        this.propagator = propagator;
    }

    @Override
    public Map<String, String> origin(String name) {
        Span current = tracer.currentSpan();
        if (current == null) {
            return Map.of();
        }
        var headers = new HashMap<String, String>();
        propagator.inject(current.context(), headers, (map, key, value) -> {
            if (map != null) {
                map.put(key, value);
            }
        });
        return headers;
    }
}
