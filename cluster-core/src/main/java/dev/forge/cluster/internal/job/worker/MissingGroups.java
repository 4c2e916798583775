// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.store.ClaimKey;
import dev.forge.cluster.internal.job.store.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.store.JobFinishStore.Finish;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobStatus;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.slf4j.Logger;

/**
 * Finds jobs of one claim that were enqueued without the group that their handler declares: SQL, and nodes without the handler, do not
 * know it. Such a job is returned with its group, so that the limits of the group apply to it.
 */
final class MissingGroups {

    private static final Logger log = GuardedLogger.of(MissingGroups.class);

    private final Worker.Dependencies dependencies;
    private final UUID holder;
    private final JobHandler handler;
    private final RowLog rows;
    private final Map<ClaimKey, String> found = new LinkedHashMap<>();
    private final List<Finish> failed = new ArrayList<>();

    MissingGroups(Worker.Dependencies dependencies, UUID holder, JobHandler handler, RowLog rows) {
        this.dependencies = dependencies;
        this.holder = holder;
        this.handler = handler;
        this.rows = rows;
    }

    /** Returns whether a job must not run now, because it has no group but should have one. */
    boolean add(Claimed job) {
        JobHandler.GroupOfPayload declared = handler.grouping().group();
        if (job.group() != null || declared == null) {
            return false;
        }
        Object payload;
        try {
            payload = handler.target().payload(dependencies.json(), null, job.payload());
        } catch (RuntimeException e) {
            // The attempt fails for the same reason.
            return false;
        }
        try {
            String group = declared.of(payload);
            if (group != null) {
                Names.require("group", group);
                found.put(job.key(), group);
            }
            return group != null;
        } catch (RuntimeException e) {
            fail(job, e);
            return true;
        }
    }

    private void fail(Claimed job, RuntimeException failure) {
        String error = ErrorText.storable(String.valueOf(failure.getMessage()));
        rows.warn(
                log,
                "Job %s: failed without a group".formatted(job.name()),
                "Job {} ({}): failed, {}",
                job.name(),
                job.id(),
                error);
        failed.add(new Finish(job.key(), JobStatus.FAILED, null, error, 0, 0, null, null, null, null, false));
        dependencies.monitor().failed(job.id(), job.name(), JobStatus.FAILED, error);
    }

    /** Returns the jobs to the queue; returns whether there were any. */
    boolean giveBack() {
        if (!failed.isEmpty()) {
            dependencies.stores().finishes().finishUnlocked(holder, failed);
        }
        if (!found.isEmpty()) {
            dependencies.stores().held().returnWithGroups(holder, found);
        }
        return !found.isEmpty();
    }
}
