// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobPriority;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
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

    private final StoredJobs stored;
    private final Class<T> payload;
    private final String description;
    private final List<JobInfo> found;
    /** Jobs that meet all conditions but those that their rows can no longer answer. */
    private final List<JobInfo> undecided;

    EnqueuedJobsAssert(
            StoredJobs stored, Class<T> payload, String description, List<JobInfo> found, List<JobInfo> undecided) {
        this.stored = stored;
        this.payload = payload;
        this.description = description;
        this.found = found;
        this.undecided = undecided;
    }

    /** Keeps jobs whose payload meets a condition. */
    public EnqueuedJobsAssert<T> withPayload(Predicate<? super T> condition) {
        return narrowed(
                "whose payload meets the condition",
                job -> stored.whole(job)
                        .filter(whole -> condition.test(stored.payload(whole, payload)))
                        .isPresent());
    }

    /** Keeps jobs with that payload. */
    public EnqueuedJobsAssert<T> withPayload(T expected) {
        return narrowed(
                "with payload " + expected,
                job -> stored.whole(job)
                        .filter(whole -> expected.equals(stored.payload(whole, payload)))
                        .isPresent());
    }

    /**
     * Keeps jobs that were enqueued with exactly that delay. The row of a job that waits for another attempt, or has had several, no
     * longer tells its delay: such jobs do not count, and {@link #once} and {@link #times} fail if there are any.
     */
    public EnqueuedJobsAssert<T> withDelay(Duration delay) {
        var unknown = new ArrayList<>(undecided);
        found.stream().filter(job -> !tellsDelay(job)).forEach(unknown::add);
        return narrowed(
                "with a delay of " + delay,
                found.stream()
                        .filter(job -> tellsDelay(job)
                                && !isUntimed(job)
                                && Duration.between(job.createdAt(), job.scheduledAt())
                                        .equals(delay))
                        .toList(),
                unknown);
    }

    /** Only a retry or a recovery changes when a job is due. The number of claims is never reset. */
    private static boolean tellsDelay(JobInfo job) {
        return job.recoveries() == 0 && job.epoch() <= (job.status() == JobStatus.PENDING ? 0 : 1);
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
                // Lists have no large metadata.
                job -> stored.whole(job)
                        .filter(whole -> value.equals(whole.metadata().get(key)))
                        .isPresent());
    }

    /** Keeps jobs of that status. */
    public EnqueuedJobsAssert<T> withStatus(JobStatus status) {
        return narrowed("of status " + status, job -> job.status() == status);
    }

    private EnqueuedJobsAssert<T> narrowed(String condition, Predicate<JobInfo> test) {
        return narrowed(
                condition,
                found.stream().filter(test).toList(),
                undecided.stream().filter(test).toList());
    }

    private EnqueuedJobsAssert<T> narrowed(String condition, List<JobInfo> left, List<JobInfo> leftUndecided) {
        return new EnqueuedJobsAssert<>(stored, payload, description + " " + condition, left, leftUndecided)
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
        if (found.size() != count || !undecided.isEmpty()) {
            fail(count == 1 ? "exactly one job" : "exactly %d jobs".formatted(count));
        }
        return this;
    }

    private void fail(String expected) {
        Assertions.fail("Expected %s %s, but %s.%s%n%s"
                .formatted(
                        expected,
                        description,
                        found.isEmpty() ? "found none" : "found %d".formatted(found.size()),
                        undecided.isEmpty()
                                ? ""
                                : " Rows no longer tell the delay of %d jobs, which were claimed again: assert it before they run.%n%s%n"
                                        .formatted(undecided.size(), listed(undecided, stored)),
                        present()));
    }

    private String present() {
        if (!found.isEmpty()) {
            return "Found:%n%s".formatted(listed(found, stored));
        }
        List<JobInfo> present = stored.newest();
        return present.isEmpty()
                ? "No job was enqueued at all."
                : "These jobs exist:%n%s".formatted(listed(present, stored));
    }

    /** Returns the jobs, oldest first. */
    public List<JobInfo> jobs() {
        return found.stream().flatMap(job -> stored.whole(job).stream()).toList();
    }

    /** Returns the only such job. */
    public JobInfo job() {
        return once().jobs().get(0);
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

    static String listed(List<JobInfo> jobs, StoredJobs stored) {
        String lines = jobs.stream()
                .limit(MOST_LISTED)
                .map(job -> stored.whole(job).orElse(job))
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
