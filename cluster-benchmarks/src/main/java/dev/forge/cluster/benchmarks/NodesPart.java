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
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;

/**
 * Compares clusters of several sizes, all nodes in one JVM: throughput, load on the server, and the time until a killed node is
 * declared dead. Three nodes should run 50 ms jobs nearly three times as fast as one node, and trivial jobs hardly slower.
 */
final class NodesPart implements Part {

    private static final List<Integer> SIZES = List.of(1, 3, 10, 30, 100);
    private static final int LONG_JOBS = 4_000;
    private static final int TRIVIAL_JOBS = 60_000;
    private static final long LONG_MILLIS = 50;
    private static final Map<String, String> ONE_CONTROL_CONNECTION = Map.of("forge.cluster.control-connections", "1");
    private static final long SETTLE_MILLIS = 3_000;
    private static final long WINDOW_MILLIS = 10_000;

    @Override
    public void run(Server server, Report report) throws IOException {
        var rounds = new Rounds();
        long doubles = 0;
        for (int round = -1; round < Rounds.COUNT; round++) {
            Rounds into = round < 0 ? new Rounds() : rounds;
            for (int nodes : List.of(1, 3)) {
                doubles += drain(server, into, "50 ms, " + nodes, nodes, LONG_JOBS, LONG_MILLIS);
            }
            for (int nodes : SIZES) {
                doubles += drain(server, into, "trivial, " + nodes, nodes, TRIVIAL_JOBS, 0);
            }
            doubles += drain(server, into, "trivial, few", 10, ONE_CONTROL_CONNECTION, TRIVIAL_JOBS, 0);
        }
        for (int nodes : SIZES) {
            observe(server, rounds, nodes);
        }
        report.add("50 ms jobs, 1 node", rounds.median("50 ms, 1"), "jobs/s");
        report.add("50 ms jobs, 3 nodes", rounds.median("50 ms, 3"), "jobs/s");
        report.atLeast(2.7, "50 ms jobs, 3 nodes : 1 node", rounds.median("50 ms, 3") / rounds.median("50 ms, 1"), "x");
        for (int nodes : SIZES) {
            report.add("trivial jobs, " + text(nodes), rounds.median("trivial, " + nodes), "jobs/s");
        }
        for (int nodes : List.of(3, 10)) {
            report.atLeast(
                    0.9,
                    "trivial jobs, %s : 1 node".formatted(text(nodes)),
                    rounds.median("trivial, " + nodes) / rounds.median("trivial, 1"),
                    "x");
        }
        report.add(
                "trivial jobs, 10 nodes, control-connections 1 : 2",
                rounds.median("trivial, few") / rounds.median("trivial, 10"),
                "x");
        for (int nodes : SIZES) {
            report.add(
                    "average number of sessions waiting for a lock, drain, " + text(nodes),
                    rounds.median("trivial, %d locks".formatted(nodes)),
                    "");
        }
        for (int nodes : SIZES) {
            report.add("idle: transactions, " + text(nodes), rounds.median("transactions " + nodes), "/s");
            report.add("idle: connections, " + text(nodes), rounds.median("connections " + nodes), "");
            report.add(
                    "killed node declared dead, %s left".formatted(text(nodes)), rounds.median("death " + nodes), "ms");
        }
        report.atMost(0, "jobs that ran twice", (double) doubles, "");
    }

    private static String text(int nodes) {
        return nodes == 1 ? "1 node" : nodes + " nodes";
    }

    /** Measures one drain; returns the number of surplus runs. */
    private static long drain(Server server, Rounds rounds, String name, int nodes, int jobs, long millis) {
        return drain(server, rounds, name, nodes, Map.of(), jobs, millis);
    }

