// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Server;
import java.time.Duration;
import java.util.stream.Stream;
import org.jobrunr.jobs.lambdas.JobRequest;
import org.jobrunr.jobs.lambdas.JobRequestHandler;
import org.jobrunr.jobs.mappers.JobMapper;
import org.jobrunr.scheduling.JobRequestScheduler;
import org.jobrunr.server.BackgroundJobServer;
import org.jobrunr.server.BackgroundJobServerConfiguration;
import org.jobrunr.server.JobActivator;
import org.jobrunr.storage.sql.postgres.PostgresStorageProvider;
import org.jobrunr.utils.mapper.JsonMapper;
import org.jobrunr.utils.mapper.jackson3.Jackson3JsonMapper;

/** JobRunr with its shortest poll interval. Between polls, JobRunr fetches more jobs whenever workers are idle. */
public final class JobRunr implements Contestant {

    private static final Duration SHORTEST_POLL = Duration.ofSeconds(5);

    private final Server server;
    private final JsonMapper json = new Jackson3JsonMapper();
    private final PostgresStorageProvider storage;

    /** The job that JobRunr stores. */
    public record Trivial(long orderId) implements JobRequest {

        @Override
        public Class<Handler> getJobRequestHandler() {
            return Handler.class;
        }
    }

    /** The handler that JobRunr calls. */
    public record Handler(Race race) implements JobRequestHandler<Trivial> {

        @Override
        public void run(Trivial job) {
            race.ran();
        }
    }

    public JobRunr(Server server) {
        this.server = server;
        storage = new PostgresStorageProvider(server.pool());
        storage.setJobMapper(new JobMapper(json));
    }

    @Override
    public String name() {
        return "JobRunr";
    }

    @Override
    public int jobs() {
        return 4_000;
    }

    @Override
    public void fill(int jobs) {
        server.execute("TRUNCATE jobrunr_jobs");
        var scheduler = new JobRequestScheduler(storage);
        scheduler.enqueue(Stream.generate(() -> new Trivial(42)).limit(jobs));
        server.execute("VACUUM ANALYZE jobrunr_jobs");
    }

    @Override
    public Race.Result drain(Race race) {
        var handler = new Handler(race);
        var activator = new JobActivator() {
            @Override
            public <T> T activateJob(Class<T> type) {
                return type.cast(handler);
            }
        };
        var jobs = new BackgroundJobServer(
                storage,
                json,
                activator,
                BackgroundJobServerConfiguration.usingStandardBackgroundJobServerConfiguration()
                        .andWorkerCount(Ours.SLOTS)
                        .andPollInterval(SHORTEST_POLL)
                        .andInterruptJobsAwaitDurationOnStopBackgroundJobServer(Duration.ofSeconds(1)));
        try {
            jobs.start();
            race.await();
            server.awaitNone("jobrunr_jobs WHERE state <> 'SUCCEEDED'");
            return race.finished();
        } finally {
            jobs.stop();
        }
    }
}
