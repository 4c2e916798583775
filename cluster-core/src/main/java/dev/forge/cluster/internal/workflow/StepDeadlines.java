package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.JobMonitor;
import dev.forge.cluster.internal.job.RunningJob;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.internal.workflow.WorkflowSteps.StepTimeout;
import dev.forge.cluster.workflow.Step;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** Interrupts steps that take too long; {@link #watch} does, several times a second. */
final class StepDeadlines {

    private final LongSupplier nanos;
    private final StuckHandlers stuck;
    private final JobMonitor monitor;
    private final Set<Deadline> pending = ConcurrentHashMap.newKeySet();

    /** @param stuck hears of steps that have a timeout */
    StepDeadlines(LongSupplier nanos, StuckHandlers stuck, JobMonitor monitor) {
        this.nanos = nanos;
        this.stuck = stuck;
        this.monitor = monitor;
    }

    /** From now on, for this thread; until it is closed. */
    Deadline begin(RunningJob job, Step<?> step) {
        var deadline = new Deadline(Thread.currentThread(), job, step, nanos.getAsLong());
        if (step.timeout() != null) {
            pending.add(deadline);
            stuck.began(deadline);
        }
        return deadline;
    }

    void watch() {
        long now = nanos.getAsLong();
        pending.forEach(deadline -> deadline.check(now));
    }

    /** That of one attempt. */
    final class Deadline implements AutoCloseable, StuckHandlers.Handler {

        private final RunningJob job;
        private final Step<?> step;
        private final long began;
        private @Nullable Thread thread;
        private boolean passed;

        private Deadline(Thread thread, RunningJob job, Step<?> step, long began) {
            this.thread = thread;
            this.job = job;
            this.step = step;
            this.began = began;
        }

        private void check(long now) {
            synchronized (this) {
                Duration timeout = step.timeout();
                if (thread == null || passed || timeout == null || now - began < timeout.toNanos()) {
                    return;
                }
                passed = true;
                thread.interrupt();
            }
            monitor.timedOut(job.name());
        }

        /** Once the deadline has passed the attempt has failed, whatever the step returns later. */
        void requireInTime() {
            long now = nanos.getAsLong();
            check(now);
            if (hasPassed()) {
                throw new StepTimeout(
                        "it took longer than %s: it returned after %d ms, and its result was discarded"
                                .formatted(step.timeout(), (now - began) / 1_000_000),
                        null);
            }
        }

        @Override
        public String name() {
            return job.name();
        }

        @Override
        public UUID id() {
            return job.id();
        }

        @Override
        public String label() {
            return "Workflow %s run %s, step '%s'".formatted(job.name(), job.id(), step.name());
        }

        @Override
        public @Nullable String stopCause() {
            return hasPassed() ? "the attempt exceeded its timeout of " + step.timeout() : null;
        }

        @Override
        public String consequence() {
            return "It occupies a slot, and the step is not retried before it returns; its result will be discarded.";
        }

        @Override
        public synchronized @Nullable Thread thread() {
            return thread;
        }

        /** How long the step's own code has run if that is longer than it may, and it still runs; otherwise nothing. */
        OptionalLong overdueNanos() {
            Duration timeout = step.timeout();
            long ran = nanos.getAsLong() - began;
            return thread() == null || timeout == null || ran <= timeout.toNanos()
                    ? OptionalLong.empty()
                    : OptionalLong.of(ran);
        }

        /** Whether the step was interrupted. */
        synchronized boolean hasPassed() {
            return passed;
        }

        @Override
        public void close() {
            pending.remove(this);
            stuck.ended(this);
            synchronized (this) {
                thread = null;
            }
        }
    }
}
