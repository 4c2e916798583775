// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.cron.CronSchedule;
import dev.forge.cluster.internal.database.Schema;
import dev.forge.cluster.internal.node.Node;
import dev.forge.cluster.job.JobInfo;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.job.JobStatus;
import dev.forge.cluster.workflow.WorkflowInfo;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
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
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Drives the cluster node of a test: runs its jobs, moves the time and injects faults. Everything runs through the real engine on a
 * real database; only the loops and the clock are replaced.
 *
 * <pre>{@code
 * @ClusterTest
 * class InvoiceTests {
 *     @Autowired Jobs jobs;
 *     @Autowired ClusterTester cluster;
 *
 *     @Test
 *     void reminder_follows_after_three_days() {
 *         jobs.enqueue(new SendInvoice(42));
 *         cluster.runAllDue();
 *         cluster.clock().advance(Duration.ofDays(3));
 *         cluster.runAllDue();
 *         assertThat(jobs).enqueued(SendReminder.class).once();
 *     }
 * }
 * }</pre>
 */
public final class ClusterTester {

    /** More jobs than a test has: jobs enqueue each other without an end. */
    private static final int MOST_RUNS = 10_000;

    private static final Duration EVENTUALLY = Duration.ofSeconds(30);

    /** How long a call waits while the test has a transaction of its own. */
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    /** More terms than crashes of a test begin. */
    private static final long TERMS_PER_TEST = 1_000;

    private final Mode mode;
    private final TestDatabase database;
    private final MovableTime time;
    private final AtomicLong movedNanos;
    private final AttemptRecorder attempts;
    private final TestClock clock;
    private final ReentrantLock driving = new ReentrantLock();
    private final AtomicBoolean due = new AtomicBoolean();
    private final AtomicBoolean crashed = new AtomicBoolean();
    private final StepFaults steps = new StepFaults(this::dieHere);
    private @Nullable TestedNode tested;
    private List<TestNode> nodes = List.of();
    private boolean kept;
    private long tests;
    private volatile boolean inline;

    /** What runs by itself. */
    public enum Mode {
        /** Nothing: the test calls {@link ClusterTester#runAllDue()} and the like. */
        MANUAL,
        /** A job runs when its transaction commits, before the commit returns to the caller; the time stands still. */
        INLINE,
        /** Everything, as in production; the time runs, and can be moved on. */
        LIVE
    }

    /** @param movedNanos by how much the test has moved the time, which the node reads */
    public ClusterTester(
            Mode mode, TestDatabase database, MovableTime time, AtomicLong movedNanos, AttemptRecorder attempts) {
        this.mode = mode;
        this.database = database;
        this.time = time;
        this.movedNanos = movedNanos;
        this.attempts = attempts;
        this.clock = new TestClock(time, this::moveTime);
        attempts.onCrash(this::dieHere);
    }

    /** Sets the node to drive, when the context has started. */
    public void drive(TestedNode node) {
        tested = node;
        node.workflowEngine().probe(steps);
        inline = mode == Mode.INLINE;
        node.engine().onAnnouncement(() -> {
            if (inline) {
                runInline();
            }
        });
        time.requireSeenBy(node.application());
    }

    /** Sets the further nodes of the test, when their contexts have started. */
    public void nodes(List<TestNode> further) {
        nodes = List.copyOf(further);
    }

    private TestedNode tested() {
        return Objects.requireNonNull(tested, "The context of the test has not started");
    }

    private Node node() {
        return tested().node();
    }

    // Beginning of a test -----------------------------------------------------------------------------------

    /**
     * Begins a test: all tables have the rows again that they had when the context had started, the time is that of the machine, and
     * the node joins anew. Called before each test.
     */
    public void begin() {
        restart(mode == Mode.LIVE ? null : Instant.now().truncatedTo(ChronoUnit.MILLIS));
    }

