// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.job.InspectableJobs;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.assertj.core.api.Assertions;

/**
 * Assertions about the jobs of one kind. Each method narrows the jobs down, and fails if none is left; {@link #once} and {@link
 * #times} count what is left.
 *
 * @param <T> the type of the payload
 */
public final class EnqueuedJobsAssert<T> {

    private static final int MOST_LISTED = 20;
    private static final int LONGEST_PAYLOAD = 200;

    private final InspectableJobs jobs;
    private final Class<T> payload;
    private final String description;
    private final List<JobInfo> found;
    private final Supplier<List<JobInfo>> all;

    EnqueuedJobsAssert(
            InspectableJobs jobs,
            Class<T> payload,
            String description,
            List<JobInfo> found,
            Supplier<List<JobInfo>> all) {
        this.jobs = jobs;
        this.payload = payload;
        this.description = description;
        this.found = found;
        this.all = all;
    }

    /** Keeps jobs whose payload meets a condition. */
    public EnqueuedJobsAssert<T> withPayload(Predicate<? super T> condition) {
        return narrowed("whose payload meets the condition", job -> condition.test(jobs.read(job.payload(), payload)));
    }

    /** Keeps jobs with that payload. */
    public EnqueuedJobsAssert<T> withPayload(T expected) {
        return narrowed("with payload " + expected, job -> expected.equals(jobs.read(job.payload(), payload)));
    }

    /** Keeps jobs that were delayed by exactly that time. */
    public EnqueuedJobsAssert<T> withDelay(Duration delay) {
        return narrowed(
                "with a delay of " + delay,
                job -> !isUntimed(job)
                        && Duration.between(job.createdAt(), job.scheduledAt()).equals(delay));
    }

    /** Keeps jobs that are due at that time. */
    public EnqueuedJobsAssert<T> withTime(Instant time) {
        return narrowed("due at " + time, job -> job.scheduledAt().equals(time));
    }

    private static boolean isUntimed(JobInfo job) {
        return job.scheduledAt().equals(Instant.MAX);
    }

    /** Keeps jobs of that priority. */
    public EnqueuedJobsAssert<T> withPriority(JobPriority priority) {
        return narrowed("of priority " + priority, job -> job.priority() == priority.value());
    }

    /** Keeps jobs with that unique key. */
    public EnqueuedJobsAssert<T> withUniqueKey(Object key) {
        return narrowed("with unique key " + key, job -> key.toString().equals(job.uniqueKey()));
    }

    /** Keeps jobs of that group. */
    public EnqueuedJobsAssert<T> withGroup(Object group) {
        return narrowed("of group " + group, job -> group.toString().equals(job.group()));
    }

    /** Keeps jobs with that tag. */
    public EnqueuedJobsAssert<T> withTag(String tag) {
        return narrowed("with tag " + tag, job -> job.tags().contains(tag));
    }

    /** Keeps jobs with that value in their metadata. */
    public EnqueuedJobsAssert<T> withMetadata(String key, String value) {
        return narrowed(
                "with metadata %s=%s".formatted(key, value),
                job -> Objects.equals(job.metadata().get(key), value));
    }

    /** Keeps jobs of that status. */
    public EnqueuedJobsAssert<T> withStatus(JobStatus status) {
        return narrowed("of status " + status, job -> job.status() == status);
    }

    private EnqueuedJobsAssert<T> narrowed(String condition, Predicate<JobInfo> test) {
        return new EnqueuedJobsAssert<>(
                        jobs,
                        payload,
                        description + " " + condition,
                        found.stream().filter(test).toList(),
                        all)
                .atLeastOnce();
    }

    EnqueuedJobsAssert<T> atLeastOnce() {
        if (found.isEmpty()) {
            fail("a job");
        }
        return this;
    }

    /** Asserts that exactly one such job was enqueued. */
    public EnqueuedJobsAssert<T> once() {
        return times(1);
    }

    /** Asserts that exactly so many such jobs were enqueued. */
    public EnqueuedJobsAssert<T> times(int count) {
        if (found.size() != count) {
            fail(count == 1 ? "exactly one job" : "exactly %d jobs".formatted(count));
        }
        return this;
    }

    private void fail(String expected) {
        List<JobInfo> present = all.get();
        Assertions.fail("Expected %s %s, but %s.%n%s"
                .formatted(
                        expected,
                        description,
                        found.isEmpty() ? "found none" : "found %d".formatted(found.size()),
                        found.isEmpty()
                                ? present.isEmpty()
                                        ? "No job was enqueued at all."
                                        : "These jobs exist:%n%s".formatted(listed(present))
                                : listed(found)));
    }

    /** Returns the jobs, oldest first. */
    public List<JobInfo> jobs() {
        return found;
    }

    /** Returns the only such job. */
    public JobInfo job() {
        return once().found.get(0);
    }

    /** Returns what differs from the defaults. */
    private static String options(JobInfo job) {
        var text = new StringBuilder();
        if (!isUntimed(job) && job.scheduledAt().isAfter(job.createdAt())) {
            text.append("delay ")
                    .append(Duration.between(job.createdAt(), job.scheduledAt()))
                    .append(", ");
        }
        if (job.priority() != JobPriority.NORMAL.value()) {
            text.append("priority ").append(job.priority()).append(", ");
        }
        if (job.uniqueKey() != null) {
            text.append("unique key ").append(job.uniqueKey()).append(", ");
        }
        if (job.group() != null) {
            text.append("group ").append(job.group()).append(", ");
        }
        if (!job.tags().isEmpty()) {
            text.append("tags ").append(job.tags()).append(", ");
        }
        return text.toString();
    }

    static String listed(List<JobInfo> jobs) {
        String lines = jobs.stream()
                .limit(MOST_LISTED)
                .map(job -> "  %s %s, due at %s, %s%s"
                        .formatted(
                                job.name(),
                                job.status(),
                                isUntimed(job) ? "no time" : job.scheduledAt(),
                                options(job),
                                job.payload().length() > LONGEST_PAYLOAD
                                        ? job.payload().substring(0, LONGEST_PAYLOAD) + "..."
                                        : job.payload()))
                .collect(Collectors.joining(System.lineSeparator()));
        return jobs.size() > MOST_LISTED ? "%s%n  and %d more".formatted(lines, jobs.size() - MOST_LISTED) : lines;
    }
}
