// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.row.ClaimKey;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.JobBatchStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.row.JobStores;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.ClaimLostException;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobStatus;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.Instant;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/** A job that this node has claimed, from the claim to its end. */
public final class RunningJob implements JobContext, JobMonitor.Attempt, StuckHandlers.Handler {

    /** The state of the job on this node. */
    public enum Stage {
        /** Waits for a free slot. */
        QUEUED,
        /** Its handler runs. */
        STARTED,
        /** This node no longer deals with it. */
        ENDED
    }

    /** Why the handler should stop. */
    public enum Stop {
        /** The attempt takes too long. */
        TIMEOUT,
        /** The node leaves the cluster; another node will run the job. */
        DRAIN,
        /** This node no longer holds the job. */
        LOST
    }

    /** The node that holds the job, by the id of its current membership. */
    public record Holder(UUID id, String name) {}

    /** Converts payloads and checkpoints, and writes checkpoints and lines of logs. */
    public record Persistence(PayloadJson json, HeldJobStore held, AttemptLogs logs) {}

    private final Claimed claimed;
    private final ClaimKey key;
    private final Holder holder;
    private final UUID node;
    private final JobHandler handler;
    private final JobHandler.Limits limits;
    private final PayloadJson json;
    private final AttemptState state;
    private final AttemptLogs logs;
    private final long claimedAt;
    private final AtomicReference<Stage> stage = new AtomicReference<>(Stage.QUEUED);
    private volatile @Nullable Stop stop;
    private volatile boolean asked;
    private volatile boolean startReported;
    private volatile long confirmedAt;
    private volatile long startedAt;
    private volatile long ranNanos;
    private volatile boolean marked;
    private volatile boolean together;
    private volatile boolean waitsInSlot;
    private volatile boolean ending;
    private volatile boolean returning;
    private volatile boolean endUnconfirmed;
    private volatile JobAttemptOutcome.Kind ended = JobAttemptOutcome.Kind.FAILED;
    private volatile @Nullable Throwable failure;
    private volatile @Nullable String error;
    private volatile @Nullable AttemptLog log;
    private @Nullable Thread thread;
    /** Used under the lock of this object; most jobs have none. */
    private Set<Runnable> releases = Set.of();

    public RunningJob(Claimed claimed, Holder holder, JobHandler handler, long sentAt, Persistence persistence) {
        this.claimed = claimed;
        this.key = claimed.key();
        this.holder = holder;
        this.node = holder.id;
        this.handler = handler;
        this.claimedAt = sentAt;
        this.confirmedAt = sentAt;
        this.json = persistence.json;
        this.logs = persistence.logs;
        this.state = new AttemptState(claimed, node, handler.isTransactional(), persistence);
        this.limits = limits(claimed, handler, json);
        this.marked = claimed.started();
    }

    /** Creates a job that nobody has claimed, for code that needs one but writes nothing. */
    public static RunningJob unclaimed(
            UUID id, JobHandler handler, PayloadJson json, JobStores stores, LongSupplier nanos) {
        var queue = Queue.ungrouped(handler.name(), "", handler.priority());
        return new RunningJob(
                new Claimed(
                        id, queue, "{}", 1, null, 0, 0, Instant.EPOCH, null, "{}", 0, true, 0, true, false, null, null),
                new Holder(id, ""),
                handler,
                nanos.getAsLong(),
                new Persistence(json, stores.held(), new AttemptLogs(stores.logs(), nanos)));
    }

    private static JobHandler.Limits limits(Claimed claimed, JobHandler handler, PayloadJson json) {
        // The common case does not parse the metadata.
        if (!claimed.metadata().contains("\"forge.")) {
            return handler.limits();
        }
        try {
            return handler.limits().overriddenBy(json.readTexts(claimed.metadata()));
        } catch (RuntimeException e) {
            // Edited by hand, or written by SQL for a codec that cannot read it: other jobs of the claim must not
            // suffer.
            return handler.limits();
        }
    }

    public Claimed claimed() {
        return claimed;
    }

    public ClaimKey key() {
        return key;
    }

    @Override
    public JobContext job() {
        return this;
    }

    @Override
    public UUID node() {
        return node;
    }

    @Override
    public JobAttemptOutcome.Kind outcome() {
        return ended;
    }

    @Override
    public @Nullable Throwable failure() {
        return failure;
    }

    /** Sets how the attempt ended, for observers. */
    public void ended(JobAttemptOutcome.Kind how, @Nullable Throwable cause) {
        ended = how;
        failure = cause;
    }

    /** Notes how long the handler ran in the attempt that has ended. */
    void ranFor(long nanos) {
        ranNanos = nanos;
    }

    /** Returns how long the handler ran in the attempt that has ended; 0 if it has not ended. */
    long ranNanos() {
        return ranNanos;
    }

    /** Notes the error that is recorded with the end of the job. */
    public void recordedError(@Nullable String text) {
        error = text;
    }

    /** Returns the error that is recorded with the end of the job, or else the exception of the attempt; null if there is none. */
    @Nullable
    String error() {
        Throwable cause = failure;
        return error != null ? error : cause == null ? null : ErrorText.storable(cause);
    }

