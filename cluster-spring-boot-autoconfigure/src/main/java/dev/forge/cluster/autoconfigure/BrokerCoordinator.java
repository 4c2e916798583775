package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.ClusterCoordinator;
import dev.forge.cluster.JobPriority;
import dev.forge.cluster.internal.engine.ErrorText;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.context.SmartLifecycle;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * News of work by way of a broker that may come and go. One thread owns the link: it opens it, sends, closes it, and opens
 * the next one. That a link works is not believed but tried: every two seconds the node says something to itself through
 * the broker, and one that it has not heard for five seconds is lost. Without a link workers poll; there is one warning
 * when that begins and one line when it is over.
 */
final class BrokerCoordinator implements ClusterCoordinator, SmartLifecycle {

    private static final Logger log = GuardedLogger.of(BrokerCoordinator.class);

    private static final String WORK = " work";
    private static final String PROBE = " probe";

    /** Until the first one is heard: a subscription may take effect a little after it was asked for. */
    private static final Duration FIRST_PROBES = Duration.ofMillis(100);

    private static final double JITTER = 0.25;
    /** For the last news to leave, and for a client library that must be interrupted. */
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(1);

    /**
     * How long things take.
     *
     * @param probe pause between two words to oneself
     * @param patience how long none may be heard; three times as long while a link is opened, which may mean to load and to
     *     start the client library
     * @param firstRetry pause before the next link; doubled, after each that did not work, up to the last
     */
    record Timing(Duration probe, Duration patience, Duration firstRetry, Duration lastRetry) {

        static final Timing USUAL =
                new Timing(Duration.ofSeconds(2), Duration.ofSeconds(5), Duration.ofMillis(250), Duration.ofSeconds(5));

        Duration patience(boolean serving) {
            return serving ? patience : patience.multipliedBy(3);
        }

        Duration watch() {
            return patience.dividedBy(10);
        }
    }

    private final Broker broker;
    private final Duration pollInterval;
    private final Timing timing;
    private final List<Runnable> listeners = new CopyOnWriteArrayList<>();

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private boolean news;
    private boolean reported;
    private boolean everConnected;
    private long lastWatch;
    private @Nullable Visit current;
    private @Nullable Thread thread;
    private @Nullable ThreadPoolTaskScheduler watcher;
    private volatile boolean connected;

    /** @param pollInterval after which workers look for work by themselves */
    BrokerCoordinator(Broker broker, Duration pollInterval, Timing timing) {
        this.broker = broker;
        this.pollInterval = pollInterval;
        this.timing = timing;
    }

    String type() {
        return broker.type();
    }

