// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.run.WorkerParts;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobStatus;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import org.slf4j.Logger;

/**
 * Finds jobs of one claim that were enqueued without the group that their handler declares: SQL, and nodes without the handler, do not
 * know it. Such a job is returned with its group, so that the limits of the group apply to it.
 */
final class MissingGroups {

    private static final Logger log = GuardedLogger.of(MissingGroups.class);

    private final WorkerParts dependencies;
    private final UUID holder;
    private final JobHandler handler;
    private final RowLog rows;
    private final Consumer<Claimed> ended;
    private final Map<ClaimKey, String> found = new LinkedHashMap<>();
    private final List<Failed> failed = new ArrayList<>();

    /** A job whose group cannot be determined. */
    private record Failed(Claimed job, String error) {}

    /** @param ended called with each job whose end as failed is written */
    MissingGroups(WorkerParts dependencies, UUID holder, JobHandler handler, RowLog rows, Consumer<Claimed> ended) {
        this.dependencies = dependencies;
        this.holder = holder;
        this.handler = handler;
        this.rows = rows;
        this.ended = ended;
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
        failed.add(new Failed(job, ErrorText.storable(String.valueOf(failure.getMessage()))));
    }

    /** Returns the jobs to the queue, and writes the ends of those that failed; returns whether there were any to return. */
    boolean giveBack() {
        try {
            if (!failed.isEmpty()) {
                writeFailed();
            }
        } finally {
            if (!found.isEmpty()) {
                dependencies.stores().held().returnWithGroups(holder, found);
            }
        }
        return !found.isEmpty();
    }

    /** A job whose row is locked, or whose claim is lost, has not failed: it is claimed again. */
    private void writeFailed() {
        Set<ClaimKey> written = dependencies
                .stores()
                .finishes()
                .finishUnlocked(
                        holder, failed.stream().map(MissingGroups::finish).toList());
        for (Failed one : failed) {
            Claimed job = one.job;
            if (written.contains(job.key())) {
                rows.warn(
                        log,
                        "Job %s: failed without a group".formatted(job.name()),
                        "Job {} ({}): failed, {}",
                        job.name(),
                        job.id(),
                        one.error);
                dependencies.monitor().failed(job.id(), job.name(), JobStatus.FAILED, one.error);
                ended.accept(job);
            }
        }
    }

    private static Finish finish(Failed one) {
        return Finish.failed(one.job.key(), one.error, null);
    }
}
