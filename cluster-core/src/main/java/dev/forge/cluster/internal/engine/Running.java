package dev.forge.cluster.internal.engine;

import dev.forge.cluster.ClaimLostException;
import dev.forge.cluster.JobContext;
import dev.forge.cluster.JobStatus;
import dev.forge.cluster.internal.store.JobStore;
import dev.forge.cluster.internal.store.JobStore.ClaimKey;
import dev.forge.cluster.internal.store.JobStore.Claimed;
import dev.forge.cluster.internal.store.JobStore.Finish;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/** A claim of this node, from the claim to its end. */
final class Running implements JobContext, JobMonitor.Attempt, StuckHandlers.Handler {

    /** Where it is on this node. */
    enum Stage {
        /** Waits for a free slot. */
        QUEUED,
        /** Its handler runs. */
        STARTED,
        /** Not this node's business any more. */
        ENDED
    }

    /** Why its handler should end. */
    enum Stop {
        /** The attempt takes too long. */
        TIMEOUT,
        /** The node leaves; another will run it. */
        DRAIN,
        /** The job is not this node's any more. */
        LOST
    }

    /** The membership that has it. */
    record Holder(UUID id, String name) {}

    private record Progress(int percent, String message) {}

    private final Claimed claimed;
    private final Holder holder;
    private final UUID node;
    private final JobHandler handler;
    private final JobJson json;
    private final JobStore notes;
    private final long claimedAt;
    private final AtomicReference<Stage> stage = new AtomicReference<>(Stage.QUEUED);
    private volatile @Nullable Stop stop;
    private volatile long confirmedAt;
    private volatile long startedAt;
    private volatile boolean marked;
    private volatile boolean ending;
    private volatile boolean back;
    private volatile boolean endUnanswered;
    private volatile @Nullable String progress;
    private volatile @Nullable String checkpoint;
    private volatile JobMonitor.Ending ended = JobMonitor.Ending.FAILED;
    private volatile @Nullable Throwable failure;
    private final Set<Runnable> releases = ConcurrentHashMap.newKeySet();
    private @Nullable Thread thread;

    Running(Claimed claimed, Holder holder, JobHandler handler, long sentAt, JobJson json, JobStore notes) {
        this.claimed = claimed;
        this.holder = holder;
        this.node = holder.id;
        this.handler = handler;
        this.claimedAt = sentAt;
        this.confirmedAt = sentAt;
        this.json = json;
        this.notes = notes;
        this.marked = claimed.started();
        this.checkpoint = claimed.checkpoint();
    }

    Claimed claimed() {
        return claimed;
    }

