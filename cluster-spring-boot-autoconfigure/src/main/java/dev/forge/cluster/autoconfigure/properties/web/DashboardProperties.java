// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.web;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.plainPath;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The dashboard. It needs the module cluster-dashboard.
 *
 * @param enabled Whether the dashboard is served, if the module cluster-dashboard is on the class path.
 * @param path Path of the dashboard below the context path.
 * @param traceUrl Address of a trace in the tracing system, in which {traceId} stands for the id. Default: traces are not linked.
 */
public record DashboardProperties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("/forge/dashboard") String path,
        @Nullable String traceUrl) {

    public DashboardProperties {
        plainPath("dashboard.path", path);
        require(
                traceUrl == null || (traceUrl.matches("(https?:/)?/[^\\s]*") && traceUrl.contains("{traceId}")),
                "dashboard.trace-url",
                traceUrl,
                "must begin with https://, http:// or a slash, and contain {traceId}");
    }
}
