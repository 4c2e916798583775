package dev.forge.cluster.internal.engine;

import dev.forge.cluster.DaemonContext;
import dev.forge.cluster.DaemonScope;
import dev.forge.cluster.DaemonStatus;
import dev.forge.cluster.internal.store.DaemonStore;
import dev.forge.cluster.internal.store.DaemonStore.Change;
import dev.forge.cluster.internal.store.DaemonStore.Tenure;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * An instance of a daemon in the hands of this node, from the election to the end, over all restarts of its method. After
 * a lost and a newly won election the same instance is another run: nothing of the former term is of use in the next.
 */
final class DaemonRun implements DaemonContext {

    /** After an interrupt that changed nothing: how often to say so, and to interrupt again. */
    private static final Duration INSIST = Duration.ofSeconds(10);

    private static final int LONGEST_ERROR = 8_000;
    private static final int LONGEST_NOTE = 1_000;

    /** Why its method should end. */
    enum Stop {
        /** The node gives it up, as soon as the method has ended. */
        LEAVE,
        /** It is another's, or may be soon. */
        LOST
    }

    /** Where it runs. */
    interface Host {
        long nanos();

        String nodeName();

        boolean holds(DaemonRun run);

        OptionalLong fencingToken(DaemonRun run);

        <T> T fenced(DaemonRun run, Supplier<T> work);
    }

    private final DaemonHandler handler;
    private final Host host;
    private final long wonAt;
    private volatile Tenure tenure;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition stopped = lock.newCondition();
    private volatile @Nullable Stop stop;
    private volatile boolean alive;
    private volatile DaemonStatus status;
    private @Nullable Thread thread;
    private long urgeAt;
    private int urged;
    private long dueAt;
    private long startedAt;
    private int failures;
    private int shortRuns;
    private int serverFailures;
    private boolean recovered;
    private @Nullable Long saidAt;

    // What its row should say.
    private int restarts;
    private @Nullable String error;
    private @Nullable String note;
    private boolean begun;
    private boolean released;
    private int revision;
    private int writtenRevision;

    DaemonRun(DaemonHandler handler, Tenure tenure, int restarts, Host host) {
        this.handler = handler;
        this.tenure = tenure;
        this.restarts = restarts;
        this.host = host;
        this.status = handler.scope() == DaemonScope.CLUSTER ? DaemonStatus.ACQUIRING : DaemonStatus.PENDING;
        this.wonAt = host.nanos();
        this.dueAt = wonAt;
    }

    DaemonHandler handler() {
        return handler;
    }

    Tenure tenure() {
        return tenure;
    }

    /** What tells it from the others on this node: its leader role, or its name where nobody is elected. */
    String key() {
        return key(handler, tenure.instance());
    }

    static String key(DaemonHandler handler, int instance) {
        return handler.scope() == DaemonScope.CLUSTER
                ? DaemonStore.role(handler.name(), instance)
                : "node:" + handler.name();
    }

    /** For people. */
    String label() {
        return tenure.instance() == 0 ? handler.name() : handler.name() + "#" + tenure.instance();
    }

    boolean isElected() {
        return handler.scope() == DaemonScope.CLUSTER;
    }

    /** When this node took it. */
    long wonAt() {
        return wonAt;
    }

    /** The same daemon on the same node, which has joined anew. */
    void moved(Tenure here) {
        lock.lock();
        try {
            tenure = here;
            begun = false;
            revision++;
        } finally {
            lock.unlock();
        }
    }

    // Its method --------------------------------------------------------------------------------------------

    boolean isDue() {
        lock.lock();
        try {
            return !alive
                    && stop == null
                    && (status == DaemonStatus.ACQUIRING
                            || status == DaemonStatus.PENDING
                            || status == DaemonStatus.RESTARTING)
                    && host.nanos() - dueAt >= 0;
        } finally {
            lock.unlock();
        }
    }

