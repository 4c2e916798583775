// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.finish.Finisher;
import dev.forge.cluster.internal.job.finish.JobEnd;
import dev.forge.cluster.internal.job.handler.Claim.Stop;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.handler.RecordedOutcome;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.run.HandlerTransaction.Result;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.Mdc;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.JobTimeoutException;
import dev.forge.cluster.job.NonRetryableJobException;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.MDC;

/**
 * Calls handlers with claimed jobs: with one, or with several if the handler takes many at a time; in a transaction if the handler
 * declares one. {@link EndDecisions} decides how an attempt ends; the {@link HandlerTransaction} or the {@link Finisher} writes that.
 */
final class HandlerCalls {

    private static final Logger log = GuardedLogger.of(HandlerCalls.class);

    /** When jobs are due again whose common transaction may or may not be committed. */
    private static final Duration UNCONFIRMED_PAUSE = Duration.ofSeconds(1);

    private final RowLog rows = new RowLog();
    private final WorkerNode node;
    private final Claims claims;
    private final StuckHandlers stuck;
    private final PayloadJson json;
    private final JobMonitor monitor;
    private final Settlements settlements;
    private final InterceptedHandlers interceptors;
    private final EndDecisions decisions;
    private final HandlerTransaction transaction;
    private final ReturnPauses pauses = new ReturnPauses();
    private final Finisher finisher;

    HandlerCalls(WorkerParts parts, WorkerNode node, Claims claims, StuckHandlers stuck) {
        this.node = node;
        this.claims = claims;
        this.stuck = stuck;
        this.json = parts.json();
        this.monitor = parts.monitor();
        this.interceptors = new InterceptedHandlers(parts.handlers(), parts.interceptors());
        this.decisions = new EndDecisions(json, parts.handlers(), monitor, node);
        this.transaction = new HandlerTransaction(parts.stores(), claims.isolation());
        this.settlements = new Settlements(parts, node, claims, decisions);
        this.finisher =
                new Finisher(parts.stores().finishes(), parts.stores().held(), node::nanos, node::setLogContext);
    }

    Finisher finisher() {
        return finisher;
    }

    /**
     * Calls the handler of started jobs.
     *
     * @return false if the jobs have to run one by one
     */
    boolean call(List<Payload> payloads) {
        return new Call(payloads).ended();
    }

    /** A job with its payload, which is read within the attempt if the job runs alone. */
    record Payload(Attempt attempt, @Nullable Object value) {}

    InterceptedHandlers interceptors() {
        return interceptors;
    }

    /** Returns whether the last transaction of a job could not begin. */
    boolean isUnable() {
        return pauses.isUnable();
    }

    @Nullable
    Object payload(Attempt attempt) {
        Type type = attempt.handler().target().payloadType();
        return type == null ? null : json.read(attempt.claimed().payload(), type);
    }

    // A call --------------------------------------------------------------------------------------------------

    /** One call of a handler, for one job or several, with all that surrounds it. */
    private final class Call implements Runnable {

        private final List<Payload> payloads;
        private final List<Attempt> attempts;
        private final Attempt first;
        private boolean made;
        /** How each attempt ended; null: they have to run one by one. */
        private @Nullable List<Ending> endings;

        private boolean committed;
        private boolean unconfirmed;

        Call(List<Payload> payloads) {
            this.payloads = payloads;
            this.attempts = payloads.stream().map(Payload::attempt).toList();
            this.first = attempts.get(0);
        }

        private boolean isSingle() {
            return attempts.size() == 1;
        }

        /** Makes the call and passes the ends on; false if the jobs have to run one by one. */
        boolean ended() {
            // Restored completely: entries that a handler leaves behind do not belong to the next job of this thread.
            Map<String, String> before = MDC.getCopyOfContextMap();
            node.setLogContext();
            Mdc.put("forge.job.name", first.name());
            if (isSingle()) {
                Mdc.put("forge.job.id", first.id().toString());
            }
            attempts.forEach(stuck::began);
            try {
                observed();
                List<Ending> all = endings;
                if (all == null) {
                    return false;
                }
                for (int i = 0; i < all.size(); i++) {
                    passOn(attempts.get(i), all.get(i));
                }
                return true;
            } finally {
                attempts.forEach(stuck::ended);
                Mdc.restore(before);
            }
        }

        private void observed() {
            try {
                attempts.stream()
                        .filter(Attempt::reportStart)
                        .forEach(attempt -> monitor.started(attempt.name(), attempt.waited()));
                if (isSingle()) {
                    monitor.observe(first, this);
                } else {
                    monitor.observeTogether(attempts, this);
                }
            } catch (Throwable e) {
                // A failing observation must not decide how jobs end. Languages without checked exceptions throw any
                // type.
                rows.warn(
                        log,
                        "Job %s: observation failed".formatted(first.name()),
                        "Job {} ({}): observation of a call for {} jobs failed; the jobs are not affected",
                        first.name(),
                        first.id(),
                        attempts.size(),
                        e);
            }
            if (!made) {
                run();
            }
        }

