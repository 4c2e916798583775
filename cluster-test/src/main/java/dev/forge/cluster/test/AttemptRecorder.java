// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.observe.BulkJobInterceptor;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** Sees each attempt of a job on a tested node: keeps the exceptions of handlers, and lets the node die after one. */
public final class AttemptRecorder implements BulkJobInterceptor {

    private final Map<UUID, Throwable> failures = new ConcurrentHashMap<>();
    private final Set<String> crashAfter = ConcurrentHashMap.newKeySet();
    private volatile Runnable crash = () -> {};

    /** Creates a recorder that has seen nothing. */
    public AttemptRecorder() {}

    /** @param action ends all claims of the node, as its death would */
    void onCrash(Runnable action) {
        crash = action;
    }

    void crashAfter(String job) {
        crashAfter.add(job);
    }

    void forget() {
        failures.clear();
        crashAfter.clear();
    }

    @Nullable
    Throwable takeFailure(UUID job) {
        return failures.remove(job);
    }

    Set<String> unused() {
        return Set.copyOf(crashAfter);
    }

    @Override
    public @Nullable Object intercept(JobContext job, Handler handler) throws Throwable {
        Object result;
        try {
            result = handler.proceed();
        } catch (Throwable e) {
            failures.put(job.id(), e);
            throw e;
        }
        crashIfWanted(job);
        return result;
    }

    @Override
    public @Nullable Object interceptAll(List<JobContext> jobs, Handler handler) throws Throwable {
        Object result = handler.proceed();
        crashIfWanted(jobs.get(0));
        return result;
    }

    private void crashIfWanted(JobContext job) {
        if (crashAfter.remove(job.name())) {
            crash.run();
            // A transaction of the handler would end with the connection of the node.
            throw new IllegalStateException("the node of the test has died");
        }
    }
}
