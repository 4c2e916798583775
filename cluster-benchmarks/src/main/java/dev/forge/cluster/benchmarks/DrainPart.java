// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import java.io.IOException;
import java.util.List;

/** Measures throughput and CPU time per job of each contestant, with jobs that do nothing. */
final class DrainPart implements Part {

    @Override
    public void run(Server server, Report report) throws IOException {
        Contestant raw = new RawSql(server.pool(), RawSql.CLAIM);
        // Shows the effect of larger batches alone: Forge Cluster enlarges its batches with the load.
        Contestant largeRaw = new RawSql(server.pool(), RawSql.LARGE_CLAIM);
        Contestant ours = new OneNode(server, OneNode.MANY);
        // As many jobs as db-scheduler gets, because the planner may choose other plans for a small table.
        Contestant few = new OneNode(server, DbScheduler.JOBS);
        Contestant dbScheduler = new DbScheduler(server);
        Contestant jobRunr = new JobRunr(server);
        List<Contestant> all = List.of(raw, largeRaw, ours, few, dbScheduler, jobRunr, new Quartz(server));
        if (!server.cpu().seesServer()) {
            report.note("No /proc on this system: the CPU time of the server is not measured");
        }
        Rounds rounds = Drains.measure(server, all);
        Drains.report(report, rounds, all);
        report.atLeast(0.5, "Forge Cluster : raw SQL", Drains.ratio(rounds, ours, raw), "x");
        report.add("Forge Cluster : " + largeRaw.name(), Drains.ratio(rounds, ours, largeRaw), "x");
        report.atLeast(5, "Forge Cluster : db-scheduler", Drains.ratio(rounds, ours, dbScheduler), "x");
        report.atLeast(5, "Forge Cluster, small table : db-scheduler", Drains.ratio(rounds, few, dbScheduler), "x");
        report.atLeast(20, "Forge Cluster : JobRunr", Drains.ratio(rounds, ours, jobRunr), "x");
        report.atMost(
                2,
                "CPU per job, Forge Cluster : raw SQL",
                rounds.median(ours.name() + " cpu") / rounds.median(raw.name() + " cpu"),
                "x");
        report.atMost(
                0,
                "Forge Cluster: jobs that ran twice",
                rounds.sum(ours.name() + " doubles") + rounds.sum(few.name() + " doubles"),
                "");
    }
}