    /** From here on a thread is there for it, or about to be. */
    void starting() {
        lock.lock();
        try {
            alive = true;
            begun = false;
            recovered = false;
            startedAt = host.nanos();
            become(DaemonStatus.RUNNING);
        } finally {
            lock.unlock();
        }
    }

    /** On that thread; whether its method should be called at all. */
    boolean begin() {
        lock.lock();
        try {
            thread = Thread.currentThread();
            return stop == null;
        } finally {
            lock.unlock();
        }
    }

    /** Its method has ended; answers for how long it ran. */
    Duration returned() {
        lock.lock();
        try {
            thread = null;
            // Whatever interrupted it was meant for the method.
            Thread.interrupted();
            return Duration.ofNanos(host.nanos() - startedAt);
        } finally {
            lock.unlock();
        }
    }

    /** What had to follow the end of its method is about to be done. */
    void gone() {
        alive = false;
    }

    /** Whether a thread is, or will be, in its method. */
    boolean isAlive() {
        return alive;
    }

    DaemonStatus status() {
        return status;
    }

    /** It threw; answers how many times in a row. */
    int failed(Throwable failure, Duration ran, Duration longEnough) {
        lock.lock();
        try {
            endedAfter(ran, longEnough);
            failures = ran.compareTo(longEnough) >= 0 ? 1 : failures + 1;
            error = ErrorText.bounded(ErrorText.storable(failure), LONGEST_ERROR);
            return failures;
        } finally {
            lock.unlock();
        }
    }

    /** It threw because the database server failed, which is no fault of its own; answers how many times in a row. */
    int failedByServer(Throwable failure) {
        lock.lock();
        try {
            recovered = false;
            error = ErrorText.bounded(ErrorText.storable(failure), LONGEST_ERROR);
            return ++serverFailures;
        } finally {
            lock.unlock();
        }
    }

    /** It ended, and may be started again: later if that was soon, and not for the first time. */
    void endedAfter(Duration ran, Duration longEnough) {
        lock.lock();
        try {
            recovered = false;
            serverFailures = 0;
            shortRuns = ran.compareTo(longEnough) >= 0 ? 1 : shortRuns + 1;
        } finally {
            lock.unlock();
        }
    }

    /** How many times in a row it ended before long. */
    int shortRuns() {
        lock.lock();
        try {
            return shortRuns;
        } finally {
            lock.unlock();
        }
    }

