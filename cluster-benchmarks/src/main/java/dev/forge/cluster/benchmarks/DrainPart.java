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
        // Excludes the work of the JIT compiler from the figures.
        for (Contestant one : all) {
            drain(server, one, new Race(one.jobs() / 2, server.cpu()));
        }
        var rounds = new Rounds();
        long doubles = 0;
        for (int round = 0; round < Rounds.COUNT; round++) {
            for (Contestant one : all) {
                var race = new Race(one.jobs(), server.cpu());
                Race.Result result = drain(server, one, race);
                rounds.add(one.name(), result.perSecond());
                rounds.add(one.name() + " client", result.clientMicros());
                Double micros = result.serverMicros();
                if (micros != null) {
                    rounds.add(one.name() + " server", micros);
                    rounds.add(one.name() + " cpu", result.clientMicros() + micros);
                } else {
                    rounds.add(one.name() + " cpu", result.clientMicros());
                }
                if (one instanceof OneNode) {
                    doubles += race.runs() - race.jobs();
                }
            }
        }
        for (Contestant one : all) {
            report.add("%s, %,d jobs".formatted(one.name(), one.jobs()), rounds.median(one.name()), "jobs/s");
        }
        for (Contestant one : all) {
            report.add(one.name() + ": CPU per job, client", rounds.median(one.name() + " client"), "us");
            if (rounds.has(one.name() + " server")) {
                report.add(one.name() + ": CPU per job, server", rounds.median(one.name() + " server"), "us");
            }
        }
        report.atLeast(0.5, "Forge Cluster : raw SQL", ratio(rounds, ours, raw), "x");
        report.add("Forge Cluster : " + largeRaw.name(), ratio(rounds, ours, largeRaw), "x");
        report.atLeast(5, "Forge Cluster : db-scheduler", ratio(rounds, ours, dbScheduler), "x");
        report.atLeast(5, "Forge Cluster, small table : db-scheduler", ratio(rounds, few, dbScheduler), "x");
        report.atLeast(20, "Forge Cluster : JobRunr", ratio(rounds, ours, jobRunr), "x");
        report.atMost(
                2,
                "CPU per job, Forge Cluster : raw SQL",
                rounds.median(ours.name() + " cpu") / rounds.median(raw.name() + " cpu"),
                "x");
        report.atMost(0, "Forge Cluster: jobs that ran twice", (double) doubles, "");
    }

    private static Race.Result drain(Server server, Contestant contestant, Race race) {
        contestant.fill(race.jobs());
        server.execute("CHECKPOINT");
        return contestant.drain(race);
    }

    private static double ratio(Rounds rounds, Contestant one, Contestant other) {
        return rounds.median(one.name()) / rounds.median(other.name());
    }
}
