// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.startup;

import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.database.connection.ControlConnections;
import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.database.failure.DatabaseFailure.Kind;
import dev.forge.cluster.internal.lock.LockStore;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.Member;
import dev.forge.cluster.internal.runtime.Names;
import dev.forge.cluster.internal.runtime.Pause;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.UUID;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.transaction.CannotCreateTransactionException;
import org.springframework.transaction.TransactionException;

/**
 * Runs actions once in the whole cluster. A lock of {@code forge_locks} decides which node runs an action; its lease is
 * extended while the action runs, so that another node takes over soon after the first one has crashed. The token of the lock
 * guards the statement that records completion: completion is also recorded after an outage longer than the lease, unless
 * another node has taken the lock meanwhile.
 *
 * <p>Needs neither membership nor loops, because it runs while the application is still starting.
 */
public final class StartupActions {

    private static final Logger log = GuardedLogger.of(StartupActions.class);

    private final Member member;
    private final Schema schema;
    private final ControlConnections control;
    private final Timing timing;

    /** The owner of the locks of a node that has not joined yet. */
    private final UUID beforeJoining = UUID.randomUUID();

    /**
     * The timing of actions.
     *
     * @param lease the longest time until another node takes over after a crash of the node that runs an action
     * @param poll the pause between two looks of a waiting node
     * @param patience how long a node waits, unless the caller says otherwise
     */
    public record Timing(Duration lease, Duration poll, Duration patience) {

        /** Returns the usual timing for nodes that wait that long. */
        public static Timing waitingFor(Duration patience) {
            return new Timing(Duration.ofSeconds(30), Duration.ofMillis(500), patience);
        }
    }

    public StartupActions(Member member, Schema schema, ControlConnections control, Timing timing) {
        this.member = member;
        this.schema = schema;
        this.control = control;
        this.timing = timing;
    }

    public boolean once(String name, String version, Runnable action) {
        return once(name, version, timing.patience, action);
    }

    public boolean once(String name, String version, Duration patience, Runnable action) {
        if (name.isBlank() || version.isBlank()) {
            throw new IllegalArgumentException(
                    "A startup action needs a name and a version, but has '%s' and '%s'".formatted(name, version));
        }
        Names.require("startup action", name);
        Names.require("version of startup action '%s'".formatted(name), version);
        if (patience.isNegative()) {
            throw new IllegalArgumentException(
                    "Startup action '%s': timeout (%s) must not be negative".formatted(name, patience));
        }
        // A connection for this call only: the lifecycle closes the control connections, and it may never start.
        try (ControlConnections own = control.apart(1)) {
            return new Call(
                            name,
                            version,
                            member.nanos() + patience.toNanos(),
                            new StartupActionStore(schema, own),
                            new LockStore(schema, own))
                    .run(patience, action);
        }
    }

    private record LeaseExtension(ThreadPoolTaskScheduler thread, ScheduledFuture<?> repeated) {

        void stop() {
            repeated.cancel(false);
            thread.shutdown();
        }
    }

    private final class Call {

        private final String name;
        private final String version;
        private final String lock;
        private final long deadline;
        private final StartupActionStore actions;
        private final LockStore locks;

        Call(String name, String version, long deadline, StartupActionStore actions, LockStore locks) {
            this.name = name;
            this.version = version;
            this.lock = StartupActionStore.LOCK_PREFIX + name;
            this.deadline = deadline;
            this.actions = actions;
            this.locks = locks;
        }

        boolean run(Duration patience, Runnable action) {
            boolean waiting = false;
            while (!actions.isCompleted(name, version)) {
                member.requireMayMutate();
                UUID holder = member.id();
                OptionalLong token = locks.take(lock, holder != null ? holder : beforeJoining, timing.lease);
                if (token.isPresent()) {
                    return runUnlessCompleted(token.getAsLong(), action);
                }
                if (member.nanos() - deadline >= 0) {
                    throw new ClusterStartupException(
                            "Startup action '%s' version '%s': not completed within %s; node %s is running it"
                                    .formatted(
                                            name,
                                            version,
                                            patience,
                                            actions.holder(lock).orElse("unknown")),
                            "Look at the log of that node, or allow more time with forge.cluster.startup.wait-timeout.");
                }
                if (!waiting) {
                    log.info(
                            "Startup action '{}' version '{}': waiting for node {}, which runs it",
                            name,
                            version,
                            actions.holder(lock).orElse("unknown"));
                    waiting = true;
                }
                pause();
            }
            return false;
        }

