// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.job.JobTimeoutException;
import dev.forge.cluster.test.ClusterTester.Mode;
import dev.forge.cluster.test.postgres.TestDatabase;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/** Steps the node of a test: runs its jobs one by one, and replaces it when the test lets it die. One call at a time. */
final class NodeDriver {

    /** More jobs than a test has: jobs enqueue each other without an end. */
    private static final int MOST_RUNS = 10_000;

    /** More attempts than a job has whose end a test waits for. */
    private static final int MOST_ATTEMPTS = 1_000;

    /** How long a call waits while the test has a transaction of its own. */
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /** How often a call that waits looks whether it waits for the test's own transaction. */
    private static final Duration LOOK = Duration.ofSeconds(2);

    private static final Logger log = LoggerFactory.getLogger(NodeDriver.class);

    private final Mode mode;
    private final TestDatabase database;
    private final AttemptRecorder attempts;
    private final TestClock clock;
    private final StepFaults steps = new StepFaults(this::dieHere);
    private final ReentrantLock driving = new ReentrantLock();
    private final AtomicBoolean due = new AtomicBoolean();
    private final AtomicBoolean crashed = new AtomicBoolean();
    private @Nullable TestedNode tested;
    private volatile boolean inline;

    NodeDriver(Mode mode, TestDatabase database, AttemptRecorder attempts, TestClock clock) {
        this.mode = mode;
        this.database = database;
        this.attempts = attempts;
        this.clock = clock;
        attempts.onCrash(this::dieHere);
    }

    /** Sets the node to drive, when its context has started. */
    void drive(TestedNode node) {
        tested = node;
        node.workflowEngine().probe(steps);
        inline = mode == Mode.INLINE;
        node.engine().onAnnouncement(() -> {
            if (inline) {
                runInline();
            }
        });
    }

    TestedNode tested() {
        return Objects.requireNonNull(tested, "The context of the test has not started");
    }

    Node node() {
        return tested().node();
    }

    StepFaults steps() {
        return steps;
    }

    AttemptRecorder attempts() {
        return attempts;
    }

    /** Forgets the faults and the attempts of the last test. */
    void forget() {
        attempts.forget();
        steps.forget();
        crashed.set(false);
        due.set(false);
    }

    // Driving -----------------------------------------------------------------------------------------------

    boolean isLive() {
        return mode == Mode.LIVE;
    }

    void requireDriven(String call) {
        if (isLive()) {
            throw new IllegalStateException(
                    "ClusterTester.%s: in mode LIVE the cluster runs by itself. Enqueue jobs and wait with eventually(...)."
                            .formatted(call));
        }
    }

    /** Runs an action that steps the node, on behalf of a call of the test. */
    <T> T driving(String call, Callable<T> action) {
        requireDriven(call);
        if (isHandlerThread()) {
            throw new IllegalStateException(
                    "ClusterTester.%s: called by a handler, which the test itself runs at present".formatted(call));
        }
        return besideTransaction(() -> exclusively(action));
    }

    /** Runs an action while nobody else steps the node. */
    <T> T exclusively(Callable<T> action) {
        driving.lock();
        try {
            return call(action);
        } finally {
            driving.unlock();
            runAnnounced();
        }
    }

    private static boolean isHandlerThread() {
        return Thread.currentThread().getName().startsWith("forge-job-");
    }

    /** Runs an action that does not take part in the test's own transaction. */
    static <T> T outsideOfTransaction(Callable<T> action) {
        return TransactionSynchronizationManager.isSynchronizationActive()
                ? onNewThread(action, () -> {})
                : call(action);
    }

    /**
     * A job must be committed before it can run, whatever the test's own transaction does; and that would keep the connections that
     * the node uses on its thread.
     */
    <T> T besideTransaction(Callable<T> action) {
        return TransactionSynchronizationManager.isSynchronizationActive() ? onNewThread(action) : call(action);
    }

