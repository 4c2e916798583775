package dev.forge.cluster.internal.engine;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** Interrupts steps that take too long; {@link #watch} does, several times a second. */
final class StepDeadlines {

    private final LongSupplier nanos;
    private final Set<Deadline> pending = ConcurrentHashMap.newKeySet();

    StepDeadlines(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /** From now on, for this thread; until it is closed. */
    Deadline begin(@Nullable Duration timeout) {
        var deadline =
                new Deadline(Thread.currentThread(), timeout == null ? 0 : nanos.getAsLong() + timeout.toNanos());
        if (timeout != null) {
            pending.add(deadline);
        }
        return deadline;
    }

    void watch() {
        long now = nanos.getAsLong();
        pending.forEach(deadline -> deadline.check(now));
    }

    /** That of one attempt. */
    final class Deadline implements AutoCloseable {

        private final long at;
        private @Nullable Thread thread;
        private boolean passed;

        private Deadline(Thread thread, long at) {
            this.thread = thread;
            this.at = at;
        }

        private synchronized void check(long now) {
            if (thread != null && !passed && now - at >= 0) {
                passed = true;
                thread.interrupt();
            }
        }

        /** Whether the step was interrupted. */
        synchronized boolean hasPassed() {
            return passed;
        }

        @Override
        public void close() {
            pending.remove(this);
            synchronized (this) {
                thread = null;
            }
        }
    }
}
