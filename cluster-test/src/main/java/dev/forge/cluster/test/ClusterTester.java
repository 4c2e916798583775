// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.test;

import dev.forge.cluster.internal.cron.CronEngine;
import dev.forge.cluster.job.JobOptions;
import dev.forge.cluster.test.postgres.Patience;
import dev.forge.cluster.test.postgres.TestDatabase;
import dev.forge.cluster.workflow.WorkflowInfo;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
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

    private static final Duration EVENTUALLY = Duration.ofSeconds(30);

    private final ClusterTestLifecycle lifecycle;
    private final NodeDriver driver;
    private final TestDatabase database;
    private final TestClock clock;

    /** What runs by itself. */
    public enum Mode {
        /** Nothing: the test calls {@link ClusterTester#runAllDue()} and the like. */
        MANUAL,
        /** A job runs when its transaction commits, before the commit returns to the caller; the time stands still. */
        INLINE,
        /** Everything, as in production; the time runs, and can be moved on. */
        LIVE
    }

    ClusterTester(ClusterTestLifecycle lifecycle, NodeDriver driver, TestDatabase database, TestClock clock) {
        this.lifecycle = lifecycle;
        this.driver = driver;
        this.database = database;
        this.clock = clock;
    }

    private TestedNode tested() {
        return driver.tested();
    }

    // Time --------------------------------------------------------------------------------------------------

    /**
     * Begins the test again at a time of its own, in the past or the future: tables have their first rows, and crons wait for their
     * first slot after that time. To be called first in a test.
     *
     * @throws IllegalArgumentException if the instant is before the year 2000 or after the year 2261
     * @throws IllegalStateException in mode LIVE, where the time runs with that of the machine
     */
    public void beginAt(Instant instant) {
        if (driver.isLive()) {
            throw new IllegalStateException(
                    "ClusterTester.beginAt: in mode LIVE the time runs with that of the machine; it can only be moved on");
        }
        if (TransactionSynchronizationManager.isActualTransactionActive()) {
            throw new IllegalStateException(
                    "ClusterTester.beginAt: the test has a transaction, whose rows the restored tables would not have. Begin before it.");
        }
        TestClock.requirePossible(instant);
        lifecycle.restart(instant);
    }

    /** Returns the time of the test. */
    public TestClock clock() {
        return clock;
    }

    // Jobs --------------------------------------------------------------------------------------------------

    /**
     * Runs one attempt of a job that is due.
     *
     * @throws IllegalStateException if it cannot start now; the message says why
     */
    public JobRun run(UUID job) {
        return driver.driving("run", () -> driver.run(job));
    }

    /** Has jobs run with the commit that enqueues them while an action runs, as in mode INLINE. */
    public void inline(Runnable action) {
        driver.requireDriven("inline");
        driver.inline(action);
    }

    /**
     * Runs all jobs that are due, crons whose slot has come and whatever follows from them, until nothing is left to do now.
     *
     * @return the attempts in their order
     */
    public List<JobRun> runAllDue() {
        driver.warnOfUncommittedJobs();
        return driver.driving("runAllDue", driver::runUntilIdle);
    }

    /** Enqueues a job and runs its first attempt at once, through the real engine: transaction, guards, retries and outcome. */
    public JobRun perform(Object payload) {
        return perform(payload, JobOptions.defaults());
    }

    /** Enqueues a job with options and runs its first attempt at once. */
    public JobRun perform(Object payload, JobOptions options) {
        driver.requireDriven("perform");
        return run(driver.besideTransaction(() -> tested().jobs().enqueue(payload, options))
                .id());
    }

    /** Enqueues a job by its name and runs its first attempt at once. */
    public JobRun performNamed(String name, @Nullable Object payload) {
        driver.requireDriven("performNamed");
        return run(driver.besideTransaction(() -> tested().jobs().enqueueNamed(name, payload))
                .id());
    }

    /**
     * Runs attempts of a job, and moves the time on to each of them, until it has completed or failed for good.
     *
     * @return the last attempt
     */
    public JobRun retryUntilFinal(UUID job) {
        return driver.driving("retryUntilFinal", () -> driver.retryUntilFinal(job));
    }

    /** Moves the time on to each job and each cron slot that becomes due in that time, and runs it then. */
    public List<JobRun> runFor(Duration duration) {
        if (duration.isNegative()) {
            throw new IllegalArgumentException(
                    "ClusterTester.runFor: duration (%s) must not be negative".formatted(duration));
        }
        return runUntil(clock.instant().plus(duration));
    }

    /** Moves the time on to an instant, and runs each job and each cron slot that becomes due on the way at its own time. */
    public List<JobRun> runUntil(Instant end) {
        return driver.driving("runUntil", () -> driver.runUntil(end));
    }

    /**
     * Has no cron fire while an action runs, such as {@link #runFor}: slots that come meanwhile are left out. Crons can still be
     * triggered. A test without crons from the start is {@code @ClusterTest(crons = false)}.
     */
    public void withoutCrons(Runnable action) {
        driver.requireDriven("withoutCrons");
        CronEngine crons = tested().cronEngine();
        boolean before = crons.firesSlots();
        crons.fireSlots(false);
        try {
            action.run();
        } finally {
            if (before) {
                lifecycle.skipSlots();
                crons.fireSlots(true);
            }
        }
    }

    /** Deletes what is older than its retention, as the loops do. */
    public void cleanUp() {
        driver.driving("cleanUp", () -> {
            driver.node().cleanUp();
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
        return driver.driving("skipWait", () -> {
            driver.runUntilIdle();
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
            driver.runUntilIdle();
            return workflow(run);
        });
    }

    /** Sends a signal to a run, and runs what follows. */
    public WorkflowRun signal(UUID run, String name, @Nullable Object payload) {
        return driver.driving("signal", () -> {
            driver.runUntilIdle();
            if (!tested().workflows().signal(run, name, payload)) {
                throw new IllegalStateException(
                        "Run %s has ended: %s".formatted(run, requireRun(run).status()));
            }
            driver.runUntilIdle();
            return workflow(run);
        });
    }

    /** Returns a run of a workflow as it is now, for {@link ClusterAssertions}. */
    public WorkflowRun workflow(UUID run) {
        return new WorkflowRun(requireRun(run), driver.steps().executedIn(run), tested().jobs());
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
                step, times, () -> new IllegalStateException("step '%s' fails: requested by failStep".formatted(step)));
    }

    /** Lets the next attempts of a step fail with an exception of the test. */
    public void failStep(String step, int times, Supplier<? extends Exception> failure) {
        driver.requireDriven("failStep");
        if (times < 1) {
            throw new IllegalArgumentException(
                    "ClusterTester.failStep: times (%d) must be at least 1".formatted(times));
        }
        driver.steps().fail(step, times, failure);
    }

    /** Lets the node die before the code of a step runs. Another node takes over, as if it had noticed at once. */
    public void crashBeforeStep(String step) {
        driver.requireDriven("crashBeforeStep");
        driver.steps().crashBefore(step);
    }

    /** Lets the node die right after a step was recorded. */
    public void crashAfterStep(String step) {
        driver.requireDriven("crashAfterStep");
        driver.steps().crashAfter(step);
    }

    /** Returns what replays stored runs against the code of this application. */
    public WorkflowReplayer replayer() {
        return new WorkflowReplayer(tested().workflowEngine());
    }

    // Faults ------------------------------------------------------------------------------------------------

    /** Lets the node die after the handler of a job has returned, and before its result is written or its transaction commits. */
    public void crashAfterHandler(String job) {
        driver.requireDriven("crashAfterHandler");
        driver.attempts().crashAfter(job);
    }

    /** Lets the node die now. Another one joins and takes over what it held, as if it had noticed at once. */
    public void crash() {
        driver.driving("crash", () -> {
            driver.replaceDeadNode();
            return true;
        });
    }

    // Several nodes -----------------------------------------------------------------------------------------

    /**
     * Returns a node of a test with several, from 1 on. The beans that the test injects belong to none of them: their context joins
     * the cluster without running jobs and without leading, so that they work whatever happens to the nodes.
     */
    public TestNode node(int number) {
        if (number < 1 || number > nodes().size()) {
            throw new IllegalArgumentException(
                    nodes().isEmpty()
                            ? "The test has one node, which cannot be addressed: use @ClusterTest(nodes = 2)"
                            : "The test has no node %d: it has the nodes 1 to %d".formatted(number, nodes().size()));
        }
        return nodes().get(number - 1);
    }

    /** Returns all nodes of a test with several. */
    public List<TestNode> nodes() {
        return lifecycle.nodes();
    }

    /** Waits until one of several nodes leads a role, and returns it. */
    public TestNode leader(String role) {
        if (nodes().isEmpty()) {
            throw new IllegalStateException(
                    "ClusterTester.leader: needs a test with several nodes, @ClusterTest(nodes = 2)");
        }
        var found = new AtomicReference<TestNode>();
        eventually(() -> found.set(nodes().stream()
                .filter(member -> member.isLeader(role))
                .findFirst()
                .orElseThrow(() -> new AssertionError("no node of %s leads %s".formatted(nodes(), role)))));
        return found.get();
    }

    /** Ends all sessions of the nodes and refuses new ones for that time, as a restart of the server does. */
    public void restartDatabase(Duration downtime) {
        if (nodes().isEmpty()) {
            throw new IllegalStateException(
                    "ClusterTester.restartDatabase: needs a test with several nodes, @ClusterTest(nodes = 2)");
        }
        nodes().forEach(TestNode::lose);
        database.jdbc().sql("""
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
                        """).query((row, n) -> 1).list();
        database.endIdleSessions();
        Patience.pause(downtime);
        nodes().forEach(TestNode::find);
    }

    /**
     * Ends the server of the database as a failure of its host does, and promotes its synchronous standby. For tests with
     * {@code standby = true}; once per test.
     */
    public void promoteStandby() {
        database.promoteStandby();
    }

    /** Returns what verifies the promises of the cluster after faults. */
    public PromiseAuditor auditor() {
        return new PromiseAuditor(database, driver.node().resources().schema());
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

    /** Returns the database of the test. */
    public TestDatabase database() {
        return database;
    }
}
