// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.wakeup;

import dev.forge.cluster.autoconfigure.ClusterLifecycle;
import dev.forge.cluster.autoconfigure.WakeupChannel;
import dev.forge.cluster.autoconfigure.properties.value.PropertyRules;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.job.ClusterCoordinator;
import dev.forge.cluster.job.JobPriority;
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
 * Sends and receives wake-ups through a broker that may be unreachable at times. One thread owns the link to the broker: it opens
 * the link, sends, closes it and opens the next one. The link is probed: every two seconds the node sends a message to itself
 * through the broker, and a link that has returned none for five seconds is lost. Without a link workers poll; one warning is logged
 * when that begins and one line when it ends.
 */
public final class BrokerCoordinator implements ClusterCoordinator, WakeupChannel, SmartLifecycle {

    private static final Logger log = GuardedLogger.of(BrokerCoordinator.class);

    /** The pause between probes until the first one returns: a subscription may take effect with a delay. */
    private static final Duration FIRST_PROBES = Duration.ofMillis(100);

    private static final double JITTER = 0.25;
    /** How long a stop waits for the last message to be sent, and again for an interrupted client library. */
    private static final Duration STOP_PATIENCE = Duration.ofSeconds(1);

    private final Broker broker;
    private final Duration pollInterval;
    private final BrokerTiming timing;
    private final List<Runnable> listeners = new CopyOnWriteArrayList<>();

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private boolean pendingWork;
    private boolean reported;
    private boolean everConnected;
    private long lastWatch;
    private @Nullable LinkSession current;
    private @Nullable Thread thread;
    private @Nullable ThreadPoolTaskScheduler watcher;
    private volatile boolean connected;

    /** @param pollInterval the interval at which workers poll, for the log */
    BrokerCoordinator(Broker broker, Duration pollInterval, BrokerTiming timing) {
        this.broker = broker;
        this.pollInterval = pollInterval;
        this.timing = timing;
    }

    @Override
    public String type() {
        return broker.type();
    }

