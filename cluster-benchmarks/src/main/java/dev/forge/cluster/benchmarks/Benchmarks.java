// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks;

import dev.forge.cluster.benchmarks.measure.Report;
import dev.forge.cluster.benchmarks.measure.Rounds;
import dev.forge.cluster.benchmarks.measure.Server;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Runs all parts, or the parts named as arguments, on one durable PostgreSQL. Prints a table and writes it as JSON. */
public final class Benchmarks {

    private Benchmarks() {}

    public static void main(String[] args) throws Exception {
        Map<String, Part> parts = parts();
        List<String> wanted = args.length == 0 ? List.copyOf(parts.keySet()) : List.of(args);
        if (!parts.keySet().containsAll(wanted)) {
            throw new IllegalArgumentException("Unknown part. Valid: " + parts.keySet() + ". Given: " + wanted);
        }
        long start = System.nanoTime();
        try (var server = Server.start()) {
            var report = new Report(System.out, machine(server));
            for (String name : wanted) {
                report.begin(name);
                part(parts, name).run(server, report);
            }
            report.print();
            report.write(Path.of(System.getProperty("benchmarks.json", "target/benchmarks.json")));
        }
        System.out.println("Duration: " + TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - start) + " s");
    }

    private static Map<String, Part> parts() {
        var parts = new LinkedHashMap<String, Part>();
        parts.put("drain", new DrainPart());
        parts.put("first-jobs", new FirstJobsPart());
        parts.put("transactional", new TransactionalPart());
        parts.put("enqueue", new EnqueuePart());
        parts.put("pickup", new PickupPart());
        parts.put("claim", new ClaimPart());
        parts.put("groups", new GroupsPart());
        parts.put("batches", new BatchPart());
        parts.put("large-table", new LargeTablePart());
        parts.put("steady", new SteadyPart());
        parts.put("idle", new IdlePart());
        parts.put("crons", new CronPart());
        parts.put("rate-limits", new RateLimitPart());
        parts.put("workflows", new WorkflowPart());
        parts.put("nodes", new NodesPart());
        parts.put("heap", new HeapPart());
        return parts;
    }

    private static Part part(Map<String, Part> parts, String name) {
        Part part = parts.get(name);
        if (part == null) {
            throw new IllegalArgumentException(name);
        }
        return part;
    }

    private static Map<String, String> machine(Server server) {
        var machine = new LinkedHashMap<String, String>();
        machine.put("processors", String.valueOf(Runtime.getRuntime().availableProcessors()));
        machine.put("java", System.getProperty("java.version", "?"));
        machine.put("postgresql", server.version());
        double load = ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
        machine.put("loadAverageBefore", "%.1f".formatted(load));
        machine.put("rounds", String.valueOf(Rounds.COUNT));
        return machine;
    }
}
