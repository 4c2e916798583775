// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.Operator;
import org.jspecify.annotations.Nullable;

/**
 * The user on whose behalf an adapter calls. The adapter has authenticated the user, and has checked that the user may make the call.
 *
 * @param seesValues whether the user may see values of the application, such as payloads; they are masked otherwise
 * @param principal the name of the user; null: anonymous
 * @param address the network address of the user; null: unknown to the adapter
 * @param source the adapter, for the audit trail
 */
public record Caller(
        boolean seesValues,
        @Nullable String principal,
        @Nullable String address,
        AuditSource source) {

    /** The name of users that nobody has authenticated. */
    private static final String ANONYMOUS = "anonymous";

    /** Returns the user as the audit trail records it. */
    Operator operator() {
        return new Operator(principal == null || principal.isBlank() ? ANONYMOUS : principal, address, source);
    }
}
