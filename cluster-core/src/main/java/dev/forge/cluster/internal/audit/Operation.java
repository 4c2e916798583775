// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import org.jspecify.annotations.Nullable;

/**
 * An operation to record. The texts of target and detail are made only if there is an operator.
 *
 * @param action a noun and a verb, such as {@code job.cancel}
 * @param target the id or name of what is changed, or the filter that selects it
 * @param detail the new value; null: none
 */
public record Operation(
        String action, Object target, @Nullable Object detail) {

    /** Creates an operation without details. */
    public Operation(String action, Object target) {
        this(action, target, null);
    }
}
