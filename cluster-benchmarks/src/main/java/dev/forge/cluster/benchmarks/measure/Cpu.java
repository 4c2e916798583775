// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Measures the CPU time of this process and of PostgreSQL. The time of PostgreSQL comes from {@code /proc} and includes the
 * postmaster, its children, and its children that have ended.
 */
public final class Cpu {

    private static final Path PROC = Path.of("/proc");
    /** The length of a tick of {@code /proc/<pid>/stat} on all common architectures. */
    private static final long NANOS_PER_TICK = 10_000_000;

    private static final int PARENT = 1;
    private static final int UTIME = 11;
    private static final int CSTIME = 14;

    private final @Nullable OperatingSystemMXBean system =
            ManagementFactory.getOperatingSystemMXBean() instanceof OperatingSystemMXBean bean ? bean : null;
    private final @Nullable String postmaster;

    /**
     * CPU times in nanoseconds.
     *
     * @param server null if the time of the server cannot be measured
     */
    public record Used(long client, @Nullable Long server) {

        public Used since(Used before) {
            return new Used(
                    client - before.client,
                    server == null || before.server == null ? null : (Long) (server - before.server));
        }
    }

    /** @param backend the process id of any backend of the server */
    public Cpu(int backend) {
        postmaster = stat(PROC.resolve(String.valueOf(backend)))
                .map(fields -> fields[PARENT])
                .orElse(null);
    }

    public boolean seesServer() {
        return postmaster != null;
    }

    public Used now() {
        return new Used(system == null ? 0 : system.getProcessCpuTime(), server());
    }

    private @Nullable Long server() {
        if (postmaster == null) {
            return null;
        }
        long ticks = 0;
        try (DirectoryStream<Path> processes = Files.newDirectoryStream(PROC, "[0-9]*")) {
            for (Path process : processes) {
                boolean parent = process.endsWith(postmaster);
                String[] fields = stat(process).orElse(null);
                if (fields != null && (parent || fields[PARENT].equals(postmaster))) {
                    // utime and stime; for the postmaster also the times of its children that have ended
                    for (int field = UTIME; field <= (parent ? CSTIME : UTIME + 1); field++) {
                        ticks += Long.parseLong(fields[field]);
                    }
                }
            }
        } catch (IOException e) {
            return null;
        }
        return ticks * NANOS_PER_TICK;
    }

    /** Returns the fields after the process name, which is in parentheses and may contain any character. */
    private static Optional<String[]> stat(Path process) {
        try {
            String line = Files.readString(process.resolve("stat"));
            return Optional.of(line.substring(line.lastIndexOf(')') + 2).split(" "));
        } catch (IOException e) {
            return Optional.empty();
        }
    }
}
