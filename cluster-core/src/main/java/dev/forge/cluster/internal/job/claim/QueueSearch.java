// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.internal.job.claim;

import dev.forge.cluster.internal.database.failure.DatabaseFailure;
import dev.forge.cluster.internal.job.row.JobQueueStore;
import dev.forge.cluster.internal.job.row.JobQueueStore.Queues;
import dev.forge.cluster.internal.job.row.JobQueueStore.Search;
import dev.forge.cluster.internal.job.row.Queue;
import dev.forge.cluster.internal.log.GuardedLogger;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.springframework.dao.DataAccessException;

/**
 * Searches for queues with due jobs, and determines when the next job becomes due.
 *
 * <p>A search is complete unless that has become slow because an old snapshot keeps dead entries in the index. Then complete
 * searches are rare, and those in between begin at the marks, which finds all jobs that were committed in the order of their times.
 * If a complete search times out, searches cover recent jobs only for a while; see {@link #searchRecent}.
 */
final class QueueSearch {

    private static final Logger log = GuardedLogger.of(QueueSearch.class);

    private static final Duration LONGEST_INTERVAL = Duration.ofSeconds(5);

    /** A complete search that takes longer is slow; see {@link #search}. */
    private static final Duration FAST_COMPLETE_SEARCH = Duration.ofMillis(5);

    /** After a slow complete search the next one waits this many times as long as it took. */
    private static final int SLOW_SEARCH_PAUSE_FACTOR = 4;

    /**
     * The approximate number of queues that a search goes through: a search through a thousand takes ten to twenty milliseconds. It
     * sees the most urgent queues of each name, and a few more of the others each time.
     */

    /** When the next few of the other queues are searched. */
    private static final Duration CONTINUE_AFTER = Duration.ofMillis(250);

    /** How far the first search reaches back after a search that timed out; see {@link #searchRecent}. */
    private static final Duration SHORTEST_REACH = Duration.ofSeconds(1);

    private static final Duration LONGEST_REACH = Duration.ofDays(30);

    /** A search of recent jobs reaches twice as far next time if it took less than this. */
    private static final Duration FAST_RECENT_SEARCH = Duration.ofMillis(200);

    /** When a complete search is tried again after one that timed out. */
    private static final Duration COMPLETE_SEARCH_AGAIN = Duration.ofMinutes(1);

    private final JobQueueStore queues;
    private final LongSupplier nanos;
    private final Duration interval;
    private final List<Lane> lanes;
    private final QueueFailures failures;
    private final AtomicBoolean requested = new AtomicBoolean();

    // Used by the claiming thread alone.
    private final SearchBudget budget = new SearchBudget();
    private boolean searched;
    private long lastSearch;
    private long lastCompleteSearch;
    private long completeSearchTook;
    private long completeSearchFailed;
    private @Nullable Long nextDue;

    /** How far searches reach back; null: they are complete, or begin at the marks. */
    private @Nullable Duration reach;

    QueueSearch(
            JobQueueStore queues, LongSupplier nanos, Duration pollInterval, List<Lane> lanes, QueueFailures failures) {
        this.queues = queues;
        this.nanos = nanos;
        this.interval = min(LONGEST_INTERVAL, pollInterval);
        this.lanes = lanes;
        this.failures = failures;
    }

    /** Requests a search. Any thread may call this. */
    void request() {
        requested.set(true);
    }

    /** Returns whether a search is requested or its time has come, and the budget for searches allows one. */
    boolean isDue() {
        long now = nanos.getAsLong();
        Long due = nextDue;
        if (!searched || now - lastSearch > interval.toNanos() || (due != null && now - due >= 0)) {
            request();
        }
        return requested.get() && budget.untilNext(now).isZero();
    }

    /** Returns how long the claiming thread may pause, at most {@code pause}. */
    Duration limitPause(Duration pause) {
        long now = nanos.getAsLong();
        Long due = nextDue;
        Duration limited = due == null ? pause : min(pause, Duration.ofNanos(Math.max(0, due - now)));
        for (Lane lane : lanes) {
            Duration unblocked = lane.hasRoom() ? lane.turns.untilNext(now) : null;
            limited = unblocked == null ? limited : min(limited, unblocked);
        }
        return requested.get() && lanes.stream().anyMatch(Lane::hasRoom)
                ? min(limited, budget.untilNext(now))
                : limited;
    }

    /** Searches if a search is due; returns whether it succeeded. */
    boolean runIfDue() {
        if (!isDue()) {
            return false;
        }
        long now = nanos.getAsLong();
        requested.set(false);
        try {
            search(now);
            return true;
        } catch (RuntimeException | Error e) {
            budget.failed(now, nanos.getAsLong());
            // The request is not fulfilled.
            request();
            if (DatabaseFailure.kind(e) == DatabaseFailure.Kind.STATEMENT_TIMEOUT) {
                shortenReach(now, e);
                return false;
            }
            // Jobs that are known to be due can still be claimed.
            if (!(e instanceof DataAccessException) || lanes.stream().allMatch(lane -> lane.due.isEmpty())) {
                throw e;
            }
            log.debug("Search for due jobs failed", e);
            return false;
        }
    }

