// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.run.HandlerCalls.Payload;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.job.observe.JobInterceptor;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;

/**
 * Runs what an executor has gathered for one slot: one job, or several of a handler that takes many at a time. If a call for several
 * jobs fails for whatever reason, they run one by one, so that a bad one does not fail the others; only then an attempt counts.
 */
final class JobCalls {

    private static final Logger log = GuardedLogger.of(JobCalls.class);

    private final WorkerNode node;
    private final Claims claims;
    private final HandlerCalls calls;
    /** Handlers whose jobs run one by one because of an interceptor. */
    private final Set<String> reported = ConcurrentHashMap.newKeySet();

    JobCalls(WorkerNode node, Claims claims, HandlerCalls calls) {
        this.node = node;
        this.claims = claims;
        this.calls = calls;
    }

    /** Runs the jobs of one call on the current thread. */
    void run(List<Attempt> jobs) {
        if (jobs.size() == 1) {
            runAlone(jobs.get(0));
            return;
        }
        var apart = new ArrayList<Attempt>();
        List<Payload> common = mayRunTogether(jobs) ? readable(jobs, apart) : List.of();
        if (common.size() < 2) {
            apart.clear();
            apart.addAll(jobs);
        } else {
            List<Payload> started =
                    common.stream().filter(one -> start(one.attempt(), true)).toList();
            if (!started.isEmpty() && !calls.call(started)) {
                started.forEach(one -> one.attempt().isolate());
                started.forEach(one -> apart.add(one.attempt()));
            }
        }
        runApart(apart);
    }

    private void runAlone(Attempt attempt) {
        // If it does not start, the thread that withdrew or stopped it ends it.
        if (start(attempt, false)) {
            calls.call(List.of(new Payload(attempt, null)));
        }
    }

    private boolean start(Attempt attempt, boolean common) {
        if (!node.isTrusted() || !claims.isHeld(attempt)) {
            claims.lose(attempt, "its lease was over before it could start");
            return false;
        }
        return attempt.start(node.nanos(), common);
    }

    private boolean mayRunTogether(List<Attempt> jobs) {
        JobInterceptor single;
        try {
            single = calls.interceptors().ofSingleJobs();
        } catch (Throwable e) {
            // A bean cannot be created: each job fails with that reason.
            return false;
        }
        String name = jobs.get(0).name();
        if (single != null && reported.add(name)) {
            log.warn(
                    "Job {}: its jobs run one by one, because the interceptor {} does not implement BulkJobInterceptor",
                    name,
                    single.getClass().getName());
        }
        return single == null;
    }

    /**
     * Reads the payloads. Jobs that run apart are those with unreadable payloads, those that failed or made a node crash before, because
     * they may fail their neighbours once more, and those that another node id has claimed.
     */
    private List<Payload> readable(List<Attempt> jobs, List<Attempt> apart) {
        Attempt first = jobs.get(0);
        var readable = new ArrayList<Payload>();
        for (Attempt attempt : jobs) {
            boolean isSuspect = attempt.attempt() > 1 || attempt.claimed().recoveries() > 0;
            if (isSuspect || !attempt.node().equals(first.node())) {
                apart.add(attempt);
                continue;
            }
            try {
                readable.add(new Payload(attempt, calls.payload(attempt)));
            } catch (Throwable e) {
                // Errors and checked exceptions of a codec, too: nobody else would run the jobs of this call.
                apart.add(attempt);
            }
        }
        return readable;
    }

    /** Runs jobs one by one, and returns those that are left when the node drains or no transaction can begin. */
    private void runApart(List<Attempt> apart) {
        // Otherwise the sweeper would take those that wait for minutes for jobs that were claimed and forgotten.
        apart.forEach(attempt -> attempt.waitInSlot(node.nanos()));
        for (int i = 0; i < apart.size(); i++) {
            Attempt next = apart.get(i);
            boolean isUnable = i > 0 && next.handler().isTransactional() && calls.isUnable();
            if (isUnable || (next.stopRequested() && !next.isLost())) {
                claims.withdraw(apart.subList(i, apart.size()));
                return;
            }
            try {
                runAlone(next);
            } catch (RuntimeException | Error e) {
                log.error("Job {} ({}): its attempt failed in an unexpected way", next.name(), next.id(), e);
            }
        }
    }
}