        @Override
        public void run() {
            made = true;
            List<Ending> all;
            try {
                all = first.handler().isTransactional() ? inTransaction() : endings(invoke());
            } catch (Throwable e) {
                all = failed(e);
            }
            endings = all;
            for (int i = 0; all != null && i < all.size(); i++) {
                Attempt attempt = attempts.get(i);
                Ending ending = all.get(i);
                boolean discarded = attempt.isLost() && !committed && ending.finish() != null;
                attempt.ended(discarded ? Ending.lost(ending.failure()) : ending);
            }
            // From here on listeners and observations run, which an interrupt for the handler must not reach.
            attempts.forEach(all == null ? Attempt::returned : Attempt::ending);
        }

        /** Returns how the attempts end after the handler or its transaction failed; null: they have to run one by one. */
        private @Nullable List<Ending> failed(Throwable failure) {
            if (isSingle()) {
                return List.of(decisions.ofFailure(first, failure));
            }
            attempts.forEach(
                    attempt -> attempt.ended(new Ending(Kind.RETURNED, isDraining() ? null : failure, null, 0, null)));
            log.info(
                    "Job {}: a call for {} jobs failed, so they run one by one: {}{}",
                    first.name(),
                    attempts.size(),
                    whyStopped(),
                    ErrorText.brief(failure));
            return null;
        }

        private boolean isDraining() {
            return attempts.stream().anyMatch(attempt -> attempt.stopReason() == Stop.DRAIN);
        }

        /** Returns why the call was interrupted, for the log; empty if it was not. */
        private String whyStopped() {
            for (Attempt attempt : attempts) {
                Stop reason = attempt.stopReason();
                if (reason != null) {
                    return switch (reason) {
                        case TIMEOUT ->
                            "it took longer than %s: "
                                    .formatted(PlainText.duration(Objects.requireNonNull(
                                            attempt.limits().timeout())));
                        case DRAIN -> "this node drains: ";
                        case LOST -> "job %s was cancelled or lost: ".formatted(attempt.id());
                    };
                }
            }
            return "";
        }

        private @Nullable List<Ending> inTransaction() {
            Result result = transaction.run(attempts, () -> {
                attempts.forEach(attempt -> pauses.begun(attempt.id()));
                return endings(invoke());
            });
            if (result instanceof Result.Committed done) {
                committed = true;
                attempts.forEach(attempt -> pauses.settled(attempt.id()));
                return done.endings();
            } else if (result instanceof Result.NotBegun unbegun) {
                return isSingle() && first.stopReason() != null && first.stopReason() != Stop.TIMEOUT
                        ? failed(unbegun.failure())
                        : each(attempt -> pauses.unbegun(attempt, unbegun.failure()));
            } else if (result instanceof Result.ClaimLost) {
                return isSingle() ? List.of(Ending.lost(null)) : failed(new IllegalStateException("claim lost"));
            } else if (result instanceof Result.RowLocked) {
                return isSingle() ? List.of(locked()) : failed(new IllegalStateException("the row of a job is locked"));
            } else if (result instanceof Result.DeletionRefused refused) {
                return isSingle() ? List.of(pauses.conflicted(first, refused.failure())) : failed(refused.failure());
            } else if (result instanceof Result.InDoubt doubt) {
                unconfirmed = !DatabaseFailure.kind(doubt.failure()).isAnswered();
                return isSingle() ? rolledBack(doubt.failure()) : suspects(doubt.failure());
            }
            var failed = (Result.Failed) result;
            unconfirmed = !failed.answered();
            boolean inDoubt =
                    unconfirmed && DatabaseFailure.kind(failed.failure()) == DatabaseFailure.Kind.CONNECTION_LOST;
            return inDoubt && !isSingle() ? suspects(failed.failure()) : rolledBack(failed.failure());
        }

        private List<Ending> each(Function<Attempt, Ending> ending) {
            return attempts.stream().map(ending).toList();
        }

        private Ending locked() {
            rows.warn(
                    log,
                    "Job %s: its row was locked".formatted(first.name()),
                    "Job {} ({}): another transaction has locked its row, so its own transaction could not complete and was rolled"
                            + " back. It runs again when that transaction ends. The view pg_locks shows who holds the lock.",
                    first.name(),
                    first.id());
            return Ending.returned(first.returned(Duration.ZERO, null), null);
        }

        /** A single job whose transaction the database rolled back because of another one does not pay for that, up to a limit. */
        private @Nullable List<Ending> rolledBack(Throwable failure) {
            if (isSingle()
                    && first.stopReason() == null
                    && DatabaseFailure.kind(failure).isConflict()
                    && !first.limits().isPermanent(failure)
                    && pauses.mayConflict(first.id())) {
                if (DatabaseFailure.kind(failure) == DatabaseFailure.Kind.SERIALIZATION) {
                    claims.isolation().forget(first.handler());
                }
                return List.of(pauses.conflicted(first, failure));
            }
            attempts.forEach(attempt -> pauses.settled(attempt.id()));
            return failed(failure);
        }

