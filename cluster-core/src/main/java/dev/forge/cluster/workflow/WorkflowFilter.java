// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.workflow;

import java.util.Locale;
import java.util.StringJoiner;
import org.jspecify.annotations.Nullable;

/**
 * Selects runs of workflows. Immutable; each {@code with} method returns a changed copy, and all conditions must hold.
 *
 * <pre>{@code
 * operations.search(WorkflowFilter.all().withName("checkout").withStatus(WorkflowStatus.FAILED), 50);
 * }</pre>
 */
public final class WorkflowFilter {

    private static final WorkflowFilter ALL = new WorkflowFilter(null, null, null);

    private final @Nullable String name;
    private final @Nullable String version;
    private final @Nullable WorkflowStatus status;

    private WorkflowFilter(@Nullable String name, @Nullable String version, @Nullable WorkflowStatus status) {
        this.name = name;
        this.version = version;
        this.status = status;
    }

    /** Returns a filter that selects all runs. */
    public static WorkflowFilter all() {
        return ALL;
    }

    /** Selects runs of the workflow of that name. */
    public WorkflowFilter withName(String name) {
        required("withName", "name", name);
        return new WorkflowFilter(name, version, status);
    }

    /** Selects runs of that version. */
    public WorkflowFilter withVersion(String version) {
        required("withVersion", "version", version);
        return new WorkflowFilter(name, version, status);
    }

    /** Selects runs in that status. */
    public WorkflowFilter withStatus(WorkflowStatus status) {
        required("withStatus", "status", status);
        return new WorkflowFilter(name, version, status);
    }

    private static void required(String method, String parameter, @Nullable Object value) {
        if (value == null) {
            throw new IllegalArgumentException("WorkflowFilter.%s: %s must not be null".formatted(method, parameter));
        }
    }

    /** See {@link #withName}; null: any. */
    public @Nullable String name() {
        return name;
    }

    /** See {@link #withVersion}; null: any. */
    public @Nullable String version() {
        return version;
    }

    /** See {@link #withStatus}; null: any. */
    public @Nullable WorkflowStatus status() {
        return status;
    }

    /** Returns the conditions as text: {@code name='checkout', status=failed}. Equal texts mean equal filters. */
    @Override
    public String toString() {
        var text = new StringJoiner(", ");
        text.setEmptyValue("every run");
        if (name != null) {
            text.add("name=" + quoted(name));
        }
        if (version != null) {
            text.add("version=" + quoted(version));
        }
        if (status != null) {
            text.add("status=" + status.name().toLowerCase(Locale.ROOT));
        }
        return text.toString();
    }

    private static String quoted(String value) {
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'";
    }
}
