package dev.forge.cluster.internal.engine;

import dev.forge.cluster.Leadership;
import dev.forge.cluster.LeadershipLostException;
import dev.forge.cluster.internal.store.DaemonStore;
import dev.forge.cluster.internal.store.LeaderStore;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * {@link Leadership} for the application, with fenced writes in the application's own transactions.
 *
 * <p>The work comes first; the fence is taken by the last statements before the commit, so that it is held for as short
 * as possible. Until the commit it keeps the next term from beginning.
 */
public final class FencedLeadership implements Leadership {

    private final Node node;
    private final LeaderStore leaders;
    private final TransactionTemplate transaction;

    /**
     * @param leaders on the application's data source: the fence must share the work's transaction
     * @param transactions the manager of that data source
     */
    public FencedLeadership(Node node, LeaderStore leaders, PlatformTransactionManager transactions) {
        this.node = node;
        this.leaders = leaders;
        this.transaction = new TransactionTemplate(transactions);
    }

    @Override
    public void join(String role) {
        Arguments.required("Leadership.join", "role", role);
        Names.require("leader role", role);
        if (DaemonStore.isDaemon(role)) {
            throw new IllegalArgumentException("leader role '%s': names that begin with %s are those of daemons"
                    .formatted(role, DaemonStore.PREFIX));
        }
        if (node.settings().presence().isCandidate()) {
            node.elector().join(role);
        }
    }

    @Override
    public void leave(String role) {
        Arguments.required("Leadership.leave", "role", role);
        node.elector().leave(role);
    }

    @Override
    public boolean isLeader(String role) {
        Arguments.required("Leadership.isLeader", "role", role);
        return node.elector().isLeader(role);
    }

    @Override
    public OptionalLong term(String role) {
        Arguments.required("Leadership.term", "role", role);
        return node.elector().term(role);
    }

    @Override
    public OptionalLong fencingToken(String role) {
        Arguments.required("Leadership.fencingToken", "role", role);
        return node.elector().fencingToken(role);
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
        UUID self = node.id();
        OptionalLong term = term(role);
        if (self == null || term.isEmpty()) {
            throw new LeadershipLostException("role %s: this node does not lead%s"
                    .formatted(
                            role,
                            node.elector().isCandidate(role)
                                    ? ""
                                    : ", and does not stand for election: put @LeaderRole(\"%s\") on a bean, or call Leadership.join"
                                            .formatted(role)));
        }
        return fenced(role, self, term.getAsLong(), work);
    }

    /** In that very term, whatever this node leads by now. */
    <T> T fenced(String role, UUID self, long term, Supplier<T> work) {
        return guarded(work, () -> requireTerm(role, self, term));
    }

    /** For {@link #guarded}: demands that the term of that node has not ended. */
    void requireTerm(String role, UUID self, long term) {
        // The elector first: writes of a node that has lost the role would share the fence again and again, and keep
        // the next
        // term from beginning.
        if (!node.elector().holds(role, term) || !node.fences().take(leaders, role, self, term)) {
            throw new LeadershipLostException(
                    "role %s: term %d of this node is over; the work was rolled back".formatted(role, term));
        }
    }

    /** Runs work in a transaction whose last statements are the guard's; what that throws rolls it back. */
    <T> T guarded(Supplier<T> work, Runnable guard) {
        Result<T> result = transaction.execute(status -> {
            if (!leaders.isInTransaction()) {
                throw new IllegalStateException(
                        "the transaction manager is not that of the cluster's DataSource: nothing would be fenced");
            }
            CallerTransaction.requireWritable("fenced");
            if (status.isNewTransaction()) {
                leaders.boundIdleness(node.settings().election().lease());
            }
            T value = work.get();
            if (AsyncResults.isUnfinished(value)) {
                AsyncResults.cancel(value);
                throw new IllegalStateException(
                        "fenced work returned a future that has not finished, and was rolled back: what the future does would not be fenced. Wait for it inside of the work.");
            }
            // What an entity manager still holds back must be written before the fence.
            status.flush();
            guard.run();
            return new Result<>(value);
        });
        if (result == null) {
            throw new IllegalStateException("the transaction manager did not run the work");
        }
        return result.value;
    }

    private record Result<T extends @Nullable Object>(T value) {}
}
