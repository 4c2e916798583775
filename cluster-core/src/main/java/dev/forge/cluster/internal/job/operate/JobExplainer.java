// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.operate;

import dev.forge.cluster.internal.database.Timestamps;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.job.operate.JobLimitReports.LimitState;
import dev.forge.cluster.internal.job.operate.JobReports.Obstacles;
import dev.forge.cluster.internal.job.row.JobDependencyStore;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.internal.node.NodeReports;
import dev.forge.cluster.internal.runtime.EnumText;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.StuckHandler;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.JobBatchInfo;
import dev.forge.cluster.job.JobBatchStatus;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.operations.JobExplanation;
import dev.forge.cluster.job.operations.JobExplanation.Reason;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Explains why a job is in its state, and what keeps a pending job from running. */
public final class JobExplainer {

    /** A free worker would have claimed a job that has been due for so long. */
    private static final Duration LONG_OVERDUE = Duration.ofSeconds(2);

    /** How many jobs a text names. */
    private static final int MOST_NAMED = 10;

    private final Node node;
    private final StuckHandlers stuckHandlers;
    private final JobHandlers handlers;
    private final JobReports reports;
    private final JobLimitReports limits;
    private final JobBatchReports batches;
    private final JobDependencyStore dependencies;
    private final NodeReports nodes;

    /** The queries that explanations are based on. */
    public record Reports(
            JobReports jobs,
            JobLimitReports limits,
            JobBatchReports batches,
            JobDependencyStore dependencies,
            NodeReports nodes) {}

    public JobExplainer(Node node, StuckHandlers stuckHandlers, JobHandlers handlers, Reports reports) {
        this.node = node;
        this.stuckHandlers = stuckHandlers;
        this.handlers = handlers;
        this.reports = reports.jobs;
        this.limits = reports.limits;
        this.batches = reports.batches;
        this.dependencies = reports.dependencies;
        this.nodes = reports.nodes;
    }

    public JobExplanation explain(UUID id) {
        JobInfo job = reports.find(id).orElse(null);
        if (job == null) {
            return new JobExplanation(
                    Reason.NOT_FOUND, "There is no job %s; perhaps its retention has passed.".formatted(id));
        }
        return switch (job.status()) {
            case RUNNING -> explainRunning(job);
            case CLAIMED ->
                new JobExplanation(
                        Reason.CLAIMED, "Node %s has claimed it and will start it soon.".formatted(holder(job)));
            case COMPLETED, FAILED, CANCELLED, ABANDONED ->
                new JobExplanation(
                        Reason.FINISHED,
                        "It has ended: %s%s.".formatted(EnumText.hyphenated(job.status()), at(job.finishedAt())));
            case PENDING ->
                reports.obstacles(id)
                        .map(obstacles -> explainPending(job, obstacles))
                        .orElse(new JobExplanation(Reason.ABOUT_TO_START, "A node has just claimed it."));
        };
    }

    /** A row that was edited by hand may lack the time. */
    private static String at(@Nullable Instant time) {
        return time == null ? "" : " at " + PlainText.time(time);
    }

    private static String since(@Nullable Instant time) {
        return time == null ? "" : " since " + PlainText.time(time);
    }

    private String holder(JobInfo job) {
        return named(job.nodeId(), nodeNames(Stream.of(job.nodeId())));
    }

    private Map<UUID, String> nodeNames(Stream<@Nullable UUID> ids) {
        return nodes.names(ids.filter(Objects::nonNull).collect(Collectors.toSet()));
    }

    /** Returns the name of a node with its id; the id alone if the node has no row any more. */
    private static String named(@Nullable UUID id, Map<UUID, String> names) {
        String name = id == null ? null : names.get(id);
        return name == null ? String.valueOf(id) : "%s (%s)".formatted(Names.printable(name), id);
    }

    private JobExplanation explainRunning(JobInfo job) {
        String running = "It has been running on node %s%s".formatted(holder(job), since(job.startedAt()));
        StuckHandler stuck = stuckHandlers.stuck().stream()
                .filter(one -> one.id().equals(job.id()) && Objects.equals(job.nodeId(), node.id()))
                .findFirst()
                .orElse(null);
        if (stuck != null) {
            return new JobExplanation(
                    Reason.RUNNING_PAST_TIMEOUT,
                    "%s. %s: %s, and its handler ignores the interrupt; the log of the node has its stack."
                            .formatted(running, stuck.label(), stuck.cause()));
        }
        JobHandler handler = handlers.named(job.name());
        Duration timeout = handler == null
                ? null
                : handler.limits().overriddenBy(job.metadata()).timeout();
        // On another node: the handler has some time to respond to the interrupt.
        if (timeout != null && reports.runningFor(job.id()).compareTo(timeout.plus(StuckHandlers.GRACE)) > 0) {
            return new JobExplanation(
                    Reason.RUNNING_PAST_TIMEOUT,
                    "%s. The attempt exceeded its timeout of %s, and its handler ignores the interrupt; the log of the node has its stack."
                            .formatted(running, PlainText.duration(timeout)));
        }
        return new JobExplanation(Reason.RUNNING, running + ".");
    }

