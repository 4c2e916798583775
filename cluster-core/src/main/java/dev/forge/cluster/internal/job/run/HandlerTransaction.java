// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.database.failure.Causes;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.HandlerTransactionStore;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.JobFinishStore;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.row.JobReleaseStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.RowLog;
import dev.forge.cluster.job.NonRetryableJobException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.TransactionStatus;

/**
 * Calls a handler in its own transaction, whose last statement ends the claims of its jobs. The effects of the handler and the
 * completion of its jobs are committed together, or not at all.
 */
final class HandlerTransaction {

    private static final Logger log = GuardedLogger.of(HandlerTransaction.class);

    private final RowLog rows = new RowLog();
    private final HandlerTransactionStore store;
    private final JobFinishStore finishes;
    private final JobReleaseStore successors;
    private final HeldJobStore held;
    private final HandlerIsolation isolation;

    /**
     * Names whose transactions did not commit after their jobs' rows had been deleted. The cause may be a deferred constraint of the
     * application, so their rows are left to the clean-up from then on.
     */
    private final Set<String> leftToCleanUp = ConcurrentHashMap.newKeySet();

    HandlerTransaction(JobStores stores, HandlerIsolation isolation) {
        this.store = stores.handlerTransactions();
        this.finishes = stores.finishes();
        this.successors = stores.successors();
        this.held = stores.held();
        this.isolation = isolation;
    }

    /** Calls a handler; returns how the attempt of each of its jobs ended, in their order. */
    interface Call {
        List<Ending> run() throws Throwable;
    }

    /** What became of a transaction. */
    sealed interface Result {

        /** The ends of the jobs are committed. */
        record Committed(List<Ending> endings) implements Result {}

        /** It could not begin, because of the database or the pool. */
        record NotBegun(TransactionException failure) implements Result {}

        /** This node no longer holds one of the jobs. It was rolled back, unless it has ended its job itself. */
        record ClaimLost() implements Result {}

        /** It was rolled back: another transaction has locked the row of a job for too long. */
        record RowLocked() implements Result {}

        /** It was rolled back, perhaps because the row of a job was deleted. The next one leaves the row to the clean-up. */
        record DeletionRefused(Throwable failure) implements Result {}

        /** It may be committed: the response was lost, and the database cannot tell now. */
        record InDoubt(Throwable failure) implements Result {}

        /**
         * It was rolled back.
         *
         * @param answered whether the database has said so
         */
        record Failed(Throwable failure, boolean answered) implements Result {}
    }

    /** Runs a call for the jobs of one handler that one node id has claimed. */
    Result run(List<Attempt> attempts, Call call) {
        JobHandler handler = attempts.get(0).handler();
        var transaction = Objects.requireNonNull(handler.target().transaction());
        TransactionStatus status;
        try {
            status = transaction.manager().getTransaction(transaction.definition());
        } catch (TransactionException e) {
            return DatabaseFailure.kind(e).canBeginLater() ? new Result.NotBegun(e) : new Result.Failed(e, true);
        }
        List<Ending> endings;
        boolean readCommitted;
        boolean cancelled;
        try {
            endings = call.run();
            if (leftToCleanUp.contains(attempts.get(0).name())) {
                endings = endings.stream().map(Ending::leftToCleanUp).toList();
            }
            attempts.forEach(Attempt::ending);
            // Pending changes of an entity manager belong before the statement that ends the claim.
            status.flush();
            requireSameDatabase();
            readCommitted = isolation.isReadCommitted(handler, store::isolation);
            Result problem = finish(attempts.get(0), endings);
            cancelled = problem instanceof Result.ClaimLost && hasEndedItself(attempts);
            if (problem != null && !cancelled) {
                return rolledBack(transaction, status, problem);
            }
        } catch (Throwable e) {
            // An interrupt that was meant for the handler must not disturb the rollback.
            attempts.forEach(Attempt::returned);
            return rolledBack(transaction, status, new Result.Failed(e, true));
        }
        Result result = commit(attempts, transaction, status, endings, readCommitted);
        return cancelled && result instanceof Result.Committed ? new Result.ClaimLost() : result;
    }

    /**
     * Returns whether the current transaction itself has ended its only job, as that of a handler does that cancels its own. Other
     * connections still see the claim then; nobody else can change the row until the commit.
     */
    private boolean hasEndedItself(List<Attempt> attempts) {
        return attempts.size() == 1
                && held.missing(attempts.get(0).node(), List.of(attempts.get(0).key()))
                        .isEmpty();
    }