    private static <T> T call(Callable<T> action) {
        try {
            return action.call();
        } catch (RuntimeException e) {
            throw e;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private <T> T onNewThread(Callable<T> action) {
        Integer session = ownSession();
        return onNewThread(action, () -> requireNotBlockedBy(session));
    }

    /** @param look called now and then while the action runs */
    private static <T> T onNewThread(Callable<T> action, Runnable look) {
        var task = new FutureTask<>(action);
        var thread = new Thread(task, "forge-test");
        thread.setDaemon(true);
        thread.start();
        try {
            for (Duration waited = Duration.ZERO; waited.compareTo(PATIENCE) < 0; waited = waited.plus(LOOK)) {
                try {
                    return task.get(LOOK.toMillis(), TimeUnit.MILLISECONDS);
                } catch (TimeoutException e) {
                    look.run();
                }
            }
            throw new IllegalStateException("The call has not returned for %s".formatted(PATIENCE));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            if (e.getCause() instanceof Error cause) {
                throw cause;
            }
            throw new IllegalStateException(e.getCause());
        }
    }

    /** Returns the session of the test's own transaction; null if it has none. */
    private @Nullable Integer ownSession() {
        return TransactionSynchronizationManager.isActualTransactionActive()
                ? JdbcClient.create(tested().application())
                        .sql("SELECT pg_backend_pid()")
                        .query(Integer.class)
                        .single()
                : null;
    }

    private void requireNotBlockedBy(@Nullable Integer session) {
        if (session != null) {
            database.jdbc()
                    .sql("""
                            SELECT left(query, 200) FROM pg_stat_activity
                            WHERE datname = current_database() AND ? = ANY (pg_blocking_pids(pid)) LIMIT 1
                            """)
                    .params(session)
                    .query(String.class)
                    .optional()
                    .ifPresent(statement -> {
                        throw new IllegalStateException(
                                "A job waits for a lock that the test's own transaction holds, and would wait for ever. Commit first, or leave out @Transactional. The statement that waits: %s"
                                        .formatted(statement));
                    });
        }
    }

    /** Warns of jobs that exist only in the test's own transaction: they cannot run before it commits. */
    void warnOfUncommittedJobs() {
        if (!TransactionSynchronizationManager.isActualTransactionActive()) {
            return;
        }
        long uncommitted = JdbcClient.create(tested().application())
                .sql(
                        node().resources()
                                .schema()
                                .sql(
                                        "SELECT count(*) FROM ~.forge_jobs WHERE xmin = pg_current_xact_id_if_assigned()::xid AND status = 'pending'"))
                .query(Long.class)
                .single();
        if (uncommitted > 0) {
            log.warn(
                    "{} jobs were enqueued in the test's own transaction. They cannot run before it commits: leave out @Transactional, or enqueue them in a transaction of their own.",
                    uncommitted);
        }
    }

    // Inline ------------------------------------------------------------------------------------------------

    boolean isInline() {
        return inline;
    }

    void inline(Runnable action) {
        boolean before = inline;
        inline = true;
        try {
            action.run();
        } finally {
            inline = before;
        }
    }

    /** Runs what is due before the commit that announced it returns. Jobs of jobs run when these have ended. */
    void runInline() {
        due.set(true);
        runAnnounced();
    }

    private void runAnnounced() {
        // Who steps the node continues until nothing is due: a handler, on whatever thread, must not wait for its own
        // end.
        if (due.get() && !driving.isLocked()) {
            onNewThread(() -> {
                while (due.get() && driving.tryLock()) {
                    try {
                        due.set(false);
                        runUntilIdle();
                    } finally {
                        driving.unlock();
                    }
                }
                return true;
            });
        }
    }

    // Jobs --------------------------------------------------------------------------------------------------

    JobRun run(UUID job) throws InterruptedException {
        if (!tested().engine().run(job)) {
            throw new IllegalStateException(whyNot(job));
        }
        return afterAttempt(job);
    }

    private String whyNot(UUID id) {
        Optional<JobInfo> job = tested().jobs().find(id);
        if (job.isEmpty()) {
            return "Job %s does not exist. If this test has enqueued it in a transaction, that must commit first."
                    .formatted(id);
        }
        if (job.get().status() == JobStatus.PENDING && job.get().scheduledAt().isAfter(clock.instant())) {
            return "Job %s (%s) is due at %s, and the time of the test is %s: move it on with clock().advance or setTo."
                    .formatted(job.get().name(), id, job.get().scheduledAt(), clock.instant());
        }
        return "Job %s (%s), %s, cannot start: %s"
                .formatted(
                        job.get().name(),
                        id,
                        job.get().status(),
                        tested().operations().explain(id).text());
    }

    List<JobRun> runUntilIdle() throws InterruptedException {
        var runs = new ArrayList<JobRun>();
        boolean idle = false;
        while (!idle) {
            node().step();
            int before = runs.size();
            for (List<UUID> ran = tested().engine().runNext();
                    !ran.isEmpty();
                    ran = tested().engine().runNext()) {
                for (UUID job : ran) {
                    runs.add(afterAttempt(job));
                }
                if (runs.size() > MOST_RUNS) {
                    throw new IllegalStateException(
                            "%d attempts were made, and jobs are still due. Do jobs enqueue each other without an end? The last one: %s"
                                    .formatted(runs.size(), runs.get(runs.size() - 1)));
                }
            }
            idle = runs.size() == before;
        }
        return runs;
    }

    JobRun retryUntilFinal(UUID job) throws InterruptedException {
        JobRun last = null;
        for (int i = 0; i < MOST_ATTEMPTS; i++) {
            JobInfo now = tested().jobs().find(job).orElseThrow(() -> new IllegalStateException(whyNot(job)));
            if (now.status().isFinal()) {
                return last != null ? last : new JobRun(now, null, tested().jobs());
            }
            if (now.scheduledAt().isAfter(clock.instant())) {
                clock.setTo(now.scheduledAt());
            }
            node().step();
            last = run(job);
        }
        throw new IllegalStateException("Job %s has run %d times and has not ended. Does it snooze without an end? %s"
                .formatted(job, MOST_ATTEMPTS, last));
    }

    List<JobRun> runUntil(Instant end) throws InterruptedException {
        var runs = new ArrayList<>(runUntilIdle());
        for (Instant next = nextDue(); next != null && !next.isAfter(end); next = nextDue()) {
            Instant now = clock.instant();
            // What is overdue but cannot start would come up again and again.
            clock.setTo(next.isAfter(now) ? next : now.plusMillis(1));
            runs.addAll(runUntilIdle());
            if (runs.size() > MOST_RUNS) {
                throw new IllegalStateException("%d attempts were made before %s was reached; the time is %s"
                        .formatted(runs.size(), end, next));
            }
        }
        if (clock.instant().isBefore(end)) {
            clock.setTo(end);
        }
        runs.addAll(runUntilIdle());
        return runs;
    }

    /** Returns when the next job or cron slot becomes due; null if there is none. */
    private @Nullable Instant nextDue() {
        return database.jdbc()
                .sql(node().resources().schema().sql("""
                        SELECT min(at) FROM (
                            SELECT min(scheduled_at) AS at FROM ~.forge_jobs
                            WHERE status = 'pending' AND waits_for IS NULL AND scheduled_at > now() AND isfinite(scheduled_at)
                            UNION ALL
                            SELECT min(next_fire_at) FROM ~.forge_crons WHERE next_fire_at > now() AND :crons) AS next
                        """))
                .param("crons", tested().cronEngine().firesSlots())
                .query((row, n) -> Optional.ofNullable(row.getObject(1, OffsetDateTime.class)))
                .single()
                .map(OffsetDateTime::toInstant)
                .orElse(null);
    }

    private JobRun afterAttempt(UUID job) {
        if (crashed.getAndSet(false)) {
            replaceDeadNode();
        }
        JobInfo info = tested().jobs()
                .find(job)
                .orElseThrow(() -> new IllegalStateException("Job %s has been deleted by the test".formatted(job)));
        return new JobRun(info, failure(info), tested().jobs());
    }

    /** Returns what the handler threw. One that was interrupted at its timeout has failed because of that. */
    private @Nullable Throwable failure(JobInfo job) {
        Throwable thrown = attempts.takeFailure(job.id());
        String recorded = job.lastError();
        String timeout = JobTimeoutException.class.getName() + ": ";
        return thrown != null && recorded != null && recorded.startsWith(timeout)
                ? new JobTimeoutException(
                        recorded.lines().findFirst().orElse("").substring(timeout.length()), thrown)
                : thrown;
    }

    // Crashes -----------------------------------------------------------------------------------------------

    /** On the thread of a handler: whatever it does from now on is in vain. */
    private void dieHere() {
        crashed.set(true);
        tested().engine().lost();
    }

    void replaceDeadNode() {
        UUID dead = node().id();
        node().die();
        if (dead != null) {
            node().declareDead(dead);
        }
        node().start();
    }
}