    ClaimKey key() {
        return new ClaimKey(claimed.id(), claimed.epoch());
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
    public JobMonitor.Ending outcome() {
        return ended;
    }

    @Override
    public @Nullable Throwable failure() {
        return failure;
    }

    /** How its attempt has ended, for those who observe it. */
    void ended(JobMonitor.Ending how, @Nullable Throwable cause) {
        ended = how;
        failure = cause;
    }

    /** What it was enqueued with; empty if that is nothing. */
    <T> Optional<T> payload(Class<T> type) {
        String text = claimed.payload();
        return text.equals("{}") ? Optional.empty() : Optional.ofNullable(json.readAs(text, type));
    }

    JobHandler handler() {
        return handler;
    }

    Stage stage() {
        return stage.get();
    }

    /** Whether it may start: on the thread that runs it, if nobody took it back before. */
    boolean start(long now) {
        synchronized (this) {
            // Before the stage: whoever sees that it runs must not count its timeout from zero.
            startedAt = now;
            if (stop == Stop.LOST || !stage.compareAndSet(Stage.QUEUED, Stage.STARTED)) {
                return false;
            }
            thread = Thread.currentThread();
        }
        return true;
    }

    /** The handler has returned; from here on its thread is not interrupted for this job's sake. */
    void returned() {
        synchronized (this) {
            thread = null;
            // Whatever interrupted it was meant for the handler.
            Thread.interrupted();
        }
    }

    /** It will be due again. */
    void comesBack() {
        back = true;
    }

    boolean isBack() {
        return back;
    }

    /**
     * Its end is about to be written: what the table says of it from now on may be by our own hand. No code of the handler
     * runs any more, so nothing needs to be stopped in time; should the claim be lost before its end is written, or while
     * its transaction hangs, the guards in the database find out, and the row stays locked until that transaction ends.
     */
    void ending() {
        ending = true;
    }

    boolean isEnding() {
        return ending;
    }

    /** A statement or a commit that ends it was sent, and the answer got lost: it may have ended by this node's own hand. */
    void endUnanswered() {
        endUnanswered = true;
    }

    boolean isEndUnanswered() {
        return endUnanswered;
    }

    void end() {
        stage.set(Stage.ENDED);
    }

    /** Takes it back if it has not started. */
    boolean withdraw() {
        return stage.compareAndSet(Stage.QUEUED, Stage.ENDED);
    }

    /**
     * Asks the handler to end. The first reason counts, except that a lost claim overrules the others; answers whether this
     * one counts, and is new.
     */
    boolean stop(Stop reason) {
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

    // When the handler ignores that ---------------------------------------------------------------------------

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
                                + handler.limits().timeout();
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

    /** Does something if the node leaves while the handler still runs. */
    void onRelease(Runnable action) {
        releases.add(action);
    }

    void forgetRelease(Runnable action) {
        releases.remove(action);
    }

    /** The node leaves, and the handler still runs. */
    void released() {
        releases.forEach(Runnable::run);
    }

    @Nullable
    Stop stopReason() {
        return stop;
    }

    long startedAt() {
        return startedAt;
    }

    /** When the claim was sent. */
    long claimedAt() {
        return claimedAt;
    }

    /** When the last claim or renewal was sent that the table has seen: its lease counts from then on, or from later. */
    long confirmedAt() {
        return confirmedAt;
    }

    void confirmed(long sentAt) {
        confirmedAt = sentAt;
    }

    /** Whether the table does not say yet that it runs. */
    boolean isUnmarked() {
        return !marked && stage.get() == Stage.STARTED;
    }

    void marked() {
        marked = true;
    }

    /** The progress that is not written yet. */
    @Nullable
    String takeProgress() {
        synchronized (this) {
            String taken = progress;
            progress = null;
            return taken;
        }
    }

    /** It could not be written; what the handler has said since is newer. */
    void keepProgress(String unwritten) {
        synchronized (this) {
            if (progress == null) {
                progress = unwritten;
            }
        }
    }

    /** The checkpoint to be written with a failure: a transactional handler does not write it before. */
    @Nullable
    String lateCheckpoint() {
        String current = checkpoint;
        return handler.isTransactional() && current != null && !current.equals(claimed.checkpoint()) ? current : null;
    }

    /** Gives it back without having spent an attempt. */
    Finish givenBack(Duration delay) {
        return givenBack(delay, null);
    }

    /** The same; the reason becomes its last error. */
    Finish givenBack(Duration delay, @Nullable String reason) {
        comesBack();
        return new Finish(
                key(),
                JobStatus.PENDING,
                null,
                reason,
                delay.toMillis(),
                1,
                lateCheckpoint(),
                takeProgress(),
                null,
                null,
                false);
    }

    boolean hasProgress() {
        return progress != null && !handler.isTransactional();
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
        return own != null ? own : handler.limits().maxAttempts();
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
    public Map<String, String> metadata() {
        return json.readTexts(claimed.metadata());
    }

    @Override
    public void progress(int percent, String message) {
        if (percent < 0 || percent > 100) {
            throw new IllegalArgumentException("progress of %d percent".formatted(percent));
        }
        String text = json.write(new Progress(percent, message));
        synchronized (this) {
            progress = text;
        }
    }

    @Override
    public void checkpoint(Object state) {
        String text = json.write(state);
        // A transactional handler's row must not change under it: its own completion would conflict with that.
        if (!handler.isTransactional() && !notes.note(node, key(), null, text)) {
            stop(Stop.LOST);
            throw new ClaimLostException("job %s epoch %d is no longer this node's".formatted(id(), epoch()));
        }
        checkpoint = text;
    }

    @Override
    public <T> Optional<T> checkpoint(Class<T> type) {
        String text = checkpoint;
        return text == null ? Optional.empty() : Optional.ofNullable(json.readAs(text, type));
    }

    @Override
    public boolean stopRequested() {
        return stop != null;
    }
}
