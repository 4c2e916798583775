// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.Claim.Stop;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.WorkerSettings.LaneSettings;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.AttemptState.Phase;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.node.NodeLoop;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.function.LongSupplier;
import org.slf4j.Logger;

/** Runs the jobs that this node has claimed, keeps their leases, and returns them when the node drains or leaves. */
public final class JobRunner {

    private static final Logger log = GuardedLogger.of(JobRunner.class);
    private static final Duration WATCH = Duration.ofMillis(100);
    private static final Duration WRITE_LOGS = Duration.ofMillis(500);
    private static final Duration RELEASE_PATIENCE = Duration.ofMillis(500);

    private final WorkerParts parts;
    private final WorkerNode node;
    private final Claims claims;
    private final LeaseKeeper keeper;
    private final AttemptLogs logs;
    private final NodeLoop writeProgress;
    private final StuckHandlers stuckHandlers;
    // Created at each start: handlers that the previous stop did not wait for keep the old one.
    private volatile HandlerCalls calls;

    public JobRunner(WorkerParts parts, WorkerNode node) {
        this.parts = parts;
        this.node = node;
        this.logs = new AttemptLogs(parts.stores().logs(), node::nanos);
        this.claims = new Claims(parts, node, logs);
        this.keeper = new LeaseKeeper(
                node, parts.stores(), claims, parts.settings().leases().duration());
        this.writeProgress = NodeLoop.upkeep("note-jobs", () -> WATCH, keeper::writeProgress);
        this.stuckHandlers = new StuckHandlers(node::nanos);
        this.calls = new HandlerCalls(parts, node, claims, stuckHandlers);
    }

    /** Returns a job that nobody has claimed, for code that needs a claim but writes nothing. */
    public static Claim unclaimed(UUID id, JobHandler handler, PayloadJson json, JobStores stores, LongSupplier nanos) {
        var queue = Queue.ungrouped(handler.name(), "", handler.priority());
        return new Attempt(
                new Claimed(
                        id, queue, "{}", 1, null, 0, 0, Instant.EPOCH, null, "{}", 0, true, 0, true, false, null, null),
                new ClaimedJob.Holder(id, ""),
                handler,
                nanos.getAsLong(),
                new Attempt.Persistence(json, stores.held(), new AttemptLogs(stores.logs(), nanos)));
    }

    public Claims claims() {
        return claims;
    }

    /**
     * Creates an executor for claimed jobs.
     *
     * @param onRoom called when there is room for more jobs
     */
    public JobExecutor executor(LaneSettings settings, Runnable onRoom) {
        return new JobExecutor(settings, node::nanos, new JobCalls(node, claims, calls)::run, onRoom);
    }

    /** Returns how many results are not written yet. */
    public int backlog() {
        return calls.finisher().backlog();
    }

    public List<NodeLoop> loops() {
        return List.of(
                // On its own and without database access: nothing may delay it.
                NodeLoop.upkeep("watch-jobs", () -> WATCH, this::watch),
                writeProgress,
                NodeLoop.upkeep("write-job-logs", () -> WRITE_LOGS, this::writeLogs),
                NodeLoop.upkeep("renew-leases", parts.settings().leases()::heartbeat, keeper::renew));
    }

    private void watch() {
        keeper.watch();
        stuckHandlers.watch();
    }

    private void writeLogs() {
        logs.write(
                claims.all().stream().map(Attempt::log).filter(Objects::nonNull).toList());
    }

    /** Stops the handler of a job that may have been cancelled, if this node runs it, with the next pass of note-jobs. */
    public void checkCancelled(UUID job) {
        keeper.checkCancelled(job);
        writeProgress.wake();
    }

    public StuckHandlers stuckHandlers() {
        return stuckHandlers;
    }

    /** Returns the names of jobs that were claimed under a capability and have been running for longer than that time. */
    public List<String> runningFor(Duration time, String capability) {
        long now = node.nanos();
        return claims.all().stream()
                .filter(attempt -> attempt.phase() == Phase.RUNNING
                        && capability.equals(attempt.claimed().queue().capability())
                        && now - attempt.startedAt() > time.toNanos())
                .map(Attempt::name)
                .sorted()
                .toList();
    }

    // Tests that drive a node ---------------------------------------------------------------------------------

    /** Waits for claimed jobs, and meanwhile does what loops do for running ones. */
    public void awaitEnd() throws InterruptedException {
        while (!claims.awaitNone(WATCH)) {
            watch();
            keeper.writeProgress();
        }
    }

    public void timeMoved() {
        // A test that moves the time does not mean that leases were not renewed meanwhile.
        claims.all().forEach(attempt -> attempt.confirmed(node.nanos()));
        watch();
    }

    // Life cycle ----------------------------------------------------------------------------------------------

    /** Forgets the calls of an earlier membership; called before the executors of a new one are created. */
    public void renew() {
        calls = new HandlerCalls(parts, node, claims, stuckHandlers);
    }

    public void start() {
        calls.finisher().start();
    }

    public void stop(Duration patience) throws InterruptedException {
        calls.finisher().stop(patience);
    }

    /** Returns whether the thread that writes results is dead. */
    public boolean isStuck() {
        return !calls.finisher().isAlive();
    }

    /** The drain begins: jobs that have not started are returned, and handlers are asked to stop. */
    public void quiesce() {
        claims.withdraw();
        claims.all().forEach(Attempt::ask);
    }

    /** The time of the drain is over: interrupts handlers, and returns the jobs of those that ignore it. */
    public void release() {
        List.copyOf(claims.all()).forEach(Attempt::drain);
        boolean interrupted = false;
        try {
            // Handlers that respect the interrupt end properly.
            claims.awaitNone(RELEASE_PATIENCE);
        } catch (InterruptedException e) {
            // Restored later: an interrupted thread gets no connection to return jobs.
            interrupted = true;
        }
        releaseUnresponsive();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void releaseUnresponsive() {
        // Handlers whose end is being written have ended.
        List<Attempt> unresponsive =
                claims.all().stream().filter(attempt -> !attempt.isEnding()).toList();
        if (unresponsive.isEmpty()) {
            return;
        }
        log.warn(
                "{} jobs did not end within forge.cluster.shutdown.drain-timeout and ignore the interrupt. Attempts that"
                        + " exceeded their timeout count as failed; the other jobs are returned to the queue: {}",
                unresponsive.size(),
                unresponsive.stream()
                        .map(attempt -> attempt.name() + " " + attempt.id())
                        .limit(10)
                        .toList());
        unresponsive.forEach(Attempt::released);
        // An attempt that exceeded its timeout has failed, whether its handler respects the interrupt or not.
        List<Attempt> overdue = unresponsive.stream()
                .filter(attempt -> attempt.stopReason() == Stop.TIMEOUT)
                .toList();
        claims.giveUp(overdue, calls::timedOut);
        claims.returnToQueue(unresponsive.stream()
                .filter(attempt -> !overdue.contains(attempt))
                .toList());
        unresponsive.forEach(Attempt::lose);
    }
}
