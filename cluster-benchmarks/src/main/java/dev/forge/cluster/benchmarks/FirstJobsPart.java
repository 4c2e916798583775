// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.contestant.Handlers;
import dev.forge.cluster.benchmarks.contestant.Ours;
import dev.forge.cluster.benchmarks.contestant.RawSql;
import dev.forge.cluster.benchmarks.measure.ChildJvm;
import dev.forge.cluster.benchmarks.measure.Pause;
import dev.forge.cluster.benchmarks.measure.Race;
import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;

/** Compares the first jobs in a new JVM with later jobs, which run after JIT compilation. */
final class FirstJobsPart implements Part {

    private static final int JOBS = 20_000;
    private static final List<String> PHASES = List.of("first", "later");
    /** The settings of the application by the text that describes them. */
    private static final Map<String, Map<String, String>> VARIANTS = new TreeMap<>(Map.of(
            "with metrics",
            Map.of(),
            "without metrics",
            Map.of(
                    "spring.autoconfigure.exclude",
                    "dev.forge.cluster.autoconfigure.metrics.ClusterMetricsAutoConfiguration")));

    @Override
    public void run(Server server, Report report) throws IOException {
        var rounds = new Rounds();
        for (int round = 0; round < Rounds.COUNT; round++) {
            for (String variant : VARIANTS.keySet()) {
                try (var jvm = ChildJvm.start(NewJvm.class, server, variant)) {
                    for (String phase : PHASES) {
                        String[] figures = jvm.nextLine().split(" ", -1);
                        rounds.add(variant + phase, Double.parseDouble(figures[0]));
                        rounds.add(variant + phase + " client", Double.parseDouble(figures[1]));
                    }
                }
                // The JVM was killed while its jobs were paused.
                server.execute("DELETE FROM forge_job_pauses");
            }
        }
        for (String variant : VARIANTS.keySet()) {
            for (String phase : PHASES) {
                String jobs = "%s %,d jobs of a JVM, %s".formatted(phase, JOBS, variant);
                report.add(jobs, rounds.median(variant + phase), "jobs/s");
                report.add(jobs + ": CPU per job, client", rounds.median(variant + phase + " client"), "us");
            }
            report.atLeast(
                    0.6,
                    "first jobs : later jobs, " + variant,
                    rounds.median(variant + "first") / rounds.median(variant + "later"),
                    "x");
        }
    }

    /** The main class of the new JVM. Prints jobs per second and CPU time per job of the first and of later jobs. */
    static final class NewJvm {

        private static final Duration WARM_UP = Duration.ofSeconds(20);
        /** Keeps the start of the application out of the figures. */
        private static final Duration QUIET = Duration.ofSeconds(5);

        private final Server server;
        private final RawSql rows;
        private final AtomicReference<Race> race;

        private NewJvm(Server server) {
            this.server = server;
            this.rows = new RawSql(server.pool());
            this.race = new AtomicReference<>(new Race(JOBS, server.cpu()));
        }

        public static void main(String[] args) throws IOException {
            try (Server server = Server.at(Integer.parseInt(args[0]))) {
                new NewJvm(server).measure(VARIANTS.getOrDefault(args[1], Map.of()));
            }
        }

        private void measure(Map<String, String> settings) {
            server.execute("INSERT INTO forge_job_pauses (name) VALUES ('trivial')");
            var handlers = new Handlers.Plain(() -> race.get().ran());
            try (var node = new Ours("one", server, handlers, settings)) {
                node.start();
                Pause.millis(QUIET.toMillis());
                print(drain(node));
                long began = System.nanoTime();
                Race.Result latest;
                do {
                    latest = drain(node);
                } while (System.nanoTime() - began < WARM_UP.toNanos());
                print(latest);
            }
        }

        private Race.Result drain(Ours node) {
            rows.fill(JOBS);
            server.execute("CHECKPOINT");
            var next = new Race(JOBS, server.cpu());
            race.set(next);
            node.jobs().resume(Ours.JOB);
            next.await();
            server.awaitNone("forge_jobs WHERE status IN ('claimed', 'running')");
            Race.Result result = next.finished();
            node.jobs().pause(Ours.JOB);
            return result;
        }

        private static void print(Race.Result result) {
            System.out.println(result.perSecond() + " " + result.clientMicros());
        }
    }
}
