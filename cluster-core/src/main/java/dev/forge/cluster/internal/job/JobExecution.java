package dev.forge.cluster.internal.job;

import dev.forge.cluster.internal.database.BeginFailure;
import dev.forge.cluster.internal.database.Causes;
import dev.forge.cluster.internal.database.DatabaseFault;
import dev.forge.cluster.internal.job.JobMonitor.Ending;
import dev.forge.cluster.internal.job.JobStore.Finish;
import dev.forge.cluster.internal.job.JobStore.LastStatement;
import dev.forge.cluster.internal.job.RunningJob.Stop;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.AsyncResults;
import dev.forge.cluster.internal.runtime.DatabaseFaultPauses;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.Outcome;
import dev.forge.cluster.job.PermanentJobFailure;
import dev.forge.cluster.ratelimit.RateLimitExceededException;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;
import org.slf4j.event.Level;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.TransactionStatus;

/**
 * Runs a claimed job: calls its handler, in its transaction if it wants one, and sees to it that how it ended is written:
 * with that transaction, or by the {@link Finisher}.
 */
final class JobExecution {

    private static final Logger log = GuardedLogger.of(JobExecution.class);
    private static final Duration LIMITED = Duration.ofSeconds(1);
    private static final Duration SHORTEST_RETENTION = Duration.ofMillis(1);

    private final Worker.Host host;
    private final Claims claims;
    private final StuckHandlers stuck;
    private final JobStore control;
    private final JobStore transactional;
    private final PayloadJson json;
    private final JobHandlers handlers;
    private final JobMonitor monitor;
    private final Finisher finisher;
    private final RandomGenerator random = RandomGenerator.getDefault();
    private final DatabaseFaultPauses pauses = new DatabaseFaultPauses();
    /** How many transactions in a row could not begin. */
    private final AtomicInteger unbegun = new AtomicInteger();

    JobExecution(Worker.Setup setup, Worker.Host host, Claims claims, StuckHandlers stuck) {
        this.host = host;
        this.claims = claims;
        this.stuck = stuck;
        this.control = setup.stores().control();
        this.transactional = setup.stores().application();
        this.json = setup.json();
        this.handlers = setup.handlers();
        this.monitor = setup.monitor();
        this.finisher = new Finisher(setup.stores().control(), host::nanos, host::introduce, this::settled);
    }

    void start() {
        finisher.start();
    }

    void stop(Duration patience) throws InterruptedException {
        finisher.stop(patience);
    }

    /** Whether the thread that writes how jobs ended is dead. */
    boolean isStuck() {
        return !finisher.isAlive();
    }

    /** How many jobs have ended whose end is not written. */
    int backlog() {
        return finisher.backlog();
    }

    private void settled(RunningJob running, boolean written) {
        if (written) {
            claims.forget(running);
            if (running.isBack() || claims.isLastChance(running.claimed())) {
                // It, or those that were put off for its sake.
                host.cameBack();
            }
            if (isAwaited(running)) {
                host.freed();
            }
        } else {
            claims.cancelOrLose(running, "not this node's when it had ended");
        }
    }

    private boolean isAwaited(RunningJob running) {
        return handlers.owned().stream().anyMatch(owned -> owned.isAwaited(running.claimed()));
    }

    void run(RunningJob running) {
        if (!host.isTrusted() || !claims.isHeld(running) || !running.start(host.nanos())) {
            claims.lose(running, "its time was over before it could start");
            return;
        }
        // All of it is restored: what a handler puts there and leaves behind is not about the next job of this thread.
        Map<String, String> before = MDC.getCopyOfContextMap();
        host.introduce();
        Mdc.put("forge.job.id", running.id().toString());
        Mdc.put("forge.job.name", running.name());
        stuck.began(running);
        try {
            Finish finish = observed(running);
            running.returned();
            running.ending();
            if (running.outcome() == Ending.LOST) {
                claims.cancelOrLose(running, "not this node's when it was to end");
            } else if (finish == null) {
                finisher.settle(running, true);
            } else {
                finisher.add(running, finish);
            }
        } finally {
            stuck.ended(running);
            Mdc.restore(before);
        }
    }

    /**
     * How a job ends whose handler exceeded its timeout and still runs when the node leaves: as a failed attempt, like any
     * other that timed out. Otherwise it would go from node to node for ever.
     */
    Finish timedOut(RunningJob running) {
        Thread thread = running.thread();
        var timeout = new JobTimeout(
                "the attempt took longer than %s, and its handler ignored the interrupt until the node left"
                        .formatted(running.handler().limits().timeout()),
                null);
        if (thread != null) {
            // Where it hangs, not where that was found out.
            timeout.setStackTrace(thread.getStackTrace());
        }
        return failureOrBug(running, timeout);
    }