        /**
         * Returns jobs whose common transaction may be committed; if it is, they are not returned. The attempt counts, because one of
         * the jobs may be the cause: a transaction whose commit ends its session would be repeated for ever.
         */
        private List<Ending> suspects(Throwable failure) {
            String reason = ErrorText.storable(new IllegalStateException("the transaction may be committed", failure));
            return each(attempt -> Ending.returned(attempt.returnedAsSuspect(UNCONFIRMED_PAUSE, reason, false), null));
        }

        /** Returns how the attempts end with what their handler has returned. */
        private List<Ending> endings(@Nullable Object returned) {
            if (returned instanceof RecordedOutcome recorded) {
                return List.of(decisions.ofRecorded(first, recorded));
            }
            if (isSingle()) {
                return List.of(decisions.ofReturn(first, returned));
            }
            boolean isTransactional = first.handler().isTransactional();
            List<?> results;
            try {
                results = JobHandler.Bulk.results(returned, attempts.size());
            } catch (NonRetryableJobException e) {
                if (isTransactional) {
                    throw e;
                }
                // The handler has done its work for all jobs; one by one it would do it again.
                return each(attempt -> decisions.ofFailure(attempt, e));
            }
            var all = new ArrayList<Ending>(attempts.size());
            for (int i = 0; i < attempts.size(); i++) {
                Object result = results.isEmpty() ? null : results.get(i);
                try {
                    all.add(decisions.ofReturn(attempts.get(i), result));
                } catch (RuntimeException | Error e) {
                    if (isTransactional) {
                        throw e;
                    }
                    // It concerns this job only.
                    all.add(decisions.ofFailure(attempts.get(i), e));
                }
            }
            return all;
        }

        /** Calls the handler; returns what it returned, or the value of its future. */
        private @Nullable Object invoke() throws Throwable {
            Object returned = isSingle()
                    ? interceptors.call(payloadOfFirst(), first)
                    : interceptors.callTogether(
                            payloads.stream().map(Payload::value).toList(), attempts);
            Object result = first.handler().isTransactional()
                    ? AsyncResults.requireFinished(returned)
                    : AsyncResults.await(returned);
            for (Attempt attempt : attempts) {
                requireInTime(attempt);
            }
            return result;
        }

        private @Nullable Object payloadOfFirst() {
            try {
                return payload(first);
            } catch (RuntimeException e) {
                throw new NonRetryableJobException(
                        "its payload cannot be read as %s: %s"
                                .formatted(
                                        Objects.requireNonNull(
                                                        first.handler().target().payloadType())
                                                .getTypeName(),
                                        e.getMessage()),
                        e);
            }
        }

        /** Fails the attempt if its deadline has passed, whatever its handler returned. */
        private void requireInTime(Attempt attempt) {
            Duration timeout = attempt.limits().timeout();
            long ran = node.nanos() - attempt.startedAt();
            if (timeout != null && ran > timeout.toNanos()) {
                claims.expire(attempt, attempt.startedAt());
                throw new JobTimeoutException(
                        "the attempt took longer than %s: its handler returned after %d ms, and its result was discarded"
                                .formatted(PlainText.duration(timeout), ran / 1_000_000),
                        null);
            }
        }

        private void passOn(Attempt attempt, Ending decided) {
            if (attempt.outcome() == Kind.LOST) {
                claims.cancelOrLose(attempt, "another node had taken it before it ended");
                return;
            }
            JobEnd.Listener settlement = settlements.of(attempt);
            Finish finish = decided.finish();
            if (committed || finish == null) {
                settlement.settled(true, false);
            } else {
                finisher.add(new JobEnd(
                        attempt.name(),
                        attempt.node(),
                        attempt.claimed().recoveries(),
                        finish,
                        unconfirmed,
                        settlement));
            }
        }
    }

    /**
     * Returns the end of a job whose handler exceeded its timeout and still runs when the node leaves: a failed attempt, like any
     * other that timed out. Otherwise the job would be passed from node to node for ever. A job that shared its attempt with others
     * is never failed by it: it gets an attempt of its own.
     */
    Ending timedOut(Attempt attempt) {
        Thread thread = attempt.thread();
        var timeout = new JobTimeoutException(
                "the attempt took longer than %s, and its handler ignored the interrupt until the node left"
                        .formatted(PlainText.duration(
                                Objects.requireNonNull(attempt.limits().timeout()))),
                null);
        if (thread != null) {
            // The stack of the handler, not of this thread.
            timeout.setStackTrace(thread.getStackTrace());
        }
        return attempt.isTogether()
                ? Ending.returned(attempt.returnedAsSuspect(Duration.ZERO, ErrorText.storable(timeout), true), null)
                : decisions.ofFailure(attempt, timeout);
    }
}
