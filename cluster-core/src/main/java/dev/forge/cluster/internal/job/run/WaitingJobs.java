// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.run;

import dev.forge.cluster.internal.job.handler.JobHandler;
import dev.forge.cluster.internal.job.row.JobClaimStore;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * The claimed jobs of an executor that have no slot yet, and the number of calls that have one. The most urgent job is next, and
 * every sixteenth time the oldest.
 */
final class WaitingJobs {

    private static final int AGING = 16;

    private record Entry(long number, Attempt running, long addedAt) {}

    /** Jobs that one call can take. */
    record Kind(String name, int priority) {

        private static Kind of(Attempt job) {
            return new Kind(job.handler().name(), job.claimed().queue().priority());
        }
    }

    /** A call that occupies a slot. It is full when it has enough jobs, or enough bytes. */
    static final class Call {

        private final int size;
        private final Duration patience;
        private final List<Attempt> jobs;
        private long bytes;

        /** Creates a call that is full. */
        private Call(Attempt only) {
            size = 1;
            patience = Duration.ZERO;
            jobs = List.of(only);
        }

        private Call(JobHandler.Bulk bulk) {
            size = bulk.size();
            patience = bulk.patience();
            jobs = new ArrayList<>();
        }

        private void add(Attempt job) {
            jobs.add(job);
            bytes += job.claimed().bytes();
        }

        private Kind kind() {
            return Kind.of(jobs.get(0));
        }

        private int missing() {
            return bytes < JobClaimStore.CLAIM_BYTES ? size - jobs.size() : 0;
        }

        boolean takesMany() {
            return size > 1;
        }

        List<Attempt> jobs() {
            return jobs;
        }
    }

    /** Waiting jobs of a handler that takes many at a time. */
    private record Many(int jobs, int callSize) {

        int calls() {
            return (jobs + callSize - 1) / callSize;
        }
    }

    private final SortedMap<Integer, Deque<Entry>> byPriority = new TreeMap<>(Comparator.reverseOrder());
    /** Counts of the waiting jobs whose handlers take many at a time. */
    private final Map<Kind, Many> many = new HashMap<>();
    /** Calls that wait for more jobs. */
    private final List<Call> open = new ArrayList<>();

    private long added;
    private long polled;

    // Written under the lock, read without it.
    private final AtomicInteger size = new AtomicInteger();
    private final AtomicInteger waitingCalls = new AtomicInteger();

    private final AtomicInteger running = new AtomicInteger();

    /** Adds jobs; returns how many more calls wait for a slot. */
    synchronized int add(List<Attempt> claimed, long now) {
        int before = waitingCalls.get();
        for (Attempt job : claimed) {
            if (open.isEmpty() || !completes(job)) {
                byPriority
                        .computeIfAbsent(job.claimed().queue().priority(), p -> new ArrayDeque<>())
                        .add(new Entry(added++, job, now));
                count(job, 1);
            }
        }
        return Math.max(0, waitingCalls.get() - before);
    }

    /** Adds a job to a call that waits for more; false if there is none. */
    private boolean completes(Attempt job) {
        for (Call call : open) {
            if (call.missing() > 0 && call.kind().equals(Kind.of(job))) {
                call.add(job);
                if (call.missing() == 0) {
                    notifyAll();
                }
                return true;
            }
        }
        return false;
    }

    private void count(Attempt job, int change) {
        size.set(size.get() + change);
        JobHandler.Bulk bulk = job.handler().target().bulk();
        int calls = change;
        if (bulk != null) {
            Kind kind = Kind.of(job);
            Many before = many.getOrDefault(kind, new Many(0, bulk.size()));
            var after = new Many(before.jobs + change, before.callSize);
            calls = after.calls() - before.calls();
            if (after.jobs == 0) {
                many.remove(kind);
            } else {
                many.put(kind, after);
            }
        }
        waitingCalls.set(waitingCalls.get() + calls);
    }

