// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.audit;

import dev.forge.cluster.Page;
import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.audit.Operator;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Cursors;
import dev.forge.cluster.internal.runtime.Names;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** {@link AuditTrail} on {@code forge_audit}. */
public final class DefaultAuditTrail implements AuditTrail {

    private static final int MOST_LISTED = 1_000;

    private final Audit audit;
    private final AuditStore store;

    public DefaultAuditTrail(Audit audit, AuditStore store) {
        this.audit = audit;
        this.store = store;
    }

    @Override
    public <T extends @Nullable Object> T as(Operator operator, @Nullable String reason, Supplier<T> operation) {
        Arguments.required("AuditTrail.as", "operator", operator);
        Arguments.required("AuditTrail.as", "operation", operation);
        return audit.as(operator, reason, operation);
    }

    @Override
    public Page<AuditEntry> list(AuditFilter filter, int limit, @Nullable String cursor) {
        Arguments.required("AuditTrail.list", "filter", filter);
        Arguments.limit("AuditTrail.list", limit, MOST_LISTED);
        requireStorable("who", filter.who());
        requireStorable("action", filter.action());
        requireStorable("target", filter.target());
        var cursors = new Cursors("AuditTrail.list", "audit " + filter);
        List<AuditEntry> entries = store.list(filter, limit, cursors.decodeOne(cursor, Long::valueOf));
        return cursors.page(entries, limit, entry -> Long.toString(entry.id()));
    }

    /** A NUL character would end the caller's transaction with an error that names nothing. */
    private static void requireStorable(String what, @Nullable String text) {
        if (text != null) {
            Names.requirePrintable(what, text);
        }
    }
}
