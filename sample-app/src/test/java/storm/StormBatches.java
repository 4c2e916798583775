// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package storm;

import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobBatch;
import dev.forge.cluster.job.JobBatchOptions;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobName;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.Jobs;
import java.util.Collections;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;

/** Handlers that open a batch of jobs, and that are called at its end. */
public class StormBatches {

    private final Jobs jobs;
    private final JdbcClient jdbc;

    StormBatches(Jobs jobs, JdbcClient jdbc) {
        this.jobs = jobs;
        this.jdbc = jdbc;
    }

    /** A batch to open. */
    public record Open(int jobs, long millis) {}

    /** All jobs of the batch have ended. */
    @JobName("batch-ended")
    public record Ended() {}

    /** All jobs of the batch have completed. */
    @JobName("batch-succeeded")
    public record Succeeded() {}

    @ClusterJob(name = "open-batch", maxAttempts = 1000)
    @Transactional
    public void open(Open open) {
        JobBatch batch =
                jobs.batch(JobBatchOptions.named("storm").withOnEnd(new Ended()).withOnSuccess(new Succeeded()));
        jobs.enqueueAll(
                Collections.nCopies(open.jobs(), new StormApplication.Work(open.millis())),
                JobOptions.defaults().withBatch(batch.id()));
        batch.close();
    }

    @ClusterJob(name = "batch-ended", maxAttempts = 1000)
    @Transactional
    public void ended(Ended ended, JobContext job) {
        effect(job);
    }

    @ClusterJob(name = "batch-succeeded", maxAttempts = 1000)
    @Transactional
    public void succeeded(Succeeded succeeded, JobContext job) {
        effect(job);
    }

    private void effect(JobContext job) {
        jdbc.sql("INSERT INTO effects (job, epoch, node) VALUES (?, ?, ?)")
                .params(job.id(), job.epoch(), job.nodeName())
                .update();
    }
}
