// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.audit;

import dev.forge.cluster.internal.audit.AuditStore;
import dev.forge.cluster.internal.node.NodeComponent;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.purge.PurgeBatch;
import java.time.Duration;
import java.util.List;
import java.util.function.LongSupplier;

/** Deletes old entries of the audit trail. */
public final class AuditCleanUp implements NodeComponent {

    private static final int LARGEST_BATCH = 5_000;

    private final AuditStore entries;
    private final Duration retention;
    private final PurgeBatch purge;

    AuditCleanUp(AuditStore entries, Duration retention, LongSupplier nanos) {
        this.entries = entries;
        this.retention = retention;
        this.purge = new PurgeBatch("entries of the audit trail", LARGEST_BATCH, nanos);
    }

    @Override
    public List<NodeLoop> loops() {
        return List.of(NodeLoop.cleanUp("clean-up-audit", this::cleanUp));
    }

    void cleanUp() {
        purge.deleteAll(limit -> entries.purge(retention, limit));
    }
}