    /**
     * Begins the test again at a time of its own, in the past or the future: tables have their first rows, and crons wait for their
     * first slot after that time. To be called first in a test.
     *
     * @throws IllegalStateException in mode LIVE, where the time runs with that of the machine
     */
    public void beginAt(Instant instant) {
        if (mode == Mode.LIVE) {
            throw new IllegalStateException(
                    "ClusterTester.beginAt: in mode LIVE the time runs with that of the machine; it can only be moved on");
        }
        if (TransactionSynchronizationManager.isActualTransactionActive()) {
            throw new IllegalStateException(
                    "ClusterTester.beginAt: the test has a transaction, whose rows the restored tables would not have. Begin before it.");
        }
        restart(instant);
    }

    private void restart(@Nullable Instant instant) {
        driving.lock();
        try {
            attempts.forget();
            steps.forget();
            crashed.set(false);
            nodes.forEach(TestNode::leave);
            node().stop();
            keepOrRestore();
            if (instant == null) {
                time.run();
            } else {
                time.stopAt(instant);
                rescheduleCrons(instant);
            }
            node().start();
            nodes.forEach(TestNode::start);
        } finally {
            driving.unlock();
        }
    }

    /** Keeps the rows of all tables, when the context has started: each test begins with them. */
    public void keep() {
        driving.lock();
        try {
            if (!kept) {
                if (mode != Mode.LIVE) {
                    // So that the crons of the application are among the kept rows.
                    node().step();
                }
                nodes.forEach(TestNode::leave);
                node().stop();
                keepOrRestore();
                node().start();
            }
        } finally {
            driving.unlock();
        }
    }

    private void keepOrRestore() {
        if (!kept) {
            time.keep();
            kept = true;
            return;
        }
        time.restore();
        // Terms never repeat, also for what the node remembers of the last test.
        tests++;
        database.jdbc()
                .sql(node().resources().schema().sql("UPDATE ~.forge_leaders SET current_term = current_term + ?"))
                .params(TERMS_PER_TEST * tests)
                .update();
    }

    /**
     * Fails if a fault that the test has asked for did not happen: it would be green without it.
     *
     * @throws AssertionError if there is one
     */
    public void requireFaultsHappened() {
        var unused = new ArrayList<String>(steps.unused());
        unused.addAll(attempts.unused());
        if (!unused.isEmpty()) {
            throw new AssertionError(
                    "These faults were asked for, but no such step or job has run, or not often enough: " + unused);
        }
    }

    private void rescheduleCrons(Instant instant) {
        Schema schema = node().resources().schema();
        record Row(String name, String expression, String zone) {}
        List<Row> rows = database.jdbc()
                .sql(schema.sql("SELECT name, expression, zone FROM ~.forge_crons WHERE next_fire_at IS NOT NULL"))
                .query((row, n) -> new Row(row.getString(1), row.getString(2), row.getString(3)))
                .list();
        for (Row row : rows) {
            Instant next = CronSchedule.of(row.expression, row.zone).next(instant);
            database.jdbc()
                    .sql(schema.sql(
                            "UPDATE ~.forge_crons SET next_fire_at = nullif(?, '')::timestamptz WHERE name = ?"))
                    .params(next == null ? "" : next.toString(), row.name)
                    .update();
        }
    }

    // Time --------------------------------------------------------------------------------------------------

    /** Returns the time of the test. */
    public TestClock clock() {
        return clock;
    }

    private void moveTime(Duration duration) {
        List<Node> members = Stream.concat(Stream.of(node()), nodes.stream().map(TestNode::node))
                .filter(member -> member.id() != null)
                .toList();
        List<UUID> ids = members.stream().map(Node::id).filter(Objects::nonNull).toList();
        new LiveLeases(database, node().resources().schema()).move(ids, duration, mode == Mode.LIVE, () -> {
            time.advance(duration);
            movedNanos.addAndGet(duration.toNanos());
        });
        members.forEach(Node::timeMoved);
        if (inline) {
            runInline();
        }
    }

    // Jobs --------------------------------------------------------------------------------------------------

