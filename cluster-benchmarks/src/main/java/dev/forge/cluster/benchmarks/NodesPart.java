// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** Compares three nodes with one: jobs of 50 ms should run three times as fast, trivial jobs no slower. */
final class NodesPart implements Part {

    private static final int MANY = 3;
    private static final int LONG_JOBS = 4_000;
    private static final int TRIVIAL_JOBS = 60_000;
    private static final long LONG_MILLIS = 50;

    @Override
    public void run(Server server, Report report) {
        var rounds = new Rounds();
        long doubles = 0;
        for (int round = 0; round < Rounds.COUNT; round++) {
            for (int nodes : new int[] {1, MANY}) {
                doubles += drain(server, rounds, "50 ms, " + nodes, nodes, LONG_JOBS, LONG_MILLIS);
                doubles += drain(server, rounds, "trivial, " + nodes, nodes, TRIVIAL_JOBS, 0);
            }
        }
        compare(report, rounds, "50 ms", 2.7);
        compare(report, rounds, "trivial", 0.8);
        report.atMost(0, "jobs that ran twice", (double) doubles, "");
    }

    private static void compare(Report report, Rounds rounds, String kind, double target) {
        double one = rounds.median(kind + ", 1");
        double many = rounds.median(kind + ", " + MANY);
        report.add(kind + " jobs, 1 node", one, "jobs/s");
        report.add(kind + " jobs, 3 nodes", many, "jobs/s");
        report.atLeast(target, kind + " jobs, 3 nodes : 1 node", many / one, "x");
    }

    /** Returns the number of surplus runs. */
    private static long drain(Server server, Rounds rounds, String name, int nodes, int jobs, long millis) {
        new RawSql(server.pool()).fill(jobs);
        server.execute("CHECKPOINT");
        var race = new Race(jobs, server.cpu());
        Consumer<Ours.Trivial> handler = job -> {
            race.begin();
            if (millis > 0) {
                Pause.millis(millis);
            }
            race.ran();
        };
        // Paused until all nodes have started.
        server.execute("INSERT INTO forge_job_pauses (name) VALUES ('trivial')");
        List<Ours> cluster = new ArrayList<>();
        try {
            for (int i = 0; i < nodes; i++) {
                cluster.add(new Ours("node-" + i, server, Ours.WORKER, handler));
            }
            cluster.forEach(Ours::start);
            cluster.get(0).jobs.resume(Ours.JOB);
            race.await();
            server.awaitNone("forge_jobs WHERE status IN ('claimed', 'running')");
            rounds.add(name, race.finished().perSecond());
        } finally {
            cluster.forEach(Ours::close);
        }
        return race.runs() - jobs;
    }
}
