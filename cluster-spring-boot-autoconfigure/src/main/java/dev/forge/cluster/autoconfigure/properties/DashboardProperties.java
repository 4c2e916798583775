// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties;

import static dev.forge.cluster.autoconfigure.properties.PropertyRules.require;

import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The dashboard. It needs the module cluster-dashboard.
 *
 * @param enabled Whether the dashboard is served, if the module cluster-dashboard is on the class path.
 * @param path Path of the dashboard below the context path.
 * @param authorities Authorities of Spring Security that the permissions of the dashboard need.
 * @param traceUrl Address of a trace in the tracing system, in which {traceId} stands for the id. Default: traces are not linked.
 */
public record DashboardProperties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("/forge/dashboard") String path,
        @DefaultValue Authorities authorities,
        @Nullable String traceUrl) {

    public DashboardProperties {
        require(
                path.matches("(/(?!\\.{1,2}(/|$))[A-Za-z0-9._~-]+)+"),
                "dashboard.path",
                path,
                "must be a plain path such as /forge/dashboard, without a trailing slash");
        require(
                traceUrl == null || (traceUrl.matches("(https?:/)?/[^\\s]*") && traceUrl.contains("{traceId}")),
                "dashboard.trace-url",
                traceUrl,
                "must begin with https://, http:// or a slash, and contain {traceId}");
    }

    /**
     * Authorities of Spring Security that the permissions of the dashboard need. One of a list is enough.
     *
     * @param view Authorities that may open the dashboard. A user needs one of them.
     * @param values Authorities that may also see values of the application: payloads, results, errors, metadata, keys, notes and lock
     *     names. A user needs one of them.
     * @param operate Authorities that may also change states: cancel, retry, pause, drain. A user needs one of them.
     */
    public record Authorities(
            @DefaultValue("ROLE_ADMIN") List<String> view,
            @DefaultValue("ROLE_ADMIN") List<String> values,
            @DefaultValue("ROLE_ADMIN") List<String> operate) {

        public Authorities {
            view = checked("view", view);
            values = checked("values", values);
            operate = checked("operate", operate);
        }

        private static List<String> checked(String permission, List<String> authorities) {
            require(
                    authorities.stream().noneMatch(String::isBlank),
                    "dashboard.authorities." + permission,
                    authorities,
                    "must not contain blank entries");
            return List.copyOf(authorities);
        }
    }
}
