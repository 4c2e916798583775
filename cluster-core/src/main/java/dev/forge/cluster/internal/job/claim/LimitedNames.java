// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.job.row.JobLimitStore;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/**
 * The handlers whose jobs have a limit in the cluster, as far as this node knows. Claims of other jobs do not look for limits.
 * Therefore a new limit takes effect only when each node has recorded that it knows it; see {@link JobLimitStore#obey}.
 */
final class LimitedNames {

    private final JobLimitStore limits;
    private final AtomicBoolean outdated = new AtomicBoolean(true);

    /** The membership under which the names were recorded. Used by the claiming thread alone. */
    private @Nullable UUID recordedFor;

    private volatile Set<String> names = Set.of();

    LimitedNames(JobLimitStore limits) {
        this.limits = limits;
    }

    /** Makes the next pass read the names again. Any thread may call this. */
    void changed() {
        outdated.set(true);
    }

    /** Reads the names if they may have changed. Called by the claiming thread, so that no claim is in progress. */
    void refresh(UUID holder) {
        if (outdated.getAndSet(false) || !holder.equals(recordedFor)) {
            try {
                names = limits.obey(holder);
                recordedFor = holder;
            } catch (RuntimeException | Error e) {
                // Perhaps other nodes rely on names that this node does not know.
                recordedFor = null;
                throw e;
            }
        }
    }

    /** Reads the names if they may have changed and this node has recorded them before: while it drains, it still must not keep others waiting. */
    void refreshRecorded() {
        UUID holder = recordedFor;
        if (holder != null && outdated.get()) {
            refresh(holder);
        }
    }

    /** Returns whether the jobs of a handler have a limit. Any thread may call this. */
    boolean contains(String handler) {
        return names.contains(handler);
    }
}
