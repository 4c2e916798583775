// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.audit;

import java.util.Locale;
import java.util.StringJoiner;
import org.jspecify.annotations.Nullable;

/** Selects entries of the audit trail. Immutable; each {@code with} method returns a changed copy, and all conditions must hold. */
public final class AuditFilter {

    private static final AuditFilter ALL = new AuditFilter(null, null, null, null);

    private final @Nullable String who;
    private final @Nullable AuditSource source;
    private final @Nullable String action;
    private final @Nullable String target;

    private AuditFilter(
            @Nullable String who, @Nullable AuditSource source, @Nullable String action, @Nullable String target) {
        this.who = who;
        this.source = source;
        this.action = action;
        this.target = target;
    }

    /** Returns a filter that selects all entries. */
    public static AuditFilter all() {
        return ALL;
    }

    /** Selects entries of that principal. */
    public AuditFilter withWho(String principal) {
        required("withWho", "principal", principal);
        return new AuditFilter(principal, source, action, target);
    }

    /** Selects entries of that source. */
    public AuditFilter withSource(AuditSource source) {
        required("withSource", "source", source);
        return new AuditFilter(who, source, action, target);
    }

    /** Selects entries of that action, such as {@code job.cancel}. */
    public AuditFilter withAction(String action) {
        required("withAction", "action", action);
        return new AuditFilter(who, source, action, target);
    }

    /** Selects entries about that id or name, which an index leads to. */
    public AuditFilter withTarget(String idOrName) {
        required("withTarget", "idOrName", idOrName);
        return new AuditFilter(who, source, action, idOrName);
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("AuditFilter.%s: %s must not be null".formatted(method, parameter));
        }
    }

    /** See {@link #withWho}; null: any. */
    public @Nullable String who() {
        return who;
    }

    /** See {@link #withSource}; null: any. */
    public @Nullable AuditSource source() {
        return source;
    }

    /** See {@link #withAction}; null: any. */
    public @Nullable String action() {
        return action;
    }

    /** See {@link #withTarget}; null: any. */
    public @Nullable String target() {
        return target;
    }

    /** Returns the conditions as text: {@code who='alice', source=dashboard}. Equal texts mean equal filters. */
    @Override
    public String toString() {
        var text = new StringJoiner(", ");
        text.setEmptyValue("every entry");
        add(text, "who", who);
        if (source != null) {
            text.add("source=" + source.name().toLowerCase(Locale.ROOT));
        }
        add(text, "action", action);
        add(text, "target", target);
        return text.toString();
    }

    private static void add(StringJoiner text, String condition, @Nullable String value) {
        if (value != null) {
            text.add(condition + "='" + value.replace("\\", "\\\\").replace("'", "\\'") + "'");
        }
    }
}
