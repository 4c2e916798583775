// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.cron.Crons;
import dev.forge.cluster.job.Jobs;

/**
 * Assertions about what an application does with the cluster. To be imported statically, beside those of AssertJ:
 *
 * <pre>{@code
 * assertThat(jobs).enqueued(SendMail.class).withPayload(mail -> mail.to().equals("a@b.example")).once();
 * assertThat(crons).fires("report").at(Instant.parse("2027-03-28T01:00:00Z"));
 * assertThat(cluster.perform(new SendMail("a@b.example"))).isCompleted();
 * }</pre>
 */
public final class ClusterAssertions {

    private ClusterAssertions() {}

    /** Begins assertions about jobs. */
    public static JobsAssert assertThat(Jobs jobs) {
        return new JobsAssert(jobs);
    }

    /** Begins assertions about crons. */
    public static CronsAssert assertThat(Crons crons) {
        return new CronsAssert(crons);
    }

    /** Begins assertions about an attempt of a job. */
    public static JobRunAssert assertThat(JobRun run) {
        return new JobRunAssert(run);
    }

    /** Begins assertions about a run of a workflow. */
    public static WorkflowRunAssert assertThat(WorkflowRun run) {
        return new WorkflowRunAssert(run);
    }
}
