// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobHandlers;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.observe.BulkJobInterceptor;
import dev.forge.cluster.job.observe.JobInterceptor;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/** Calls handlers through the interceptors of the application. */
final class InterceptedHandlers {

    private static final Logger log = GuardedLogger.of(InterceptedHandlers.class);

    private final RowLog rows = new RowLog();
    private final JobHandlers handlers;
    private final Supplier<List<JobInterceptor>> interceptors;

    /** @param interceptors the outermost first */
    InterceptedHandlers(JobHandlers handlers, Supplier<List<JobInterceptor>> interceptors) {
        this.handlers = handlers;
        this.interceptors = interceptors;
    }

    /** Calls the handler of a job; throws what it or an interceptor throws. */
    @Nullable
    Object call(@Nullable Object payload, Attempt running) throws Throwable {
        JobHandler.Code code = running.handler().target().code();
        List<JobInterceptor> all = interceptors.get();
        if (all.isEmpty()) {
            return code.run(payload, running);
        }
        var handler = new Handler(() -> code.run(payload, running), "the handler");
        JobInterceptor.Handler next = handler;
        for (int i = all.size() - 1; i >= 0; i--) {
            JobInterceptor interceptor = all.get(i);
            JobInterceptor.Handler inner = next;
            next = new Handler(
                    () -> interceptor.intercept(running, inner),
                    interceptor.getClass().getName());
        }
        return handlers.ownerOf(running.name()).isPresent() ? callOwned(next, handler, running) : next.proceed();
    }

    /** Returns an interceptor that can only surround the call of a single job; null if there is none. */
    @Nullable
    JobInterceptor ofSingleJobs() {
        return interceptors.get().stream()
                .filter(interceptor -> !(interceptor instanceof BulkJobInterceptor))
                .findFirst()
                .orElse(null);
    }

    /** Calls the handler of several jobs once. All interceptors must be able to surround such a call. */
    @Nullable
    Object callTogether(List<?> payloads, List<Attempt> runnings) throws Throwable {
        JobHandler.BulkCode code = Objects.requireNonNull(
                        runnings.get(0).handler().target().bulk())
                .code();
        List<JobContext> jobs = List.copyOf(runnings);
        List<JobInterceptor> all = interceptors.get();
        JobInterceptor.Handler next = new Handler(() -> code.run(payloads, jobs), "the handler");
        for (int i = all.size() - 1; i >= 0; i--) {
            var interceptor = (BulkJobInterceptor) all.get(i);
            JobInterceptor.Handler inner = next;
            next = new Handler(
                    () -> interceptor.interceptAll(jobs, inner),
                    interceptor.getClass().getName());
        }
        return next.proceed();
    }

    /**
     * Calls the handler of a job that another capability has enqueued for itself. What this handler returns or throws controls
     * work that is recorded elsewhere, so that an interceptor cannot replace it.
     */
    private @Nullable Object callOwned(JobInterceptor.Handler chain, Handler handler, Attempt running)
            throws Throwable {
        try {
            chain.proceed();
        } catch (Throwable e) {
            if (!handler.called) {
                throw e;
            }
            if (e != handler.failure) {
                rows.warn(
                        log,
                        "Job %s: a JobInterceptor failed".formatted(running.name()),
                        "Job {} ({}): a JobInterceptor failed after the handler; the outcome of the handler counts",
                        running.name(),
                        running.id(),
                        ErrorText.loggable(e));
            }
        }
        if (!handler.called) {
            throw new IllegalStateException(
                    "a JobInterceptor did not call the handler of '%s', which carries work of the cluster; skip jobs by their name"
                            .formatted(running.name()));
        }
        if (handler.failure != null) {
            throw handler.failure;
        }
        return handler.result;
    }

    /** Calls an interceptor or the handler, once. */
    private static final class Handler implements JobInterceptor.Handler {

        private final JobInterceptor.Handler target;
        private final String description;
        private boolean called;
        private @Nullable Object result;
        private @Nullable Throwable failure;

        Handler(JobInterceptor.Handler target, String description) {
            this.target = target;
            this.description = description;
        }

        @Override
        public @Nullable Object proceed() throws Throwable {
            if (called) {
                throw new IllegalStateException(
                        "proceed() was called twice: %s runs once per attempt".formatted(description));
            }
            called = true;
            try {
                result = target.proceed();
                return result;
            } catch (Throwable e) {
                failure = e;
                throw e;
            }
        }
    }
}
