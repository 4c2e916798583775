// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.autoconfigure.properties.work.JobProperties;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.observe.JobEnded;
import dev.forge.cluster.job.observe.JobFailed;
import dev.forge.cluster.job.observe.JobListener;
import dev.forge.cluster.job.observe.JobStarted;
import java.util.UUID;
import org.springframework.context.ApplicationEventPublisher;

/** Publishes what happens to jobs as Spring events. */
final class JobEvents implements JobListener {

    private final ApplicationEventPublisher publisher;
    private final JobProperties.Events wanted;

    JobEvents(ApplicationEventPublisher publisher, JobProperties.Events wanted) {
        this.publisher = publisher;
        this.wanted = wanted;
    }

    @Override
    public void beforeAttempt(JobContext job) {
        if (wanted == JobProperties.Events.ALL) {
            publisher.publishEvent(new JobStarted(job.id(), job.name(), job.attempt()));
        }
    }

    @Override
    public void afterAttempt(JobContext job, JobAttemptOutcome outcome) {
        if (wanted == JobProperties.Events.ALL) {
            publisher.publishEvent(new JobEnded(job.id(), job.name(), job.attempt(), outcome));
        }
    }

    @Override
    public void failedPermanently(UUID id, String name, JobStatus status, String error) {
        publisher.publishEvent(new JobFailed(id, name, status, error));
    }
}