    /** Returns the payload; empty if the job was enqueued without one. */
    public <T> Optional<T> payload(Type type) {
        String text = claimed.payload();
        return text.equals("{}") ? Optional.empty() : Optional.ofNullable(json.readAs(text, type));
    }

    public JobHandler handler() {
        return handler;
    }

    /** Returns the limits of the handler, with those that the job has of its own. */
    JobHandler.Limits limits() {
        return limits;
    }

    public Stage stage() {
        return stage.get();
    }

    /** Starts the job on the current thread; false if it was withdrawn or lost before. */
    boolean start(long now) {
        synchronized (this) {
            // Before the stage: a thread that sees the job running must not count its timeout from zero.
            startedAt = now;
            if (stop == Stop.LOST || !stage.compareAndSet(Stage.QUEUED, Stage.STARTED)) {
                return false;
            }
            thread = Thread.currentThread();
        }
        return true;
    }

    /**
     * Puts a started job back into the queue of its executor, because its attempt together with other jobs has failed. It waits like
     * any other: it can be withdrawn, and no timeout passes. A timeout of the common attempt is forgotten.
     */
    void requeue() {
        synchronized (this) {
            if (stop == Stop.TIMEOUT) {
                stop = null;
            }
            thread = null;
            ending = false;
            returning = false;
            together = false;
            failure = null;
            error = null;
            stage.compareAndSet(Stage.STARTED, Stage.QUEUED);
        }
    }

    /** Called when the handler has returned; from now on its thread is not interrupted because of this job. */
    public void returned() {
        synchronized (this) {
            thread = null;
            // An interrupt was meant for the handler.
            Thread.interrupted();
        }
        if (log != null) {
            logs.writeLast(this);
        }
    }

    /** Returns the lines that the handler has logged; null if it has logged none. */
    @Nullable
    AttemptLog log() {
        return log;
    }

    /** Records that the job will be due again. */
    void markReturning() {
        returning = true;
    }

    boolean isReturning() {
        return returning;
    }

    /**
     * Records that the end is about to be written: from now on a change of the row may come from this node. The handler no longer
     * runs, so that nothing has to be stopped in time. If the claim is lost before its end is written, or while its transaction
     * hangs, the guards in the database detect that, and the row stays locked until that transaction ends.
     */
    public void ending() {
        ending = true;
    }

    public boolean isEnding() {
        return ending;
    }

    /** Records that the response to a statement or commit that ends the job was lost: this node may have ended it. */
    public void markEndUnconfirmed() {
        endUnconfirmed = true;
    }

    public boolean isEndUnconfirmed() {
        return endUnconfirmed;
    }

    public void end() {
        stage.set(Stage.ENDED);
    }

    /** Ends the job here if it has not started; false if it has. */
    public boolean withdraw() {
        return stage.compareAndSet(Stage.QUEUED, Stage.ENDED);
    }

    /**
     * Asks the handler to stop. The first reason counts, except that a lost claim overrides the others; returns whether this
     * reason counts and is new.
     */
    public boolean stop(Stop reason) {
        synchronized (this) {
            if (stop == reason || (stop != null && reason != Stop.LOST)) {
                return false;
            }
            stop = reason;
            if (thread != null) {
                thread.interrupt();
            }
            return true;
        }
    }

    /** Asks the handler to stop because its timeout has passed; false if the attempt that started then no longer runs. */
    boolean expire(long attemptStartedAt) {
        synchronized (this) {
            // The timeout of a common attempt must not stop the attempt of a single job that follows.
            return startedAt == attemptStartedAt && stage.get() == Stage.STARTED && stop(Stop.TIMEOUT);
        }
    }

    /** Asks the handler to stop when it can, because the node drains; it is not interrupted yet. */
    public void ask() {
        asked = true;
    }

    /** Returns whether the start was not reported yet; a job that runs again, alone, waited only once. */
    boolean reportStart() {
        boolean first = !startReported;
        startReported = true;
        return first;
    }

    boolean isAsked() {
        return asked;
    }

    // Handlers that ignore the request to stop ----------------------------------------------------------------

    @Override
    public @Nullable Thread thread() {
        synchronized (this) {
            return thread;
        }
    }

    @Override
    public String label() {
        return "Job %s (%s), attempt %d of %d".formatted(name(), id(), attempt(), maxAttempts());
    }

    @Override
    public @Nullable String stopCause() {
        Stop reason = stop;
        return reason == null
                ? null
                : switch (reason) {
                    case TIMEOUT ->
                        "the attempt exceeded its timeout of "
                                + PlainText.duration(Objects.requireNonNull(limits.timeout()));
                    case DRAIN -> "the node drains";
                    case LOST -> "the claim is lost";
                };
    }

    @Override
    public String consequence() {
        return stop == Stop.LOST
                ? "It occupies a slot, and another node may run the job at the same time; its result will be discarded."
                : "It occupies a slot, and the job is not retried before it returns; its result will be discarded.";
    }

