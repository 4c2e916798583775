// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.web;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.plainPath;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import java.util.List;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The HTTP API for operators, and who may use it and the dashboard.
 *
 * @param enabled Whether the HTTP API for operators is served at its own path. The dashboard has it below its own path in any case.
 * @param path Path of the HTTP API for operators below the context path.
 * @param authorities Authorities of Spring Security that the permissions need.
 */
public record OperationsProperties(
        @DefaultValue("false") boolean enabled,
        @DefaultValue("/forge/operations") String path,
        @DefaultValue Authorities authorities) {

    public OperationsProperties {
        plainPath("operations.path", path);
    }

    /**
     * Authorities of Spring Security that the permissions need. One of a list is enough.
     *
     * @param view Authorities that may open the dashboard and read the API. A user needs one of them.
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
                    "operations.authorities." + permission,
                    authorities,
                    "must not contain blank entries");
            return List.copyOf(authorities);
        }
    }
}
