package dev.forge.cluster.autoconfigure;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The share of the processors that this process has used since the last measurement, from 0 to 1. It is measured here and
 * not asked of {@code getProcessCpuLoad}, which counts from its last call by anybody: two calls in a row return 0, and so
 * does one right after a meter's. Of the processors that the JVM may use, so a container's limit counts.
 */
final class ProcessCpu {

    /** A shorter time says nothing: the kernel accounts in ticks. */
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

    /** The load since the last call; that of the last call if it was a moment ago; null if it is not known (yet). */
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
