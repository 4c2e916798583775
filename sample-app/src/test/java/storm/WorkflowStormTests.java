// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package storm;

import static org.assertj.core.api.Assertions.assertThat;
import static sample.PatientAwaits.await;

import dev.forge.cluster.test.postgres.ClusterPostgres;
import dev.forge.cluster.test.postgres.PostgresServer;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.test.process.AppProcess;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Checks workflows on nodes that are killed continuously. */
@ClusterPostgres(migrated = false)
class WorkflowStormTests {

    private static final Duration START = Duration.ofSeconds(90);

    private static final String IN_FLIGHT = """
            SELECT count(*) FROM forge_workflow_runs
            WHERE status NOT IN ('completed', 'compensated', 'failed', 'retired_unresumable', 'cancelled_by_operator')
            """;

    private TestDatabase database;
    private final List<AppProcess> nodes = new ArrayList<>();
    private final Map<AppProcess, String> names = new HashMap<>();
    private final Random random = new Random(42);

    @BeforeEach
    void create() {
        database = PostgresServer.shared().createEmptyDatabase("flows");
        database.jdbc()
                .sql("CREATE SCHEMA storm; CREATE TABLE storm.traces (run uuid, step text)")
                .update();
        database.jdbc()
                .sql("ALTER DATABASE %s SET search_path = public, storm".formatted(database.name()))
                .update();
        database.endIdleSessions();
    }

    @AfterEach
    void drop() {
        nodes.forEach(AppProcess::close);
        database.close();
    }

    private AppProcess start(String name) {
        AppProcess node = AppProcess.of(StormApplication.class)
                .database(database)
                .property("forge.cluster.node.name", name)
                .property("spring.datasource.hikari.maximum-pool-size", 6)
                .property("forge.cluster.worker.max-concurrent-jobs", 4)
                .property("forge.cluster.heartbeat.interval", "1s")
                .property("forge.cluster.heartbeat.stale-threshold", "2s")
                .property("forge.cluster.heartbeat.dead-threshold", "3s")
                .property("forge.cluster.job.lease-duration", "5s")
                .property("forge.cluster.job.heartbeat-interval", "1s")
                .property("forge.cluster.sweep.interval", "1s")
                .property("forge.cluster.job.max-recoveries", "1000")
                .property("server.tomcat.threads.max", 2)
                .start();
        nodes.add(node);
        names.put(node, name);
        return node;
    }

    private long count(String sql) {
        return database.jdbc().sql(sql).query(Long.class).single();
    }

    private long underWay(String node) {
        return database.jdbc().sql("""
                        SELECT count(*) FROM forge_jobs j JOIN forge_nodes n ON n.id = j.worker_id
                        WHERE n.name = ? AND j.status = 'running' AND j.name = 'workflow:storm@1'
                        """).param(node).query(Long.class).single();
    }

    private void startRuns(int runs) {
        database.jdbc().sql("""
                WITH run AS (
                    INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version)
                    SELECT id, id, 'storm', '1' FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, ?)) AS ids
                    RETURNING id)
                INSERT INTO forge_jobs (id, name) SELECT id, 'workflow:storm@1' FROM run
                """).param(runs).update();
        // Sends each run its signal at a random time, before or after the run waits for it.
        database.jdbc().sql("""
                SELECT count(forge_enqueue('approve', jsonb_build_object('run', id),
                                           scheduled_at => now() + random() * interval '60 seconds'))
                FROM forge_workflow_runs
                """).query((row, n) -> row.getLong(1)).single();
    }

    @Test
    @Tag("soak")
    void thousand_workflows_in_a_storm_complete_or_are_compensated_without_lost_or_duplicate_effects() {
        survives(1_000, Duration.ofMinutes(15));
    }

    private void survives(int runs, Duration patience) {
        for (int i = 0; i < 3; i++) {
            start("node-" + i);
        }
        nodes.forEach(node -> node.awaitReady(START));
        startRuns(runs);
        int kills = 0;
        long interrupted = 0;
        long deadline = System.nanoTime() + patience.toNanos();
        while (count(IN_FLIGHT) > 0) {
            assertThat(System.nanoTime()).as("%d in flight", count(IN_FLIGHT)).isLessThan(deadline);
            AppProcess victim = nodes.remove(random.nextInt(nodes.size()));
            interrupted += underWay(names.get(victim));
            victim.kill();
            victim.close();
            kills++;
            start("node-again-" + kills).awaitReady(START);
        }
        await().until(() -> count(IN_FLIGHT) == 0);
        System.out.printf(
                "%d workflows under %d kills, about %d runs interrupted: %d completed, %d compensated%n",
                runs,
                kills,
                interrupted,
                count("SELECT count(*) FROM forge_workflow_runs WHERE status = 'completed'"),
                count("SELECT count(*) FROM forge_workflow_runs WHERE status = 'compensated'"));
        List<UUID> all = database.jdbc()
                .sql("SELECT id FROM forge_workflow_runs")
                .query(UUID.class)
                .list();
        assertThat(all).hasSize(runs);
        assertThat(interrupted).as("runs interrupted by a kill").isGreaterThanOrEqualTo(10);
        all.forEach(this::check);
        assertThat(count("SELECT count(*) FROM forge_workflow_signals")).isZero();
    }

    private void check(UUID run) {
        boolean fails = StormWorkflows.fails(run);
        assertThat(database.jdbc()
                        .sql("SELECT status FROM forge_workflow_runs WHERE id = ?")
                        .param(run)
                        .query(String.class)
                        .single())
                .as("run %s", run)
                .isEqualTo(fails ? "compensated" : "completed");
        List<String> traces = database.jdbc()
                .sql("SELECT step FROM storm.traces WHERE run = ?")
                .param(run)
                .query(String.class)
                .list();
        assertThat(traces)
                .as("run %s", run)
                .containsExactlyInAnyOrder(
                        fails
                                ? new String[] {"one", "three", "four", "undo four", "undo three", "undo one"}
                                : new String[] {"one", "three", "four", "five"});
    }
}
