// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.properties.web;

import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.positive;
import static dev.forge.cluster.autoconfigure.properties.value.PropertyRules.require;

import java.time.Duration;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The audit trail.
 *
 * @param retention How long entries of the audit trail are kept; at least 7d.
 */
public record AuditProperties(@DefaultValue("90d") Duration retention) {

    /** The database lets only the owner of the table delete younger rows. */
    private static final Duration SHORTEST = Duration.ofDays(7);

    public AuditProperties {
        positive("audit.retention", retention);
        require(retention.compareTo(SHORTEST) >= 0, "audit.retention", retention, "must not be shorter than 7d");
    }
}
