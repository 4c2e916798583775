// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.job.InspectableJobs;
import dev.forge.cluster.job.JobFilter;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.Jobs;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import org.assertj.core.api.AbstractAssert;

/** Assertions about jobs that were enqueued, including those of a transaction of the test that has not committed. */
public final class JobsAssert extends AbstractAssert<JobsAssert, Jobs> {

    private static final int MOST = 1_000;

    JobsAssert(Jobs actual) {
        super(actual, JobsAssert.class);
    }

    /** Asserts that a job with a payload of that class was enqueued, and begins further assertions about such jobs. */
    public <T> EnqueuedJobsAssert<T> enqueued(Class<T> payload) {
        Set<String> names = namesOf(payload);
        return new EnqueuedJobsAssert<>(inspectable(), payload, payload.getSimpleName(), jobs(names), this::all)
                .atLeastOnce();
    }

    /** Asserts that a job of that name was enqueued, and begins further assertions about such jobs. */
    public EnqueuedJobsAssert<Object> enqueuedNamed(String name) {
        return new EnqueuedJobsAssert<>(inspectable(), Object.class, name, jobs(Set.of(name)), this::all).atLeastOnce();
    }

    /** Asserts that no job with a payload of that class was enqueued. */
    public JobsAssert neverEnqueued(Class<?> payload) {
        return neverEnqueued(payload.getSimpleName(), jobs(namesOf(payload)));
    }

    /** Asserts that no job of that name was enqueued. */
    public JobsAssert neverEnqueuedNamed(String name) {
        return neverEnqueued(name, jobs(Set.of(name)));
    }

    private JobsAssert neverEnqueued(String what, List<JobInfo> found) {
        if (!found.isEmpty()) {
            failWithMessage("Expected no job %s, but found%n%s", what, EnqueuedJobsAssert.listed(found));
        }
        return this;
    }

    /** Asserts that no job was enqueued at all. */
    public JobsAssert enqueuedNothing() {
        if (!all().isEmpty()) {
            failWithMessage("Expected no job, but found%n%s", EnqueuedJobsAssert.listed(all()));
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

    private List<JobInfo> jobs(Set<String> names) {
        return names.stream()
                .flatMap(name -> actual.list(JobFilter.all().withName(name), MOST).stream())
                // Lists have no payloads.
                .flatMap(job -> actual.find(job.id()).stream())
                .sorted(Comparator.comparing(JobInfo::createdAt).thenComparing(JobInfo::id))
                .toList();
    }

    private List<JobInfo> all() {
        return actual.list(JobFilter.all(), MOST).stream()
                .flatMap(job -> actual.find(job.id()).stream())
                .toList();
    }
}
