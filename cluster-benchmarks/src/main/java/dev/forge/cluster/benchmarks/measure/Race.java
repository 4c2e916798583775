// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.benchmarks.measure;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * Measures one drain of a number of jobs. The measurement begins when the first job runs, so that start-up time does not count,
 * and ends when the last job is finished in the database.
 */
public final class Race {

    private final int jobs;
    private final Cpu cpu;
    private final CountDownLatch left;
    private final AtomicLong runs = new AtomicLong();
    private volatile boolean begun;
    private long startNanos;
    private Cpu.@Nullable Used startCpu;

    /** Throughput and CPU time per job of a drain. */
    public record Result(
            double perSecond, double clientMicros, @Nullable Double serverMicros) {}

    public Race(int jobs, Cpu cpu) {
        this.jobs = jobs;
        this.cpu = cpu;
        this.left = new CountDownLatch(jobs);
    }

    public int jobs() {
        return jobs;
    }

    /** Records one call of a handler. */
    public void ran() {
        begin();
        runs.incrementAndGet();
        left.countDown();
    }

    public void begin() {
        if (!begun) {
            beginOnce();
        }
    }

    private synchronized void beginOnce() {
        if (!begun) {
            startCpu = cpu.now();
            startNanos = System.nanoTime();
            begun = true;
        }
    }

    /** Waits until every job has run. */
    public void await() {
        try {
            left.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Ends the measurement. Call it when every job is finished in the database. */
    public synchronized Result finished() {
        long nanos = System.nanoTime() - startNanos;
        if (startCpu == null) {
            throw new IllegalStateException("No job has run");
        }
        Cpu.Used used = cpu.now().since(startCpu);
        Long server = used.server();
        return new Result(
                jobs / (nanos / 1e9),
                used.client() / 1e3 / jobs,
                server == null ? null : (Double) (server / 1e3 / jobs));
    }

    public long runs() {
        return runs.get();
    }
}