    /**
     * Runs one attempt of a job that is due.
     *
     * @throws IllegalStateException if it cannot start now; the message says why
     */
    public JobRun run(UUID job) {
        return driving("run", () -> {
            if (!tested().engine().run(job)) {
                throw new IllegalStateException(whyNot(job));
            }
            return afterAttempt(job);
        });
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
                        tested().jobs().explain(id));
    }

    /** Has jobs run with the commit that enqueues them while an action runs, as in mode INLINE. */
    public void inline(Runnable action) {
        requireDriven("inline");
        boolean before = inline;
        inline = true;
        try {
            action.run();
        } finally {
            inline = before;
        }
    }

    /**
     * Runs all jobs that are due, crons whose slot has come and whatever follows from them, until nothing is left to do now.
     *
     * @return the attempts in their order
     */
    public List<JobRun> runAllDue() {
        return driving("runAllDue", this::runUntilIdle);
    }

    private List<JobRun> runUntilIdle() throws InterruptedException {
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

    private JobRun afterAttempt(UUID job) {
        if (crashed.getAndSet(false)) {
            replaceDeadNode();
        }
        JobInfo info = tested().jobs()
                .find(job)
                .orElseThrow(() -> new IllegalStateException(
                        "Job %s is gone: its retention is zero, so that nothing is left to look at".formatted(job)));
        return new JobRun(info, attempts.takeFailure(job), tested().jobs());
    }

    /** Enqueues a job and runs its first attempt at once, through the real engine: transaction, guards, retries and outcome. */
    public JobRun perform(Object payload) {
        return perform(payload, JobOptions.defaults());
    }

    /** Enqueues a job with options and runs its first attempt at once. */
    public JobRun perform(Object payload, JobOptions options) {
        requireDriven("perform");
        return run(outsideOfTransaction(() -> tested().jobs().enqueue(payload, options))
                .id());
    }

    /** Enqueues a job by its name and runs its first attempt at once. */
    public JobRun performNamed(String name, @Nullable Object payload) {
        requireDriven("performNamed");
        return run(outsideOfTransaction(() -> tested().jobs().enqueueNamed(name, payload))
                .id());
    }

    /**
     * A job must be committed before it can run, whatever the test's own transaction does; and that would keep the connections that
     * the node uses on its thread.
     */
    private static <T> T outsideOfTransaction(Callable<T> action) {
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

    private static <T> T onNewThread(Callable<T> action) {
        var task = new FutureTask<>(action);
        var thread = new Thread(task, "forge-test");
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw new IllegalStateException(
                    "The call has not returned for %s. Does the test's own transaction lock rows that a job needs?"
                            .formatted(PATIENCE),
                    e);
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

    /**
     * Runs attempts of a job, and moves the time on to each of them, until it has completed or failed for good.
     *
     * @return the last attempt
     */
    public JobRun retryUntilFinal(UUID job) {
        return driving("retryUntilFinal", () -> {
            JobRun last = null;
            for (int i = 0; i < MOST_RUNS; i++) {
                JobInfo now = tested().jobs().find(job).orElseThrow(() -> new IllegalStateException(whyNot(job)));
                if (now.status().isFinal()) {
                    return last != null ? last : new JobRun(now, null, tested().jobs());
                }
                if (now.scheduledAt().isAfter(clock.instant())) {
                    clock.setTo(now.scheduledAt());
                }
                node().step();
                if (!tested().engine().run(job)) {
                    throw new IllegalStateException(whyNot(job));
                }
                last = afterAttempt(job);
            }
            throw new IllegalStateException(
                    "%d attempts were made, and the job has not ended: %s".formatted(MOST_RUNS, last));
        });
    }

    /** Moves the time on to each job and each cron slot that becomes due in that time, and runs it then. */
    public List<JobRun> runFor(Duration duration) {
        return runUntil(clock.instant().plus(duration));
    }

    /** Moves the time on to an instant, and runs each job and each cron slot that becomes due on the way at its own time. */
    public List<JobRun> runUntil(Instant end) {
        return driving("runUntil", () -> {
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
        });
    }

    /** Returns when the next job or cron slot becomes due; null if there is none. */
    private @Nullable Instant nextDue() {
        return database.jdbc()
                .sql(node().resources().schema().sql("""
                        SELECT min(at) FROM (
                            SELECT min(scheduled_at) AS at FROM ~.forge_jobs
                            WHERE status = 'pending' AND waits_for IS NULL AND scheduled_at > now() AND isfinite(scheduled_at)
                            UNION ALL
                            SELECT min(next_fire_at) FROM ~.forge_crons WHERE next_fire_at > now()) AS next
                        """))
                .query((row, n) -> Optional.ofNullable(row.getObject(1, OffsetDateTime.class)))
                .single()
                .map(OffsetDateTime::toInstant)
                .orElse(null);
    }

    /** Deletes what is older than its retention, as the loops do. */
    public void cleanUp() {
        driving("cleanUp", () -> {
            node().cleanUp();
            return true;
        });
    }

    // Workflows ---------------------------------------------------------------------------------------------

    /**
     * Runs what is due, and then moves the time on to the end of the wait that a run is in: a sleep, the timeout of a signal, or the
     * next attempt of a step.
     *
     * @return the run as it is then
     * @throws IllegalStateException if it waits for no time
     */
    public WorkflowRun skipWait(UUID run) {
        return driving("skipWait", () -> {
            runUntilIdle();
            WorkflowInfo waiting = requireRun(run);
            Instant until = waiting.wakeAt();
            if (waiting.status().isFinal() || until == null) {
                throw new IllegalStateException("Run %s of workflow %s waits for no time: %s%s"
                        .formatted(
                                run,
                                waiting.name(),
                                waiting.status(),
                                waiting.awaits() == null
                                        ? ""
                                        : ", it waits for signal '%s'".formatted(waiting.awaits())));
            }
            if (until.isAfter(clock.instant())) {
                clock.setTo(until);
            }
            runUntilIdle();
            return workflow(run);
        });
    }

    /** Sends a signal to a run, and runs what follows. */
    public WorkflowRun signal(UUID run, String name, @Nullable Object payload) {
        return driving("signal", () -> {
            runUntilIdle();
            if (!tested().workflows().signal(run, name, payload)) {
                throw new IllegalStateException(
                        "Run %s has ended: %s".formatted(run, requireRun(run).status()));
            }
            runUntilIdle();
            return workflow(run);
        });
    }

    /** Returns a run of a workflow as it is now, for {@link ClusterAssertions}. */
    public WorkflowRun workflow(UUID run) {
        return new WorkflowRun(requireRun(run), steps.executedIn(run));
    }

    private WorkflowInfo requireRun(UUID run) {
        return tested().workflows()
                .find(run)
                .orElseThrow(() -> new IllegalStateException(
                        "There is no run %s. If this test has started it in a transaction, that must commit first."
                                .formatted(run)));
    }

    /** Lets the next attempts of a step fail; its code does not run meanwhile. */
    public void failStep(String step, int times) {
        failStep(
                step,
                times,
                () -> new IllegalStateException("step '%s' fails because the test says so".formatted(step)));
    }

    /** Lets the next attempts of a step fail with an exception of the test. */
    public void failStep(String step, int times, Supplier<? extends Exception> failure) {
        requireDriven("failStep");
        if (times < 1) {
            throw new IllegalArgumentException(
                    "ClusterTester.failStep: times (%d) must be at least 1".formatted(times));
        }
        steps.fail(step, times, failure);
    }

    /** Lets the node die before the code of a step runs. Another node takes over, as if it had noticed at once. */
    public void crashBeforeStep(String step) {
        requireDriven("crashBeforeStep");
        steps.crashBefore(step);
    }

    /** Lets the node die right after a step was recorded. */
    public void crashAfterStep(String step) {
        requireDriven("crashAfterStep");
        steps.crashAfter(step);
    }

    /** Returns what replays stored runs against the code of this application. */
    public WorkflowReplayer replayer() {
        return new WorkflowReplayer(tested().workflowEngine());
    }

    // Faults ------------------------------------------------------------------------------------------------

    /** Lets the node die after the handler of a job has returned, and before its result is written or its transaction commits. */
    public void crashAfterHandler(String job) {
        requireDriven("crashAfterHandler");
        attempts.crashAfter(job);
    }

    /** Lets the node die now. Another one joins and takes over what it held, as if it had noticed at once. */
    public void crash() {
        driving("crash", () -> {
            replaceDeadNode();
            return true;
        });
    }

    /** On the thread of a handler: whatever it does from now on is in vain. */
    private void dieHere() {
        crashed.set(true);
        tested().engine().lost();
    }

    private void replaceDeadNode() {
        UUID dead = node().id();
        node().die();
        if (dead != null) {
            node().declareDead(dead);
        }
        node().start();
    }

    // Several nodes -----------------------------------------------------------------------------------------

    /**
     * Returns a node of a test with several, from 1 on. The beans that the test injects belong to none of them: their context joins
     * the cluster without running jobs and without leading, so that they work whatever happens to the nodes.
     */
    public TestNode node(int number) {
        if (number < 1 || number > nodes.size()) {
            throw new IllegalArgumentException(
                    nodes.isEmpty()
                            ? "The test has one node, which cannot be addressed: use @ClusterTest(nodes = 2)"
                            : "The test has no node %d: it has the nodes 1 to %d".formatted(number, nodes.size()));
        }
        return nodes.get(number - 1);
    }

    /** Returns all nodes of a test with several. */
    public List<TestNode> nodes() {
        return nodes;
    }

    /** Waits until one of several nodes leads a role, and returns it. */
    public TestNode leader(String role) {
        var found = new AtomicReference<TestNode>();
        eventually(() -> found.set(nodes.stream()
                .filter(member -> member.isLeader(role))
                .findFirst()
                .orElseThrow(() -> new AssertionError("no node of %s leads %s".formatted(nodes, role)))));
        return found.get();
    }

    /** Ends all sessions of the nodes and refuses new ones for that time, as a restart of the server does. */
    public void restartDatabase(Duration downtime) {
        if (nodes.isEmpty()) {
            throw new IllegalStateException(
                    "ClusterTester.restartDatabase: needs a test with several nodes, @ClusterTest(nodes = 2)");
        }
        nodes.forEach(TestNode::lose);
        database.jdbc().sql("""
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
                        """).query((row, n) -> 1).list();
        database.endIdleSessions();
        Patience.pause(downtime);
        nodes.forEach(TestNode::find);
    }

    /** Returns what verifies the promises of the cluster after faults. */
    public PromiseAuditor auditor() {
        return new PromiseAuditor(database, node().resources().schema());
    }

    // Waiting -----------------------------------------------------------------------------------------------

    /** Repeats an assertion until it holds, for at most 30 seconds. For mode LIVE. */
    public void eventually(Runnable assertion) {
        eventually(EVENTUALLY, assertion);
    }

    /**
     * Repeats an assertion until it holds.
     *
     * @throws AssertionError if it still fails after that time; its cause is the last failure
     */
    public void eventually(Duration patience, Runnable assertion) {
        Patience.eventually(patience, assertion);
    }

    // Driving -----------------------------------------------------------------------------------------------

    private static boolean isHandlerThread() {
        return Thread.currentThread().getName().startsWith("forge-job-");
    }

    private void requireDriven(String call) {
        if (mode == Mode.LIVE) {
            throw new IllegalStateException(
                    "ClusterTester.%s: in mode LIVE the cluster runs by itself. Enqueue jobs and wait with eventually(...)."
                            .formatted(call));
        }
    }

    private <T> T driving(String call, Callable<T> action) {
        requireDriven(call);
        if (isHandlerThread()) {
            throw new IllegalStateException(
                    "ClusterTester.%s: called by a handler, which the test itself runs at present".formatted(call));
        }
        return outsideOfTransaction(() -> {
            driving.lock();
            try {
                return action.call();
            } finally {
                driving.unlock();
            }
        });
    }

    /** Runs what is due before the commit that announced it returns. Jobs of jobs run when these have ended. */
    private void runInline() {
        due.set(true);
        if (driving.isHeldByCurrentThread() || isHandlerThread()) {
            // What runs at present goes on until nothing is due.
            return;
        }
        onNewThread(() -> {
            while (due.getAndSet(false)) {
                driving("runAllDue", this::runUntilIdle);
            }
            return true;
        });
    }

    /** Returns the database of the test. */
    public TestDatabase database() {
        return database;
    }
}
