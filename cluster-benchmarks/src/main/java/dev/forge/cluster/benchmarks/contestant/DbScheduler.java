// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.contestant;

import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.task.TaskInstance;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Server;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** db-scheduler, tuned for throughput as documented: it locks and fetches several times as many jobs as it has threads. */
public final class DbScheduler implements Contestant {

    public static final int JOBS = 20_000;

    private static final double FETCH_BELOW = 3;
    private static final double FETCH_UP_TO = 10;

    private final Server server;
    private final String name;
    private final Runnable work;

    /** Creates a contestant whose handler does nothing. */
    public DbScheduler(Server server) {
        this(server, "db-scheduler", () -> {});
    }

    private DbScheduler(Server server, String name, Runnable work) {
        this.server = server;
        this.name = name;
        this.work = work;
        server.execute("""
                CREATE TABLE IF NOT EXISTS scheduled_tasks (
                    task_name text NOT NULL,
                    task_instance text NOT NULL,
                    task_data bytea,
                    execution_time timestamptz,
                    picked boolean NOT NULL,
                    picked_by text,
                    last_success timestamptz,
                    last_failure timestamptz,
                    consecutive_failures int,
                    last_heartbeat timestamptz,
                    version bigint NOT NULL,
                    priority smallint,
                    state text,
                    PRIMARY KEY (task_name, task_instance));
                CREATE INDEX IF NOT EXISTS execution_time_idx ON scheduled_tasks (execution_time);
                CREATE INDEX IF NOT EXISTS last_heartbeat_idx ON scheduled_tasks (last_heartbeat)
                """);
    }

    /** Returns a contestant whose handler changes one row in a transaction. */
    public static Contestant writing(Server server, RowChange change) {
        var transactions = new TransactionTemplate(new JdbcTransactionManager(server.pool()));
        return new DbScheduler(
                server,
                "db-scheduler, handler changes a row",
                () -> transactions.executeWithoutResult(status -> change.run()));
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public int jobs() {
        return JOBS;
    }

    @Override
    public void fill(int jobs) {
        server.execute("TRUNCATE scheduled_tasks");
        SchedulerClient client = SchedulerClient.Builder.create(server.pool()).build();
        List<TaskInstance<?>> instances = new ArrayList<>(jobs);
        OneTimeTask<Long> task = task(new Race(0, server.cpu()));
        for (int i = 0; i < jobs; i++) {
            instances.add(task.instance(Ids.next().toString(), 42L));
        }
        client.scheduleBatch(instances, Instant.now());
        server.execute("VACUUM ANALYZE scheduled_tasks");
    }

    private OneTimeTask<Long> task(Race race) {
        return Tasks.oneTime("trivial", Long.class).execute((instance, context) -> {
            work.run();
            race.ran();
        });
    }

    @Override
    public Race.Result drain(Race race) {
        Scheduler scheduler = Scheduler.create(server.pool(), task(race))
                .threads(Ours.SLOTS)
                .pollUsingLockAndFetch(FETCH_BELOW, FETCH_UP_TO)
                .pollingInterval(Duration.ofMillis(50))
                .build();
        try {
            scheduler.start();
            race.await();
            server.awaitNone("scheduled_tasks");
            return race.finished();
        } finally {
            scheduler.stop();
        }
    }
}
