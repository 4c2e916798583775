// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.job.operate.InspectableJobs;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobRejectedException;
import dev.forge.cluster.job.Jobs;
import java.util.List;
import java.util.Set;
import org.assertj.core.api.AbstractAssert;

/**
 * Assertions about jobs that were enqueued, including those of a transaction of the test that has not committed. They fail if more
 * than 10,000 jobs of the name exist.
 */
public final class JobsAssert extends AbstractAssert<JobsAssert, Jobs> {

    JobsAssert(Jobs actual) {
        super(actual, JobsAssert.class);
    }

    /** Asserts that a job with a payload of that class was enqueued, and begins further assertions about such jobs. */
    public <T> EnqueuedJobsAssert<T> enqueued(Class<T> payload) {
        Set<String> names = namesOf(payload);
        return enqueued(payload, payload.getSimpleName(), names);
    }

    /** Asserts that a job of that name was enqueued, and begins further assertions about such jobs. */
    public EnqueuedJobsAssert<Object> enqueuedNamed(String name) {
        return enqueued(Object.class, name, Set.of(name));
    }

    private <T> EnqueuedJobsAssert<T> enqueued(Class<T> payload, String description, Set<String> names) {
        var stored = new StoredJobs(inspectable());
        return new EnqueuedJobsAssert<>(stored, payload, description, stored.named(names), List.of()).atLeastOnce();
    }

    /** Asserts that no job with a payload of that class was enqueued. */
    public JobsAssert neverEnqueued(Class<?> payload) {
        return neverEnqueued(payload.getSimpleName(), namesOf(payload));
    }

    /**
     * Asserts that no job of that name was enqueued. Fails for a name that no handler has, because a misspelt name would prove
     * nothing. Use {@link #neverEnqueued(Class)} if only another application has the handler, and in tests without a cluster.
     */
    public JobsAssert neverEnqueuedNamed(String name) {
        neverEnqueued(name, Set.of(name));
        try {
            inspectable().requireKnown(name);
        } catch (JobRejectedException e) {
            failWithMessage("%s", e.getMessage());
        }
        return this;
    }

    private JobsAssert neverEnqueued(String what, Set<String> names) {
        var stored = new StoredJobs(inspectable());
        List<JobInfo> found = stored.named(names);
        if (!found.isEmpty()) {
            failWithMessage("Expected no job %s, but found%n%s", what, EnqueuedJobsAssert.listed(found, stored));
        }
        return this;
    }

    /** Asserts that no job was enqueued at all. */
    public JobsAssert enqueuedNothing() {
        var stored = new StoredJobs(inspectable());
        List<JobInfo> found = stored.newest();
        if (!found.isEmpty()) {
            failWithMessage("Expected no job, but found%n%s", EnqueuedJobsAssert.listed(found, stored));
        }
        return this;
    }

    private Set<String> namesOf(Class<?> payload) {
        Set<String> names = inspectable().namesOf(payload);
        if (names.isEmpty()) {
            failWithMessage("No handler of the application takes a %s", payload.getTypeName());
        }
        return names;
    }

    private InspectableJobs inspectable() {
        isNotNull();
        if (!(actual instanceof InspectableJobs jobs)) {
            throw new IllegalStateException(
                    "%s is not the Jobs bean of the cluster: is it a mock?".formatted(actual.getClass()));
        }
        return jobs;
    }
}
