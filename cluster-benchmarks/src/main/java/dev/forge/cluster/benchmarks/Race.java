package dev.forge.cluster.benchmarks;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * One drain of a number of jobs. It begins when the first job runs, so that nobody is charged for starting up, and ends
 * when the last one is finished in the database.
 */
final class Race {

    private final int jobs;
    private final Cpu cpu;
    private final CountDownLatch left;
    private final AtomicLong runs = new AtomicLong();
    private volatile boolean begun;
    private long startNanos;
    private Cpu.@Nullable Used startCpu;

    /** What a drain took. */
    record Result(
            double perSecond, double clientMicros, @Nullable Double serverMicros) {}

    Race(int jobs, Cpu cpu) {
        this.jobs = jobs;
        this.cpu = cpu;
        this.left = new CountDownLatch(jobs);
    }

    int jobs() {
        return jobs;
    }

    /** A handler has been called. */
    void ran() {
        begin();
        runs.incrementAndGet();
        left.countDown();
    }

    void begin() {
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

    /** Returns when every job has run. */
    void await() {
        try {
            left.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Every job is finished. */
    synchronized Result finished() {
        long nanos = System.nanoTime() - startNanos;
        if (startCpu == null) {
            throw new IllegalStateException("nothing has run");
        }
        Cpu.Used used = cpu.now().since(startCpu);
        Long server = used.server();
        return new Result(
                jobs / (nanos / 1e9),
                used.client() / 1e3 / jobs,
                server == null ? null : (Double) (server / 1e3 / jobs));
    }

    long runs() {
        return runs.get();
    }
}
