// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.worker;

import dev.forge.cluster.internal.database.BeginFailure;
import dev.forge.cluster.internal.database.Causes;
import dev.forge.cluster.internal.database.ConnectionLoss;
import dev.forge.cluster.internal.database.DatabaseFault;
import dev.forge.cluster.internal.database.StatementFailure;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.store.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.worker.RunningJob.Stop;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.DatabaseFaultPauses;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.FailureRow;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.JobAttemptOutcome.Kind;
import dev.forge.cluster.job.PermanentJobFailure;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.TransactionStatus;

/**
 * Runs a handler in its own transaction, whose last statement ends the claim. The effects of the handler and the completion of the
 * job are committed together, or not at all.
 */
final class TransactionalAttempt {

    private static final Logger log = GuardedLogger.of(TransactionalAttempt.class);

    private final RowLog rows = new RowLog();
    private final Worker.Stores stores;
    private final AttemptResults results;
    private final HandlerIsolation isolation;
    private final RandomGenerator random = RandomGenerator.getDefault();
    private final DatabaseFaultPauses pauses = new DatabaseFaultPauses();

    /** Pauses after conflicts with other transactions. */
    private final DatabaseFaultPauses conflicts = new DatabaseFaultPauses(Duration.ofMillis(20));

    /** How many conflicts in a row cost no attempt. A handler that conflicts each time must fail in the end. */
    private static final int FREE_CONFLICTS = 5;

    /** How many transactions in a row could not begin. */
    private final AtomicInteger beginFailures = new AtomicInteger();

    /**
     * Names whose transactions did not commit after their jobs' rows had been deleted. The cause may be a deferred constraint of the
     * application, so their rows are left to the clean-up from then on.
     */
    private final Set<String> leftToCleanUp = ConcurrentHashMap.newKeySet();

    /** Calls a handler. */
    interface Invocation {

        @Nullable
        Object call() throws Throwable;
    }

    /** The row of the job is locked; the attempt does not count. */
    static final class RowLocked extends RuntimeException {
        private static final long serialVersionUID = 1L;

        RowLocked(DataAccessException cause) {
            super("the job's row is locked", cause, false, false);
        }
    }

    /** This node no longer holds the job. The transaction is rolled back, unless it has ended the job itself. */
    static final class ClaimLost extends RuntimeException {
        private static final long serialVersionUID = 1L;

        ClaimLost() {
            super("claim lost", null, false, false);
        }
    }

    /** A common transaction could not begin; the jobs are to be returned. */
    static final class Unbegun extends RuntimeException {
        private static final long serialVersionUID = 1L;

        private final TransactionException failure;

        Unbegun(TransactionException failure) {
            super("the transaction could not begin", failure, false, false);
            this.failure = failure;
        }

        TransactionException failure() {
            return failure;
        }
    }

    /** The response to the commit of a common transaction was lost. */
    static final class InDoubt extends RuntimeException {
        private static final long serialVersionUID = 1L;

        InDoubt(Throwable cause) {
            super("the transaction may be committed", cause, false, false);
        }
    }

    TransactionalAttempt(Worker.Stores stores, AttemptResults results, HandlerIsolation isolation) {
        this.stores = stores;
        this.results = results;
        this.isolation = isolation;
    }

    /**
     * Makes an attempt; returns null if its end is committed, otherwise the end to write.
     *
     * @throws ClaimLost if this node no longer holds the job
     * @throws RowLocked if another transaction has locked the row of the job for too long
     */
    @Nullable
    Finish run(RunningJob running, JobHandler.Transaction transaction, Invocation handler) throws Throwable {
        try {
            Finish unbegun = runOnce(running, transaction, handler);
            conflicts.forget(running.id());
            return unbegun;
        } catch (Throwable e) {
            if (running.stopReason() == null
                    && DatabaseFault.isRolledBackForOthers(e)
                    && !running.limits().isPermanent(e)
                    && conflicts.inARow(running.id()) < FREE_CONFLICTS) {
                if (StatementFailure.isSerialization(e)) {
                    isolation.forget(running.handler());
                }
                return returnRolledBack(running, e);
            }
            conflicts.forget(running.id());
            throw e;
        }
    }

