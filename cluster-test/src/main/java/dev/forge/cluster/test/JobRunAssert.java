// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.job.JobStatus;
import java.time.Instant;
import java.util.Objects;
import org.assertj.core.api.AbstractAssert;
import org.assertj.core.api.ThrowableAssert;

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

    /** Asserts that the attempt failed, and begins assertions about the exception of the handler. */
    public ThrowableAssert<Throwable> hasFailed() {
        isNotNull();
        if (actual.failure().isEmpty()) {
            failWithMessage("Expected a failed attempt, but found: %s", actual);
        }
        return new ThrowableAssert<>(actual.failure().orElseThrow());
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

    /** Asserts the result of the job. */
    public JobRunAssert hasResult(Object result) {
        isCompleted();
        Object found;
        try {
            found = actual.result(result.getClass()).orElse(null);
        } catch (RuntimeException e) {
            found = actual.job().result();
        }
        if (!Objects.equals(found, result)) {
            failWithMessage("Expected result %s, but found %s: %s", result, found, actual);
        }
        return this;
    }
}
