package dev.forge.cluster.autoconfigure.job;

import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobListener;
import dev.forge.cluster.job.JobStatus;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.core.task.TaskRejectedException;
import org.springframework.scheduling.concurrent.ThreadPoolTaskExecutor;
import org.springframework.util.function.SingletonSupplier;

/**
 * Calls the listeners of the application. A listener that fails changes nothing.
 *
 * <p>Permanent failures are reported on a thread of their own, because the thread that records them records the results of all
 * jobs. At most {@value #CAPACITY} wait there; then the recording thread waits for the listeners.
 */
public final class JobListeners implements JobMonitor, DisposableBean {

    private static final Logger log = GuardedLogger.of(JobListeners.class);

    private static final int CAPACITY = 1_000;

    private final Supplier<List<JobListener>> listeners;
    private final ThreadPoolTaskExecutor failures = new ThreadPoolTaskExecutor();

    /** @param listeners called when the first job runs, so that listeners may depend on {@code Jobs} */
    public JobListeners(Supplier<List<JobListener>> listeners) {
        this.listeners = SingletonSupplier.of(listeners);
        failures.setThreadNamePrefix("forge-cluster-job-listeners-");
        failures.setCorePoolSize(1);
        failures.setMaxPoolSize(1);
        failures.setKeepAliveSeconds(10);
        failures.setAllowCoreThreadTimeOut(true);
        failures.setQueueCapacity(CAPACITY);
        failures.setRejectedExecutionHandler(new ThreadPoolExecutor.CallerRunsPolicy());
        failures.setDaemon(true);
        failures.setWaitForTasksToCompleteOnShutdown(true);
        failures.setAwaitTerminationSeconds(5);
        failures.initialize();
    }

    @Override
    public void destroy() {
        failures.shutdown();
    }

    @Override
    public void observe(Attempt attempt, Runnable run) {
        JobContext job = attempt.job();
        callAll(job.id(), job.name(), listener -> listener.beforeAttempt(job));
        try {
            run.run();
        } finally {
            var outcome = new JobAttemptOutcome(attempt.outcome(), attempt.failure());
            callAll(job.id(), job.name(), listener -> listener.afterAttempt(job, outcome));
        }
    }

    @Override
    public void failed(UUID id, String name, JobStatus status, String error) {
        if (listeners.get().isEmpty()) {
            return;
        }
        Runnable calls = () -> callAll(id, name, listener -> listener.failedPermanently(id, name, status, error));
        try {
            failures.execute(calls);
        } catch (TaskRejectedException e) {
            // The application is closed while the node records its last results.
            calls.run();
        }
    }

    private void callAll(UUID id, String name, Consumer<JobListener> call) {
        for (JobListener listener : listeners.get()) {
            try {
                call.accept(listener);
            } catch (RuntimeException | Error e) {
                log.warn(
                        "Job {} ({}): listener {} failed; the job is not affected",
                        name,
                        id,
                        listener.getClass().getName(),
                        ErrorText.loggable(e));
            }
        }
    }
}