        private boolean runUnlessCompleted(long token, Runnable action) {
            try {
                // The former holder of the lock may have completed the action since the last look.
                if (actions.isCompleted(name, version)) {
                    return false;
                }
                LeaseExtension extension = extendLease(token);
                try {
                    action.run();
                    complete(token);
                } finally {
                    extension.stop();
                }
                return true;
            } finally {
                release(token);
            }
        }

        /** Extends the lease on another thread, which is not one of the scheduler: that may not have been started yet. */
        private LeaseExtension extendLease(long token) {
            var thread = new ThreadPoolTaskScheduler();
            thread.setThreadNamePrefix("forge-cluster-startup-");
            thread.setDaemon(true);
            // An extension that is under way must return the connection before the next statement needs it.
            thread.setWaitForTasksToCompleteOnShutdown(true);
            thread.setAwaitTerminationSeconds(5);
            thread.initialize();
            var lost = new AtomicBoolean();
            Duration third = timing.lease.dividedBy(3);
            return new LeaseExtension(
                    thread,
                    thread.scheduleWithFixedDelay(
                            () -> extend(token, lost),
                            thread.getClock().instant().plus(third),
                            third));
        }

        private void extend(long token, AtomicBoolean lost) {
            try {
                if (!lost.get() && !locks.renew(lock, token, timing.lease)) {
                    lost.set(true);
                    log.error(
                            "Startup action '{}' version '{}': another node has taken its lock while this node runs the action."
                                    + " That node may run the action, too; this node will not record completion.",
                            name,
                            version);
                }
            } catch (RuntimeException | Error e) {
                // Errors, too: the scheduler may not repeat a task that throws.
                log.warn("Startup action '{}' version '{}': could not extend its lease; retrying", name, version, e);
            }
        }

        private void complete(long token) {
            long begun = member.nanos();
            boolean reported = false;
            while (true) {
                try {
                    if (actions.complete(name, version, member.identity().name(), lock, token)) {
                        log.info("Startup action '{}' version '{}': completed", name, version);
                        return;
                    }
                    throw new ClusterStartupException(
                            "Startup action '%s' version '%s': ran on this node, but another node has taken its lock"
                                            .formatted(name, version)
                                    + " meanwhile; completion is not recorded",
                            "Another node runs the action. Restart this node: it then waits for the other one.");
                } catch (DataAccessException | TransactionException e) {
                    Duration patience = completionPatience(e);
                    if (member.nanos() - begun >= patience.toNanos()) {
                        throw e;
                    }
                    if (!reported) {
                        log.warn(
                                "Startup action '{}' version '{}': could not record its completion; retrying for up to {}: {}",
                                name,
                                version,
                                patience,
                                DatabaseFailure.brief(e));
                        reported = true;
                    }
                    pause();
                }
            }
        }

        /** Returns how long to retry: while the database is unreachable, as long as other nodes wait for the action. */
        private Duration completionPatience(Exception failure) {
            // CannotCreateTransactionException: no connection could be opened, or the lease extension uses the only
            // one.
            boolean unreachable = DatabaseFailure.kind(failure) == Kind.CONNECTION_LOST
                    || failure instanceof CannotCreateTransactionException;
            return unreachable && timing.patience.compareTo(timing.lease) > 0 ? timing.patience : timing.lease;
        }

        private void release(long token) {
            try {
                locks.release(lock, token);
            } catch (DataAccessException | TransactionException e) {
                log.debug("Startup action '{}': could not release its lock, which will expire", name, e);
            }
        }

        private void pause() {
            try {
                Pause.of(timing.poll);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(
                        "Startup action '%s' version '%s': interrupted while waiting".formatted(name, version), e);
            }
        }
    }
}
