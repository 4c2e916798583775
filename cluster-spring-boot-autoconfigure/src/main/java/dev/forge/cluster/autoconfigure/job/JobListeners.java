// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.observe.JobListener;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.core.task.TaskRejectedException;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;
import org.springframework.util.function.SingletonSupplier;

/**
 * Calls the listeners of the application. A listener that fails changes nothing.
 *
 * <p>Permanent failures are reported on a thread of their own: those who record them also record the results of other jobs, claim
 * jobs and watch other nodes. At most {@value #CAPACITY} wait there; further ones are not reported, and the log says how many.
 */
public final class JobListeners implements JobMonitor, SmartInitializingSingleton, DisposableBean {

    private static final Logger log = GuardedLogger.of(JobListeners.class);

    private static final int CAPACITY = 1_000;

    private final RowLog rows = new RowLog();
    private final Supplier<List<JobListener>> listeners;
    private final ThreadPoolTaskExecutor failures = new ThreadPoolTaskExecutor();
    private final AtomicLong dropped = new AtomicLong();

    /** @param listeners called when all beans exist, so that listeners may depend on {@code Jobs} */
    public JobListeners(Supplier<List<JobListener>> listeners) {
        this.listeners = SingletonSupplier.of(listeners);
        failures.setThreadNamePrefix("forge-cluster-job-listeners-");
        failures.setCorePoolSize(1);
        failures.setMaxPoolSize(1);
        failures.setKeepAliveSeconds(10);
        failures.setAllowCoreThreadTimeOut(true);
        failures.setQueueCapacity(CAPACITY);
        failures.setDaemon(true);
        failures.setWaitForTasksToCompleteOnShutdown(true);
        failures.setAwaitTerminationSeconds(5);
        failures.initialize();
    }

    /** A listener that cannot be created fails the start, not the first job. */
    @Override
    public void afterSingletonsInstantiated() {
        log.debug("Listeners of jobs: {}", listeners.get().size());
    }

    @Override
    public void destroy() {
        failures.shutdown();
        int waiting = failures.getThreadPoolExecutor().getQueue().size();
        if (waiting > 0) {
            log.warn("{} permanent failures of jobs were not reported to slow listeners before the shutdown", waiting);
        }
    }

    @Override
    public void observe(Attempt attempt, Runnable run) {
        before(attempt.job());
        try {
            run.run();
        } finally {
            after(attempt);
        }
    }

    @Override
    public void observeTogether(List<? extends Attempt> attempts, Runnable run) {
        attempts.forEach(attempt -> before(attempt.job()));
        try {
            run.run();
        } finally {
            attempts.forEach(this::after);
        }
    }

    private void before(JobContext job) {
        callAll(job.id(), job.name(), listener -> listener.beforeAttempt(job));
    }

    private void after(Attempt attempt) {
        JobContext job = attempt.job();
        var outcome = new JobAttemptOutcome(attempt.outcome(), attempt.failure());
        callAll(job.id(), job.name(), listener -> listener.afterAttempt(job, outcome));
    }

    @Override
    public void failed(UUID id, String name, JobStatus status, String error) {
        if (listeners.get().isEmpty()) {
            return;
        }
        try {
            failures.execute(() -> {
                callAll(id, name, listener -> listener.failedPermanently(id, name, status, error));
                if (failures.getThreadPoolExecutor().getQueue().isEmpty()) {
                    reportDropped();
                }
            });
        } catch (TaskRejectedException e) {
            if (dropped.getAndIncrement() == 0) {
                log.warn(
                        "Job {} ({}): its permanent failure is not reported, because {} others wait for slow listeners, or the"
                                + " application is closed",
                        name,
                        id,
                        CAPACITY);
            }
        }
    }

    private void reportDropped() {
        long number = dropped.getAndSet(0);
        if (number > 0) {
            log.warn("{} permanent failures of jobs were not reported to slow listeners", number);
        }
    }

    private void callAll(UUID id, String name, Consumer<JobListener> call) {
        for (JobListener listener : listeners.get()) {
            try {
                call.accept(listener);
            } catch (Throwable e) {
                rows.warn(
                        log,
                        "Job %s: listener failed".formatted(name),
                        "Job {} ({}): listener {} failed; the job is not affected",
                        name,
                        id,
                        listener.getClass().getName(),
                        ErrorText.loggable(e));
            }
        }
    }
}
