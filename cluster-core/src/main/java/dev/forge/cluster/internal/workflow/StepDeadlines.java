// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.internal.workflow.StepExecutor.StepTimeout;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import dev.forge.cluster.workflow.Step;
import java.time.Duration;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** Interrupts steps that exceed their timeout; a loop calls {@link #interruptOverdue} several times a second. */
final class StepDeadlines {

    private final LongSupplier nanos;
    private final StuckHandlers stuck;
    private final JobMonitor monitor;
    private final Set<Deadline> pending = ConcurrentHashMap.newKeySet();

    /** @param stuck receives the steps that have a timeout */
    StepDeadlines(LongSupplier nanos, StuckHandlers stuck, JobMonitor monitor) {
        this.nanos = nanos;
        this.stuck = stuck;
        this.monitor = monitor;
    }

    /** Starts the deadline of a step that this thread executes; it ends when it is closed. */
    Deadline begin(Claim job, Step<?> step) {
        var deadline = new Deadline(Thread.currentThread(), job, step, nanos.getAsLong());
        if (step.timeout() != null) {
            pending.add(deadline);
            stuck.began(deadline);
        }
        return deadline;
    }

    void interruptOverdue() {
        long now = nanos.getAsLong();
        pending.forEach(deadline -> deadline.check(now));
    }

    /** The deadline of one attempt. */
    final class Deadline implements AutoCloseable, StuckHandlers.Handler {

        private final Claim job;
        private final Step<?> step;
        private final long began;
        private @Nullable Thread thread;
        private boolean passed;

        private Deadline(Thread thread, Claim job, Step<?> step, long began) {
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

        /** Throws if the deadline has passed: the attempt has failed then, whatever the step returned. */
        void requireInTime() {
            long now = nanos.getAsLong();
            check(now);
            if (hasPassed()) {
                throw new StepTimeout(
                        "The step exceeded its timeout of %s: it returned after %d ms, and its result was discarded"
                                .formatted(
                                        PlainText.duration(Objects.requireNonNull(step.timeout())),
                                        (now - began) / 1_000_000),
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
            String version = WorkflowVersion.ofJob(job.name())
                    .map(WorkflowVersion::label)
                    .orElse(job.name());
            return "Workflow %s run %s, step '%s'".formatted(version, job.id(), step.name());
        }

        @Override
        public @Nullable String stopCause() {
            return hasPassed()
                    ? "the attempt exceeded its timeout of "
                            + PlainText.duration(Objects.requireNonNull(step.timeout()))
                    : null;
        }

        @Override
        public String consequence() {
            return "It occupies a slot, and the step is not retried before it returns; its result will be discarded.";
        }

        @Override
        public synchronized @Nullable Thread thread() {
            return thread;
        }

        /** Returns how long the code of the step has run if it still runs and has exceeded its timeout; otherwise empty. */
        OptionalLong overdueNanos() {
            Duration timeout = step.timeout();
            long ran = nanos.getAsLong() - began;
            return thread() == null || timeout == null || ran <= timeout.toNanos()
                    ? OptionalLong.empty()
                    : OptionalLong.of(ran);
        }

        /** Returns whether the step was interrupted. */
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
