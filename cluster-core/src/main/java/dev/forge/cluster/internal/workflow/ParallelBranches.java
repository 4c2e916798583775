// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.workflow;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.workflow.StepExecutor.StepRuntime;
import dev.forge.cluster.internal.workflow.store.WorkflowVersion;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;

/** Runs steps in parallel, the last one on the thread of the method. All of them end before any result counts. */
final class ParallelBranches {

    private static final Logger log = GuardedLogger.of(ParallelBranches.class);

    private final StepRuntime runtime;
    private final WorkflowVersion version;
    private final Claim job;
    private final RunRecorder recorder;

    ParallelBranches(StepRuntime runtime, WorkflowVersion version, Claim job, RunRecorder recorder) {
        this.runtime = runtime;
        this.version = version;
        this.job = job;
        this.recorder = recorder;
    }

    /**
     * Runs tasks and returns their results.
     *
     * @param onException makes the result of a task that throws
     * @throws WorkflowSuspension if the job has to stop, or a task throws one
     */
    <R> List<R> run(List<Callable<R>> tasks, Function<Throwable, R> onException) {
        List<Branch<R>> branches = tasks.stream().map(Branch::new).toList();
        List<Branch<R>> onThisThread = new ArrayList<>();
        for (int i = 0; i < branches.size(); i++) {
            boolean last = i == branches.size() - 1;
            if (last || !startThread(branches.get(i))) {
                onThisThread.add(branches.get(i));
            }
        }
        onThisThread.forEach(Branch::run);
        boolean interrupted = job.stopReason() != null;
        for (Branch<R> branch : branches) {
            if (interrupted) {
                branches.forEach(Branch::interrupt);
            }
            interrupted |= branch.awaitEnd(() -> branches.forEach(Branch::interrupt));
        }
        if (interrupted) {
            throw recorder.suspendToStop();
        }
        return branches.stream().map(branch -> branch.result(onException)).toList();
    }

    private boolean startThread(Branch<?> branch) {
        Map<String, String> mdc = MDC.getCopyOfContextMap();
        Runnable carried = runtime.monitor().carried(branch);
        try {
            runtime.branches().execute(() -> {
                if (mdc != null) {
                    MDC.setContextMap(mdc);
                }
                carried.run();
            });
            return true;
        } catch (RuntimeException | OutOfMemoryError e) {
            // Not thrown: branches that run already must be awaited.
            log.warn(
                    "Workflow {} run {}: could not create a thread for a parallel step; it runs after the others, on the thread of the run",
                    version.label(),
                    job.id(),
                    e);
            return false;
        }
    }

    private final class Branch<R> implements Runnable {

        private final Callable<R> task;
        private final CountDownLatch ended = new CountDownLatch(1);
        private @Nullable Thread thread;
        private @Nullable R result;
        private @Nullable Throwable thrown;

        Branch(Callable<R> task) {
            this.task = task;
        }

        @Override
        public void run() {
            synchronized (this) {
                thread = Thread.currentThread();
            }
            try {
                recorder.requireNotStopping();
                result = task.call();
            } catch (Throwable e) {
                thrown = e;
            } finally {
                synchronized (this) {
                    thread = null;
                }
                ended.countDown();
            }
        }

        synchronized void interrupt() {
            if (thread != null) {
                thread.interrupt();
            }
        }

        /** Waits without being interruptible; returns whether this thread was interrupted, of which the others are told. */
        boolean awaitEnd(Runnable interruptOthers) {
            boolean interrupted = false;
            while (ended.getCount() > 0) {
                try {
                    ended.await();
                } catch (InterruptedException e) {
                    interrupted = true;
                    interruptOthers.run();
                }
            }
            return interrupted;
        }

        R result(Function<Throwable, R> onException) {
            if (thrown instanceof WorkflowSuspension suspension) {
                throw suspension;
            }
            R returned = result;
            return returned != null ? returned : onException.apply(Objects.requireNonNull(thrown));
        }
    }
}
