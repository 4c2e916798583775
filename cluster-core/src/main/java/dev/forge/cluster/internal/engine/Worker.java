package dev.forge.cluster.internal.engine;

import dev.forge.cluster.internal.engine.Running.Stop;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.store.JobStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;

/**
 * What runs jobs on this node, from its start to its drain and its end: a {@link Claimer} takes them into lanes, whose
 * threads run them by way of {@link Execution}, while the {@link LeaseKeeper} sees to it that they remain this node's.
 * {@link Claims} is what these share.
 */
final class Worker implements Work {

    private static final Logger log = GuardedLogger.of(Worker.class);
    /** The duty that writes starts and progress and looks into doubts. */
    static final String NOTE = "note-jobs";

    private static final Duration WATCH = Duration.ofMillis(100);
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(2);
    private static final Duration RELEASE_PATIENCE = Duration.ofMillis(500);

    private final Setup setup;
    private final Host host;
    private final List<Claimer.Intake> intakes;
    private final Claims claims;
    private final LeaseKeeper keeper;
    private final StuckHandlers stuckHandlers;
    // New ones at each start: threads and handlers that an earlier end did not wait for keep theirs.
    private volatile Execution execution;
    private volatile Claimer claimer;

    /** The node as its worker sees it. */
    interface Host {

        /** The id under which to claim; null: not now. */
        @Nullable
        UUID claimant();

        /** Whether the others can still take this node for alive. */
        boolean isTrusted();

        long nanos();

        String nodeName();

        /** Says in the log of this thread who we are. */
        void introduce();

        /** A job of this node is pending again, and nobody else knows. */
        void cameBack();

        /** Jobs are pending that other nodes may run at once: one that waited for another, or claimed ones that went back. */
        default void freed() {}
    }

    /**
     * Where jobs are.
     *
     * @param control on our own connections
     * @param application on the application's, for handlers' own transactions
     */
    record Stores(JobStore control, JobStore application) {}

    /** What a worker works with. */
    record Setup(WorkSettings settings, JobHandlers handlers, Stores stores, JobJson json, JobMonitor monitor) {}

    /** @param intakes what it claims, and when it may */
    Worker(Setup setup, Host host, List<Claimer.Intake> intakes) {
        WorkSettings.Leases leases = setup.settings.leases();
        this.setup = setup;
        this.host = host;
        this.intakes = List.copyOf(intakes);
        this.claims = new Claims(host, setup.stores.control, setup.monitor, leases);
        this.keeper = new LeaseKeeper(host, setup.stores, claims, leases.duration());
        this.stuckHandlers = new StuckHandlers(host::nanos);
        this.execution = new Execution(setup, host, claims, stuckHandlers);
        this.claimer = new Claimer(setup, host, claims, execution, this.intakes);
    }

    /** A job was called off somewhere: if it is one of ours, its handler ends with the next pass of note-jobs. */
    void doubt(UUID job) {
        keeper.doubt(job);
    }

    /** Somebody has enqueued something, or something came back, or more may be claimed: look. */
    void wake() {
        claimer.wake();
    }

    void throttle(boolean whether) {
        claimer.throttle(whether);
    }

    /** What keeps it from claiming, if it has failed several times in a row. */
    @Nullable
    String claimProblem() {
        return claimer.claimProblem();
    }

    /** How many times a job could not be read. */
    int unreadable() {
        return claimer.unreadable();
    }

    /** Slots and jobs by lane, for people. */
    Map<String, Map<String, Integer>> lanes() {
        return claimer.lanes();
    }

    /** What has been running for that long under a capability. */
    List<String> runningFor(Duration time, String capability) {
        long now = host.nanos();
        return claims.all().stream()
                .filter(running -> running.stage() == Running.Stage.STARTED
                        && capability.equals(running.claimed().queue().capability())
                        && now - running.startedAt() > time.toNanos())
                .map(Running::name)
                .sorted()
                .toList();
    }

    @Override
    public List<Duty> duties() {
        return List.of(
                // Alone, and asking nobody: nothing may delay it.
                new Duty("watch-jobs", () -> WATCH, this::watch),
                new Duty(NOTE, () -> WATCH, keeper::note),
                new Duty("renew-leases", setup.settings.leases()::heartbeat, keeper::renew));
    }

    private void watch() {
        keeper.watch();
        stuckHandlers.watch();
    }

    /** Handlers that run on although they were told to stop. */
    StuckHandlers stuckHandlers() {
        return stuckHandlers;
    }

    @Override
    public int load() {
        return claims.size();
    }

    @Override
    public List<String> stuck() {
        var stuck = new ArrayList<String>();
        if (claimer.isStuck()) {
            stuck.add("claim");
        }
        if (execution.isStuck()) {
            stuck.add("finish");
        }
        return stuck;
    }

    @Override
    public void begin() {
        Execution beginning = new Execution(setup, host, claims, stuckHandlers);
        execution = beginning;
        claimer = new Claimer(setup, host, claims, beginning, intakes);
        beginning.start();
        claimer.start();
    }

    /** Ends its threads. The last of all loops: a handler that drains needs its lease until then. */
    @Override
    public void end() throws InterruptedException {
        quiesce();
        try {
            claimer.stop(STOP_PATIENCE);
        } finally {
            try {
                execution.stop(STOP_PATIENCE);
            } finally {
                claimer.closeLanes();
                claims.loseAll("the node has left");
            }
        }
    }

    @Override
    public void quiesce() {
        claimer.quiesce();
        claims.withdraw();
    }

    @Override
    public boolean awaitIdle(Duration patience) throws InterruptedException {
        return claims.awaitNone(patience);
    }

    @Override
    public void release() {
        List.copyOf(claims.all()).forEach(running -> running.stop(Stop.DRAIN));
        boolean interrupted = false;
        try {
            // Handlers that heed the interrupt end properly.
            awaitIdle(RELEASE_PATIENCE);
        } catch (InterruptedException e) {
            // Later: an interrupted thread gets no connection to return jobs.
            interrupted = true;
        }
        releaseDeaf();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void releaseDeaf() {
        // Those whose end is being written have ended.
        List<Running> deaf =
                claims.all().stream().filter(running -> !running.isEnding()).toList();
        if (!deaf.isEmpty()) {
            log.warn(
                    "{} jobs did not end within forge.cluster.shutdown.drain-timeout and ignore the interrupt. Attempts that"
                            + " exceeded their timeout count as failed; the other jobs go back to the queue: {}",
                    deaf.size(),
                    deaf.stream()
                            .map(running -> running.name() + " " + running.id())
                            .limit(10)
                            .toList());
            deaf.forEach(Running::released);
            // An attempt that exceeded its timeout has failed, whether its handler heeds the interrupt or not.
            List<Running> overdue = deaf.stream()
                    .filter(running -> running.stopReason() == Stop.TIMEOUT)
                    .toList();
            claims.giveUp(overdue, execution::timedOut);
            claims.giveBack(
                    deaf.stream().filter(running -> !overdue.contains(running)).toList());
            deaf.forEach(running -> running.stop(Stop.LOST));
        }
    }

    @Override
    public void lost() {
        claims.loseAll("this node was declared dead");
    }
}