    private Duration waited(RunningJob running) {
        return Duration.ofMillis(running.claimed().waitedMillis())
                .plusNanos(Math.max(0, running.startedAt() - running.claimedAt()));
    }

    /** Makes the attempt; answers how it ended, or null if that is written already or of no interest any more. */
    private @Nullable Finish observed(RunningJob running) {
        var attempt = new Attempt(running);
        try {
            monitor.started(running.name(), waited(running));
            monitor.observe(running, attempt);
        } catch (RuntimeException | Error e) {
            // Whoever watches a job does not decide what becomes of it.
            log.warn("job {} {}: could not be observed", running.name(), running.id(), e);
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
            if (finish != null && running.stopReason() == Stop.LOST) {
                running.ended(Ending.LOST, running.failure());
            }
        }
    }

    /** How it ended; null if that is written already, or if the claim was lost in its transaction. */
    private @Nullable Finish attempt(RunningJob running) {
        try {
            JobHandler.Transaction transaction = running.handler().target().transaction();
            if (transaction != null) {
                return inTransaction(running, transaction);
            }
            Object returned = invoke(running);
            return returned instanceof RecordedOutcome settled ? settled(running, settled) : finish(running, returned);
        } catch (LostInTransaction e) {
            running.ended(Ending.LOST, null);
            return null;
        } catch (RowLocked e) {
            log.warn(
                    "Job {} ({}): another transaction has locked its row, so that its own could not be completed and was rolled"
                            + " back. It runs again when that ends. The view pg_locks shows who holds the lock.",
                    running.name(),
                    running.id());
            running.ended(Ending.RETURNED, null);
            return running.givenBack(Duration.ZERO);
        } catch (Throwable e) {
            if (running.stopReason() == Stop.LOST) {
                // Of no interest to anybody: it is dropped, and that is logged.
                running.ended(Ending.LOST, e);
                return null;
            }
            return failureOrBug(running, e);
        }
    }

    private static @Nullable Finish settled(RunningJob running, RecordedOutcome how) {
        switch (how) {
            case COMPLETED -> running.ended(Ending.COMPLETED, null);
            case FAILED -> running.ended(Ending.FAILED, running.failure());
            case PENDING -> {
                running.ended(Ending.SNOOZED, null);
                running.comesBack();
            }
            case LOST -> running.ended(Ending.LOST, null);
        }
        return null;
    }

    private Finish failureOrBug(RunningJob running, Throwable failure) {
        try {
            return failure(running, failure);
        } catch (Throwable e) {
            // Not the handler's but that of a strategy, of a logger, or ours: the job must not hang for it.
            logBug(running, e);
            return finish(running, JobStatus.FAILED, null, ErrorText.storable(e), 0, 0);
        }
    }

