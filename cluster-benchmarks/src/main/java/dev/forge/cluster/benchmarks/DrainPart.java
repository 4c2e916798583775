// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Contestant;
import dev.forge.cluster.benchmarks.contestant.DbScheduler;
import dev.forge.cluster.benchmarks.contestant.JobRunr;
import dev.forge.cluster.benchmarks.contestant.OneNode;
import dev.forge.cluster.benchmarks.contestant.Quartz;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import java.io.IOException;
import java.util.List;

/** Measures throughput and CPU time per job of each contestant, with jobs that do nothing. */
final class DrainPart implements Part {

    @Override
    public void run(Server server, Report report) throws IOException {
        Contestant raw = new RawSql(server.pool(), RawSql.Table.FORGE_JOBS, RawSql.CLAIM);
        // Isolates the effect of larger batches, because Forge Cluster enlarges its batches under load.
        Contestant largeRaw = new RawSql(server.pool(), RawSql.Table.FORGE_JOBS, RawSql.LARGE_CLAIM);
        Contestant handWritten = new RawSql(server.pool(), RawSql.Table.OWN, RawSql.LARGE_CLAIM);
        Contestant ours = new OneNode(server, OneNode.MANY);
        // Has as many jobs as db-scheduler, because the planner may choose other plans for a small table.
        Contestant few = new OneNode(server, DbScheduler.JOBS);
        Contestant dbScheduler = new DbScheduler(server);
        Contestant jobRunr = new JobRunr(server);
        Contestant quartz = new Quartz(server);
        List<Contestant> all = List.of(raw, largeRaw, handWritten, ours, few, dbScheduler, jobRunr, quartz);
        if (!server.cpu().seesServer()) {
            report.note("No /proc on this system: the CPU time of the server is not measured");
        }
        Rounds rounds = Drains.measure(server, all);
        Drains.report(report, rounds, all);
        report.add("Forge Cluster : raw SQL", Drains.ratio(rounds, ours, raw), "x");
        report.atLeast(0.8, "Forge Cluster : " + largeRaw.name(), Drains.ratio(rounds, ours, largeRaw), "x");
        report.atLeast(0.8, "Forge Cluster : " + handWritten.name(), Drains.ratio(rounds, ours, handWritten), "x");
        report.atLeast(10, "Forge Cluster : db-scheduler", Drains.ratio(rounds, ours, dbScheduler), "x");
        report.atLeast(10, "Forge Cluster, small table : db-scheduler", Drains.ratio(rounds, few, dbScheduler), "x");
        report.atLeast(30, "Forge Cluster : JobRunr", Drains.ratio(rounds, ours, jobRunr), "x");
        report.atLeast(90, "Forge Cluster : Quartz", Drains.ratio(rounds, ours, quartz), "x");
        // The most that any queue with these batches could reach on this machine.
        report.add(largeRaw.name() + " : db-scheduler", Drains.ratio(rounds, largeRaw, dbScheduler), "x");
        report.add(largeRaw.name() + " : JobRunr", Drains.ratio(rounds, largeRaw, jobRunr), "x");
        if (server.cpu().seesServer()) {
            for (Contestant reference : List.of(largeRaw, handWritten)) {
                report.atMost(
                        1.3,
                        "CPU per job of the server, Forge Cluster : " + reference.name(),
                        rounds.median(ours.name() + " server") / rounds.median(reference.name() + " server"),
                        "x");
            }
        }
        report.atMost(
                0,
                "Forge Cluster: jobs that ran twice",
                rounds.sum(ours.name() + " doubles") + rounds.sum(few.name() + " doubles"),
                "");
    }
}
