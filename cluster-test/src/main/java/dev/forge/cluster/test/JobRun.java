// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.job.JobAttempt;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** One attempt of a job, and the job as it is after it. */
public final class JobRun {

    private final JobInfo job;
    private final @Nullable Throwable failure;
    private final InspectableJobs jobs;

    JobRun(JobInfo job, @Nullable Throwable failure, InspectableJobs jobs) {
        this.job = job;
        this.failure = failure;
        this.jobs = jobs;
    }

    /** Returns the job as it is recorded. */
    public JobInfo job() {
        return job;
    }

    /** Returns the id of the job. */
    public UUID id() {
        return job.id();
    }

    /** Returns the name of the job. */
    public String name() {
        return job.name();
    }

    /** Returns the status after the attempt. A job that failed and is tried again is pending. */
    public JobStatus status() {
        return job.status();
    }

    /** Returns the number of attempts so far. */
    public int attempts() {
        return job.attempts();
    }

    /** Returns the exception of the handler itself; empty if it returned, also if the attempt failed afterwards. */
    public Optional<Throwable> failure() {
        return Optional.ofNullable(failure);
    }

    /** Returns the error that was recorded for this attempt; empty if it did not fail, or if its node was lost. */
    Optional<String> recordedError() {
        List<JobAttempt> failed = job.attemptHistory();
        if (!failed.isEmpty()) {
            JobAttempt last = failed.get(failed.size() - 1);
            if (last.epoch() == job.epoch()) {
                return last.result() == JobAttempt.Result.NODE_LOST ? Optional.empty() : Optional.of(last.error());
            }
        }
        return job.status() == JobStatus.FAILED ? Optional.ofNullable(job.lastError()) : Optional.empty();
    }

    /** Returns the JSON of a value, as it would be stored. */
    String json(@Nullable Object value) {
        return jobs.write(value);
    }

    /** Returns whether the result is equal to that JSON. */
    boolean hasResult(String json) {
        return JsonResults.equal(jobs, job.result(), json);
    }

    /** Returns the result of the job. */
    public <T> Optional<T> result(Class<T> type) {
        return jobs.result(job.id(), type);
    }

    /** Returns when the next attempt is due; empty if the job has ended. */
    public Optional<Instant> nextAttempt() {
        return job.status() == JobStatus.PENDING ? Optional.of(job.scheduledAt()) : Optional.empty();
    }

    @Override
    public String toString() {
        String error =
                failure != null ? failure.toString() : job.status() == JobStatus.COMPLETED ? null : job.lastError();
        return "%s (%s): %s after %d attempts%s"
                .formatted(job.name(), job.id(), job.status(), job.attempts(), error == null ? "" : ", " + error);
    }
}
