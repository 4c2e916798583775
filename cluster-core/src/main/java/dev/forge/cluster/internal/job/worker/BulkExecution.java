// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.store.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.worker.RunningJob.Stop;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.JobInterceptor;
import dev.forge.cluster.job.PermanentJobFailure;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;

/**
 * Runs several jobs with one call of their handler, and in one transaction if the handler declares one. If that fails for whatever
 * reason, the jobs run one by one, so that a bad one does not fail the others; only then an attempt counts as failed.
 */
final class BulkExecution {

    private static final Logger log = GuardedLogger.of(BulkExecution.class);

    /** When jobs are due again whose common transaction may or may not be committed. */
    private static final Duration UNCONFIRMED_PAUSE = Duration.ofSeconds(1);

    /** Handlers whose jobs run one by one because of an interceptor. */
    private final Set<String> reported = ConcurrentHashMap.newKeySet();

    private final Worker.Dependencies dependencies;
    private final Worker.NodeView node;
    private final Claims claims;
    private final Parts parts;
    private final Consumer<RunningJob> alone;

    /** What single and common attempts share. */
    record Parts(
            StuckHandlers stuck,
            InterceptedHandlers interceptors,
            AttemptResults results,
            TransactionalAttempt transactional,
            Finisher finisher) {}

    /** @param alone runs a job alone */
    BulkExecution(
            Worker.Dependencies dependencies,
            Worker.NodeView node,
            Claims claims,
            Parts parts,
            Consumer<RunningJob> alone) {
        this.dependencies = dependencies;
        this.node = node;
        this.claims = claims;
        this.parts = parts;
        this.alone = alone;
    }

    /** Runs jobs of the same handler on the current thread. */
    void run(List<RunningJob> jobs) {
        var apart = new ArrayList<RunningJob>();
        if (mayRunTogether(jobs)) {
            List<Item> items = readable(jobs, apart);
            List<Item> started = items.size() > 1 ? start(items) : List.of();
            if (started.isEmpty()) {
                items.forEach(item -> apart.add(item.running));
            } else if (!endTogether(started)) {
                started.forEach(item -> item.running.requeue());
                started.forEach(item -> apart.add(item.running));
            }
        } else {
            apart.addAll(jobs);
        }
        runApart(apart);
    }

    /** A job with its payload. */
    private record Item(RunningJob running, @Nullable Object payload) {}