    private @Nullable Finish runOnce(RunningJob running, JobHandler.Transaction transaction, Invocation handler)
            throws Throwable {
        TransactionStatus status;
        try {
            status = transaction.manager().getTransaction(transaction.definition());
        } catch (TransactionException e) {
            Stop stop = running.stopReason();
            if (stop == Stop.DRAIN || stop == Stop.LOST || !BeginFailure.isTemporary(e)) {
                throw e;
            }
            return returnUnbegun(running, e);
        }
        begun(running);
        boolean readCommitted;
        boolean finished;
        Finish finish;
        try {
            finish = deletable(running, results.ofReturn(running, handler.call()));
            running.returned();
            running.ending();
            // Pending changes of an entity manager belong before the statement that ends the claim.
            status.flush();
            requireSameDatabase();
            readCommitted = isReadCommitted(running);
            finished = finishInTransaction(running, finish);
            if (!finished && !hasEndedItself(running)) {
                throw new ClaimLost();
            }
        } catch (Throwable e) {
            // An interrupt that was meant for the handler must not disturb the rollback.
            running.returned();
            if (!status.isCompleted()) {
                rollBack(transaction, status, e);
            }
            throw e;
        }
        try {
            commit(running, transaction, status);
        } catch (RuntimeException e) {
            if (!isRefusedDeletion(running, finish, e)) {
                throw e;
            }
            return returnRolledBack(running, e);
        }
        if (!readCommitted) {
            freeSuccessorOf(running);
        }
        if (!finished) {
            throw new ClaimLost();
        }
        return null;
    }

    private Finish deletable(RunningJob running, Finish finish) {
        return leftToCleanUp.contains(running.name()) ? finish.leftToCleanUp() : finish;
    }

    /** Returns whether a commit may have failed because the row of the job is deleted. Without the deletion the failure counts. */
    private boolean isRefusedDeletion(RunningJob running, Finish finish, Throwable failure) {
        boolean refused = finish.isDeletion() && StatementFailure.isRejection(failure);
        if (refused && leftToCleanUp.add(running.name())) {
            log.info(
                    "Job {}: the database rejected a commit that deletes the row of the job. From now on this node leaves rows of"
                            + " completed jobs of this name to the clean-up: {}",
                    running.name(),
                    ErrorText.brief(Causes.root(failure)));
        }
        return refused;
    }

    private void begun(RunningJob running) {
        pauses.forget(running.id());
        int failed = beginFailures.getAndSet(0);
        if (failed > 0) {
            log.info("Transactions of jobs begin again after {}", FailureRow.text(failed));
        }
    }

    /** Returns whether the last transaction of a job could not begin. */
    boolean isUnable() {
        return beginFailures.get() > 0;
    }

    /** Calls a handler for several jobs and returns their ends. */
    interface BulkInvocation {

        List<Finish> call() throws Throwable;
    }

    /**
     * Makes an attempt of several jobs in one transaction. If this fails, nothing is committed, unless the response to the commit was
     * lost: then the guards prevent that a job is committed twice.
     *
     * @throws ClaimLost if this node no longer holds one of the jobs
     * @throws Unbegun if the transaction could not begin
     * @throws InDoubt if the transaction may be committed
     */
    void runTogether(List<RunningJob> runnings, JobHandler.Transaction transaction, BulkInvocation handler)
            throws Throwable {
        RunningJob first = runnings.get(0);
        TransactionStatus status;
        try {
            status = transaction.manager().getTransaction(transaction.definition());
        } catch (TransactionException e) {
            throw BeginFailure.isTemporary(e) ? new Unbegun(e) : e;
        }
        runnings.forEach(this::begun);
        boolean readCommitted;
        try {
            List<Finish> finishes = handler.call();
            runnings.forEach(RunningJob::returned);
            runnings.forEach(RunningJob::ending);
            status.flush();
            requireSameDatabase();
            readCommitted = isReadCommitted(first);
            if (!stores.handlerTransactions()
                    .finishAll(
                            first.node(),
                            finishes.stream()
                                    .map(finish -> deletable(first, finish))
                                    .toList())) {
                throw new ClaimLost();
            }
        } catch (Throwable e) {
            runnings.forEach(RunningJob::returned);
            if (!status.isCompleted()) {
                rollBack(transaction, status, e);
            }
            throw e;
        }
        commitTogether(runnings, transaction, status);
        if (!readCommitted) {
            runnings.forEach(this::freeSuccessorOf);
        }
    }

    private void commitTogether(
            List<RunningJob> runnings, JobHandler.Transaction transaction, TransactionStatus status) {
        try {
            transaction.manager().commit(status);
        } catch (RuntimeException | Error e) {
            if (!DatabaseFault.isAnswered(e)) {
                runnings.forEach(RunningJob::markEndUnconfirmed);
            }
            // All or none of them are committed.
            Boolean committed = isCommitted(runnings.get(0));
            if (committed == null || (!committed && ConnectionLoss.caused(e))) {
                throw new InDoubt(e);
            }
            if (!committed) {
                throw e;
            }
            log.warn(
                    "{} jobs {}: their transaction is committed, but the commit reported a failure: the response was lost, or a"
                            + " callback after the commit failed",
                    runnings.size(),
                    runnings.get(0).name(),
                    ErrorText.loggable(e));
        }
    }

