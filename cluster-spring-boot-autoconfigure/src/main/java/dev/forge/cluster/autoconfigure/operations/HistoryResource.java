// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.autoconfigure.operations.HistoryDescriptor.BacklogDescriptor;
import dev.forge.cluster.autoconfigure.operations.HistoryDescriptor.PointDescriptor;
import dev.forge.cluster.autoconfigure.operations.HistoryDescriptor.TimesDescriptor;
import dev.forge.cluster.job.JobHistory;
import dev.forge.cluster.job.JobHistoryQuery;
import dev.forge.cluster.job.Jobs;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** The resource {@code history}: what jobs did in the last hours or days. */
final class HistoryResource implements Resource {

    private static final Duration DEFAULT_RANGE = Duration.ofHours(6);
    private static final ResourceParameters PARAMETERS = ResourceParameters.ofList("range", "name");

    private final Jobs jobs;

    HistoryResource(Jobs jobs) {
        this.jobs = jobs;
    }

    @Override
    public String name() {
        return "history";
    }

    @Override
    public ResourceParameters parameters() {
        return PARAMETERS;
    }

    /** The parameter {@code range} is the length of the time, {@code name} that of the jobs. */
    @Override
    public OperationResult read(OperationRequest request) {
        JobHistory history;
        try {
            history = jobs.history(JobHistoryQuery.last(request.duration("range", DEFAULT_RANGE))
                    .withName(request.text("name")));
        } catch (IllegalArgumentException e) {
            throw InvalidOperationException.because(e);
        }
        return request.result(new HistoryDescriptor(
                history.name(),
                history.step().toSeconds(),
                history.since(),
                history.points().stream().map(HistoryResource::descriptor).toList()));
    }

    private static PointDescriptor descriptor(JobHistory.Point point) {
        return new PointDescriptor(
                point.at(),
                point.completed(),
                point.failed(),
                point.retried(),
                point.recovered(),
                TimesDescriptor.of(point.waiting()),
                TimesDescriptor.of(point.running()),
                backlog(point.backlog()));
    }

    private static @Nullable BacklogDescriptor backlog(JobHistory.@Nullable Backlog backlog) {
        return backlog == null
                ? null
                : new BacklogDescriptor(backlog.due(), backlog.oldestDueAge().toMillis(), backlog.running());
    }
}
