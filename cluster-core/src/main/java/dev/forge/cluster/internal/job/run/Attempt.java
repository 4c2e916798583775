// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.Claim;
import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.handler.JobMonitor;
import dev.forge.cluster.internal.job.row.HeldJobStore;
import dev.forge.cluster.internal.job.row.JobClaimStore.Claimed;
import dev.forge.cluster.internal.job.row.JobFinishStore.Finish;
import dev.forge.cluster.internal.job.run.AttemptState.Event;
import dev.forge.cluster.internal.job.run.AttemptState.Phase;
import dev.forge.cluster.internal.runtime.Arguments;
import dev.forge.cluster.internal.runtime.PayloadJson;
import dev.forge.cluster.internal.runtime.PlainText;
import dev.forge.cluster.internal.runtime.StuckHandlers;
import dev.forge.cluster.job.ClaimLostException;
import dev.forge.cluster.job.JobAttemptOutcome;
import dev.forge.cluster.job.JobContext;
import dev.forge.cluster.job.JobStatus;
import java.time.Duration;
import java.util.HashSet;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.springframework.core.ParameterizedTypeReference;

/** The attempt of a claimed job on this node, from the claim to its end. Other packages see it as a {@link Claim}. Its {@link AttemptState} changes in {@link #apply} alone. */
public final class Attempt extends ClaimedJob implements JobMonitor.Attempt, StuckHandlers.Handler {

    /** Converts payloads and checkpoints, and writes checkpoints and lines of logs. */
    record Persistence(PayloadJson json, HeldJobStore held, AttemptLogs logs) {}

    private final Persistence persistence;
    private final AttemptNotes notes;
    private final long claimedAt;

    private volatile AttemptState state = AttemptState.CLAIMED;
    private volatile @Nullable Ending ending;
    private volatile @Nullable String recordedError;
    private volatile long confirmedAt;
    private volatile long startedAt;
    /** Whether the status of the row is running, as far as this node knows. */
    private volatile boolean marked;

    private volatile boolean inSlot;
    private volatile boolean together;
    private volatile @Nullable AttemptLog log;
    private boolean startReported;
    private @Nullable Thread thread;
    /** Used under the lock of this object; most jobs have none. */
    private Set<Runnable> releases = Set.of();

    /** @param sentAt when the claim was sent */
    Attempt(Claimed claimed, Holder holder, JobHandler handler, long sentAt, Persistence persistence) {
        super(claimed, holder, handler, persistence.json);
        this.claimedAt = sentAt;
        this.confirmedAt = sentAt;
        this.marked = claimed.started();
        this.persistence = persistence;
        this.notes =
                new AttemptNotes(claimed, holder.id(), handler.isTransactional(), persistence.json, persistence.held);
    }

    // State ---------------------------------------------------------------------------------------------------

    /** Applies an event; returns whether it changed the state. */
    private synchronized boolean apply(Event event) {
        AttemptState before = state;
        state = before.after(event);
        return !state.equals(before);
    }

    Phase phase() {
        return state.phase();
    }

    @Override
    public @Nullable Stop stopReason() {
        return state.stop();
    }

    @Override
    public boolean stopRequested() {
        return state.stopRequested();
    }

    boolean isLost() {
        return state.stop() == Stop.LOST;
    }

    boolean isEnding() {
        return phase() == Phase.ENDING;
    }

    /**
     * Starts the job on the current thread; false if it was withdrawn, lost or told to stop before.
     *
     * @param common whether the attempt is a common one with other jobs
     */
    synchronized boolean start(long now, boolean common) {
        // Before the state: a thread that sees the job running must not count its timeout from zero.
        startedAt = now;
        together = common;
        if (!apply(Event.START)) {
            return false;
        }
        inSlot = true;
        thread = Thread.currentThread();
        return true;
    }

    /** The job waits for others of its call, which run one by one: it counts as started, and is marked as running. */
    void waitInSlot(long now) {
        startedAt = now;
        inSlot = true;
    }

    /** The handler has returned; from now on its thread is not interrupted because of this job. */
    void returned() {
        synchronized (this) {
            thread = null;
            apply(Event.RETURN);
            // An interrupt was meant for the handler.
            Thread.interrupted();
        }
        AttemptLog lines = log;
        if (lines != null) {
            persistence.logs.writeLast(lines);
        }
    }

    @Override
    public void ending() {
        returned();
        apply(Event.END);
    }

    void settled() {
        apply(Event.SETTLE);
    }

    /** Puts the job back into a queue, after its attempt together with other jobs has failed. */
    synchronized void isolate() {
        thread = null;
        together = false;
        ending = null;
        apply(Event.ISOLATE);
    }

    /** Ends the job here if it has not started; false if it has. */
    boolean withdraw() {
        return apply(Event.WITHDRAW);
    }

    /** The handler should stop when it can, because the node drains; it is not interrupted yet. */
    void ask() {
        apply(Event.ASK);
    }

    /** The handler has to stop, because the time of the drain is over. */
    void drain() {
        interrupt(Event.DRAIN);
    }

    /** This node no longer holds the job. */
    void lose() {
        interrupt(Event.LOSE);
    }

    /** The timeout of the attempt that started then has passed; false if that attempt no longer runs. */
    synchronized boolean expire(long attemptStartedAt) {
        // The timeout of a common attempt must not stop the attempt of a single job that follows.
        return startedAt == attemptStartedAt && interrupt(Event.TIMEOUT);
    }

