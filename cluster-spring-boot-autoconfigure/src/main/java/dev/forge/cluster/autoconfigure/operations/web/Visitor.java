// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.web;

import java.util.Set;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The user of a request as the application's security sees it.
 *
 * @param user the name; null if nobody is authenticated
 * @param permissions what the user may do
 * @param csrf returns the application's CSRF token for this request; null if the application protects nothing by tokens. The first
 *     call may create a session.
 */
public record Visitor(@Nullable String user, Set<Permission> permissions, Supplier<@Nullable Csrf> csrf) {

    /**
     * A CSRF token of the application.
     *
     * @param header the header that carries it
     * @param token the token
     */
    public record Csrf(String header, String token) {}

    /** Returns whether the user has a permission. */
    public boolean may(Permission permission) {
        return permissions.contains(permission);
    }
}
