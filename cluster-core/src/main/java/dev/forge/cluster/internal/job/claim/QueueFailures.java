// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.job.run.LeaseKeeper;
import dev.forge.cluster.internal.log.GuardedLogger;
import dev.forge.cluster.internal.runtime.ErrorText;
import dev.forge.cluster.internal.runtime.FailureRow;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Queues whose claims failed. Such a queue pauses, so that other queues do not wait for it. Its next claims are small and read job
 * by job, in order to find the job that made the claim fail.
 */
final class QueueFailures {

    private static final Logger log = GuardedLogger.of(QueueFailures.class);

    private static final Duration FIRST_PAUSE = Duration.ofMillis(500);

    /** A queue whose claims fail again and again is tried this often. */
    private static final Duration LONGEST_PAUSE = Duration.ofSeconds(5);

    /**
     * How long claims stay small after one that failed: long enough for jobs to come back whose claim was lost together with the
     * response to it.
     */
    private static final Duration CAUTION = LeaseKeeper.UNKNOWN_AFTER.multipliedBy(2);

    /** The largest cautious claim: each of its jobs is a round trip, and urgent jobs of other queues wait meanwhile. */
    private static final int LARGEST_CAUTIOUS_CLAIM = 32;

    private static final int LONGEST_REASON = 2_000;

    /** So many failures in a row are a problem; a single one may be a restart of the server. */
    static final int REPEATED = 3;

    private final LongSupplier nanos;

    /** Used by the claiming thread alone. */
    private final Map<Queue, Caution> cautions = new HashMap<>();

    /** Queues whose last claim failed. Written by the claiming thread alone, and read by others. */
    private final Map<Queue, Failure> failures = new ConcurrentHashMap<>();

    QueueFailures(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /** How carefully the next jobs of a queue are claimed. */
    private static final class Caution {
        final long until;
        /** One at first; doubled after each claim that succeeded. */
        int limit = 1;

        Caution(long until) {
            this.until = until;
        }
    }

    /**
     * A queue that could not be claimed from.
     *
     * @param times failures in a row
     * @param pausedUntil when the queue is tried again
     */
    private record Failure(int times, long pausedUntil, String reason) {}

    /** Returns the largest number of jobs that may be claimed together; null: no limit, and their bodies may be read together. */
    @Nullable
    Integer cautiousLimit(Queue queue) {
        Caution caution = cautions.get(queue);
        if (caution != null && nanos.getAsLong() - caution.until >= 0) {
            cautions.remove(queue);
            return null;
        }
        return caution == null ? null : caution.limit;
    }

    void beCautious(Queue queue) {
        if (cautions.size() > SearchBudget.MOST_MARKS) {
            cautions.clear();
        }
        cautions.put(queue, new Caution(nanos.getAsLong() + CAUTION.toNanos()));
    }

    /** Doubles the limit of a queue after a claim that succeeded. */
    void relax(Queue queue) {
        Caution caution = cautions.get(queue);
        if (caution != null) {
            caution.limit = Math.min(2 * caution.limit, LARGEST_CAUTIOUS_CLAIM);
        }
    }

    /** Pauses a queue. Logged once, until a claim from it succeeds. */
    void failed(Queue queue, Throwable failure) {
        Failure earlier = failures.get(queue);
        int times = earlier == null ? 1 : earlier.times + 1;
        if (failures.size() > SearchBudget.MOST_MARKS) {
            failures.clear();
        }
        Duration pause = FIRST_PAUSE.multipliedBy(Math.min(times, 100));
        pause = pause.compareTo(LONGEST_PAUSE) < 0 ? pause : LONGEST_PAUSE;
        failures.put(queue, new Failure(times, nanos.getAsLong() + pause.toNanos(), firstLine(failure)));
        if (times == 1) {
            log.warn(
                    "Could not claim jobs named '{}' with priority {}; retrying, other jobs are claimed meanwhile",
                    queue.name(),
                    queue.priority(),
                    ErrorText.loggable(failure));
        } else {
            log.debug("Could not claim jobs named '{}' {} times in a row", queue.name(), times, failure);
        }
    }

    void succeeded(Queue queue) {
        Failure failure = failures.isEmpty() ? null : failures.remove(queue);
        if (failure != null) {
            log.info("Claiming jobs named '{}' again after {}", queue.name(), FailureRow.text(failure.times));
        }
    }

    boolean isEmpty() {
        return failures.isEmpty();
    }

    boolean contains(Queue queue) {
        return failures.containsKey(queue);
    }

    boolean isPaused(Queue queue) {
        return untilTried(queue).compareTo(Duration.ZERO) > 0;
    }

    /** Returns how long a queue stays paused; zero if it does not. */
    Duration untilTried(Queue queue) {
        Failure failure = failures.get(queue);
        return failure == null ? Duration.ZERO : Duration.ofNanos(Math.max(0, failure.pausedUntil - nanos.getAsLong()));
    }

    /** Forgets queues that have no due jobs. */
    void retainIf(Predicate<Queue> isDue) {
        failures.keySet().removeIf(isDue.negate());
    }

    /** Returns what keeps jobs of one name from being claimed, if claims have failed several times in a row. Any thread may ask. */
    @Nullable
    String problem() {
        return failures.entrySet().stream()
                .filter(entry -> entry.getValue().times >= REPEATED)
                .min(Comparator.comparing(entry -> entry.getKey().name()))
                .map(entry -> "claims have failed %d times in a row for jobs named '%s': %s"
                        .formatted(entry.getValue().times, entry.getKey().name(), entry.getValue().reason))
                .orElse(null);
    }

    /** Returns the first line of a failure's message: later lines may quote the contents of a row. */
    static String firstLine(Throwable failure) {
        return reason(failure).lines().findFirst().orElse("");
    }

    /** Returns a bounded message of the most specific cause. */
    static String reason(Throwable failure) {
        Throwable cause = failure instanceof DataAccessException access ? access.getMostSpecificCause() : failure;
        String text = ErrorText.brief(cause).replace('\0', ' ');
        return text.length() <= LONGEST_REASON ? text : text.substring(0, LONGEST_REASON);
    }
}
