// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.HeldJobStore.Reading;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobRecoveryStore.Recovered;
import dev.forge.cluster.internal.job.run.WorkerNode;
import dev.forge.cluster.internal.job.run.WorkerParts;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobStatus;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** Reads the payload, metadata and checkpoint of jobs that were claimed without them, and returns jobs that cannot be read. */
final class ClaimedJobReader {

    private static final Logger log = GuardedLogger.of(ClaimedJobReader.class);

    private static final long LEAST_READABLE = 16_000_000;

    /** Payload, metadata and checkpoint, and a reserve for nodes that are configured to write larger ones. */
    private static final long PARTS_OF_JOB = 5;

    private final WorkerParts dependencies;
    private final WorkerNode node;
    private final QueueFailures failures;
    private final RowLog rows = new RowLog();
    private final AtomicInteger unreadable = new AtomicInteger();

    ClaimedJobReader(WorkerParts dependencies, WorkerNode node, QueueFailures failures) {
        this.dependencies = dependencies;
        this.node = node;
        this.failures = failures;
    }

    /** Returns how many times a job could not be read. */
    int unreadable() {
        return unreadable.get();
    }

    /** Returns the complete job; null if it cannot be read, or if this node no longer holds it. */
    @Nullable
    Claimed read(Claimed job, UUID holder) {
        if (job.read()) {
            return job;
        }
        long most = Math.max(LEAST_READABLE, PARTS_OF_JOB * dependencies.json().maxBytes());
        String problem;
        try {
            Reading reading = dependencies.stores().held().read(holder, job, most);
            if (reading instanceof Reading.Read read) {
                return read.job();
            }
            if (reading instanceof Reading.Lost) {
                return null;
            }
            problem =
                    "its payload, metadata and checkpoint have %d bytes when printed; a node with this forge.cluster.job.max-payload-size reads at most %d"
                            .formatted(((Reading.TooLarge) reading).bytes(), most);
        } catch (RuntimeException | Error e) {
            failures.beCautious(job.queue());
            if (DatabaseFailure.kind(e).isTransient()) {
                // Not caused by the job: it comes back without a counted recovery, as a claim unknown to this node.
                throw e;
            }
            problem = QueueFailures.reason(e);
        }
        returnUnreadable(job, holder, problem);
        return null;
    }

    /** Returns the job, so that other nodes try. Counts as a crash: the number of tries is limited. */
    private void returnUnreadable(Claimed job, UUID holder, String reason) {
        unreadable.incrementAndGet();
        Recovered returned = dependencies
                .stores()
                .recoveries()
                .returnUnreadable(
                        holder,
                        job.key(),
                        dependencies.settings().leases().crash(),
                        "the job cannot be read: " + reason)
                .orElse(null);
        boolean pending = returned != null && returned.status() == JobStatus.PENDING;
        rows.warn(
                log,
                "Job %s: cannot be read".formatted(job.name()),
                "Job {} ({}): cannot be read, {}; {}",
                job.name(),
                job.id(),
                reason,
                returned == null
                        ? "this node no longer holds it"
                        : pending
                                ? "returned for recovery %d".formatted(returned.recoveries())
                                : "it is " + returned.status());
        if (pending) {
            node.jobReturned();
        } else if (returned != null) {
            dependencies.monitor().failed(job.id(), job.name(), returned.status(), String.valueOf(returned.error()));
        }
    }
}
