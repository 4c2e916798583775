// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow.store;

import static org.assertj.core.api.Assertions.assertThat;

import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.Queue;
import java.time.Instant;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class WorkflowJobsTests {

    private static Claimed job(String metadata) {
        return new Claimed(
                UUID.randomUUID(),
                Queue.ungrouped("job", "", 50),
                "{}",
                1,
                null,
                1,
                0,
                Instant.EPOCH,
                null,
                metadata,
                0,
                false,
                2,
                true,
                false,
                null,
                null);
    }

    @Test
    void job_with_the_key_of_a_run_is_awaited() {
        assertThat(WorkflowJobs.isAwaitedByRun(job("{\"a\": \"b\", \"forge.workflow\": \"run\"}")))
                .isTrue();
        assertThat(WorkflowJobs.isAwaitedByRun(job("{}"))).isFalse();
    }

    @Test
    void metadata_value_that_equals_the_key_does_not_make_a_job_awaited() {
        assertThat(WorkflowJobs.isAwaitedByRun(job("{\"topic\": \"forge.workflow\", \"z\": \"1\"}")))
                .isFalse();
        assertThat(WorkflowJobs.isAwaitedByRun(job("{\"topic\": \"\\\"forge.workflow\\\": 1\"}")))
                .isFalse();
    }
}
