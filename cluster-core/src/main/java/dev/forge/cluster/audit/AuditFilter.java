// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.audit;

import org.jspecify.annotations.Nullable;

/**
 * Selects entries of the audit trail. Immutable; each {@code with} method returns a changed copy, and all conditions must hold.
 *
 * @param who the principal; null: any
 * @param source the source; null: any
 * @param action the action, such as {@code job.cancel}; null: any
 * @param target the id or name of what was changed; null: any
 */
public record AuditFilter(
        @Nullable String who,
        @Nullable AuditSource source,
        @Nullable String action,
        @Nullable String target) {

    private static final AuditFilter ALL = new AuditFilter(null, null, null, null);

    /** Returns a filter that selects all entries. */
    public static AuditFilter all() {
        return ALL;
    }

    /** Selects entries of that principal. */
    public AuditFilter withWho(String principal) {
        return new AuditFilter(principal, source, action, target);
    }

    /** Selects entries of that source. */
    public AuditFilter withSource(AuditSource wanted) {
        return new AuditFilter(who, wanted, action, target);
    }

    /** Selects entries of that action. */
    public AuditFilter withAction(String wanted) {
        return new AuditFilter(who, source, wanted, target);
    }

    /** Selects entries about that id or name, which an index leads to. */
    public AuditFilter withTarget(String idOrName) {
        return new AuditFilter(who, source, action, idOrName);
    }
}