    private void requireSameDatabase() {
        if (!stores.handlerTransactions().joinsTransaction()) {
            throw new PermanentJobFailure(
                    "the transaction of its handler does not use the DataSource of the cluster, so the job cannot be completed"
                            + " in it: name the right transaction manager in @Transactional, or remove the annotation");
        }
    }

    private boolean isReadCommitted(RunningJob running) {
        return isolation.isReadCommitted(running.handler(), stores.handlerTransactions()::isolation);
    }

    private boolean finishInTransaction(RunningJob running, Finish finish) {
        try {
            return stores.handlerTransactions().finish(running.node(), finish);
        } catch (DataAccessException e) {
            if (StatementFailure.isLocked(e) || StatementFailure.isTimeout(e)) {
                throw new RowLocked(e);
            }
            throw e;
        }
    }

    /**
     * Returns whether the current transaction itself has ended the job, as that of a handler does that cancels its own. Other connections
     * still see the claim then; nobody else can change the row until the commit.
     */
    private boolean hasEndedItself(RunningJob running) {
        return stores.held().missing(running.node(), List.of(running.key())).isEmpty();
    }

    /** Returns a job whose transaction could not begin. The database or the pool is the cause, so the delay grows each time. */
    Finish returnUnbegun(RunningJob running, TransactionException failure) {
        long pause = jittered(pauses.next(running.id()));
        String cause = ErrorText.brief(Causes.root(failure));
        log.atLevel(beginFailures.getAndIncrement() == 0 ? Level.WARN : Level.DEBUG)
                .log(
                        "Job {} ({}): its transaction could not begin, the attempt is not counted; next try in {} ms: {}. Further failures"
                                + " are logged at DEBUG until a transaction begins.",
                        running.name(),
                        running.id(),
                        pause,
                        cause);
        running.ended(Kind.RETURNED, null);
        return running.givenBack(
                Duration.ofMillis(pause),
                ErrorText.storable("Its transaction could not begin, the attempt is not counted: " + cause));
    }

    /**
     * Returns a job whose transaction the database rolled back because of another one (a serialization failure, a deadlock), or because
     * of a row that references the job.
     */
    private Finish returnRolledBack(RunningJob running, Throwable failure) {
        long pause = jittered(conflicts.next(running.id()));
        String cause = ErrorText.brief(Causes.root(failure));
        log.debug(
                "Job {} ({}): its transaction conflicted with another one, the attempt is not counted; next try in {} ms: {}",
                running.name(),
                running.id(),
                pause,
                cause);
        running.ended(Kind.RETURNED, null);
        return running.givenBack(
                Duration.ofMillis(pause),
                ErrorText.storable(
                        "Its transaction conflicted with another one, the attempt is not counted: " + cause));
    }

    private long jittered(Duration pause) {
        return (long) (pause.toMillis() * (1 + random.nextDouble()));
    }

    /** Commits. If that fails, the row of the job shows whether the transaction was committed nevertheless. */
    private void commit(RunningJob running, JobHandler.Transaction transaction, TransactionStatus status) {
        try {
            transaction.manager().commit(status);
        } catch (RuntimeException | Error e) {
            if (!DatabaseFault.isAnswered(e)) {
                running.markEndUnconfirmed();
            }
            if (!Boolean.TRUE.equals(isCommitted(running))) {
                throw e;
            }
            rows.warn(
                    log,
                    "Job %s: failure after its commit".formatted(running.name()),
                    "Job {} ({}): its transaction is committed, but the commit reported a failure: the response was lost, or a"
                            + " callback after the commit failed",
                    running.name(),
                    running.id(),
                    ErrorText.loggable(e));
        }
    }

    /** Returns whether the end of a job is committed; null if the database cannot tell now. */
    private @Nullable Boolean isCommitted(RunningJob running) {
        try {
            return !stores.finishes()
                    .endedByHolder(
                            running.node(),
                            Map.of(running.key(), running.claimed().recoveries()))
                    .isEmpty();
        } catch (RuntimeException e) {
            log.debug("Job {} ({}): could not check whether it is committed", running.name(), running.id(), e);
            return null;
        }
    }

    /** Releases the job that waits for the end of this one, which the snapshot of the transaction may have hidden. */
    private void freeSuccessorOf(RunningJob running) {
        if (!running.claimed().hasKey()) {
            return;
        }
        try {
            stores.successors().freeSuccessorsOf(running.id());
        } catch (DataAccessException e) {
            // The job is committed: this is no failure of the handler.
            log.debug("Job {} ({}): the sweep will release its successor", running.name(), running.id(), e);
        }
    }

    private static void rollBack(JobHandler.Transaction transaction, TransactionStatus status, Throwable cause) {
        try {
            transaction.manager().rollback(status);
        } catch (RuntimeException e) {
            cause.addSuppressed(e);
        }
    }
}