    private synchronized boolean interrupt(Event event) {
        boolean changed = apply(event);
        if (changed && thread != null) {
            thread.interrupt();
        }
        return changed;
    }

    // What the node knows of it -------------------------------------------------------------------------------

    AttemptNotes notes() {
        return notes;
    }

    /** Returns the time since the job was due, at its start. */
    Duration waited() {
        return Duration.ofMillis(claimed().waitedMillis()).plusNanos(Math.max(0, startedAt - claimedAt));
    }

    long startedAt() {
        return startedAt;
    }

    /** Returns when the last claim or renewal that succeeded was sent: the lease begins then or later. */
    long confirmedAt() {
        return confirmedAt;
    }

    void confirmed(long sentAt) {
        confirmedAt = sentAt;
    }

    /** Returns whether the start was not reported yet; a job that runs again, alone, waited only once. */
    boolean reportStart() {
        boolean first = !startReported;
        startReported = true;
        return first;
    }

    /** Returns whether the job occupies a slot without having the status running in the table. */
    boolean isUnmarked() {
        return !marked && inSlot && phase().compareTo(Phase.RETURNED) <= 0;
    }

    void marked() {
        marked = true;
    }

    /** Returns whether the attempt is a common one with other jobs. */
    boolean isTogether() {
        return together;
    }

    // Its end -------------------------------------------------------------------------------------------------

    void ended(Ending how) {
        ending = how.withError(recordedError);
    }

    /** Returns how the attempt ended; null if it has not. */
    @Nullable
    Ending end() {
        return ending;
    }

    boolean isReturning() {
        Ending end = ending;
        return end != null && end.isReturning();
    }

    @Override
    public JobAttemptOutcome.Kind outcome() {
        Ending end = ending;
        return end == null ? JobAttemptOutcome.Kind.FAILED : end.kind();
    }

    @Override
    public @Nullable Throwable failure() {
        Ending end = ending;
        return end == null ? null : end.failure();
    }

    @Override
    public void recordedError(@Nullable String text) {
        recordedError = text;
    }

    /** Returns the end of a claim whose attempt does not count; the reason becomes the last error of the job. */
    Finish returned(Duration delay, @Nullable String reason) {
        return returned(reason, delay, 1, false);
    }

    /** Returns the end of a claim after a common attempt. The attempt counts, so that the next one is one of its own. */
    Finish returnedAsSuspect(Duration delay, String reason, boolean timedOut) {
        return returned(reason, delay, 0, timedOut);
    }

    private Finish returned(@Nullable String reason, Duration delay, int attemptsGivenBack, boolean timedOut) {
        return new Finish(
                key(),
                JobStatus.PENDING,
                null,
                reason,
                delay.toMillis(),
                attemptsGivenBack,
                notes.lateCheckpoint(),
                notes.takeProgress(),
                null,
                null,
                timedOut);
    }

    // A handler that ignores the request to stop --------------------------------------------------------------

    @Override
    public synchronized @Nullable Thread thread() {
        return thread;
    }

    @Override
    public String label() {
        return "Job %s (%s), attempt %d of %d".formatted(name(), id(), attempt(), maxAttempts());
    }

    @Override
    public @Nullable String stopCause() {
        Stop reason = stopReason();
        return reason == null
                ? null
                : switch (reason) {
                    case TIMEOUT ->
                        "the attempt exceeded its timeout of "
                                + PlainText.duration(Objects.requireNonNull(limits().timeout()));
                    case DRAIN -> "the node drains";
                    case LOST -> "the claim is lost";
                };
    }

    @Override
    public String consequence() {
        return isLost()
                ? "It occupies a slot, and another node may run the job at the same time; its result will be discarded."
                : "It occupies a slot, and the job is not retried before it returns; its result will be discarded.";
    }

    @Override
    public synchronized void onRelease(Runnable action) {
        releases = new HashSet<>(releases);
        releases.add(action);
    }

    @Override
    public synchronized void forgetRelease(Runnable action) {
        releases = new HashSet<>(releases);
        releases.remove(action);
    }

    /** Called when the node leaves while the handler still runs. */
    void released() {
        Set<Runnable> actions;
        synchronized (this) {
            actions = releases;
        }
        actions.forEach(Runnable::run);
    }

    // What its handler sees -----------------------------------------------------------------------------------

    @Override
    public JobContext job() {
        return this;
    }

    @Override
    public void progress(int percent, String message) {
        notes.progress(percent, message);
    }

    @Override
    public @Nullable String takeProgress() {
        return notes.takeProgress();
    }

    @Override
    public void log(String message) {
        Arguments.required("JobContext.log", "message", message);
        AttemptLog lines = log;
        if (lines == null) {
            synchronized (this) {
                lines = log;
                if (lines == null) {
                    lines = new AttemptLog(key(), node(), attempt());
                    log = lines;
                }
            }
        }
        lines.add(message, persistence.logs.now());
    }

    /** Returns the lines that the handler has logged; null if it has logged none. */
    @Nullable
    AttemptLog log() {
        return log;
    }

    @Override
    public void checkpoint(Object value) {
        if (!notes.checkpoint(value)) {
            lose();
            throw new ClaimLostException("Job %s (%s): claim lost (epoch %d); this node no longer holds the job"
                    .formatted(name(), id(), epoch()));
        }
    }

    @Override
    public <T> Optional<T> checkpoint(Class<T> type) {
        return notes.checkpointAs(type);
    }

    @Override
    public <T> Optional<T> checkpoint(ParameterizedTypeReference<T> type) {
        return notes.checkpointAs(type.getType());
    }
}