    @Override
    public void notifyNewWork(JobPriority priority) {
        lock.lock();
        try {
            pendingWork = true;
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

    // Start and stop ----------------------------------------------------------------------------------------

    @Override
    public void start() {
        lock.lock();
        try {
            if (thread != null) {
                return;
            }
            pendingWork = false;
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
            // The task ends with its scheduler.
            var unused = watcher.scheduleWithFixedDelay(this::watchOrFail, timing.watch());
        } finally {
            lock.unlock();
        }
    }

    /** Runs after the node has left the cluster, so that the jobs the node returned are still announced. */
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

    /** Starts before the node joins and stops after it has left. */
    @Override
    public int getPhase() {
        return ClusterLifecycle.PHASE - 1;
    }

    // The link ----------------------------------------------------------------------------------------------

    private void run() {
        Duration retry = timing.firstRetry();
        while (isCurrent()) {
            // Clears an interrupt that was meant for the previous link.
            Thread.interrupted();
            var session = new LinkSession();
            begin(session);
            try (Broker.Link link = broker.open(session)) {
                session.serve(link);
            } catch (Exception | Error e) {
                // Errors, too: without this thread the broker would never be tried again.
                lost(session, e);
            } finally {
                end(session);
            }
            retry = session.probed ? timing.firstRetry() : timing.nextRetry(retry);
            pause(retry);
        }
    }

    // A thread that did not end in time must not continue beside its successor.
    private boolean isCurrent() {
        lock.lock();
        try {
            return thread == Thread.currentThread();
        } finally {
            lock.unlock();
        }
    }

    private void begin(LinkSession session) {
        lock.lock();
        try {
            if (thread == Thread.currentThread()) {
                current = session;
            }
        } finally {
            lock.unlock();
        }
    }

    private void end(LinkSession session) {
        lock.lock();
        try {
            session.over = true;
            if (current == session) {
                current = null;
                connected = false;
            }
        } finally {
            lock.unlock();
        }
    }

    private void pause(Duration retry) {
        // All nodes lose a broker at the same moment; the jitter spreads their reconnections.
        double factor = 1 + JITTER * RandomGenerator.getDefault().nextDouble();
        lock.lock();
        try {
            long nanos = (long) (retry.toNanos() * factor);
            while (thread == Thread.currentThread() && nanos > 0) {
                nanos = changed.awaitNanos(nanos);
            }
        } catch (InterruptedException e) {
            log.debug("Wake-ups: pause interrupted", e);
        } finally {
            lock.unlock();
        }
    }

    // A task that throws is not scheduled again.
    private void watchOrFail() {
        try {
            watch();
        } catch (RuntimeException | Error e) {
            log.warn("Wake-ups: could not check the link to {}; will retry", broker.type(), ErrorText.loggable(e));
        }
    }

    /** Detects a link whose probes do not return, even if its thread hangs. */
    private void watch() {
        LinkSession silent = null;
        Duration patience = timing.patience();
        lock.lock();
        try {
            long now = System.nanoTime();
            LinkSession session = current;
            if (session != null
                    && now - lastWatch > timing.watch().multipliedBy(4).toNanos()) {
                // This process was paused and could not receive anything.
                session.lastResponse = now;
            }
            lastWatch = now;
            if (session != null) {
                patience = timing.patience(session.serving);
                silent = now - session.lastResponse > patience.toNanos() ? session : null;
            }
        } finally {
            lock.unlock();
        }
        if (silent != null) {
            lost(silent, new IllegalStateException("no response within " + PropertyRules.text(patience)));
        }
    }

    private void lost(LinkSession session, Throwable cause) {
        lock.lock();
        try {
            Thread owner = thread;
            if (current != session || owner == null) {
                return;
            }
            session.lastResponse = System.nanoTime();
            connected = false;
            if (!reported) {
                reported = true;
                log.warn(
                        "Wake-ups: {} is unreachable ({}). Workers poll every {} until it is back.",
                        broker.type(),
                        reason(cause),
                        PropertyRules.text(pollInterval));
                log.debug("Wake-ups: {} failed", broker.type(), cause);
            }
            if (session.serving && !session.over) {
                session.over = true;
                changed.signalAll();
                // The thread may hang in the client library. It is not interrupted while it opens a link: that could
                // leak a connection, and opening ends by itself, at the latest when the broker is back.
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
            // The methods of the exception throw.
            return ErrorText.brief(cause);
        }
    }

    private void wakeAll() {
        listeners.forEach(Runnable::run);
    }

    /** One link, from its opening to its end. */
    private final class LinkSession implements Broker.Receiver {

        private final String owner = UUID.randomUUID().toString();
        private volatile boolean probed;
        // Guarded by the lock.
        private long lastResponse = System.nanoTime();
        private boolean serving;
        private boolean over;

        private void serve(Broker.Link link) {
            serving(true);
            try {
                long nextProbe = System.nanoTime();
                while (true) {
                    boolean announce = awaitWork(nextProbe);
                    if (announce) {
                        announceWork(link);
                    }
                    if (!isWanted()) {
                        return;
                    }
                    if (System.nanoTime() - nextProbe >= 0) {
                        link.sendToSelf(WakeupMessage.probe(owner));
                        nextProbe = System.nanoTime() + (probed ? timing.probe() : FIRST_PROBES).toNanos();
                    }
                }
            } catch (Exception e) {
                // Reported before the link is closed, which may take long.
                BrokerCoordinator.this.lost(this, e);
            } finally {
                serving(false);
                // The interrupt has served its purpose and must not disturb closing.
                Thread.interrupted();
            }
        }

        private void announceWork(Broker.Link link) throws Exception {
            try {
                link.publish(WakeupMessage.work(owner));
            } catch (Exception e) {
                // The next link sends it.
                notifyNewWork(JobPriority.NORMAL);
                throw e;
            }
        }

        private boolean awaitWork(long until) throws InterruptedException {
            lock.lock();
            try {
                long nanos = until - System.nanoTime();
                while (!pendingWork && wanted() && nanos > 0) {
                    nanos = changed.awaitNanos(nanos);
                }
                boolean announce = pendingWork && !over;
                pendingWork = pendingWork && over;
                return announce;
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
                lastResponse = System.nanoTime();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public String owner() {
            return owner;
        }

        @Override
        public void receive(String text) {
            if (text.equals(WakeupMessage.probe(owner))) {
                probeReturned();
            } else if (WakeupMessage.isWorkOfAnother(text, owner)) {
                wakeAll();
            }
        }

        private void probeReturned() {
            lock.lock();
            try {
                if (over || current != this || thread == null) {
                    return;
                }
                lastResponse = System.nanoTime();
                if (probed) {
                    return;
                }
                probed = true;
                connected = true;
                if (reported) {
                    log.info("Wake-ups: {} is back", broker.type());
                } else if (!everConnected) {
                    log.info("Wake-ups: {}, {}", broker.type(), broker.destination());
                }
                reported = false;
                everConnected = true;
            } finally {
                lock.unlock();
            }
            // Wake-ups of other nodes may have been missed.
            wakeAll();
        }

        @Override
        public void lost(Throwable cause) {
            lock.lock();
            try {
                // A link that breaks before it is used is not used.
                over |= !serving;
            } finally {
                lock.unlock();
            }
            BrokerCoordinator.this.lost(this, cause);
        }
    }
}
