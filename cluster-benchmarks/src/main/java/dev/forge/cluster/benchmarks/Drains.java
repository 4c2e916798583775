// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Contestant;
import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import java.time.Duration;
import java.util.List;

/** Measures throughput and CPU time per job of contestants, for the parts that compare drains. */
final class Drains {

    private Drains() {}

    /** The time each contestant runs before it is measured. The JIT compiler is busy for 150,000 transactional jobs or more. */
    static final Duration WARM_UP = Duration.ofSeconds(40);

    /** Measures all contestants in turn, after warm-up drains that keep JIT compilation out of the figures. */
    static Rounds measure(Server server, List<Contestant> all) {
        for (Contestant one : all) {
            long began = System.nanoTime();
            while (System.nanoTime() - began < WARM_UP.toNanos()) {
                drain(server, one, new Race(one.jobs(), server.cpu()));
            }
        }
        var rounds = new Rounds();
        for (int round = 0; round < Rounds.COUNT; round++) {
            for (Contestant one : all) {
                var race = new Race(one.jobs(), server.cpu());
                Race.Result result = drain(server, one, race);
                rounds.add(one.name(), result.perSecond());
                rounds.add(one.name() + " client", result.clientMicros());
                rounds.add(one.name() + " doubles", (double) (race.runs() - race.jobs()));
                Double micros = result.serverMicros();
                if (micros != null) {
                    rounds.add(one.name() + " server", micros);
                    rounds.add(one.name() + " cpu", result.clientMicros() + micros);
                } else {
                    rounds.add(one.name() + " cpu", result.clientMicros());
                }
            }
        }
        return rounds;
    }

    private static Race.Result drain(Server server, Contestant contestant, Race race) {
        contestant.fill(race.jobs());
        server.execute("CHECKPOINT");
        return contestant.drain(race);
    }

    static void report(Report report, Rounds rounds, List<Contestant> all) {
        for (Contestant one : all) {
            report.add("%s, %,d jobs".formatted(one.name(), one.jobs()), rounds.median(one.name()), "jobs/s");
        }
        for (Contestant one : all) {
            report.add(one.name() + ": CPU per job, client", rounds.median(one.name() + " client"), "us");
            if (rounds.has(one.name() + " server")) {
                report.add(one.name() + ": CPU per job, server", rounds.median(one.name() + " server"), "us");
            }
        }
    }

    static double ratio(Rounds rounds, Contestant one, Contestant other) {
        return rounds.median(one.name()) / rounds.median(other.name());
    }
}