    private boolean mayRunTogether(List<RunningJob> jobs) {
        JobInterceptor single;
        try {
            single = parts.interceptors.ofSingleJobs();
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
    private List<Item> readable(List<RunningJob> jobs, List<RunningJob> apart) {
        RunningJob first = jobs.get(0);
        Type type = first.handler().target().payloadType();
        var items = new ArrayList<Item>();
        for (RunningJob running : jobs) {
            boolean isSuspect = running.attempt() > 1 || running.claimed().recoveries() > 0;
            if (isSuspect || !running.node().equals(first.node())) {
                apart.add(running);
                continue;
            }
            try {
                items.add(new Item(
                        running,
                        type == null
                                ? null
                                : dependencies.json().read(running.claimed().payload(), type)));
            } catch (Throwable e) {
                // Errors and checked exceptions of a codec, too: nobody else would run the jobs of this call.
                apart.add(running);
            }
        }
        return items;
    }

    private List<Item> start(List<Item> items) {
        var started = new ArrayList<Item>();
        for (Item item : items) {
            if (!node.isTrusted() || !claims.isHeld(item.running)) {
                claims.lose(item.running, "its lease was over before it could start");
            } else if (item.running.startTogether(node.nanos())) {
                started.add(item);
            }
        }
        return started;
    }

    /** Runs jobs one by one, and returns those that are left when the node drains or no transaction can begin. */
    private void runApart(List<RunningJob> apart) {
        // Otherwise the sweeper would take those that wait for minutes for jobs that were claimed and forgotten.
        apart.forEach(running -> running.waitInSlot(node.nanos()));
        for (int i = 0; i < apart.size(); i++) {
            RunningJob next = apart.get(i);
            boolean isUnable = i > 0 && next.handler().isTransactional() && parts.transactional.isUnable();
            if (next.isAsked() || next.stopReason() == Stop.DRAIN || isUnable) {
                claims.giveBack(apart.subList(i, apart.size()).stream()
                        .filter(RunningJob::withdraw)
                        .toList());
                return;
            }
            try {
                alone.accept(next);
            } catch (RuntimeException | Error e) {
                log.error("Job {} ({}): its attempt failed in an unexpected way", next.name(), next.id(), e);
            }
        }
    }

    /** Makes a common attempt; false if the jobs must run one by one. */
    private boolean endTogether(List<Item> items) {
        List<RunningJob> started = items.stream().map(Item::running).toList();
        Map<String, String> before = MDC.getCopyOfContextMap();
        node.setLogContext();
        Mdc.put("forge.job.name", started.get(0).name());
        started.forEach(parts.stuck::began);
        try {
            return observed(items, started);
        } finally {
            started.forEach(parts.stuck::ended);
            Mdc.restore(before);
        }
    }

    private boolean observed(List<Item> items, List<RunningJob> started) {
        var attempt = new Attempt(items, started);
        try {
            started.stream()
                    .filter(RunningJob::reportStart)
                    .forEach(running -> dependencies.monitor().started(running.name(), JobExecution.waited(running)));
            dependencies.monitor().observeTogether(started, attempt);
        } catch (Throwable e) {
            // A failing observation must not decide how the jobs end.
            log.warn(
                    "Job {}: observation of a call for {} jobs failed; the jobs are not affected",
                    started.get(0).name(),
                    started.size(),
                    e);
        }
        if (!attempt.made) {
            attempt.run();
        }
        return attempt.ended;
    }

    private final class Attempt implements Runnable {

        private final List<Item> items;
        private final List<RunningJob> started;
        private boolean made;
        private boolean ended;

        Attempt(List<Item> items, List<RunningJob> started) {
            this.items = items;
            this.started = started;
        }

        @Override
        public void run() {
            made = true;
            try {
                attempt(items, started);
                ended = true;
            } catch (Throwable e) {
                started.forEach(RunningJob::returned);
                started.forEach(running -> running.ended(Kind.RETURNED, null));
                ended = returnedAfter(e);
            }
        }

        /** Returns all jobs if the database is the cause; otherwise false. */
        private boolean returnedAfter(Throwable failure) {
            if (failure instanceof TransactionalAttempt.Unbegun unbegun) {
                started.forEach(
                        running -> giveBack(running, parts.transactional.returnUnbegun(running, unbegun.failure())));
                return true;
            }
            if (failure instanceof TransactionalAttempt.InDoubt) {
                // They may be committed; if they are, they are not returned. The attempt counts, because one of the
                // jobs may be the cause: a transaction whose commit ends its session would be repeated for ever.
                String reason = ErrorText.storable(failure);
                started.forEach(
                        running -> giveBack(running, running.returnedAsSuspect(UNCONFIRMED_PAUSE, reason, false)));
                return true;
            }
            if (started.stream().noneMatch(running -> running.stopReason() == Stop.DRAIN)) {
                started.forEach(running -> running.ended(Kind.RETURNED, failure));
            }
            log.info(
                    "Job {}: a call for {} jobs failed, so they run one by one: {}{}",
                    started.get(0).name(),
                    started.size(),
                    whyStopped(),
                    ErrorText.brief(failure));
            return false;
        }

        /** Returns why the call was interrupted, for the log; empty if it was not. */
        private String whyStopped() {
            for (RunningJob running : started) {
                Stop reason = running.stopReason();
                if (reason != null) {
                    return switch (reason) {
                        case TIMEOUT ->
                            "it took longer than %s: "
                                    .formatted(PlainText.duration(Objects.requireNonNull(
                                            running.limits().timeout())));
                        case DRAIN -> "this node drains: ";
                        case LOST -> "job %s was cancelled or lost: ".formatted(running.id());
                    };
                }
            }
            return "";
        }
    }

    private void giveBack(RunningJob running, Finish finish) {
        running.ending();
        parts.finisher.add(running, finish);
    }

    private void attempt(List<Item> items, List<RunningJob> started) throws Throwable {
        JobHandler.Transaction transaction = started.get(0).handler().target().transaction();
        if (transaction != null) {
            parts.transactional.runTogether(
                    started,
                    transaction,
                    () -> finishes(started, JobHandler.Bulk.results(call(items, started), started.size())));
            started.forEach(parts.finisher::settleWritten);
            return;
        }
        Object returned = call(items, started);
        List<?> results;
        try {
            results = JobHandler.Bulk.results(returned, started.size());
        } catch (PermanentJobFailure e) {
            // The handler has done its work for all jobs; one by one it would do it again.
            started.forEach(running -> endAlone(running, () -> parts.results.ofFailure(running, e)));
            return;
        }
        for (int i = 0; i < started.size(); i++) {
            RunningJob running = started.get(i);
            Object result = results.isEmpty() ? null : results.get(i);
            endAlone(running, () -> parts.results.ofReturn(running, result));
        }
    }

    /** Ends a job without a transaction. Whatever fails here concerns this job only: the handler has done its work for all of them. */
    private void endAlone(RunningJob running, Supplier<Finish> end) {
        Finish finish;
        try {
            finish = end.get();
        } catch (Throwable e) {
            finish = parts.results.ofFailure(running, e);
        }
        running.returned();
        running.ending();
        if (running.stopReason() == Stop.LOST) {
            running.ended(Kind.LOST, null);
            claims.cancelOrLose(running, "another node had taken it before it ended");
        } else {
            parts.finisher.add(running, finish);
        }
    }

    private List<Finish> finishes(List<RunningJob> started, List<?> results) {
        var finishes = new ArrayList<Finish>(started.size());
        for (int i = 0; i < started.size(); i++) {
            finishes.add(parts.results.ofReturn(started.get(i), results.isEmpty() ? null : results.get(i)));
        }
        return finishes;
    }

    /** Calls the handler; returns what it returned, or the value of its future. */
    private @Nullable Object call(List<Item> items, List<RunningJob> started) throws Throwable {
        var payloads = new ArrayList<@Nullable Object>(items.size());
        items.forEach(item -> payloads.add(item.payload));
        Object returned = parts.interceptors.callTogether(payloads, started);
        Object result = started.get(0).handler().isTransactional()
                ? AsyncResults.requireFinished(returned)
                : AsyncResults.await(returned);
        started.forEach(this::requireInTime);
        return result;
    }

    private void requireInTime(RunningJob running) {
        Duration timeout = running.limits().timeout();
        if (timeout != null && node.nanos() - running.startedAt() > timeout.toNanos()) {
            throw new IllegalStateException("the call took longer than " + timeout);
        }
    }
}
