// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

/** A change that destroys something, for which the caller has given no reason. */
public final class MissingReasonException extends InvalidOperationException {

    private static final long serialVersionUID = 1L;

    MissingReasonException(String state) {
        super("State '%s' needs the parameter 'reason': it is recorded in the audit trail".formatted(state));
    }
}
