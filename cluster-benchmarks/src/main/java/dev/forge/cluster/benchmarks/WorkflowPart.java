// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.measure.Pause;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.workflow.ClusterWorkflow;
import dev.forge.cluster.workflow.WorkflowContext;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.springframework.jdbc.core.JdbcTemplate;

/** Compares workflows of three steps with their bare statements on one node, and measures many runs due at once. */
final class WorkflowPart implements Part {

    private static final int RUNS = 6_000;
    private static final int SLEEPING = 100_000;
    private static final int DUE = 1_000;
    private static final int AHEAD_SECONDS = 3;
    private static final double LEAST_A_SECOND = 500;
    private static final double MOST_MILLIS = 2_000;
    private static final WorkflowVersion THREE_STEPS = new WorkflowVersion("three-steps", "1");
    private static final WorkflowVersion SLEEPER = new WorkflowVersion("sleeper", "1");

    static class ThreeSteps {

        @ClusterWorkflow(name = "three-steps", version = "1")
        Integer run(WorkflowContext wf) {
            wf.step("one", Integer.class, () -> 1);
            wf.step("two", Integer.class, () -> 2);
            return wf.step("three", Integer.class, () -> 3);
        }
    }

    static class Sleeper {

        @ClusterWorkflow(name = "sleeper", version = "1")
        void run(WorkflowContext wf) {}
    }

    @Override
    public void run(Server server, Report report) throws Exception {
        var rounds = new Rounds();
        // The first runs are not counted, because the JIT compiler takes most of their time.
        empty(server);
        workflows(server);
        bare(server);
        for (int round = 0; round < Rounds.COUNT; round++) {
            empty(server);
            rounds.add("workflows", workflows(server));
            rounds.add("bare", bare(server));
        }
        report.atLeast(LEAST_A_SECOND, "workflows of three steps", rounds.median("workflows"), "/s");
        report.add("bare statements of these workflows", rounds.median("bare"), "/s");
        report.add("workflows : bare statements", rounds.median("workflows") / rounds.median("bare"), "x");
        empty(server);
        report.atMost(
                MOST_MILLIS,
                "%d of %d sleeping runs due at once: delay of the last start".formatted(DUE, SLEEPING),
                waking(server),
                "ms");
        empty(server);
    }

    private static void empty(Server server) {
        server.execute("TRUNCATE forge_jobs, forge_workflow_runs, forge_workflow_steps, forge_workflow_signals");
        server.execute("CHECKPOINT");
    }

    private static void fill(Server server, WorkflowVersion version, int runs, String at) {
        server.execute("""
                WITH run AS (
                    INSERT INTO forge_workflow_runs (id, job_id, workflow_name, workflow_version)
                    SELECT id, id, '%s', '%s' FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, %d)) AS ids
                    RETURNING id)
                INSERT INTO forge_jobs (id, name, carries_run, scheduled_at) SELECT id, '%s', true, %s FROM run
                """.formatted(version.workflow(), version.version(), runs, version.jobName(), at));
        server.execute("ANALYZE forge_jobs, forge_workflow_runs");
    }

    private static double workflows(Server server) {
        fill(server, THREE_STEPS, RUNS, "now()");
        try (var node = new Ours("flows", server, new ThreeSteps())) {
            node.start();
            long began = System.nanoTime();
            server.awaitNone("forge_workflow_runs WHERE status = 'running'");
            return RUNS * (double) TimeUnit.SECONDS.toNanos(1) / (double) (System.nanoTime() - began);
        }
    }

    /** Executes the bare statements: reads each run, inserts three steps, and ends the run and its job in one statement. */
    private static double bare(Server server) throws Exception {
        var jdbc = new JdbcTemplate(server.pool());
        empty(server);
        fill(server, THREE_STEPS, RUNS, "now()");
        List<String> runs =
                jdbc.query("SELECT id::text FROM forge_jobs", (row, n) -> Objects.requireNonNull(row.getString(1)));
        var next = new AtomicInteger();
        Callable<Integer> worker = () -> {
            int done = 0;
            for (int i = next.getAndIncrement(); i < runs.size(); i = next.getAndIncrement()) {
                String run = runs.get(i);
                jdbc.queryForList("SELECT * FROM forge_workflow_runs WHERE id = ?::uuid", run);
                for (int step = 0; step < 3; step++) {
                    jdbc.update(
                            "INSERT INTO forge_workflow_steps (run_id, position, name, status, result)"
                                    + " VALUES (?::uuid, ?, 'step', 'completed', '1')",
                            run,
                            step);
                }
                jdbc.update(
                        "WITH job AS (UPDATE forge_jobs SET status = 'completed', finished_at = now() WHERE id = ?::uuid)"
                                + " UPDATE forge_workflow_runs SET status = 'completed', finished_at = now() WHERE id = ?::uuid",
                        run,
                        run);
                done++;
            }
            return done;
        };
        var threads = Executors.newFixedThreadPool(Ours.SLOTS);
        try {
            long began = System.nanoTime();
            for (var future : threads.invokeAll(
                    IntStream.range(0, Ours.SLOTS).mapToObj(i -> worker).toList())) {
                future.get();
            }
            return RUNS * (double) TimeUnit.SECONDS.toNanos(1) / (double) (System.nanoTime() - began);
        } finally {
            threads.shutdown();
        }
    }

    private static double waking(Server server) {
        fill(server, SLEEPER, SLEEPING, "now() + interval '1 day'");
        try (var node = new Ours("sleepers", server, new Sleeper())) {
            node.start();
            server.execute("""
                    UPDATE forge_jobs SET scheduled_at = clock_timestamp() + interval '%d seconds'
                    WHERE id IN (SELECT id FROM forge_jobs LIMIT %d)
                    """.formatted(AHEAD_SECONDS, DUE));
            while (server.number("SELECT count(*) FROM forge_jobs WHERE status = 'completed'") < DUE) {
                Pause.millis(20);
            }
            return (double)
                    server.number("SELECT (extract(epoch FROM max(claimed_at) - min(scheduled_at)) * 1000)::bigint"
                            + " FROM forge_jobs WHERE status = 'completed'");
        }
    }
}