    /** Returns whether only a leader runs the job: it is the run of a cron. */
    private static boolean isForLeaders(JobInfo job) {
        String capability = job.capability();
        return capability != null && capability.startsWith("@");
    }

    private @Nullable JobExplanation explainLimits(JobInfo job) {
        JobHandler handler = handlers.named(job.name());
        String name = handler == null ? job.name() : handler.name();
        List<String> names = handler == null ? List.of(job.name()) : handler.names();
        String group = job.group();
        LimitState state = limits.state(name, names, group).orElse(null);
        if (state == null) {
            return null;
        }
        UUID first =
                group != null && state.ordered() ? limits.first(names, group).orElse(null) : null;
        if (first != null && !first.equals(job.id())) {
            return new JobExplanation(
                    Reason.WAITING_FOR_ORDER,
                    "The jobs of group '%s' run in the order in which they were enqueued, and job %s must end first. Perhaps that one waits for its next attempt."
                            .formatted(group, first));
        }
        if (state.isGroupFull()) {
            return new JobExplanation(
                    Reason.GROUP_FULL,
                    full(state.groupConcurrency(), "of group '%s'".formatted(group), holders(names, group)));
        }
        if (state.isFull()) {
            return new JobExplanation(
                    Reason.NAME_FULL, full(state.concurrency(), "named '%s'".formatted(name), holders(names, null)));
        }
        Instant startableAt = state.startableAt();
        return startableAt == null
                ? null
                : new JobExplanation(
                        Reason.GROUP_RATE,
                        "The rate of group '%s' allows the next start at %s."
                                .formatted(group, PlainText.time(startableAt)));
    }

    private static String full(@Nullable Integer limit, String which, String holders) {
        return limit != null && limit == 1
                ? "At most 1 job %s runs at a time. This one does: %s.".formatted(which, holders)
                : "At most %d jobs %s run at the same time. These do: %s.".formatted(limit, which, holders);
    }

    private String holders(List<String> names, @Nullable String group) {
        List<JobLimitReports.Holder> holders = limits.holders(names, group);
        Map<UUID, String> known = nodeNames(holders.stream().map(JobLimitReports.Holder::node));
        return holders.stream()
                .map(holder ->
                        "%s on node %s%s".formatted(holder.job(), named(holder.node(), known), since(holder.since())))
                .collect(Collectors.joining(", "));
    }