    private static long drain(
            Server server, Rounds rounds, String name, int nodes, Map<String, String> settings, int jobs, long millis) {
        new RawSql(server.pool()).fill(jobs);
        server.execute("CHECKPOINT");
        var race = new Race(jobs, server.cpu());
        Runnable work = () -> {
            race.begin();
            if (millis > 0) {
                Pause.millis(millis);
            }
            race.ran();
        };
        // Pauses the jobs until all nodes have started.
        server.execute("INSERT INTO forge_job_pauses (name) VALUES ('trivial')");
        List<Ours> cluster = nodes(server, nodes, settings, work);
        try {
            cluster.parallelStream().forEach(Ours::start);
            try (var locks = new LockWaits(server)) {
                cluster.get(0).jobs().resume(Ours.JOB);
                race.await();
                server.awaitNone("forge_jobs WHERE status IN ('claimed', 'running')");
                rounds.add(name, race.finished().perSecond());
                rounds.add(name + " locks", locks.average());
            }
        } finally {
            close(cluster);
        }
        return race.runs() - jobs;
    }

    private static List<Ours> nodes(Server server, int nodes, Map<String, String> settings, Runnable work) {
        return IntStream.range(0, nodes)
                .mapToObj(i -> new Ours("node-" + i, server, new Handlers.Plain(work), settings))
                .toList();
    }

    /** Closes the nodes in parallel, because each node needs some time to leave. */
    private static void close(List<Ours> cluster) {
        cluster.parallelStream().forEach(Ours::close);
    }

    private static void observe(Server server, Rounds rounds, int nodes) throws IOException {
        new RawSql(server.pool()).empty();
        long before = connections(server);
        List<Ours> cluster = nodes(server, nodes, Map.of(), () -> {});
        try {
            cluster.parallelStream().forEach(Ours::start);
            Pause.millis(SETTLE_MILLIS);
            rounds.add("connections " + nodes, (double) (connections(server) - before));
            long transactions = IdlePart.transactions(server);
            Pause.millis(WINDOW_MILLIS);
            rounds.add(
                    "transactions " + nodes, (IdlePart.transactions(server) - transactions - 1) * 1e3 / WINDOW_MILLIS);
            for (int round = 0; round < Rounds.COUNT; round++) {
                rounds.add("death " + nodes, millisUntilDead(server));
            }
        } finally {
            close(cluster);
        }
    }

    private static long connections(Server server) {
        return server.number("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'");
    }

    private static double millisUntilDead(Server server) throws IOException {
        String node;
        long killed;
        try (var jvm = ChildJvm.start(Victim.class, server)) {
            node = jvm.nextLine();
            // Lets the other nodes observe the new node before it is killed.
            Pause.millis(SETTLE_MILLIS);
            killed = System.nanoTime();
        }
        server.awaitNone("forge_nodes WHERE id = '%s' AND status <> 'dead'".formatted(node));
        return (System.nanoTime() - killed) / 1e6;
    }

    /** The main class of a JVM with one more node. Prints the id of the node when it has joined. */
    static final class Victim {

        private Victim() {}

        public static void main(String[] args) throws IOException {
            try (Server server = Server.at(Integer.parseInt(args[0]));
                    var node = new Ours("victim", server, new Handlers.Plain(() -> {}))) {
                node.start();
                System.out.println(node.id());
                // Waits until this JVM is killed or its parent has ended.
                while (System.in.read() >= 0) {}
            }
        }
    }

    /** Samples the number of sessions that wait for a lock. */
    private static final class LockWaits implements AutoCloseable {

        private static final long INTERVAL_MILLIS = 20;
        private static final String WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

        private final AtomicBoolean ended = new AtomicBoolean();
        private final List<Double> counts = Collections.synchronizedList(new ArrayList<>());
        private final Thread thread;

        LockWaits(Server server) {
            thread = new Thread(
                    () -> {
                        while (!ended.get()) {
                            counts.add((double) server.number(WAITING));
                            Pause.millis(INTERVAL_MILLIS);
                        }
                    },
                    "lock-waits");
            thread.start();
        }

        double average() {
            synchronized (counts) {
                return counts.stream()
                        .mapToDouble(Double::doubleValue)
                        .average()
                        .orElse(0);
            }
        }

        @Override
        public void close() {
            ended.set(true);
            try {
                thread.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
