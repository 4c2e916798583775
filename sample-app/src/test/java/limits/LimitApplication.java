// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package limits;

import dev.forge.cluster.job.Backoff;
import dev.forge.cluster.job.ClusterJob;
import dev.forge.cluster.job.JobContext;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.annotation.Transactional;

/** A node whose jobs have groups and limits. */
@SpringBootApplication
public class LimitApplication {

    /** The places of all groups of {@code five} together. */
    static final int FIVE_IN_TOTAL = 9;

    public static void main(String[] args) {
        SpringApplication.run(LimitApplication.class, args);
    }

    /**
     * The payload of the jobs.
     *
     * @param fails whether the first attempt fails
     */
    public record Work(long millis, boolean fails) {}

    @Bean
    Jobs jobs(JdbcClient jdbc) {
        return new Jobs(jdbc);
    }

    /** The job handlers. */
    public static class Jobs {

        private final JdbcClient jdbc;

        Jobs(JdbcClient jdbc) {
            this.jdbc = jdbc;
        }

        @ClusterJob(name = "one", groupConcurrency = 1, maxAttempts = 1000, backoff = @Backoff(delay = "200ms"))
        @Transactional
        public void one(Work work, JobContext job) throws InterruptedException {
            effect(work, job);
        }

        @ClusterJob(name = "two", groupConcurrency = 2, maxAttempts = 1000, backoff = @Backoff(delay = "200ms"))
        public void two(Work work, JobContext job) throws InterruptedException {
            effect(work, job);
        }

        @ClusterJob(
                name = "five",
                concurrency = FIVE_IN_TOTAL,
                groupConcurrency = 5,
                maxAttempts = 1000,
                backoff = @Backoff(delay = "200ms"))
        public void five(Work work, JobContext job) throws InterruptedException {
            effect(work, job);
        }

        @ClusterJob(name = "ordered", ordered = true, maxAttempts = 1000, backoff = @Backoff(delay = "200ms"))
        @Transactional
        public void ordered(Work work, JobContext job) throws InterruptedException {
            effect(work, job);
        }

        private void effect(Work work, JobContext job) throws InterruptedException {
            jdbc.sql("INSERT INTO storm.effects (job, epoch) VALUES (?, ?)")
                    .params(job.id(), job.epoch())
                    .update();
            TimeUnit.MILLISECONDS.sleep(work.millis());
            if (work.fails() && job.attempt() == 1) {
                throw new IllegalStateException("the first attempt fails");
            }
        }
    }
}
