// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import org.assertj.core.api.AbstractAssert;
import org.assertj.core.api.ThrowableAssert;
import org.jspecify.annotations.Nullable;

/** Assertions about an attempt of a job. */
public final class JobRunAssert extends AbstractAssert<JobRunAssert, JobRun> {

    JobRunAssert(JobRun actual) {
        super(actual, JobRunAssert.class);
    }

    /** Asserts the status after the attempt. */
    public JobRunAssert hasStatus(JobStatus status) {
        isNotNull();
        if (actual.status() != status) {
            failWithMessage("Expected status %s, but found: %s", status, actual);
        }
        return this;
    }

    /** Asserts that the job has completed. */
    public JobRunAssert isCompleted() {
        return hasStatus(JobStatus.COMPLETED);
    }

    /**
     * Asserts that the attempt failed, and begins assertions about the exception of the handler. If the attempt failed outside of it, as
     * with an unreadable payload or at the commit, the exception is one whose message is the recorded error.
     */
    public ThrowableAssert<Throwable> hasFailed() {
        isNotNull();
        Throwable failure = actual.failure()
                .or(() -> actual.recordedError().map(RecordedFailure::new))
                .orElse(null);
        if (failure == null) {
            failWithMessage("Expected a failed attempt, but found: %s", actual);
        }
        return new ThrowableAssert<>(failure);
    }

    /** A failure of which only the recorded error is known. */
    private static final class RecordedFailure extends RuntimeException {

        private static final long serialVersionUID = 1L;

        RecordedFailure(String error) {
            super(error, null, false, false);
        }
    }

    /** Asserts that the job is tried again at that time. */
    public JobRunAssert isRetriedAt(Instant instant) {
        isNotNull();
        if (!instant.equals(actual.nextAttempt().orElse(null))) {
            failWithMessage(
                    "Expected the next attempt at %s, but it is %s: %s",
                    instant, actual.nextAttempt().map(next -> "at " + next).orElse("never"), actual);
        }
        return this;
    }

    /** Asserts how many attempts the job has had. */
    public JobRunAssert hasAttempts(int attempts) {
        isNotNull();
        if (actual.attempts() != attempts) {
            failWithMessage("Expected %s attempts, but found: %s", attempts, actual);
        }
        return this;
    }

    /**
     * Asserts the result of the job: the JSON that was stored must be that of the given value. Numbers are equal by value, and the
     * order of members does not matter.
     */
    public JobRunAssert hasResult(@Nullable Object result) {
        isCompleted();
        String expected = actual.json(result);
        if (!actual.hasResult(expected)) {
            failWithMessage(
                    "Expected result %s (JSON %s), but found JSON %s: %s",
                    result, expected, actual.job().result(), actual);
        }
        return this;
    }
}
