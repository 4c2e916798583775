// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.autoconfigure.operations.AuditDescriptor.EntryDescriptor;
import dev.forge.cluster.autoconfigure.operations.ValueSanitizer.Sanitized;
import dev.forge.cluster.internal.runtime.EnumText;
import java.util.List;
import java.util.regex.Pattern;

/** The resource {@code audit}: who changed what. */
final class AuditResource implements Resource {

    private static final int DEFAULT_LIMIT = 50;

    /** The text of every filter of jobs with a condition contains this character; names of jobs and others hardly ever do. */
    private static final char CONDITION = '=';

    private static final Pattern ID = Pattern.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
    private static final ResourceParameters PARAMETERS =
            ResourceParameters.ofList("who", "source", "action", "target", "before", "limit");

    private final boolean secured;
    private final AuditTrail trail;
    private final ValueSanitizer values;

    /** @param secured whether the application has Spring Security, without which everybody may read */
    AuditResource(boolean secured, AuditTrail trail, ValueSanitizer values) {
        this.secured = secured;
        this.trail = trail;
        this.values = values;
    }

    @Override
    public String name() {
        return "audit";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    @Override
    public OperationResult read(OperationRequest request) {
        if (!secured) {
            return new OperationResult.Denied("The audit trail names people: it is shown only with Spring Security");
        }
        int limit = request.limit(DEFAULT_LIMIT);
        List<AuditEntry> entries = trail.list(filter(request), limit, request.longInteger("before"));
        Sanitized shown = values.shownTo(request.caller());
        return request.result(new AuditDescriptor(
                entries.stream().map(entry -> descriptor(entry, shown)).toList(),
                entries.size() < limit ? null : entries.get(limit - 1).id()));
    }

    private static AuditFilter filter(OperationRequest request) {
        AuditFilter filter = AuditFilter.all();
        String who = request.text("who");
        if (who != null) {
            filter = filter.withWho(who);
        }
        String source = request.text("source");
        if (source != null) {
            filter = filter.withSource(OperationRequest.constant(AuditSource.class, "source", source));
        }
        String action = request.text("action");
        if (action != null) {
            filter = filter.withAction(action);
        }
        String target = request.text("target");
        if (target != null
                && target.indexOf(CONDITION) >= 0
                && !request.caller().seesValues()) {
            // Otherwise a search would tell whether a hidden value has been guessed.
            throw new HiddenValuesException(List.of("target"));
        }
        return target == null ? filter : filter.withTarget(target);
    }

    private static EntryDescriptor descriptor(AuditEntry entry, Sanitized shown) {
        return new EntryDescriptor(
                entry.id(),
                entry.at(),
                entry.who(),
                entry.address(),
                EnumText.hyphenated(entry.source()),
                entry.action(),
                // The text of a filter may contain groups, keys and metadata; the id of the only job does not.
                isFilter(entry) ? shown.value("filter", entry.target()) : entry.target(),
                // The name of a node is shown to everybody.
                entry.action().equals("node.drain") ? entry.detail() : shown.value("detail", entry.detail()),
                entry.count(),
                shown.value("reason", entry.reason()),
                entry.call());
    }

    private static boolean isFilter(AuditEntry entry) {
        return (entry.call() != null || entry.action().startsWith("jobs."))
                && !ID.matcher(entry.target()).matches();
    }
}