    @Override
    public void notifyNewWork(JobPriority priority) {
        lock.lock();
        try {
            news = true;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void registerWakeupListener(Runnable listener) {
        listeners.add(listener);
    }

    @Override
    public boolean isConnected() {
        return connected;
    }

    // Life --------------------------------------------------------------------------------------------------

    @Override
    public void start() {
        lock.lock();
        try {
            if (thread != null) {
                return;
            }
            news = false;
            reported = false;
            everConnected = false;
            lastWatch = System.nanoTime();
            thread = new Thread(this::run, "forge-cluster-wakeup");
            thread.setDaemon(true);
            thread.start();
            watcher = new ThreadPoolTaskScheduler();
            watcher.setThreadNamePrefix("forge-cluster-wakeup-watch-");
            watcher.setDaemon(true);
            watcher.initialize();
            // It ends with its scheduler.
            var unused = watcher.scheduleWithFixedDelay(this::watchOrFail, timing.watch());
        } finally {
            lock.unlock();
        }
    }

    /** After the node has left: what it gave back is still announced. */
    @Override
    public void stop() {
        Thread ending;
        ThreadPoolTaskScheduler watching;
        lock.lock();
        try {
            ending = thread;
            watching = watcher;
            thread = null;
            watcher = null;
            connected = false;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        if (ending == null || watching == null) {
            return;
        }
        watching.shutdown();
        try {
            ending.join(STOP_PATIENCE.toMillis());
            ending.interrupt();
            ending.join(STOP_PATIENCE.toMillis());
        } catch (InterruptedException e) {
            ending.interrupt();
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public boolean isRunning() {
        lock.lock();
        try {
            return thread != null;
        } finally {
            lock.unlock();
        }
    }

    /** There before the node joins, and until it has left. */
    @Override
    public int getPhase() {
        return ClusterLifecycle.PHASE - 1;
    }

    // The link ----------------------------------------------------------------------------------------------

    private void run() {
        Duration retry = timing.firstRetry;
        while (isCurrent()) {
            // What was meant for the former link.
            Thread.interrupted();
            var visit = new Visit();
            begin(visit);
            try (Broker.Link link = broker.open(visit)) {
                visit.serve(link);
            } catch (Exception | Error e) {
                // An Error too: without this thread nobody would look for the broker any more.
                lost(visit, e);
            } finally {
                end(visit);
            }
            retry = visit.heard ? timing.firstRetry : min(retry.multipliedBy(2), timing.lastRetry);
            pause(retry);
        }
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    // A thread that did not end in time must not go on beside its successor.
    private boolean isCurrent() {
        lock.lock();
        try {
            return thread == Thread.currentThread();
        } finally {
            lock.unlock();
        }
    }

    private void begin(Visit visit) {
        lock.lock();
        try {
            if (thread == Thread.currentThread()) {
                current = visit;
            }
        } finally {
            lock.unlock();
        }
    }

    private void end(Visit visit) {
        lock.lock();
        try {
            visit.over = true;
            if (current == visit) {
                current = null;
                connected = false;
            }
        } finally {
            lock.unlock();
        }
    }

    private void pause(Duration retry) {
        // All nodes lose a broker in the same moment; they need not come back in the same one.
        double factor = 1 + JITTER * RandomGenerator.getDefault().nextDouble();
        lock.lock();
        try {
            long nanos = (long) (retry.toNanos() * factor);
            while (thread == Thread.currentThread() && nanos > 0) {
                nanos = changed.awaitNanos(nanos);
            }
        } catch (InterruptedException e) {
            log.debug("wake-ups: woken early", e);
        } finally {
            lock.unlock();
        }
    }

    // A task that throws may not be repeated, and then nobody would watch the link any more.
    private void watchOrFail() {
        try {
            watch();
        } catch (RuntimeException | Error e) {
            log.warn("wake-ups: could not watch the link to {}; trying again", broker.type(), ErrorText.loggable(e));
        }
    }

    /** Finds out that a link which should answer does not, whatever its thread hangs in. */
    private void watch() {
        Visit doubted = null;
        Duration patience = timing.patience;
        lock.lock();
        try {
            long now = System.nanoTime();
            Visit visit = current;
            if (visit != null
                    && now - lastWatch > timing.watch().multipliedBy(4).toNanos()) {
                // This process stood still: it could not hear anything.
                visit.lastSign = now;
            }
            lastWatch = now;
            if (visit != null) {
                patience = timing.patience(visit.serving);
                doubted = now - visit.lastSign > patience.toNanos() ? visit : null;
            }
        } finally {
            lock.unlock();
        }
        if (doubted != null) {
            lost(doubted, new IllegalStateException("no answer within " + Rules.text(patience)));
        }
    }

    private void lost(Visit visit, Throwable cause) {
        lock.lock();
        try {
            Thread owner = thread;
            if (current != visit || owner == null) {
                return;
            }
            visit.lastSign = System.nanoTime();
            connected = false;
            if (!reported) {
                reported = true;
                log.warn(
                        "wake-ups: {} is out of reach ({}); workers poll every {} until it is back",
                        broker.type(),
                        reason(cause),
                        Rules.text(pollInterval));
                log.debug("wake-ups: {}", broker.type(), cause);
            }
            if (visit.serving && !visit.over) {
                visit.over = true;
                changed.signalAll();
                // It may hang in the client library. One that is about to open a link is left alone: an interrupt could
                // leave behind a connection that nobody knows, and opening ends by itself, when the broker is back if
                // not before.
                owner.interrupt();
            }
        } finally {
            lock.unlock();
        }
    }

    private static String reason(Throwable cause) {
        try {
            String message = cause.getMessage();
            return ErrorText.firstLine(message != null ? message : cause.toString());
        } catch (RuntimeException | Error e) {
            // Its own methods throw.
            return ErrorText.brief(cause);
        }
    }

    private void wakeAll() {
        listeners.forEach(Runnable::run);
    }

    /** One link, from its opening to its end. */
    private final class Visit implements Broker.Ear {

        private final String owner = UUID.randomUUID().toString();
        private volatile boolean heard;
        // Under the lock.
        private long lastSign = System.nanoTime();
        private boolean serving;
        private boolean over;

        private void serve(Broker.Link link) {
            serving(true);
            try {
                long nextProbe = System.nanoTime();
                while (true) {
                    boolean told = awaitNews(nextProbe);
                    if (told) {
                        tellOthers(link);
                    }
                    if (!isWanted()) {
                        return;
                    }
                    if (System.nanoTime() - nextProbe >= 0) {
                        link.tellSelf(owner + PROBE);
                        nextProbe = System.nanoTime() + (heard ? timing.probe : FIRST_PROBES).toNanos();
                    }
                }
            } catch (Exception e) {
                // Said before the link is closed, which may take its time.
                BrokerCoordinator.this.lost(this, e);
            } finally {
                serving(false);
                // It has done its work: closing must not stumble over it.
                Thread.interrupted();
            }
        }

        private void tellOthers(Broker.Link link) throws Exception {
            try {
                link.tellAll(owner + WORK);
            } catch (Exception e) {
                // It is still to be said.
                notifyNewWork(JobPriority.NORMAL);
                throw e;
            }
        }

        private boolean awaitNews(long until) throws InterruptedException {
            lock.lock();
            try {
                long nanos = until - System.nanoTime();
                while (!news && wanted() && nanos > 0) {
                    nanos = changed.awaitNanos(nanos);
                }
                boolean told = news && !over;
                news = news && over;
                return told;
            } finally {
                lock.unlock();
            }
        }

        private boolean isWanted() {
            lock.lock();
            try {
                return wanted();
            } finally {
                lock.unlock();
            }
        }

        private boolean wanted() {
            return !over && thread == Thread.currentThread();
        }

        private void serving(boolean value) {
            lock.lock();
            try {
                serving = value;
                lastSign = System.nanoTime();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public String owner() {
            return owner;
        }

        @Override
        public void hear(String text) {
            if (text.equals(owner + PROBE)) {
                answered();
            } else if (text.endsWith(WORK) && isOther(text.substring(0, text.length() - WORK.length()))) {
                wakeAll();
            }
        }

        // Whatever somebody sends there: what is not from a node of ours is not for us.
        private boolean isOther(String from) {
            try {
                return !from.equals(owner) && UUID.fromString(from).toString().equals(from);
            } catch (IllegalArgumentException e) {
                log.debug("wake-ups: cannot make sense of a message from '{}'", from);
                return false;
            }
        }

        private void answered() {
            lock.lock();
            try {
                if (over || current != this || thread == null) {
                    return;
                }
                lastSign = System.nanoTime();
                if (heard) {
                    return;
                }
                heard = true;
                connected = true;
                if (reported) {
                    log.info("wake-ups: {} is back", broker.type());
                } else if (!everConnected) {
                    log.info("Wake-ups: {}, {}", broker.type(), broker.place());
                }
                reported = false;
                everConnected = true;
            } finally {
                lock.unlock();
            }
            // Others may have said something while nobody listened.
            wakeAll();
        }

        @Override
        public void lost(Throwable cause) {
            lock.lock();
            try {
                // One that breaks before it is used is not used.
                over |= !serving;
            } finally {
                lock.unlock();
            }
            BrokerCoordinator.this.lost(this, cause);
        }
    }
}
