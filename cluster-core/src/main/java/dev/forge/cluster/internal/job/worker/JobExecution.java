// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.RecordedOutcome;
import dev.forge.cluster.internal.job.store.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.worker.RunningJob.Stop;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.JobTimeoutException;
import dev.forge.cluster.job.PermanentJobFailure;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;
import org.springframework.dao.DataAccessException;

/**
 * Runs a claimed job: calls its handler, in a transaction if the handler declares one. {@link AttemptResults} decides how the
 * attempt ends; its {@link TransactionalAttempt transaction} or the {@link Finisher} writes that.
 */
final class JobExecution {

    private static final Logger log = GuardedLogger.of(JobExecution.class);

    private final Worker.NodeView node;
    private final Claims claims;
    private final StuckHandlers stuck;
    private final Worker.Stores stores;
    private final PayloadJson json;
    private final InterceptedHandlers interceptors;
    private final JobMonitor monitor;
    private final AttemptResults results;
    private final RowLog rows = new RowLog();
    private final TransactionalAttempt transactional;
    private final Finisher finisher;
    private final BulkExecution bulk;

    JobExecution(Worker.Dependencies dependencies, Worker.NodeView node, Claims claims, StuckHandlers stuck) {
        this.node = node;
        this.claims = claims;
        this.stuck = stuck;
        this.stores = dependencies.stores();
        this.json = dependencies.json();
        this.interceptors = new InterceptedHandlers(dependencies.handlers(), dependencies.interceptors());
        this.monitor = dependencies.monitor();
        this.results = new AttemptResults(json, dependencies.handlers(), monitor, node);
        this.transactional = new TransactionalAttempt(dependencies.stores(), results, claims.isolation());
        this.finisher = new Finisher(dependencies.stores(), node::nanos, node::setLogContext, this::settled);
        this.bulk = new BulkExecution(
                dependencies,
                node,
                claims,
                new BulkExecution.Parts(stuck, interceptors, results, transactional, finisher),
                this::run);
    }

    void start() {
        finisher.start();
    }

    void stop(Duration patience) throws InterruptedException {
        finisher.stop(patience);
    }

    /** Returns whether the thread that writes results is dead. */
    boolean isStuck() {
        return !finisher.isAlive();
    }

    /** Returns how many results are not written yet. */
    int backlog() {
        return finisher.backlog();
    }

    private void settled(RunningJob running, boolean written) {
        if (written) {
            if (claims.forget(running)) {
                reportEnd(running);
            }
            if (running.isReturning() || claims.isLastChance(running.claimed())) {
                // The job itself, or other jobs at their last chance that were postponed because of it.
                node.jobReturned();
            }
            if (results.isAwaited(running)) {
                node.jobsReleased();
            }
            if (!running.isReturning()) {
                node.ended(running.claimed());
            }
        } else {
            claims.cancelOrLose(running, "another node had taken it before its result was written");
        }
    }

    private void reportEnd(RunningJob running) {
        Kind outcome = running.outcome();
        if (outcome == Kind.FAILED && isCompleted(running)) {
            outcome = Kind.COMPLETED;
        } else if (outcome == Kind.FAILED) {
            String error = running.error();
            monitor.failed(running.id(), running.name(), JobStatus.FAILED, error != null ? error : "no error recorded");
        }
        monitor.ended(running.name(), outcome, running.ranNanos());
    }

    /** Returns whether a job was completed by a transaction that seemed to have failed, because the response to its commit was lost. */
    private boolean isCompleted(RunningJob running) {
        if (!running.isEndUnconfirmed()) {
            return false;
        }
        try {
            return stores.finishes().isCompleted(running.key());
        } catch (DataAccessException e) {
            log.debug("Job {} ({}): could not check whether it is completed", running.name(), running.id(), e);
            return false;
        }
    }

    /** Runs a job, or several jobs of a handler that takes many at a time, on the current thread. */
    void runTogether(List<RunningJob> jobs) {
        if (jobs.size() == 1) {
            run(jobs.get(0));
        } else {
            bulk.run(jobs);
        }
    }

    /** Runs a job on the current thread. */
    void run(RunningJob running) {
        if (!node.isTrusted() || !claims.isHeld(running)) {
            claims.lose(running, "its lease was over before it could start");
        } else if (running.start(node.nanos())) {
            // Otherwise it was withdrawn or lost meanwhile, and whoever did that ends it.
            runStarted(running);
        }
    }

    private void runStarted(RunningJob running) {
        // Restored completely: entries that a handler leaves behind do not belong to the next job of this thread.
        Map<String, String> before = MDC.getCopyOfContextMap();
        node.setLogContext();
        Mdc.put("forge.job.id", running.id().toString());
        Mdc.put("forge.job.name", running.name());
        stuck.began(running);
        try {
            Finish finish = observed(running);
            running.returned();
            running.ending();
            if (running.outcome() == Kind.LOST) {
                claims.cancelOrLose(running, "another node had taken it before it ended");
            } else if (finish == null) {
                finisher.settleWritten(running);
            } else {
                finisher.add(running, finish);
            }
        } finally {
            stuck.ended(running);
            Mdc.restore(before);
        }
    }