    /** Registers an action for the case that the node leaves while the handler still runs. */
    public void onRelease(Runnable action) {
        synchronized (this) {
            releases = new HashSet<>(releases);
            releases.add(action);
        }
    }

    /** Removes an action that {@link #onRelease} registered. */
    public void forgetRelease(Runnable action) {
        synchronized (this) {
            releases = new HashSet<>(releases);
            releases.remove(action);
        }
    }

    /** Called when the node leaves while the handler still runs. */
    public void released() {
        Set<Runnable> actions;
        synchronized (this) {
            actions = releases;
        }
        actions.forEach(Runnable::run);
    }

    /** Returns why the handler should stop; null if it should not. */
    @Nullable
    public Stop stopReason() {
        return stop;
    }

    public long startedAt() {
        return startedAt;
    }

    /** Returns when the claim was sent. */
    long claimedAt() {
        return claimedAt;
    }

    /** Returns when the last claim or renewal that succeeded was sent: the lease begins then or later. */
    long confirmedAt() {
        return confirmedAt;
    }

    public void confirmed(long sentAt) {
        confirmedAt = sentAt;
    }

    /** Records that the job waits for other jobs of its call, which run one by one: it counts as started, and is marked as running. */
    void waitInSlot(long now) {
        startedAt = now;
        waitsInSlot = true;
    }

    /** Returns whether the job occupies a slot without having the status running in the table. */
    boolean isUnmarked() {
        Stage current = stage.get();
        return !marked && (current == Stage.STARTED || (waitsInSlot && current == Stage.QUEUED));
    }

    void marked() {
        marked = true;
    }

    /** Returns the progress and the checkpoint of the attempt. */
    public AttemptState state() {
        return state;
    }

    /** Starts the job in a common attempt with others; see {@link #start}. */
    boolean startTogether(long now) {
        together = true;
        return start(now);
    }

    /** Returns whether the attempt is a common one with other jobs. */
    boolean isTogether() {
        return together;
    }

    /**
     * Returns the end of a claim that returns the job after a common attempt. The attempt counts, so that the next one is one of its
     * own.
     */
    Finish returnedAsSuspect(Duration delay, String reason, boolean timedOut) {
        return returned(reason, delay, 0, timedOut);
    }

    /** Returns the end of a claim that returns the job without a counted attempt. */
    public Finish givenBack(Duration delay) {
        return givenBack(delay, null);
    }

    /** Returns the end of a claim that returns the job without a counted attempt; the reason becomes its last error. */
    public Finish givenBack(Duration delay, @Nullable String reason) {
        return returned(reason, delay, 1, false);
    }

    private Finish returned(@Nullable String reason, Duration delay, int attemptsGivenBack, boolean timedOut) {
        markReturning();
        return new Finish(
                key(),
                JobStatus.PENDING,
                null,
                reason,
                delay.toMillis(),
                attemptsGivenBack,
                state.lateCheckpoint(),
                state.takeProgress(),
                null,
                null,
                timedOut);
    }

    @Override
    public UUID id() {
        return claimed.id();
    }

    @Override
    public String name() {
        return claimed.name();
    }

    @Override
    public int attempt() {
        return claimed.attempt();
    }

    @Override
    public int maxAttempts() {
        Integer own = claimed.maxAttempts();
        return own != null ? own : limits.maxAttempts();
    }

    @Override
    public long epoch() {
        return claimed.epoch();
    }

    @Override
    public Instant scheduledAt() {
        return claimed.scheduledAt();
    }

    @Override
    public String nodeName() {
        return holder.name;
    }

    @Override
    public @Nullable String group() {
        return claimed.group();
    }

    @Override
    public @Nullable UUID batch() {
        UUID batch = claimed.batch();
        String callbackOf = batch == null ? metadata().get(JobBatchStore.CALLBACK_KEY) : null;
        return callbackOf == null ? batch : UUID.fromString(callbackOf);
    }

    @Override
    public Map<String, String> metadata() {
        return json.readTexts(claimed.metadata());
    }

    @Override
    public void progress(int percent, String message) {
        state.progress(percent, message);
    }

    @Override
    public void log(String message) {
        Arguments.required("JobContext.log", "message", message);
        AttemptLog lines = log;
        if (lines == null) {
            synchronized (this) {
                lines = log;
                if (lines == null) {
                    lines = new AttemptLog();
                    log = lines;
                }
            }
        }
        lines.add(message, logs.now());
    }

    @Override
    public void checkpoint(Object value) {
        if (!state.checkpoint(value)) {
            stop(Stop.LOST);
            throw new ClaimLostException("Job %s (%s): claim lost (epoch %d); this node no longer holds the job"
                    .formatted(name(), id(), epoch()));
        }
    }

    @Override
    public <T> Optional<T> checkpoint(Class<T> type) {
        return state.checkpointAs(type);
    }

    @Override
    public <T> Optional<T> checkpoint(ParameterizedTypeReference<T> type) {
        return state.checkpointAs(type.getType());
    }

    @Override
    public boolean stopRequested() {
        return asked || stop != null;
    }
}
