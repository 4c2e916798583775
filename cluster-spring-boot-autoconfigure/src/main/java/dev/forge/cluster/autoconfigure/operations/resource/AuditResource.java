// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations.resource;

import dev.forge.cluster.Page;
import dev.forge.cluster.audit.AuditEntry;
import dev.forge.cluster.audit.AuditFilter;
import dev.forge.cluster.audit.AuditSource;
import dev.forge.cluster.audit.AuditTrail;
import dev.forge.cluster.autoconfigure.operations.HiddenValuesException;
import dev.forge.cluster.autoconfigure.operations.InvalidOperationException;
import dev.forge.cluster.autoconfigure.operations.OperationRequest;
import dev.forge.cluster.autoconfigure.operations.OperationResult;
import dev.forge.cluster.autoconfigure.operations.Resource;
import dev.forge.cluster.autoconfigure.operations.ResourceParameters;
import dev.forge.cluster.autoconfigure.operations.json.JsonObject;
import dev.forge.cluster.autoconfigure.operations.json.ValueSanitizer;
import java.util.List;

/** The resource {@code audit}: who changed what. */
final class AuditResource extends Resource {

    private static final int DEFAULT_LIMIT = 50;

    /** The text of every filter of jobs with a condition contains this character; names of jobs and others hardly ever do. */
    private static final char CONDITION = '=';

    private static final ResourceParameters PARAMETERS =
            ResourceParameters.ofList("who", "source", "action", "target", "before", "limit");

    private final boolean secured;
    private final AuditTrail trail;
    private final ValueSanitizer values;

    /** @param secured whether the application has Spring Security, without which everybody may read */
    AuditResource(boolean secured, AuditTrail trail, ValueSanitizer values) {
        super("audit", PARAMETERS);
        this.secured = secured;
        this.trail = trail;
        this.values = values;
    }

    @Override
    protected OperationResult read(OperationRequest request) {
        if (!secured) {
            return new OperationResult.Denied("The audit trail names people: it is shown only with Spring Security");
        }
        Page<AuditEntry> page = page(request);
        return request.result(new JsonObject()
                .with("entries", values.shownTo(request.caller()).objects(page.items()))
                .with("next", page.next()));
    }

    private Page<AuditEntry> page(OperationRequest request) {
        try {
            return trail.list(filter(request), request.limit(DEFAULT_LIMIT), request.text("before"));
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
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
}