    private void requireSameDatabase() {
        if (!store.joinsTransaction()) {
            throw new NonRetryableJobException(
                    "the transaction of its handler does not use the DataSource of the cluster, so the job cannot be completed"
                            + " in it: name the right transaction manager in @Transactional, or remove the annotation");
        }
    }

    /** Ends the claims; returns what prevents that, or null. */
    private @Nullable Result finish(Attempt first, List<Ending> endings) {
        List<Finish> all = endings.stream()
                .map(ending -> Objects.requireNonNull(ending.finish()))
                .toList();
        UUID node = first.node();
        try {
            boolean held = all.size() == 1 ? store.finish(node, all.get(0)) : store.finishAll(node, all);
            return held ? null : new Result.ClaimLost();
        } catch (DataAccessException e) {
            if (DatabaseFailure.kind(e) == DatabaseFailure.Kind.LOCK_TIMEOUT
                    || DatabaseFailure.kind(e) == DatabaseFailure.Kind.STATEMENT_TIMEOUT) {
                return new Result.RowLocked();
            }
            throw e;
        }
    }

    private static Result rolledBack(JobHandler.Transaction transaction, TransactionStatus status, Result result) {
        if (!status.isCompleted()) {
            try {
                transaction.manager().rollback(status);
            } catch (RuntimeException e) {
                if (result instanceof Result.Failed failed) {
                    failed.failure.addSuppressed(e);
                } else {
                    log.debug("A transaction that could not end its jobs could not be rolled back", e);
                }
            }
        }
        return result;
    }

    /** Commits. If that fails, the row of a job shows whether the transaction, and so all of its jobs, is committed nevertheless. */
    private Result commit(
            List<Attempt> attempts,
            JobHandler.Transaction transaction,
            TransactionStatus status,
            List<Ending> endings,
            boolean readCommitted) {
        try {
            transaction.manager().commit(status);
        } catch (RuntimeException | Error e) {
            boolean answered = DatabaseFailure.kind(e).isAnswered();
            Boolean committed = isCommitted(attempts.get(0));
            if (committed == null) {
                return new Result.InDoubt(e);
            }
            if (!committed) {
                return isRefusedDeletion(attempts.get(0), endings, e)
                        ? new Result.DeletionRefused(e)
                        : new Result.Failed(e, answered);
            }
            rows.warn(
                    log,
                    "Job %s: failure after its commit".formatted(attempts.get(0).name()),
                    "Job {} ({}): the transaction of {} jobs is committed, but the commit reported a failure: the response was"
                            + " lost, or a callback after the commit failed",
                    attempts.get(0).name(),
                    attempts.get(0).id(),
                    attempts.size(),
                    ErrorText.loggable(e));
        }
        if (!readCommitted) {
            attempts.forEach(this::freeSuccessorOf);
        }
        return new Result.Committed(endings);
    }

    /** Returns whether a commit may have failed because the row of a job is deleted. Without the deletion the failure counts. */
    private boolean isRefusedDeletion(Attempt first, List<Ending> endings, Throwable failure) {
        boolean refused = DatabaseFailure.kind(failure).isRejection()
                && endings.stream().map(Ending::finish).anyMatch(finish -> finish != null && finish.isDeletion());
        if (refused && leftToCleanUp.add(first.name())) {
            log.info(
                    "Job {}: the database rejected a commit that deletes the row of the job. From now on this node leaves rows of"
                            + " completed jobs of this name to the clean-up: {}",
                    first.name(),
                    ErrorText.brief(Causes.root(failure)));
        }
        return refused;
    }

    /** Returns whether the end of a job is committed; null if the database cannot tell now. */
    private @Nullable Boolean isCommitted(Attempt attempt) {
        try {
            Map<ClaimKey, Integer> asked =
                    Map.of(attempt.key(), attempt.claimed().recoveries());
            return !finishes.endedByHolder(attempt.node(), asked).isEmpty();
        } catch (RuntimeException e) {
            log.debug("Job {} ({}): could not check whether it is committed", attempt.name(), attempt.id(), e);
            return null;
        }
    }

    /** Releases the job that waits for the end of this one, which the snapshot of the transaction may have hidden. */
    private void freeSuccessorOf(Attempt attempt) {
        if (!attempt.claimed().hasKey()) {
            return;
        }
        try {
            successors.freeSuccessorsOf(attempt.id());
        } catch (DataAccessException e) {
            // The job is committed: this is no failure of the handler.
            log.debug("Job {} ({}): the sweep will release its successor", attempt.name(), attempt.id(), e);
        }
    }
}