    private JobExplanation explainPending(JobInfo job, Obstacles obstacles) {
        JobBatchInfo batch = obstacles.waitsFor() == null
                ? null
                : batches.find(obstacles.waitsFor()).orElse(null);
        if (batch != null) {
            return new JobExplanation(
                    Reason.WAITING_FOR_BATCH,
                    "It waits for batch %s, %s".formatted(batch.id(), state(batch, job.id())));
        }
        if (job.id().equals(obstacles.waitsFor())) {
            return new JobExplanation(
                    Reason.WAITING_FOR_JOBS,
                    "It runs after other jobs, of which at least these have not ended: %s."
                            .formatted(dependencies.awaited(job.id(), MOST_NAMED)));
        }
        if (obstacles.waitsFor() != null) {
            return new JobExplanation(
                    Reason.WAITING_FOR_PREDECESSOR,
                    job.uniqueKey() == null || handlers.ownerOf(job.name()).isPresent()
                            ? "Its run waits for the end of job %s.".formatted(obstacles.waitsFor())
                            : "Job %s has the unique key '%s' and must end first."
                                    .formatted(obstacles.waitsFor(), job.uniqueKey()));
        }
        if (obstacles.paused()) {
            return new JobExplanation(Reason.PAUSED, "Jobs named '%s' are paused.".formatted(job.name()));
        }
        JobExplanation owned = handlers.ownerOf(job.name())
                .flatMap(owner -> owner.explain(job.id()))
                .orElse(null);
        if (owned != null) {
            return owned;
        }
        if (obstacles.dueInMillis() > 0 && Timestamps.finite(job.scheduledAt()) == null) {
            return new JobExplanation(Reason.NOT_DUE, "It is not due at any time: its scheduled_at is infinite.");
        }
        if (obstacles.dueInMillis() > 0) {
            return new JobExplanation(
                    Reason.NOT_DUE,
                    "It is due at %s, in %s.%s"
                            .formatted(
                                    PlainText.time(job.scheduledAt()),
                                    PlainText.duration(Duration.ofMillis(obstacles.dueInMillis())),
                                    job.attempts() > 0 ? " Attempt %d has failed.".formatted(job.attempts()) : ""));
        }
        if (obstacles.workers() == 0) {
            return new JobExplanation(
                    Reason.NO_LIVE_WORKER,
                    "No active node has the role %s.".formatted(isForLeaders(job) ? "scheduler" : "worker"));
        }
        if (obstacles.knowing() == 0) {
            return new JobExplanation(
                    Reason.UNKNOWN_NAME,
                    (obstacles.workers() == 1
                                    ? "The only active worker has no handler named '%2$s'"
                                    : "None of %d active workers has a handler named '%s'")
                            .concat("; was it renamed? @ClusterJob(aliases = \"%2$s\")")
                            .formatted(obstacles.workers(), job.name()));
        }
        if (obstacles.capable() == 0 && isForLeaders(job)) {
            return new JobExplanation(
                    Reason.NO_CAPABLE_WORKER,
                    obstacles.knowing() == 1
                            ? "The only active node with a handler does not lead the scheduler role."
                            : "None of %d active nodes with a handler leads the scheduler role."
                                    .formatted(obstacles.knowing()));
        }
        if (obstacles.capable() == 0) {
            return new JobExplanation(
                    Reason.NO_CAPABLE_WORKER,
                    (obstacles.knowing() == 1
                                    ? "The only active worker with a handler does not offer the capability '%2$s'."
                                    : "None of %d active workers with a handler offers the capability '%s'.")
                            .formatted(obstacles.knowing(), job.capability()));
        }
        JobExplanation limited = explainLimits(job);
        if (limited != null) {
            return limited;
        }
        if (obstacles.free() == 0 || obstacles.dueInMillis() < -LONG_OVERDUE.toMillis()) {
            return new JobExplanation(
                    Reason.WORKERS_FULL,
                    obstacles.free() == 0
                            ? obstacles.capable() == 1
                                    ? "The executor of the only worker that could run it is busy."
                                    : "The executors of all %d workers that could run it are busy."
                                            .formatted(obstacles.capable())
                            : "It has been due for %s. At their last heartbeat workers had free slots: other jobs may be ahead of it."
                                    .formatted(PlainText.duration(Duration.ofMillis(-obstacles.dueInMillis()))));
        }
        return new JobExplanation(Reason.ABOUT_TO_START, "Nothing blocks it; a worker will claim it soon.");
    }

    /** Returns the state of the batch that a job waits for, as the rest of a sentence. */
    private static String state(JobBatchInfo batch, UUID job) {
        if (batch.status() == JobBatchStatus.FAILED) {
            return "which has ended: %s%s"
                    .formatted(
                            unsuccessful(batch),
                            job.equals(batch.onFailure())
                                    ? " It runs only if a job of the batch is retried and fails."
                                    : " It runs only after these jobs have been retried and have completed.");
        }
        String status = EnumText.hyphenated(batch.status());
        if (batch.total() == 0) {
            return "which is %s and has no jobs.".formatted(status);
        }
        String least = batch.exact() ? "" : "at least ";
        return "which is %s: %s%d of %s not ended%s."
                .formatted(
                        status,
                        least,
                        batch.remaining(),
                        PlainText.count(batch.total(), "job", "jobs") + (batch.remaining() == 1 ? " has" : " have"),
                        batch.failed() == 0
                                ? ""
                                : ", %s%s failed".formatted(least, PlainText.count(batch.failed(), "has", "have")));
    }

    private static String unsuccessful(JobBatchInfo batch) {
        long failed = batch.failed();
        long cancelled = batch.cancelled();
        if (failed == 0 && cancelled == 0) {
            return "jobs of the batches that are part of it have failed or were cancelled.";
        }
        String jobs = PlainText.count(batch.total(), "job", "jobs");
        if (cancelled == 0) {
            return "%d of %s %s failed.".formatted(failed, jobs, failed == 1 ? "has" : "have");
        }
        return failed == 0
                ? "%d of %s %s cancelled.".formatted(cancelled, jobs, cancelled == 1 ? "was" : "were")
                : "of %s, %s failed and %s cancelled."
                        .formatted(
                                jobs,
                                PlainText.count(failed, "has", "have"),
                                PlainText.count(cancelled, "was", "were"));
    }
}
