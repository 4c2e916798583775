// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Measures the share of the available processors that this process has used since the last measurement, from 0 to 1.
 * {@code getProcessCpuLoad} is not used, because it measures since the last call by any caller: of two calls in a row, such as one
 * after a meter's, the second returns 0. Available processors are those of the JVM, so the limit of a container counts.
 */
final class ProcessCpu {

    /** Shorter intervals are meaningless: the kernel accounts in ticks. */
    private static final Duration SHORTEST = Duration.ofMillis(100);

    private final LongSupplier cpuNanos;
    private final LongSupplier nanos;
    private long lastCpu;
    private long lastTime;
    private @Nullable Double last;

    ProcessCpu() {
        this(cpuTime(), System::nanoTime);
    }

    ProcessCpu(LongSupplier cpuNanos, LongSupplier nanos) {
        this.cpuNanos = cpuNanos;
        this.nanos = nanos;
        this.lastCpu = cpuNanos.getAsLong();
        this.lastTime = nanos.getAsLong();
    }

    private static LongSupplier cpuTime() {
        return ManagementFactory.getOperatingSystemMXBean() instanceof OperatingSystemMXBean system
                ? system::getProcessCpuTime
                : () -> -1;
    }

    /** Returns the load since the last call, or the last result if that call was a moment ago; null if unknown. */
    synchronized @Nullable Double load() {
        long time = nanos.getAsLong();
        if (time - lastTime < SHORTEST.toNanos()) {
            return last;
        }
        long cpu = cpuNanos.getAsLong();
        if (cpu >= 0 && lastCpu >= 0) {
            double available = (double) (time - lastTime) * Runtime.getRuntime().availableProcessors();
            last = Math.min(1, Math.max(0, (cpu - lastCpu) / available));
        }
        lastCpu = cpu;
        lastTime = time;
        return last;
    }
}