    /**
     * Returns the end of a job whose handler exceeded its timeout and still runs when the node leaves: a failed attempt, like any
     * other that timed out. Otherwise the job would be passed from node to node for ever. A job that shared its attempt with others
     * is never failed by it: it gets an attempt of its own.
     */
    Finish timedOut(RunningJob running) {
        Thread thread = running.thread();
        var timeout = new JobTimeoutException(
                "the attempt took longer than %s, and its handler ignored the interrupt until the node left"
                        .formatted(PlainText.duration(
                                Objects.requireNonNull(running.limits().timeout()))),
                null);
        if (thread != null) {
            // The stack of the handler, not of this thread.
            timeout.setStackTrace(thread.getStackTrace());
        }
        return running.isTogether()
                ? running.returnedAsSuspect(Duration.ZERO, ErrorText.storable(timeout), true)
                : results.ofFailure(running, timeout);
    }

    static Duration waited(RunningJob running) {
        return Duration.ofMillis(running.claimed().waitedMillis())
                .plusNanos(Math.max(0, running.startedAt() - running.claimedAt()));
    }

    /** Makes the attempt; returns how it ended, or null if that is written already or the claim was lost. */
    private @Nullable Finish observed(RunningJob running) {
        var attempt = new Attempt(running);
        try {
            if (running.reportStart()) {
                monitor.started(running.name(), waited(running));
            }
            monitor.observe(running, attempt);
        } catch (Throwable e) {
            // A failing observation must not decide how the job ends. Languages without checked exceptions throw any
            // type.
            rows.warn(
                    log,
                    "Job %s: observation failed".formatted(running.name()),
                    "Job {} ({}): observation failed; the job is not affected",
                    running.name(),
                    running.id(),
                    e);
        }
        if (!attempt.made) {
            attempt.run();
        }
        return attempt.finish;
    }

    private final class Attempt implements Runnable {

        private final RunningJob running;
        private boolean made;
        private @Nullable Finish finish;

        Attempt(RunningJob running) {
            this.running = running;
        }

        @Override
        public void run() {
            made = true;
            finish = attempt(running);
            // From here on listeners and observations run, which an interrupt for the handler must not reach. The
            // handler has ended: neither its timeout nor the end of a drain may decide anything else.
            running.returned();
            if (finish != null) {
                running.ending();
            }
            if (finish != null && running.stopReason() == Stop.LOST) {
                running.ended(Kind.LOST, running.failure());
            }
        }
    }

    /** Returns how the attempt ended; null if that is written already, or if the claim was lost in its transaction. */
    private @Nullable Finish attempt(RunningJob running) {
        try {
            JobHandler.Transaction transaction = running.handler().target().transaction();
            if (transaction != null) {
                return transactional.run(running, transaction, () -> invoke(running));
            }
            Object returned = invoke(running);
            if (returned instanceof RecordedOutcome recorded) {
                results.recorded(running, recorded);
                return null;
            }
            return results.ofReturn(running, returned);
        } catch (TransactionalAttempt.ClaimLost e) {
            running.ended(Kind.LOST, null);
            return null;
        } catch (TransactionalAttempt.RowLocked e) {
            rows.warn(
                    log,
                    "Job %s: its row was locked".formatted(running.name()),
                    "Job {} ({}): another transaction has locked its row, so its own transaction could not complete and was rolled"
                            + " back. It runs again when that transaction ends. The view pg_locks shows who holds the lock.",
                    running.name(),
                    running.id());
            running.ended(Kind.RETURNED, null);
            return running.givenBack(Duration.ZERO);
        } catch (Throwable e) {
            if (running.stopReason() == Stop.LOST) {
                // The failure is discarded; the lost claim is logged.
                running.ended(Kind.LOST, e);
                return null;
            }
            return results.ofFailure(running, e);
        }
    }

    private @Nullable Object invoke(RunningJob running) throws Throwable {
        JobHandler.Target target = running.handler().target();
        Type type = target.payloadType();
        Object payload = null;
        if (type != null) {
            try {
                payload = json.read(running.claimed().payload(), type);
            } catch (RuntimeException e) {
                throw new PermanentJobFailure(
                        "its payload cannot be read as %s: %s".formatted(type.getTypeName(), e.getMessage()), e);
            }
        }
        Object returned = interceptors.call(payload, running);
        Object result = running.handler().isTransactional()
                ? AsyncResults.requireFinished(returned)
                : AsyncResults.await(returned);
        requireInTime(running);
        return result;
    }

    /** Fails the attempt if its deadline has passed, whatever its handler returned. */
    private void requireInTime(RunningJob running) {
        Duration timeout = running.limits().timeout();
        long ran = node.nanos() - running.startedAt();
        if (timeout != null && ran > timeout.toNanos()) {
            claims.expire(running, running.startedAt());
            throw new JobTimeoutException(
                    "the attempt took longer than %s: its handler returned after %d ms, and its result was discarded"
                            .formatted(PlainText.duration(timeout), ran / 1_000_000),
                    null);
        }
    }
}
