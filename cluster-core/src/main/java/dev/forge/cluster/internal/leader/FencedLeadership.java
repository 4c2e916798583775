// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.leader;

import dev.forge.cluster.internal.async.AsyncResults;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.leader.Leadership;
import dev.forge.cluster.leader.NotLeaderException;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * {@link Leadership} for the application, with fenced writes in the application's own transactions.
 *
 * <p>The fence is taken by the last statements before the commit, so that it is held as short as possible: until the commit it
 * keeps the next term from beginning.
 */
public final class FencedLeadership implements Leadership {

    private final Candidate candidate;
    private final LeaderStore leaders;
    private final TransactionTemplate transaction;
    private final TransactionTemplate separate;

    /**
     * @param leaders on the application's data source, because the fence must share the transaction of the work
     * @param transactions the transaction manager of that data source
     */
    public FencedLeadership(Candidate candidate, LeaderStore leaders, PlatformTransactionManager transactions) {
        this.candidate = candidate;
        this.leaders = leaders;
        this.transaction = new TransactionTemplate(transactions);
        this.separate = new TransactionTemplate(transactions);
        separate.setPropagationBehavior(TransactionDefinition.PROPAGATION_REQUIRES_NEW);
    }

    @Override
    public void join(String role) {
        Arguments.required("Leadership.join", "role", role);
        Names.require("leader role", role);
        candidate.reservedPrefix(role).ifPresent(reserved -> {
            throw new IllegalArgumentException("leader role '%s': names that begin with %s are reserved for %s"
                    .formatted(role, reserved.text(), reserved.owner()));
        });
        if (candidate.mayLead()) {
            candidate.elector().join(role);
        }
    }

    @Override
    public void leave(String role) {
        Arguments.required("Leadership.leave", "role", role);
        candidate.elector().leave(role);
    }

    @Override
    public boolean isLeader(String role) {
        Arguments.required("Leadership.isLeader", "role", role);
        return candidate.elector().isLeader(role);
    }

    @Override
    public OptionalLong term(String role) {
        Arguments.required("Leadership.term", "role", role);
        return candidate.elector().term(role);
    }

    @Override
    public OptionalLong fencingToken(String role) {
        Arguments.required("Leadership.fencingToken", "role", role);
        return candidate.elector().fencingToken(role);
    }

    @Override
    public void fenced(String role, Runnable work) {
        Arguments.required("Leadership.fenced", "work", work);
        Leadership.super.fenced(role, work);
    }

    @Override
    public <T> T fenced(String role, Supplier<T> work) {
        Arguments.required("Leadership.fenced", "role", role);
        Arguments.required("Leadership.fenced", "work", work);
        UUID self = candidate.id();
        OptionalLong term = term(role);
        if (self == null || term.isEmpty()) {
            throw new NotLeaderException("role %s: this node does not lead%s"
                    .formatted(
                            role,
                            candidate.elector().isCandidate(role)
                                    ? ""
                                    : ", and does not stand for election: put @LeaderRole(\"%s\") on a bean, or call Leadership.join"
                                            .formatted(role)));
        }
        return fenced(role, self, term.getAsLong(), work);
    }

    /** Runs work that is fenced by a certain term, even if the node leads in a later one by now. */
    public <T> T fenced(String role, UUID self, long term, Supplier<T> work) {
        return guarded(work, () -> requireTerm(role, self, term));
    }

    /**
     * Takes the fence of a term; a guard for {@link #guarded}.
     *
     * @throws NotLeaderException if the term has ended
     */
    public void requireTerm(String role, UUID self, long term) {
        // The elector is checked first: writes of a node that has lost the role would share the fence again and again,
        // and keep the next term from beginning.
        if (!candidate.elector().holds(role, term) || !candidate.fences().take(leaders, role, self, term)) {
            throw new NotLeaderException(
                    "role %s: term %d of this node is over; the work was rolled back".formatted(role, term));
        }
    }

    /** Runs work in a transaction whose last statements are those of the guard. An exception of the guard rolls it back. */
    public <T> T guarded(Supplier<T> work, Runnable guard) {
        // In a callback after a commit, Spring would take part in the transaction that has ended.
        TransactionTemplate open = leaders.caller().hasEnded() ? separate : transaction;
        Result<T> result = open.execute(status -> {
            if (!leaders.caller().isActive()) {
                throw new IllegalStateException(
                        "The transaction manager does not belong to the cluster's DataSource: the work would not be fenced");
            }
            leaders.caller().requireWritable("fenced");
            leaders.caller().join();
            if (status.isNewTransaction()) {
                leaders.boundIdleness(candidate.lease());
            }
            T value = work.get();
            if (AsyncResults.isUnfinished(value)) {
                AsyncResults.cancel(value);
                throw new IllegalStateException(
                        "Fenced work returned an unfinished future and was rolled back: the work of the future would not be fenced. Wait for the future inside of the work.");
            }
            // Changes that an entity manager has not written yet must be written before the fence is taken.
            status.flush();
            guard.run();
            return new Result<>(value);
        });
        if (result == null) {
            throw new IllegalStateException("The transaction manager did not run the work");
        }
        return result.value;
    }

    private record Result<T extends @Nullable Object>(T value) {}
}