    /** Whether it runs, since just now, for so long that what it once threw need not be shown any more. */
    boolean recovered(Duration longEnough) {
        lock.lock();
        try {
            Duration runs = Duration.ofNanos(host.nanos() - startedAt);
            if (recovered || thread == null || runs.compareTo(longEnough) < 0) {
                return false;
            }
            recovered = true;
            serverFailures = 0;
            revision++;
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Whether that was not said for so long. */
    boolean isWorthSaying(Duration again) {
        lock.lock();
        try {
            long now = host.nanos();
            boolean worth = saidAt == null || now - saidAt >= again.toNanos();
            if (worth) {
                saidAt = now;
            }
            return worth;
        } finally {
            lock.unlock();
        }
    }

    void restartIn(Duration delay) {
        lock.lock();
        try {
            restarts++;
            dueAt = host.nanos() + delay.toNanos();
            become(DaemonStatus.RESTARTING);
        } finally {
            lock.unlock();
        }
    }

    /** It will not be started again: it is done, or has failed. */
    void rest(DaemonStatus end) {
        lock.lock();
        try {
            released = isElected();
            become(end);
        } finally {
            lock.unlock();
        }
    }

    /** It is nobody's from now on. */
    void release() {
        rest(DaemonStatus.PENDING);
    }

    private void become(DaemonStatus next) {
        status = next;
        revision++;
    }

    // Its end -----------------------------------------------------------------------------------------------

    /**
     * Asks its method to end, and interrupts it after that time. That it is lost overrules that it is to leave; answers
     * whether that was news.
     */
    boolean stop(Stop reason, Duration grace) {
        lock.lock();
        try {
            if (stop == reason || stop == Stop.LOST) {
                return false;
            }
            stop = reason;
            urged = 0;
            urgeAt = host.nanos() + grace.toNanos();
            if (alive && reason == Stop.LEAVE) {
                become(DaemonStatus.STOPPING);
            }
            stopped.signalAll();
            return true;
        } finally {
            lock.unlock();
        }
    }

    @Nullable
    Stop stopReason() {
        return stop;
    }

    /** Interrupts its method if it is time for that; answers how often it has been, 0 if not now. */
    int urge() {
        lock.lock();
        try {
            if (stop == null || thread == null || host.nanos() - urgeAt < 0) {
                return 0;
            }
            urgeAt = host.nanos() + INSIST.toNanos();
            thread.interrupt();
            return ++urged;
        } finally {
            lock.unlock();
        }
    }

    /** The thread that runs its method; null if none does. */
    @Nullable
    Thread thread() {
        lock.lock();
        try {
            return thread;
        } finally {
            lock.unlock();
        }
    }

    /** Interrupts its method with the next {@link #urge}. */
    void urgeNow() {
        lock.lock();
        try {
            if (urged == 0) {
                urgeAt = host.nanos();
            }
        } finally {
            lock.unlock();
        }
    }

    // Its row -----------------------------------------------------------------------------------------------

    /**
     * What is not written yet.
     *
     * @param revision to be handed to {@link #written}
     */
    record Unwritten(DaemonRun run, Change change, int revision) {}

    @Nullable
    Unwritten unwritten() {
        lock.lock();
        try {
            if (revision == writtenRevision) {
                return null;
            }
            Duration ran = status == DaemonStatus.RUNNING && !begun ? Duration.ofNanos(host.nanos() - startedAt) : null;
            return new Unwritten(
                    this, new Change(tenure, status, ran, restarts, error, recovered, note, released), revision);
        } finally {
            lock.unlock();
        }
    }

    void written(Unwritten what) {
        lock.lock();
        try {
            writtenRevision = what.revision;
            begun |= what.change.ranFor() != null && what.revision == revision;
            if (what.change.error() != null && what.change.error().equals(error)) {
                error = null;
            }
            if (what.change.note() != null && what.change.note().equals(note)) {
                note = null;
            }
        } finally {
            lock.unlock();
        }
    }

    // For its method ----------------------------------------------------------------------------------------

    @Override
    public String name() {
        return handler.name();
    }

    @Override
    public int instance() {
        return tenure.instance();
    }

    @Override
    public String nodeName() {
        return host.nodeName();
    }

    @Override
    public long term() {
        return tenure.term();
    }

    @Override
    public OptionalLong fencingToken() {
        return isElected() ? host.fencingToken(this) : OptionalLong.empty();
    }

    // Asks for the time, too: after a long pause of the process this must be true before anybody could say so.
    @Override
    public boolean stopRequested() {
        return stop != null || !host.holds(this);
    }

    @Override
    public boolean awaitStop(Duration patience) throws InterruptedException {
        lock.lock();
        try {
            long left = patience.toNanos();
            while (!stopRequested()) {
                if (left <= 0) {
                    return false;
                }
                left = stopped.awaitNanos(left);
            }
            return true;
        } catch (InterruptedException e) {
            if (stop == null) {
                throw e;
            }
            Thread.currentThread().interrupt();
            return true;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public <T> T fenced(Supplier<T> work) {
        if (!isElected()) {
            throw new IllegalStateException(
                    "daemon %s runs on every node (scope NODE): it has no term to fence its writes with"
                            .formatted(name()));
        }
        return host.fenced(this, work);
    }

    @Override
    public void note(String text) {
        String clean = ErrorText.bounded(text, LONGEST_NOTE);
        lock.lock();
        try {
            note = clean;
            revision++;
        } finally {
            lock.unlock();
        }
    }
}