    /** Returns when the oldest job was added; null if there is none. */
    synchronized @Nullable Long oldest() {
        Long oldest = null;
        for (Deque<Entry> entries : byPriority.values()) {
            long first = entries.element().addedAt;
            oldest = oldest == null || first - oldest < 0 ? Long.valueOf(first) : oldest;
        }
        return oldest;
    }

    synchronized List<Attempt> takeAddedBefore(long time) {
        var taken = new ArrayList<Attempt>();
        byPriority.values().removeIf(entries -> {
            while (!entries.isEmpty() && entries.element().addedAt - time < 0) {
                taken.add(entries.remove().running);
            }
            return entries.isEmpty();
        });
        taken.forEach(job -> count(job, -1));
        return taken;
    }

    /** Begins a call for the next job, with as many jobs of the same handler as it takes at a time; null if no job waits. */
    synchronized @Nullable Call poll() {
        if (size.get() == 0) {
            return null;
        }
        Deque<Entry> entries = nextEntries();
        Attempt first = entries.element().running;
        JobHandler.Bulk bulk = first.handler().target().bulk();
        Call call;
        if (bulk == null) {
            call = new Call(first);
            entries.remove();
            count(first, -1);
        } else {
            call = new Call(bulk);
            for (Iterator<Entry> each = entries.iterator(); each.hasNext() && call.missing() > 0; ) {
                Attempt job = each.next().running;
                if (job.handler().name().equals(first.handler().name())) {
                    each.remove();
                    count(job, -1);
                    call.add(job);
                }
            }
        }
        if (entries.isEmpty()) {
            byPriority.remove(first.claimed().queue().priority());
        }
        running.incrementAndGet();
        return call;
    }

    private Deque<Entry> nextEntries() {
        Deque<Entry> next = Objects.requireNonNull(byPriority.get(byPriority.firstKey()));
        if (polled++ % AGING == AGING - 1) {
            for (Deque<Entry> others : byPriority.values()) {
                next = others.element().number < next.element().number ? others : next;
            }
        }
        return next;
    }

    /**
     * Opens a call for jobs that are added later. Returns false if it need not or must not wait for more. Only one call of a handler
     * waits: otherwise jobs of many priorities would occupy all slots.
     */
    synchronized boolean open(Call call) {
        boolean waits = call.missing() > 0
                && !call.patience.isZero()
                && open.stream().noneMatch(other -> other.kind().name.equals(call.kind().name));
        return waits && open.add(call);
    }

    /** From now on a call takes no more jobs. */
    synchronized void close(Call call) {
        open.remove(call);
    }

    /** Waits until an open call is full, its patience is over or the thread is interrupted. */
    synchronized void fill(Call call) {
        long deadline = System.nanoTime() + call.patience.toNanos();
        try {
            long millis = call.patience.toMillis();
            while (call.missing() > 0 && millis > 0) {
                wait(millis);
                millis = (deadline - System.nanoTime()) / 1_000_000;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Ends a call; returns what is still {@linkplain #present() present}. */
    int ended() {
        return running.decrementAndGet() + size.get();
    }

    /** Returns the number of calls that run. */
    int runningCalls() {
        return running.get();
    }

    /** Returns the number of calls that wait for a slot. */
    int waitingCalls() {
        return waitingCalls.get();
    }

    /** Returns the number of calls that run or wait for a slot. */
    int calls() {
        return running.get() + waitingCalls.get();
    }

    /** Returns the number of calls that run and jobs that wait for a slot. */
    int present() {
        return running.get() + size.get();
    }

    /** Returns how many jobs the calls that are not full wait for. */
    synchronized int missing() {
        return open.stream().mapToInt(Call::missing).sum();
    }

    synchronized int missing(Kind kind) {
        return open.isEmpty()
                ? 0
                : open.stream()
                        .filter(call -> call.kind().equals(kind))
                        .mapToInt(Call::missing)
                        .sum();
    }

    /** Returns the number of waiting jobs of a handler that takes many at a time. */
    synchronized int count(Kind kind) {
        Many waiting = many.get(kind);
        return waiting == null ? 0 : waiting.jobs;
    }

    int size() {
        return size.get();
    }
}