    /** Searches all queues, whether or not a search is due. */
    void runNow() {
        searched = false;
        reach = null;
        search(nanos.getAsLong());
    }

    private void search(long now) {
        Duration recent = reach;
        if (recent != null && now - completeSearchFailed < COMPLETE_SEARCH_AGAIN.toNanos()) {
            searchRecent(now, recent);
            return;
        }
        long completeAgain = lastCompleteSearch
                + Math.min(completeSearchTook * SLOW_SEARCH_PAUSE_FACTOR, LONGEST_INTERVAL.toNanos());
        boolean complete = !searched
                || recent != null
                || completeSearchTook < FAST_COMPLETE_SEARCH.toNanos()
                || now - completeAgain >= 0;
        // A search that is not complete leaves a complete one to be done.
        Long next = complete ? null : Long.valueOf(completeAgain);
        for (Lane lane : lanes) {
            if (lane.isSearched()) {
                next = earlier(next, search(lane, complete, now));
            }
        }
        failures.retainIf(this::isDue);
        nextDue = next;
        searched = true;
        lastSearch = nanos.getAsLong();
        long took = lastSearch - now;
        if (complete) {
            lastCompleteSearch = lastSearch;
            completeSearchTook = took;
            reach = null;
        }
        if (!complete || took < FAST_COMPLETE_SEARCH.toNanos()) {
            // The pause after a slow one is independent of the budget.
            budget.spent(now, lastSearch);
        }
    }

    /** Searches the queues of a lane; returns when the next job is due. */
    private @Nullable Long search(Lane lane, boolean complete, long now) {
        int places = lane.names().size() * lane.capabilities().size();
        Queues found = queues.queues(new Search(
                lane.names(),
                lane.capabilities(),
                complete ? Map.of() : lane.marks,
                Math.max(1, SearchBudget.MOST_QUEUES / places),
                complete ? lane.continued : Map.of()));
        if (complete) {
            lane.continued = found.unseen();
        }
        if (lane.marks.size() > SearchBudget.MOST_MARKS) {
            lane.marks.clear();
        }
        lane.marks.putAll(found.marks());
        lane.replaceDue(found.due(), now);
        Long next = nextDue(found, now);
        return lane.continued.isEmpty() ? next : earlier(next, now + CONTINUE_AFTER.toNanos());
    }

    /**
     * Searches for recent jobs only, where a complete search would time out: a node that has just started has no marks to begin at.
     * The reach doubles as long as searches are fast, so that they find older jobs, too, except for those among the dead entries.
     */
    private void searchRecent(long now, Duration recent) {
        Long next = null;
        for (Lane lane : lanes) {
            if (lane.isSearched()) {
                Queues found = queues.recentQueues(lane.names(), lane.capabilities(), recent);
                lane.replaceDue(found.due(), now);
                next = earlier(next, nextDue(found, now));
            }
        }
        failures.retainIf(this::isDue);
        searched = true;
        lastSearch = nanos.getAsLong();
        budget.spent(now, lastSearch);
        if (lastSearch - now < FAST_RECENT_SEARCH.toNanos() && recent.compareTo(LONGEST_REACH) < 0) {
            reach = recent.multipliedBy(2);
            next = earlier(next, lastSearch + CONTINUE_AFTER.toNanos());
        }
        nextDue = next;
    }

    private void shortenReach(long now, Throwable failure) {
        Duration recent = reach;
        if (recent == null) {
            log.warn(
                    "Search for due jobs took too long; recent jobs are claimed first ({}). An old transaction may keep dead rows"
                            + " in forge_jobs: see backend_xmin in pg_stat_activity.",
                    QueueFailures.firstLine(failure));
        }
        if (recent == null || now - completeSearchFailed >= COMPLETE_SEARCH_AGAIN.toNanos()) {
            completeSearchFailed = nanos.getAsLong();
            reach = SHORTEST_REACH;
        } else {
            Duration half = recent.dividedBy(2);
            reach = half.compareTo(SHORTEST_REACH) > 0 ? half : SHORTEST_REACH;
        }
    }

    private static @Nullable Long nextDue(Queues found, long now) {
        Long millis = found.nextMillis();
        // A little later, so that the job is due by the database's clock, too.
        return millis == null
                ? null
                : Long.valueOf(now + Duration.ofMillis(millis + 1).toNanos());
    }

    private static @Nullable Long earlier(@Nullable Long one, @Nullable Long other) {
        return one == null || (other != null && other - one < 0) ? other : one;
    }

    private static Duration min(Duration a, Duration b) {
        return a.compareTo(b) < 0 ? a : b;
    }

    private boolean isDue(Queue queue) {
        return lanes.stream().anyMatch(lane -> lane.due.containsKey(queue));
    }
}
