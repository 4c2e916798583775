// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Server;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Set;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SchedulerException;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;
import org.quartz.utils.ConnectionProvider;
import org.quartz.utils.DBConnectionManager;

/** Clustered Quartz that acquires as many triggers at once as it has threads. It has one job, and one trigger per run. */
public final class Quartz implements Contestant {

    private static final String SOURCE = "contestants";

    private final Server server;

    /** The job that Quartz stores. The job factory set by a drain supplies the code that runs. */
    public static final class Trivial implements Job {

        @Override
        public void execute(JobExecutionContext context) {
            throw new UnsupportedOperationException();
        }
    }

    public Quartz(Server server) throws IOException {
        this.server = server;
        try (InputStream script = Objects.requireNonNull(
                StdSchedulerFactory.class.getResourceAsStream("jdbcjobstore/tables_postgres.sql"))) {
            server.execute(new String(script.readAllBytes(), StandardCharsets.UTF_8));
        }
        DBConnectionManager.getInstance().addConnectionProvider(SOURCE, new ConnectionProvider() {
            @Override
            public Connection getConnection() throws SQLException {
                return server.pool().getConnection();
            }

            @Override
            public void shutdown() {
                // The pool stays open, because it outlives the scheduler.
            }

            @Override
            public void initialize() {
                // Nothing to do: the pool exists already.
            }
        });
    }

    @Override
    public String name() {
        return "Quartz";
    }

    @Override
    public int jobs() {
        return 1_500;
    }

    @Override
    public void fill(int jobs) {
        server.execute("TRUNCATE qrtz_fired_triggers, qrtz_simple_triggers, qrtz_triggers, qrtz_job_details CASCADE");
        JobDetail job = JobBuilder.newJob(Trivial.class)
                .withIdentity("trivial")
                .storeDurably()
                .build();
        Set<Trigger> triggers = new HashSet<>();
        for (int i = 0; i < jobs; i++) {
            triggers.add(TriggerBuilder.newTrigger()
                    .withIdentity("trivial-" + i)
                    .forJob(job)
                    .usingJobData("orderId", 42L)
                    .startNow()
                    .build());
        }
        try {
            Scheduler scheduler = scheduler();
            scheduler.scheduleJobs(Map.of(job, triggers), true);
            scheduler.shutdown(true);
        } catch (SchedulerException e) {
            throw new IllegalStateException(e);
        }
        server.execute("VACUUM ANALYZE qrtz_triggers");
    }

    private static Scheduler scheduler() throws SchedulerException {
        var settings = new Properties();
        settings.putAll(Map.of(
                "org.quartz.scheduler.instanceName", "benchmarks",
                "org.quartz.scheduler.instanceId", "AUTO",
                "org.quartz.scheduler.idleWaitTime", "1000",
                "org.quartz.scheduler.batchTriggerAcquisitionMaxCount", String.valueOf(Ours.SLOTS),
                "org.quartz.scheduler.batchTriggerAcquisitionFireAheadTimeWindow", "1000",
                "org.quartz.threadPool.threadCount", String.valueOf(Ours.SLOTS)));
        settings.putAll(Map.of(
                "org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX",
                "org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate",
                "org.quartz.jobStore.dataSource", SOURCE,
                "org.quartz.jobStore.isClustered", "true",
                // A high threshold, because a backlog is not a misfire here.
                "org.quartz.jobStore.misfireThreshold", "600000"));
        return new StdSchedulerFactory(settings).getScheduler();
    }

    @Override
    public Race.Result drain(Race race) {
        try {
            Scheduler scheduler = scheduler();
            scheduler.setJobFactory((bundle, owner) -> context -> race.ran());
            try {
                scheduler.start();
                race.await();
                server.awaitNone("qrtz_triggers");
                server.awaitNone("qrtz_fired_triggers");
                return race.finished();
            } finally {
                scheduler.shutdown(true);
            }
        } catch (SchedulerException e) {
            throw new IllegalStateException(e);
        }
    }
}
