// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.lock;

import dev.forge.cluster.internal.database.CallerTransaction;
import dev.forge.cluster.internal.node.Member;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.Uninterrupted;
import dev.forge.cluster.lock.ClusterLock;
import dev.forge.cluster.lock.ClusterLocks;
import dev.forge.cluster.lock.LockLostException;
import dev.forge.cluster.lock.LockNotAcquiredException;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.springframework.dao.DataAccessException;
import org.springframework.transaction.IllegalTransactionStateException;
import org.springframework.transaction.TransactionException;

/** {@link ClusterLocks} on {@code forge_locks}. */
public final class DefaultClusterLocks implements ClusterLocks {

    /** Names of locks that begin with this belong to start-up actions. */
    public static final String RESERVED_PREFIX = "once:";

    private static final Duration SHORTEST = Duration.ofMillis(1);
    private static final Duration LONGEST = Duration.ofDays(36_525);
    private static final long FIRST_PAUSE_MILLIS = 10;
    private static final long LONGEST_PAUSE_MILLIS = 500;

    private final Member member;
    private final LockStore locks;
    private final LockKeeper keeper;
    private final CallerTransaction caller;

    /**
     * @param keeper renews locks while an action runs, with the default lease
     * @param caller the transactions of the application
     */
    public DefaultClusterLocks(Member member, LockStore locks, LockKeeper keeper, CallerTransaction caller) {
        this.member = member;
        this.locks = locks;
        this.keeper = keeper;
        this.caller = caller;
    }

    @Override
    public Optional<ClusterLock> tryLock(String name) {
        return tryLock(name, keeper.lease());
    }

    @Override
    public Optional<ClusterLock> tryLock(String name, Duration lease) {
        Arguments.required("ClusterLocks.tryLock", "name", name);
        Arguments.required("ClusterLocks.tryLock", "lease", lease);
        requireStorable(lease);
        OptionalLong token = acquire(name, lease);
        return token.isPresent() ? Optional.of(new HeldLock(name, token.getAsLong())) : Optional.empty();
    }

    private OptionalLong acquire(String name, Duration lease) {
        Names.require("lock name", name);
        if (name.startsWith(RESERVED_PREFIX)) {
            throw new IllegalArgumentException(
                    "lock name '%s': names that begin with %s are those of start-up actions; use another name"
                            .formatted(name, RESERVED_PREFIX));
        }
        return locks.take(name, member.requireMutable(), lease);
    }

    @Override
    public ClusterLock lock(String name, Duration timeout) throws InterruptedException {
        Arguments.required("ClusterLocks.lock", "name", name);
        Arguments.required("ClusterLocks.lock", "timeout", timeout);
        return new HeldLock(name, await(name, timeout));
    }

    /** Waits with growing pauses, so that many waiting callers do not keep the database busy. */
    private long await(String name, Duration timeout) throws InterruptedException {
        if (timeout.isNegative() || timeout.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "Lock '%s': timeout (%s) must be between zero and a hundred years".formatted(name, timeout));
        }
        long begun = member.nanos();
        long pause = FIRST_PAUSE_MILLIS;
        while (true) {
            OptionalLong token = acquireInterruptibly(name);
            if (token.isPresent()) {
                return token.getAsLong();
            }
            long left = timeout.toMillis() - TimeUnit.NANOSECONDS.toMillis(member.nanos() - begun);
            if (left <= 0) {
                throw new LockNotAcquiredException(
                        "Lock '%s' was not free within %s. The table forge_locks shows its holder."
                                .formatted(name, timeout));
            }
            // Random, so that waiting callers do not stay in step. Nobody counts down: the release happens in the
            // database.
            long millis = Math.min(left, ThreadLocalRandom.current().nextLong(pause / 2, pause + 1));
            new CountDownLatch(1).await(Math.max(1, millis), TimeUnit.MILLISECONDS);
            pause = Math.min(LONGEST_PAUSE_MILLIS, pause * 2);
        }
    }

    private OptionalLong acquireInterruptibly(String name) throws InterruptedException {
        try {
            return acquire(name, keeper.lease());
        } catch (DataAccessException | TransactionException e) {
            // An interrupted thread gets no connection. If the lock was taken nevertheless, its lease frees it.
            if (Thread.interrupted()) {
                var interrupted = new InterruptedException("Lock '%s': interrupted while it was taken".formatted(name));
                interrupted.initCause(e);
                throw interrupted;
            }
            throw e;
        }
    }

    @Override
    public <T> T withLock(String name, Duration timeout, Supplier<T> action) throws InterruptedException {
        Arguments.required("ClusterLocks.withLock", "name", name);
        Arguments.required("ClusterLocks.withLock", "timeout", timeout);
        Arguments.required("ClusterLocks.withLock", "action", action);
        requireNoTransaction("ClusterLocks.withLock");
        return holding(name, await(name, timeout), action);
    }

    @Override
    public boolean tryWithLock(String name, Runnable action) {
        Arguments.required("ClusterLocks.tryWithLock", "name", name);
        Arguments.required("ClusterLocks.tryWithLock", "action", action);
        requireNoTransaction("ClusterLocks.tryWithLock");
        OptionalLong token = acquire(name, keeper.lease());
        if (token.isEmpty()) {
            return false;
        }
        holding(name, token.getAsLong(), () -> {
            action.run();
            return true;
        });
        return true;
    }

    private <T> T holding(String name, long token, Supplier<T> action) {
        LockKeeper.Kept kept = keeper.keep(name, token);
        T result;
        boolean returned = false;
        try {
            result = action.get();
            returned = true;
        } finally {
            if (!returned) {
                keeper.abandon(kept);
            }
        }
        boolean held;
        try {
            held = keeper.stop(kept);
        } catch (DataAccessException | TransactionException e) {
            throw new LockLostException(
                    "Lock '%s': the action has run, but whether the lock was held until its end is unknown"
                            .formatted(name),
                    e);
        }
        if (!held) {
            throw new LockLostException(
                    "Lock '%s' was lost while its action ran. Another node may have held it at the same time."
                            .formatted(name));
        }
        return result;
    }

    /** A lock around a part of a transaction would be free before the commit makes the action's writes visible. */
    private void requireNoTransaction(String call) {
        if (caller.isOpen()) {
            throw new IllegalTransactionStateException(
                    "%s in a transaction would release the lock before the commit. Begin the transaction inside the action, or hold the lock with ClusterLocks.lock until the transaction has ended."
                            .formatted(call));
        }
        caller.reportForeign(call);
    }

    private static void requireStorable(Duration lease) {
        if (lease.compareTo(SHORTEST) < 0 || lease.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "ClusterLocks: lease (%s) must be between one millisecond and a hundred years".formatted(lease));
        }
    }

    private final class HeldLock implements ClusterLock {

        private final String name;
        private final long token;

        HeldLock(String name, long token) {
            this.name = name;
            this.token = token;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public long token() {
            return token;
        }

        @Override
        public boolean extend(Duration lease) {
            Arguments.required("ClusterLock.extend", "lease", lease);
            requireStorable(lease);
            return locks.extend(name, token, lease);
        }

        @Override
        public void close() {
            Uninterrupted.call(() -> locks.release(name, token));
        }

        @Override
        public String toString() {
            return "ClusterLock[%s, token %d]".formatted(name, token);
        }
    }
}