    private static void logBug(RunningJob running, Throwable bug) {
        try {
            log.error(
                    "Job {} ({}): failed, no further attempt: its failure could not be dealt with",
                    running.name(),
                    running.id(),
                    ErrorText.loggable(bug));
        } catch (RuntimeException | Error e) {
            // The logger itself: its end is written all the same.
            bug.addSuppressed(e);
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
        Object returned = target.code().run(payload, running);
        Object result = running.handler().isTransactional()
                ? AsyncResults.requireFinished(returned)
                : AsyncResults.await(returned);
        requireInTime(running);
        return result;
    }

    /** Once the deadline has passed the attempt has failed, whatever its handler returns later. */
    private void requireInTime(RunningJob running) {
        Duration timeout = running.handler().limits().timeout();
        long ran = host.nanos() - running.startedAt();
        if (timeout != null && ran > timeout.toNanos()) {
            claims.expire(running);
            throw new JobTimeout(
                    "the attempt took longer than %s: its handler returned after %d ms, and its result was discarded"
                            .formatted(timeout, ran / 1_000_000),
                    null);
        }
    }

    private @Nullable Finish inTransaction(RunningJob running, JobHandler.Transaction transaction) throws Throwable {
        TransactionStatus status;
        try {
            status = transaction.manager().getTransaction(transaction.definition());
        } catch (TransactionException e) {
            Stop stop = running.stopReason();
            if (stop == Stop.DRAIN || stop == Stop.LOST || !BeginFailure.isTemporary(e)) {
                throw e;
            }
            return withoutTransaction(running, e);
        }
        pauses.forget(running.id());
        int failed = unbegun.getAndSet(0);
        if (failed > 0) {
            log.info("Transactions of jobs begin again after {} failures", failed);
        }
        LastStatement last;
        try {
            Finish finish = finish(running, invoke(running));
            running.returned();
            running.ending();
            // What an entity manager still holds back belongs before the fence.
            status.flush();
            if (!transactional.joinsTransaction()) {
                throw new PermanentJobFailure(
                        "the transaction of its handler is not one of the cluster's DataSource, so that the job cannot be"
                                + " completed in it: name the right manager in @Transactional, or leave the annotation out");
            }
            last = finishInTransaction(running, finish);
            if (last == LastStatement.CLAIM_LOST) {
                throw new LostInTransaction();
            }
        } catch (Throwable e) {
            // Whatever asks the handler to end must not disturb its rollback.
            running.returned();
            if (!status.isCompleted()) {
                rollBack(transaction, status, e);
            }
            throw e;
        }
        commit(running, transaction, status);
        if (last == LastStatement.WRITTEN_BLINDLY) {
            freeSuccessorOf(running);
        }
        return null;
    }

    private LastStatement finishInTransaction(RunningJob running, Finish finish) {
        try {
            return transactional.finishInTransaction(running.node(), finish);
        } catch (DataAccessException e) {
            if (JobStore.isLocked(e)) {
                throw new RowLocked(e);
            }
            throw e;
        }
    }

    /** The database or the pool has kept it from starting, which is no fault of the job: it waits longer each time. */
    private Finish withoutTransaction(RunningJob running, TransactionException failure) {
        long pause = (long) (pauses.next(running.id()).toMillis() * (1 + random.nextDouble()));
        String cause = ErrorText.brief(Causes.root(failure));
        log.atLevel(unbegun.getAndIncrement() == 0 ? Level.WARN : Level.DEBUG)
                .log(
                        "Job {} ({}): its transaction could not begin, the attempt is not counted; next try in {} ms: {}. Further failures"
                                + " are logged at DEBUG until a transaction begins.",
                        running.name(),
                        running.id(),
                        pause,
                        cause);
        running.ended(Ending.RETURNED, null);
        return running.givenBack(
                Duration.ofMillis(pause),
                ErrorText.storable("Its transaction could not begin, the attempt is not counted: " + cause));
    }

    /** What has failed may be the answer to the commit, or what was to follow it: the job's row tells whether it is committed. */
    private void commit(RunningJob running, JobHandler.Transaction transaction, TransactionStatus status) {
        try {
            transaction.manager().commit(status);
        } catch (RuntimeException | Error e) {
            if (!DatabaseFault.isAnswered(e)) {
                running.endUnanswered();
            }
            if (!isCommitted(running)) {
                throw e;
            }
            log.warn(
                    "Job {} ({}): its transaction is committed, but the commit reported a failure: its answer got lost, or something"
                            + " that was to follow it failed",
                    running.name(),
                    running.id(),
                    ErrorText.loggable(e));
        }
    }

    private boolean isCommitted(RunningJob running) {
        try {
            return !control.endedByHolder(
                            running.node(),
                            Map.of(running.key(), running.claimed().recoveries()))
                    .isEmpty();
        } catch (RuntimeException e) {
            log.debug("job {} {}: unknown whether it is committed", running.name(), running.id(), e);
            return false;
        }
    }

    private void freeSuccessorOf(RunningJob running) {
        try {
            control.freeSuccessorOf(running.id());
        } catch (DataAccessException e) {
            // It is committed: this is not the handler's failure.
            log.debug("job {} {}: the sweeper will free what waits for it", running.name(), running.id(), e);
        }
    }

    private static void rollBack(JobHandler.Transaction transaction, TransactionStatus status, Throwable cause) {
        try {
            transaction.manager().rollback(status);
        } catch (RuntimeException e) {
            cause.addSuppressed(e);
        }
    }

    /** Nobody's fault that would count as a failed attempt. */
    private static final class RowLocked extends RuntimeException {
        private static final long serialVersionUID = 1L;

        RowLocked(DataAccessException cause) {
            super("the job's row is locked", cause, false, false);
        }
    }

    private static final class LostInTransaction extends RuntimeException {
        private static final long serialVersionUID = 1L;

        LostInTransaction() {
            super("claim lost", null, false, false);
        }
    }

    private Finish finish(RunningJob running, @Nullable Object returned) {
        Outcome outcome = returned instanceof Outcome decided ? decided : new Outcome.Completed(returned);
        if (outcome instanceof Outcome.Completed completed) {
            Object result = completed.result();
            String text = null;
            if (result != null) {
                try {
                    text = json.write(result);
                } catch (IllegalArgumentException e) {
                    throw new PermanentJobFailure("its result " + e.getMessage(), e);
                }
            }
            return finish(running, JobStatus.COMPLETED, text, null, 0, 0);
        } else if (outcome instanceof Outcome.Snoozed snoozed) {
            return finish(
                    running, JobStatus.PENDING, null, null, snoozed.delay().toMillis(), 1);
        } else if (outcome instanceof Outcome.Retried retried) {
            return retry(running, retried.reason(), retried.delay().toMillis(), null);
        }
        return failed(running, ((Outcome.Failed) outcome).reason(), null);
    }

    private Finish failure(RunningJob running, Throwable failure) {
        Stop stop = running.stopReason();
        boolean late = failure instanceof JobTimeout;
        if (stop == Stop.DRAIN && !late) {
            log.info("job {} {}: interrupted by the drain; another node will run it", running.name(), running.id());
            running.ended(Ending.RETURNED, null);
            return running.givenBack(Duration.ZERO);
        }
        if (stop == Stop.LOST) {
            // Whatever its end was, it is dropped, and there is no next attempt here.
            running.ended(Ending.LOST, failure);
            return running.givenBack(Duration.ZERO);
        }
        if (stop == null && failure instanceof RateLimitExceededException limited) {
            return later(running, limited);
        }
        Throwable cause = failure;
        if (stop == Stop.TIMEOUT && !late) {
            cause = new JobTimeout(
                    "the attempt took longer than " + running.handler().limits().timeout(), failure);
        }
        running.ended(Ending.FAILED, cause);
        if (cause instanceof PermanentJobFailure || running.handler().limits().isPermanent(cause)) {
            return failed(running, ErrorText.storable(cause), cause);
        }
        JobHandler.Limits limits = running.handler().limits();
        double wait = limits.backoff().delay(running.attempt(), cause).toMillis();
        long jittered = (long) (wait * (1 + limits.jitter() * (2 * random.nextDouble() - 1)));
        return retry(running, ErrorText.storable(cause), Math.max(0, jittered), cause);
    }

    /** To be told to wait is no failure. Those who wait for the same limit do not come back all at once. */
    private Finish later(RunningJob running, RateLimitExceededException limited) {
        long least =
                Math.max(LIMITED.toMillis(), limited.decision().retryAfter().toMillis());
        running.ended(Ending.SNOOZED, null);
        return finish(running, JobStatus.PENDING, null, null, (long) (least * (1 + random.nextDouble())), 1);
    }

    private static final class JobTimeout extends RuntimeException {
        private static final long serialVersionUID = 1L;

        JobTimeout(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    /** It will not be tried again: the only place where its stack trace is logged. */
    private Finish failed(RunningJob running, String error, @Nullable Throwable cause) {
        log.error(
                "Job {} ({}): failed at attempt {} of {}, no further attempt: {}",
                running.name(),
                running.id(),
                running.attempt(),
                running.maxAttempts(),
                ErrorText.firstLine(error),
                cause == null ? null : ErrorText.loggable(cause));
        return finish(running, JobStatus.FAILED, null, error, 0, 0);
    }

    private Finish retry(RunningJob running, String error, long delayMillis, @Nullable Throwable cause) {
        if (running.attempt() >= running.maxAttempts()) {
            return failed(running, error, cause);
        }
        log.info(
                "job {} {}: attempt {} of {} failed, the next one in {} ms: {}",
                running.name(),
                running.id(),
                running.attempt(),
                running.maxAttempts(),
                delayMillis,
                ErrorText.firstLine(error));
        monitor.retried(running.name());
        return finish(running, JobStatus.PENDING, null, error, delayMillis, 0);
    }

    private Finish finish(
            RunningJob running,
            JobStatus status,
            @Nullable String result,
            @Nullable String error,
            long delayMillis,
            int givenBack) {
        running.ended(ending(status, givenBack), running.failure());
        if (status == JobStatus.PENDING) {
            running.comesBack();
        }
        return new Finish(
                running.key(),
                status,
                result,
                error == null ? null : ErrorText.storable(error),
                delayMillis,
                givenBack,
                status == JobStatus.COMPLETED ? null : running.lateCheckpoint(),
                running.takeProgress(),
                retention(running, status),
                (host.nanos() - running.startedAt()) / 1_000_000,
                running.failure() instanceof JobTimeout);
    }

    private static Ending ending(JobStatus status, int givenBack) {
        return switch (status) {
            case COMPLETED -> Ending.COMPLETED;
            case PENDING -> givenBack > 0 ? Ending.SNOOZED : Ending.RETRIED;
            case CLAIMED, RUNNING, FAILED, CANCELLED, ABANDONED -> Ending.FAILED;
        };
    }

    /** Zero means deletion at completion; what has failed is kept as the cluster is configured. */
    private @Nullable Duration retention(RunningJob running, JobStatus status) {
        Duration own = running.handler().limits().retention();
        if (own != null && own.isZero() && isAwaited(running)) {
            // Until the run has seen it.
            return SHORTEST_RETENTION;
        }
        boolean kept = status == JobStatus.COMPLETED || (status.isFinal() && own != null && !own.isZero());
        return kept ? own : null;
    }
}
