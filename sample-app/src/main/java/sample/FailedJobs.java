// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.job.observe.JobFailed;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.event.EventListener;
import org.springframework.stereotype.Component;

/** Logs each job that failed permanently or was abandoned, once per cluster. A real application would send an alert. */
@Component
class FailedJobs {

    private static final Logger log = LoggerFactory.getLogger(FailedJobs.class);

    @EventListener
    void report(JobFailed event) {
        log.error(
                "Job {} ({}) is {}: {}",
                event.name(),
                event.id(),
                event.status(),
                event.error().lines().findFirst().orElse(""));
    }
}
